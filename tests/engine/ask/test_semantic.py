"""The semantic tier without commands: entailment by the model, time-sensitive questions, and each check."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import begin, fingerprint, gather_context
from engine.ask.semantic import SemanticRules, entails
from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding as KeptTensors
from engine.kv.restore import PromptReader
from engine.llm.generate import GenerateOptions, generate
from engine.models.kv_read import RangeReader, ReadAt, UnreadableCache
from engine.session import Session
from engine.text.question import Question, understand
from engine.text.time_sensitive import time_sensitivity
from engine.types import AskOptions, AskResult, Evidence, Source, Trace
from store.kv_files import Tensor
from store.types import Chunk, Vectors, replace
from tests.engine.ask.backend import Wrapped
from tests.engine.ask.passages import passage
from tests.engine.ask.small_home import RULES, SmallHome, apart, ask, asker, ingest
from tests.engine.llm.scripted_model import ScriptedModel
from tests.store.kv_kit import ROOT, Kept, tensors

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
QUESTION, LIKE = understand("When is rehearsal?", NOW), understand("When's rehearsal?", NOW)
SOURCE = Source("/a", None, "a", NOW.isoformat(), (1, 1), 1.0, "")
READ = passage((Chunk("a0", "a", 0, "From: Ann", "Rehearsal is on Friday.", 1, 1),), "Ann", (), NOW, 1.0, (SOURCE,))
EVIDENCE = Evidence((READ,), ("a0",), 1.0)
MOST = 50


@dataclass
class RestorableModel(ScriptedModel):
    """A scripted model whose cache can be stored and restored."""

    restored: int = 0
    sub_step: int = 64
    reads_ranges: bool = False

    def ranges(self, paths: Sequence[Path], shared: int | None, read_at: ReadAt) -> RangeReader:
        """Have no ranges to read."""
        raise UnreadableCache(str(shared))

    def cut(self, cache: list[list[int]], start: int, stop: int, captured: object = None) -> list[Tensor]:
        """Return tensors of no meaning."""
        return tensors(64, tuple(range(start, stop)))

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> list[list[int]]:
        """Take what the files hold as prefilled."""
        self.restored += len(paths)
        return self.begin()


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with closing(Kept(tmp_path)) as made:
        yield made


def says(model: ScriptedModel, reading: PromptReader) -> tuple[bool | None, str]:
    """Have the model check entailment; return its result and the note."""
    trace = Trace()
    found = entails(lambda: reading, LIKE, EVIDENCE, "Friday", trace, NOW, MOST)
    return found, next(step.note for step in trace.steps if step.name == "check")


def having_read(model: Any, kept: Kept) -> PromptReader:
    """Have a model answer the first question and store its KV cache."""
    reading = PromptReader(model, KeptTensors(kept.store, ROOT, model, MeasuredCosts(kept.ledger, "root")))
    generate(lambda: reading, QUESTION, EVIDENCE, Trace(), GenerateOptions("scripted", NOW, MOST)).keep()
    return reading


@pytest.mark.parametrize("word", ["yes", " Yes", "YES.", "yes, it does", "\nYes"])
def test_yes_confirms_entailment(kept: Kept, word: str) -> None:
    model = RestorableModel([" Friday"])
    reading = having_read(model, kept)
    model.pieces = [word]
    assert says(model, reading) == (True, "yes")


@pytest.mark.parametrize(
    "word", ["no", "", "No, yes", "not yes", "yesterday", "yess", "ye", "y", "ja", "maybe", "¿yes"]
)
def test_any_other_word_does_not_confirm_entailment(kept: Kept, word: str) -> None:
    model = RestorableModel([" Friday"])
    reading = having_read(model, kept)
    model.pieces = [word]
    assert says(model, reading) == (False, "no")


@pytest.mark.parametrize(("yes", "confirms"), [(0.97, True), (0.5, True), (0.49, False), (0.0, False), (None, None)])
def test_with_a_role_adapter_the_probability_of_yes_decides(
    kept: Kept, yes: float | None, confirms: bool | None
) -> None:
    model = RestorableModel([" Friday"], has_roles=True)
    reading = having_read(model, kept)
    model.yes = yes
    expected = (None, "cannot say") if yes is None else (confirms, f"yes {yes:.2f}")
    assert says(model, reading) == expected


def test_the_entailment_check_prefills_one_segment(kept: Kept) -> None:
    model = RestorableModel([" Friday"])
    reading = having_read(model, kept)
    model.restored, model.pieces = 0, ["yes"]
    says(model, reading)
    (last,) = model.text()
    assert (model.restored, "When's rehearsal?" in last, "Friday" in last) == (2, True, True)


def test_a_model_that_would_have_to_prefill_more_is_not_asked(kept: Kept) -> None:
    model: Any = RestorableModel(["yes"])
    reading = PromptReader(model, KeptTensors(kept.store, ROOT, model, MeasuredCosts(kept.ledger, "root")))
    assert says(model, reading) == (None, "KV cache missing")
    assert model.heard == []


def test_a_model_without_a_kv_cache_is_not_asked() -> None:
    model = ScriptedModel(["yes"])
    assert says(model, PromptReader(model)) == (None, "KV cache missing")
    assert model.heard == []


_DAYS = ["Monday", "Sunday", "week", "month", "year", "weekend", "3 days", "two weeks"]
_WHENS = ["on", "last", "this", "next", "in the last", "coming", "previous", "past"]
_ALONE = ["today", "tonight", "yesterday", "tomorrow", "3 days ago", "a week ago", "in May", "on 3 May 2023", "in 2024"]
deictic = st.builds("{} {}".format, st.sampled_from(_WHENS), st.sampled_from(_DAYS)) | st.sampled_from(_ALONE)


@given(deictic, st.sampled_from([" ", "  ", "\n"]), st.integers(1, 400))
def test_a_question_that_names_another_day_tomorrow_expires_with_its_day(when: str, space: str, later: int) -> None:
    text = f"Who came to rehearsal {when}?".replace(" ", space)
    then = understand(text, NOW + timedelta(days=later)).dates
    if [one for one in understand(text, NOW).dates if not one.yearly] != [one for one in then if not one.yearly]:
        assert time_sensitivity(text)


@dataclass(frozen=True, slots=True)
class Shelf:
    """A home that holds two things of the museum, and a session of it."""

    session: Session

    def ask(self, text: str, number: int = 0, rules: SemanticRules = RULES) -> AskResult:
        return ask(self.session, text, apart(number), rules)

    def reasons(self, answered: AskResult) -> list[str]:
        """Return why each near question was refused, nearest first."""
        (step,) = (step for step in answered.trace.steps if step.name == "similar")
        return [reason.partition(" ")[2] for reason in step.note.split("; ")]


@pytest.fixture
def folder(tmp_path: Path) -> Shelf:
    home = SmallHome(tmp_path)
    for name, text in {"a": "The tandem of the museum is green.", "b": "The canoe of the museum is red."}.items():
        home.write(name, text)
    session = home.open()
    ingest(session, home.mail)
    return Shelf(session)


TANDEM, LIKE_TANDEM = "Which colour has the tandem of the museum?", "Which colour does the tandem of the museum have?"
CANOE = "Which colour has the canoe of the museum?"


NONE = replace(RULES, guard=False, verify=False, check=False)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (replace(NONE, verify=True), "another answer"),
        (replace(NONE, guard=True), ""),
    ],
)
def test_each_check_alone_refuses_a_near_twin(folder: Shelf, rules: SemanticRules, reason: str) -> None:
    folder.ask(TANDEM)
    found = folder.ask(CANOE, 0, rules)
    assert (found.reply.tier, reason in folder.reasons(found)[0]) == ("full", True)


def test_a_hit_retrieves_nothing(folder: Shelf) -> None:
    class Blind(Wrapped):
        def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
            raise AssertionError("retrieved")

    made = folder.ask(TANDEM).reply
    blind = asker(folder.session, Blind(folder.session.backend))
    found = blind.ask(LIKE_TANDEM, apart(0), folder.session.now)
    assert (found.reply.tier, found.reply.text, found.reply.sources) == ("semantic", made.text, made.sources)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_evidence_is_the_same_when_it_is_read_again(folder: Shelf, k: int) -> None:
    session, options = folder.session, AskOptions(k=k)
    for text in (TANDEM, CANOE, "Who is red?", "What about the museum?"):
        asked = gather_context(session.backend, begin(session.backend, session.ledger, text, options, NOW))
        made = session.backend.generate(asked.question, asked.evidence, Trace(), None).reply
        again = session.backend.reread(asked.read, made.scores)
        assert fingerprint(again, session.backend.fingerprint) == asked.read
        assert [read.text for read in again.passages] == [read.text for read in asked.evidence.passages]


def test_evidence_that_is_not_all_there_is_none(folder: Shelf) -> None:
    found = folder.ask(TANDEM)
    read = ("of no chunk", *_evidence_of(folder, TANDEM))
    assert folder.session.backend.reread(read, found.reply.scores).passages == ()


def _evidence_of(folder: Shelf, text: str) -> tuple[str, ...]:
    session = folder.session
    return gather_context(session.backend, begin(session.backend, session.ledger, text, AskOptions(), NOW)).read


POLITE_TANDEM = "Please tell me which colour the tandem of the museum has."


def test_with_all_checks_off_the_nearest_answer_is_served(folder: Shelf) -> None:
    folder.ask(TANDEM)
    found = folder.ask(CANOE, 0, NONE)
    assert (found.reply.tier, found.reply.matched_question) == ("semantic", TANDEM)


def test_at_most_two_answers_are_checked(folder: Shelf) -> None:
    for text in (TANDEM, LIKE_TANDEM, POLITE_TANDEM):
        ask(folder.session, text, apart(0), None)
    found = folder.ask(CANOE, 0, replace(RULES, guard=False, tau=0.0))
    assert (found.reply.tier, len(folder.reasons(found))) == ("full", 2)


def test_an_answer_is_not_served_across_scopes_and_numbers_of_sources(folder: Shelf) -> None:
    ask(folder.session, TANDEM, AskOptions(k=5), RULES)
    tiers = [
        ask(folder.session, LIKE_TANDEM, options, RULES).reply.tier
        for options in (apart(1), AskOptions(k=4), AskOptions())
    ]
    assert tiers == ["full", "full", "semantic"]


def test_an_answer_of_a_scope_is_revalidated_within_that_scope(folder: Shelf) -> None:
    folder.ask(TANDEM, 3)
    folder.session.ledger.raise_generation()
    assert folder.ask(LIKE_TANDEM, 3).reply.tier == "semantic"
