"""Generation: the prompt from evidence, and the answer from the model's output."""

import dataclasses
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, PromptReader
from engine.llm.generate import GenerateOptions, ParsedAnswer, generate, prefill_prompt, segments_of
from engine.models.load import load
from engine.models.types import Frame
from engine.text.question import understand
from engine.types import Answer, Evidence, Passage, Source, Trace
from store.errors import PkbError
from store.types import Chunk, replace
from tests.bench.metered import Metered, parts_of
from tests.demo import NANO
from tests.engine.ask.equivalence_box import ROOT, Box, cold
from tests.engine.ask.passages import passage
from tests.engine.llm.scripted_model import ScriptedModel

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
QUESTION = understand("when  is rehearsal?", NOW)


def read(name: str, day: int, *texts: str) -> Passage:
    chunks = tuple(Chunk(f"{name}{i}", name, i, f"From: {name}", text, 1, 1) for i, text in enumerate(texts))
    date = datetime(2024, 6, day, tzinfo=UTC)
    return passage(chunks, name, (), date, 1.0, (Source(f"/{name}", None, name, date.isoformat(), (1, 1), 1.0, ""),))


BEST, SECOND = read("Ben", 12, "Rehearsal is on Friday at 6pm."), read("Ann", 3, "Sing well.", "Rehearsal was nice.")
EVIDENCE = Evidence((BEST, SECOND), ("Ben0", "Ann0", "Ann1"), 1.0)


def ask(model: ScriptedModel, evidence: Evidence = EVIDENCE, most: int = 50) -> tuple[Answer, list[str], Trace]:
    told: list[str] = []
    trace = Trace()
    options = GenerateOptions(lambda: PromptReader(model), "scripted", NOW, most)
    written = generate(QUESTION, evidence, trace, options, told.append)
    return written, told, trace


def test_chunks_are_read_in_document_order_and_the_date_stands_in_the_last_segment() -> None:
    model = ScriptedModel([" Friday", " [3]"])
    ask(model)
    assert model.text()[1:] == [
        "[1] From: Ann Sing well.",
        "[2] From: Ann Rehearsal was nice.",
        "[3] From: Ben Rehearsal is on Friday at 6pm.",
        "Today is Wednesday 19 June 2024. Question: when is rehearsal? Answer:",
    ]


def test_the_chat_template_surrounds_the_segments() -> None:
    model = ScriptedModel(["Friday"], frame=Frame((-1,), (-2, -3), (-4,)))
    ask(model)
    system, *_, last = model.text()
    assert (system[:4], system[-9:], last[-5:]) == ("(-1)", "(-2) (-3)", " (-4)")


def test_the_source_that_the_model_names_first_is_listed_first() -> None:
    reply, _, _ = ask(ScriptedModel([" Sing", " on", " Friday", " [", "1", ",", "3", "]", "\n"]))
    assert [(source.path, bool(source.quote)) for source in reply.sources] == [("/Ann", True), ("/Ben", True)]


def test_without_an_answer_sources_are_listed_by_rank() -> None:
    reply, _, _ = ask(ScriptedModel([" not", " found", " [", "1", "]"]))
    assert [source.path for source in reply.sources] == ["/Ben", "/Ann"]


def test_an_answer_streams_and_its_source_is_quoted() -> None:
    reply, told, _ = ask(ScriptedModel([" Friday", " at", " 6pm", " [", "3", "]", "\n"]))
    assert told == ["Friday", " at", " 6pm"]
    assert (reply.text, reply.writer, reply.model, reply.tier) == ("Friday at 6pm", "model", "scripted", "full")
    assert [source.quote for source in reply.sources] == ["Rehearsal is on Friday at 6pm.", ""]


def test_nothing_is_computed_ahead_where_no_kv_is_kept(tmp_path: Path) -> None:
    model = Metered(**parts_of(load(NANO, name="nano", cache=tmp_path, memory_share=0.9)))
    trace = Trace(asked=False, goes_on=lambda: True)
    options = GenerateOptions(lambda: PromptReader(model), "nano", NOW, 50)
    prefill_prompt(QUESTION, EVIDENCE, trace, options)
    assert model.work.read == 0


def test_what_is_cancelled_while_it_is_typed_leaves_every_whole_step(tmp_path: Path) -> None:
    nano = dataclasses.replace(load(NANO, name="nano", cache=tmp_path, memory_share=0.9), sub_step=16)
    model = Metered(**parts_of(nano))
    box, goes_on = Box(tmp_path, model), iter([True, True, False])
    reading = PromptReader(model, KvBinding(box.store, ROOT, model, MeasuredCosts(box.ledger, "root")))
    trace = Trace(asked=False, goes_on=lambda: next(goes_on))
    options = GenerateOptions(lambda: reading, "nano", NOW, 50)
    prefill_prompt(QUESTION, EVIDENCE, trace, options)
    assert (model.work.read, len(box.files())) == (32, 1)
    segments = segments_of(reading, QUESTION, EVIDENCE, NOW, 50).ids
    read, found = box.read(segments)
    assert (sum(read.reused), np.array_equal(found, cold(model, segments))) == (32, True)
    box.close()


QUOTED = "Rehearsal is on Friday at 6pm."


def judged(said: list[str], *, borne: bool) -> tuple[Answer, list[str], Trace]:
    """Ask with a judge that finds an answer borne or not; return the reply, what was shown, and the trace."""
    sources = EVIDENCE.sources((QUOTED, ""))
    quoted = Answer("", QUOTED, "full", "quote", None, sources, {"total": 1.0}, highlight=(16, 22), grade="closest")

    def judge(found: ParsedAnswer) -> Answer:
        return replace(quoted, text=found.answer, writer="model", highlight=None, grade="answer") if borne else quoted

    told, trace = list[str](), Trace()
    options = GenerateOptions(lambda: PromptReader(ScriptedModel(said)), "scripted", NOW, 50, gate=lambda *_: judge)
    written = generate(QUESTION, EVIDENCE, trace, options, told.append)
    return written, told, trace


@pytest.mark.parametrize(
    ("borne", "said", "text", "writer", "note"),
    [
        (True, " Friday [3]", "Friday", "model", "a source supports it"),
        (False, " Sunday [3]", QUOTED, "quote", "no source supports it"),
        (False, " not found", QUOTED, "quote", "not found"),
    ],
)
def test_a_judge_decides_what_is_answered_before_anything_is_shown(
    *, borne: bool, said: str, text: str, writer: str, note: str
) -> None:
    reply, told, trace = judged(pieces(said.strip()), borne=borne)
    assert (reply.text, reply.writer, reply.model, told) == (text, writer, "scripted", [text])
    assert reply.tokens
    assert (reply.grade, reply.tokens["generated"], reply.tier) == ("answer" if borne else "closest", 2, "full")
    assert (trace.steps[-1].name, trace.steps[-1].note) == ("cite", note)


def test_a_number_alone_is_answered_with_the_quote() -> None:
    reply, told, _ = judged([" [", "3", "]"], borne=False)
    assert (reply.text, told) == (QUOTED, [QUOTED])


def pieces(text: str) -> list[str]:
    return [f" {word}" for word in text.split(" ")]


def test_an_answer_that_repeats_itself_ends_before_that_is_shown_twice() -> None:
    said = "Rehearsal is on Friday at 6pm. [3]"
    reply, told, trace = ask(ScriptedModel(pieces(" ".join([said] * 8))))
    assert (reply.text, "".join(told).strip()) == ("Rehearsal is on Friday at 6pm.",) * 2
    assert trace.notices == ["the answer was cut where it began to repeat itself"]
    assert [step.note for step in trace.steps if step.name == "decode"] == [f"14 tokens; {trace.notices[0]}"]


def test_a_long_answer_ends_with_a_sentence() -> None:
    sentences = " ".join(f"Rehearsal {n} is on Friday at 6pm." for n in range(20))
    reply, told, trace = ask(ScriptedModel(pieces(sentences)), most=50)
    assert reply.text
    assert reply.text.endswith("on Friday at 6pm.")
    assert "".join(told) == reply.text
    assert trace.notices == ["the answer was cut at 50 tokens, after a sentence"]
    assert reply.tokens is not None
    assert reply.tokens["generated"] == 50


def test_what_a_model_thought_is_no_part_of_what_it_repeats() -> None:
    said = "Rehearsal is on Friday at 6pm."
    reply, told, trace = ask(ScriptedModel(pieces(f"<think>{said} So I say: {said}</think> {said}")))
    assert (reply.text, "".join(told), trace.notices) == (said, said, [])


@pytest.mark.slow
def test_where_an_answer_is_cut_changes_nothing_that_is_stored_of_its_prompt(tmp_path: Path) -> None:
    nano = dataclasses.replace(load(NANO, name="nano", cache=tmp_path, memory_share=0.9), stops=frozenset())
    stored, answers = list[list[bytes]](), list[Answer]()
    for folder, most in (("short", 1), ("long", 200), ("long", 200)):
        (tmp_path / folder).mkdir(exist_ok=True)
        box = Box(tmp_path / folder, nano)
        trace, reading = (
            Trace(),
            partial(PromptReader, nano, KvBinding(box.store, ROOT, nano, MeasuredCosts(box.ledger, "root"))),
        )
        answer = generate(QUESTION, EVIDENCE, trace, GenerateOptions(reading, "nano", NOW, most))
        trace.keep()
        stored.append([path.read_bytes() for path in box.files()])
        answers.append(answer)
        box.close()
        assert "repeat itself" in trace.notices[0] or most == 1
    assert stored[0] == stored[1] == stored[2]
    assert (answers[1].text, answers[1].tier, answers[2].tier) == (answers[2].text, "full", "prefix")


def test_not_found_is_a_decline_and_streams_nothing() -> None:
    reply, told, _ = ask(ScriptedModel([" not", " found", "\n"]))
    assert (reply.text, told, len(reply.sources)) == (None, [], 2)


@pytest.mark.parametrize("said", ["in Ahrenswalde", "Yes", "am Freitag", "42", "...", "Zoë Müller [1]"])
def test_an_answer_without_support_is_a_decline(said: str) -> None:
    reply, _, trace = ask(ScriptedModel(pieces(said)))
    assert reply.text is None
    assert trace.steps[-1].note.endswith("; declined: the sources do not support the answer")


def test_tokens_and_times_are_counted() -> None:
    model = ScriptedModel([" Friday", " [3]"])
    reply, _, trace = ask(model)
    assert reply.tokens is not None
    assert reply.tokens == {
        "prompt": sum(map(len, model.heard)),
        "reused": 0,
        "computed": sum(map(len, model.heard)),
        "generated": 2,
        "guessed": 0,
    }
    assert 0 < reply.ms["prefill"] <= reply.ms["first_token"] <= reply.ms["total"]
    assert [step.name for step in trace.steps] == ["model", "prompt", "prefill", "prefill", "decode", "cite"]


def test_a_short_context_keeps_the_best_sources_and_says_so() -> None:
    whole = ScriptedModel(["Friday"])
    ask(whole)
    room = sum(map(len, whole.heard)) - len(whole.heard[2])  # all but the worst chunk
    model = ScriptedModel(["Friday"], context=room + 10)
    _, _, trace = ask(model, most=10)
    assert [text.split()[2] for text in model.text()[1:-1]] == ["Ann", "Ben"]
    assert trace.notices == ["1 of 3 chunks did not fit the model's context"]


def test_a_context_that_holds_no_chunk_is_an_error() -> None:
    with pytest.raises(PkbError, match="too few to ask with one source"):
        ask(ScriptedModel(["Friday"], context=40))


def test_an_answer_that_is_cut_says_so() -> None:
    reply, _, trace = ask(ScriptedModel([" Friday", " at", " 6pm"]), most=2)
    assert (reply.text, trace.notices) == ("Friday at", ["the answer was cut at 2 tokens"])


def test_without_evidence_the_model_is_not_even_loaded() -> None:
    nothing = Evidence((), (), 1.0)
    options = GenerateOptions(partial(pytest.fail, "loaded"), "scripted", NOW, 50)
    reply = generate(QUESTION, nothing, Trace(), options)
    assert (reply.text, reply.sources, reply.tokens) == (None, (), None)
