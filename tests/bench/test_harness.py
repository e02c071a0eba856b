"""Replays give the tiers that their policies allow, and record whose answer was given and whether it is right."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench import harness
from tests.bench.corpus import Query, User
from tests.bench.forced import learnt
from tests.bench.lines import Work, entails
from tests.bench.policies import POLICIES
from tests.engine.models.shapes import KINDS, REAL, make

KEYS = [
    *("corpus", "user", "policy", "writer", "number", "question", "gold", "answer", "tier", "right", "matched"),
    *("similarity", "foreseen", "tokens", "slots", "ms", "flops", "kept", "written", "night", "printed"),
]
STAGES = {"embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total"}
MAIL = {
    "rehearsal": "The choir rehearses on Thursday at half past six in St Brannoc's hall now, not in the school.",
    "keys": "Pavel Novak has the spare key to the workshop; ask him before noon if you want to use the lathe.",
    "fair": "The summer fair is on 22 June behind the chapel. We need tables, a tent and an extension lead.",
    "tuner": "The piano tuner comes on Monday and charges 85 pounds, which the choir pays from its own fund.",
    "bus": "The coach to Ahrenswalde leaves from the station at seven in the morning and costs 30 pounds each.",
}
RIGHT = "seven in the morning"
FORESEEN = 1  # question at a time


def user(folder: Path, queries: tuple[Query, ...] = ()) -> User:
    """Write a few messages; returns who asks about them."""
    mail = folder / "mail"
    mail.mkdir(exist_ok=True)
    for number, (subject, text) in enumerate(MAIL.items(), 1):
        head = f"From: Ann Whitlock <ann@example.org>\nDate: Fri, {number:02} Mar 2024 10:00:00 +0000"
        (mail / f"{subject}.eml").write_text(f"{head}\nSubject: The {subject}\n\n{text}\n", "utf-8")
    return User("made-up", "ann", (mail,), queries)


def query(text: str, answer: str = "") -> Query:
    """Return a question and its answer."""
    return Query(text, answer, frozenset())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a harness's folder with a small model in place of one of a real shape."""
    found = tmp_path_factory.mktemp("harness")
    shape = KINDS["llama"] | {"max_position_embeddings": 4096, "vocab_size": 20_000}
    small = make(found / "models" / "small", shape)
    learnt(harness.texts(user(found))).save(str(small / "tokenizer.json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(REAL, "small", shape)
        yield found


@pytest.fixture(scope="module")
def stream() -> tuple[Query, ...]:
    """Return a question, the same in other words, the same again, one predicted by it, and one without an answer."""
    asked, other = (query(f"When is {whose} coach?", RIGHT) for whose in ("the", "our"))
    return asked, other, asked, query("Where is the coach?", "at the station"), query("Who sings bass on the moon?")


Lines = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def replayed(folder: Path, stream: tuple[Query, ...]) -> Lines:
    """Replay the stream under every policy, a little foreseen where anything is."""
    found: Lines = {}
    for name, policy in POLICIES.items():
        work = Work(user(folder, stream), replace(policy, foresee=min(policy.foresee, FORESEEN)), "small", len(stream))
        found[name] = read(harness.replay(work, folder))
    return found


def read(file: Path) -> list[dict[str, Any]]:
    """Read the lines of a unit."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def tiers(lines: list[dict[str, Any]]) -> list[str]:
    """Return the tier of each line."""
    return [line["tier"] for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_each_line_has_the_keys_of_the_contract_in_their_order(replayed: Lines, name: str) -> None:
    for number, line in enumerate(replayed[name], 1):
        assert list(line) == KEYS
        assert set(line["ms"]) >= STAGES
        assert set(line["kept"]) == {"bank_bytes", "kv_bytes"}
        assert line["number"] == number
        assert (line["corpus"], line["user"], line["policy"], line["writer"]) == ("made-up", "ann", name, "small")


@pytest.mark.slow
def test_naive_never_hits_and_reads_all(replayed: Lines) -> None:
    lines = replayed["naive"]
    assert tiers(lines) == ["full"] * 5
    assert all(line["tokens"]["reused"] == 0 and line["kept"] == {"bank_bytes": 0, "kv_bytes": 0} for line in lines)
    assert all(line["written"] == 0 and line["night"] is None and line["right"] is None for line in lines)


@pytest.mark.slow
def test_ragcache_reuses_the_context_of_a_question_asked_again_and_nothing_of_its_answer(replayed: Lines) -> None:
    first, *_ = lines = replayed["ragcache"]
    assert tiers(lines) == ["full", *["prefix"] * 4]
    again = lines[2]
    assert again["slots"] == {"chunks": first["slots"]["chunks"], "found": first["slots"]["chunks"]}
    assert again["tokens"]["reused"] > again["tokens"]["computed"]
    assert first["written"] == first["kept"]["kv_bytes"] > 0
    assert again["written"] == 0
    assert all(line["kept"]["bank_bytes"] == 0 for line in lines)


@pytest.mark.slow
def test_meancache_lends_answers_and_reuses_no_context(replayed: Lines) -> None:
    lines = replayed["meancache"]
    assert tiers(lines)[:4] == ["full", "semantic", "exact", "full"]
    assert [line["matched"] for line in lines[1:3]] == [lines[0]["question"]] * 2
    assert [(line["answer"], line["right"], line["foreseen"]) for line in lines[1:3]] == [(RIGHT, True, False)] * 2
    assert lines[1]["similarity"] >= 0.85
    assert all(line["tokens"] is None and line["slots"] is None and line["flops"] == 0 for line in lines[1:3])
    assert all(line["kept"]["kv_bytes"] == 0 for line in lines)


@pytest.mark.slow
def test_sleep_time_answers_what_was_foreseen_and_keeps_nothing_else(replayed: Lines) -> None:
    lines = replayed["sleeptime"]
    assert tiers(lines)[0] == tiers(lines)[2] == "full"
    assert (lines[3]["tier"], lines[3]["foreseen"], lines[3]["right"]) == ("exact", True, True)
    assert lines[1]["night"]["foreseen"] == lines[1]["night"]["units"] == FORESEEN
    assert lines[1]["night"]["flops"] > 0
    assert all(line["kept"]["kv_bytes"] == 0 for line in lines)


@pytest.mark.slow
def test_both_together_do_what_each_does(replayed: Lines) -> None:
    assert tiers(replayed["ragcache-meancache"])[:4] == ["full", "semantic", "exact", "prefix"]
    lines = replayed["ragcache-sleeptime"]
    assert tiers(lines)[:4] == ["full", "prefix", "prefix", "exact"]
    assert lines[3]["foreseen"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first"), [("percache", "full"), ("pkb", "prefix")])  # pkb reads new chunks ahead
def test_percache_and_pkb_have_every_tier(replayed: Lines, name: str, first: str) -> None:
    lines = replayed[name]
    assert tiers(lines)[:4] == [first, "semantic", "exact", "exact"]
    assert [line["foreseen"] for line in lines[:4]] == [False, False, False, True]
    assert [line["right"] for line in lines[:4]] == [None, True, True, True]


@pytest.mark.slow
def test_only_percache_tells_what_its_own_engine_would_have_taken(replayed: Lines) -> None:
    for name, lines in replayed.items():
        assert [line["printed"] is not None for line in lines] == [name == "percache"] * 5
    reused = replayed["percache"][4]
    assert reused["printed"]["flops"] > reused["flops"]
    assert reused["printed"]["ms"] > reused["ms"]["total"]
    assert reused["printed"]["kv_bytes"] == 2 * reused["kept"]["kv_bytes"]  # 4 heads share 2 keys


@pytest.mark.slow
def test_percache_reads_two_chunks_and_the_others_up_to_five(replayed: Lines) -> None:
    naive, percache, pkb = (replayed[name][0]["slots"]["chunks"] for name in ("naive", "percache", "pkb"))
    assert (percache, pkb) == (2, naive)
    assert 2 < naive <= 5


@pytest.mark.slow
def test_what_is_reused_and_what_is_computed_make_the_same_answers(replayed: Lines) -> None:
    for name in ("ragcache", "ragcache-meancache", "pkb"):
        assert [line["answer"] for line in replayed[name][:3]] == [RIGHT] * 3
    generated = {line["tokens"]["generated"] for name in replayed for line in replayed[name][:1]}
    assert len(generated) == 1


def test_the_answer_of_a_set_is_kept_where_no_source_bears_it(folder: Path) -> None:
    asked = query("How many altos are there?", "seventeen")
    work = Work(user(folder, (asked, asked)), replace(POLICIES["meancache"], name="unborne"), "small", 2)
    assert [line["answer"] for line in read(harness.replay(work, folder))] == ["seventeen"] * 2


def test_a_foreseen_question_is_answered_with_a_quote(folder: Path, stream: tuple[Query, ...]) -> None:
    policy = replace(POLICIES["sleeptime"], name="foreseeing", foresee=FORESEEN)
    asked = query(f"Tell me: {stream[3].text}", "something else")
    _, line = read(harness.replay(Work(user(folder, (stream[0], asked)), policy, "small", 2), folder))
    assert (line["tier"], line["matched"], line["foreseen"]) == ("semantic", stream[3].text, True)
    assert any(line["answer"] in text for text in MAIL.values())
    assert line["right"] is False


def test_an_answer_with_half_of_the_words_of_the_gold_one_bears_it() -> None:
    assert entails("On Monday, at the pier.", "Monday at noon")
    assert not entails("On Monday, at the pier.", "Tuesday at noon, in the hall")
    assert entails(None, "")
    assert not entails(None, "Monday")
    assert not entails("Monday", "")


@pytest.mark.slow
def test_a_question_without_an_answer_is_declined(replayed: Lines) -> None:
    assert {lines[4]["answer"] for lines in replayed.values()} == {None}
    assert {lines[4]["gold"] for lines in replayed.values()} == {""}


@pytest.mark.slow
def test_homes_are_gone_and_what_was_made_is_kept(folder: Path, replayed: Lines) -> None:
    assert len(replayed) == len(POLICIES)
    assert list((folder / "homes").iterdir()) == []
    assert [path.name for path in (folder / "made").iterdir()] == ["made-up.ann"]
    assert {path.suffix for path in (folder / "lines").iterdir()} == {".jsonl"}


def test_an_answer_that_is_right_for_another_is_told_from_one_that_is_not(folder: Path) -> None:
    queries = (
        query("What does the piano tuner charge?", "85 pounds"),
        query("What does a piano tuner charge?", "90 pounds"),
    )
    work = Work(user(folder, queries), replace(POLICIES["meancache"], name="twins"), "small", 2)
    *_, hit = read(harness.replay(work, folder))
    assert (hit["tier"], hit["answer"], hit["right"]) == ("semantic", "85 pounds", False)


def test_quotes_have_no_tokens_and_take_no_operations(folder: Path, stream: tuple[Query, ...]) -> None:
    lines = read(harness.replay(Work(user(folder, stream), POLICIES["percache"], "quote", 3), folder))
    assert tiers(lines)[2] == "exact"
    assert all(line["tokens"] is None and line["printed"] is None and line["flops"] == 0 for line in lines)
