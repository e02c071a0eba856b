"""Replays give the tiers that their policies allow, record whose answer was served, and resume after a kill."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import harness
from tests.bench.corpus import Query, User
from tests.bench.forced import tokenizer
from tests.bench.policies import POLICIES, Policy
from tests.bench.records import Line, read_unit
from tests.bench.replay import Unit, covers
from tests.engine.models.shapes import KINDS, REAL, make

STAGES = {"embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total"}
_NEWS = {
    "rehearsal": "The choir rehearses on Thursday at half past six in St Brannoc's hall now, not in the school.",
    "keys": "Pavel Novak has the spare key to the workshop; ask him before noon if you want to use the lathe.",
    "fair": "The summer fair is on 22 June behind the chapel. We need tables, a tent and an extension lead.",
    "tuner": "The piano tuner comes on Monday and charges 85 pounds, which the choir pays from its own fund.",
    "bus": "The coach to Ahrenswalde leaves from the station at seven in the morning and costs 30 pounds each.",
}
# Long enough that a message is a segment by itself.
_MORE = "Whoever has a question about this may ring the office between ten and noon, when somebody is at the desk."
MAIL = {name: f"{text} {_MORE}" for name, text in _NEWS.items()}
RIGHT = "seven in the morning"
Lines = dict[str, list[Line]]


def user(folder: Path, *queries: Query) -> User:
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


def replayed(folder: Path, policy: Policy, *queries: Query, writer: str = "small") -> list[Line]:
    """Replay questions under a policy that predicts at most one at a time."""
    unit = Unit(user(folder, *queries), replace(policy, predict=min(policy.predict, 1)), writer, len(queries))
    return read_unit(harness.replay([unit], folder)[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a harness's folder with a small model in place of one of a real shape."""
    found = tmp_path_factory.mktemp("harness")
    shape = KINDS["llama"] | {"max_position_embeddings": 4096, "vocab_size": 20_000}
    small = make(found / "models" / "small", shape)
    tokenizer(harness.texts(user(found))).save(str(small / "tokenizer.json"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(REAL, "small", shape)
        yield found


@pytest.fixture(scope="module")
def stream() -> tuple[Query, ...]:
    """Return a question, the same in other words, the same again, one predicted by it, and one without an answer."""
    asked, other = (query(f"When is {whose} coach?", RIGHT) for whose in ("the", "our"))
    return asked, other, asked, query("Where is the coach?", "at the station"), query("Who sings bass on the moon?")


@pytest.fixture(scope="module")
def every(folder: Path, stream: tuple[Query, ...]) -> Lines:
    """Replay the stream under every policy."""
    return {name: replayed(folder, policy, *stream) for name, policy in POLICIES.items()}


def tiers(lines: list[Line]) -> list[str]:
    """Return the tier of each line."""
    return [line.tier for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("naive", ["full"] * 4),
        ("ragcache", ["full", *["prefix"] * 3]),
        ("meancache", ["full", "semantic", "exact", "full"]),
        ("ragcache-meancache", ["full", "semantic", "exact", "prefix"]),
        ("ragcache-sleeptime", ["full", "prefix", "prefix", "exact"]),
        ("percache", ["full", "semantic", "exact", "exact"]),
        ("pkb", ["prefix", "semantic", "exact", "exact"]),  # new chunks are prefetched
    ],
)
def test_a_policy_has_the_tiers_of_its_caches(every: Lines, name: str, expected: list[str]) -> None:
    lines = every[name]
    assert tiers(lines)[:4] == expected
    assert all(set(line.ms) <= STAGES for line in lines)
    assert [line.number for line in lines] == [1, 2, 3, 4, 5]
    assert (lines[4].answer, lines[4].gold) == (None, "")


@pytest.mark.slow
def test_naive_reuses_and_stores_nothing(every: Lines) -> None:
    for line in every["naive"]:
        assert line.tokens is not None
        assert (line.tokens.reused, line.bank_bytes, line.kv_bytes, line.written, line.right) == (0, 0, 0, 0, None)
        assert line.idle is None


@pytest.mark.slow
def test_ragcache_reuses_the_context_of_a_repeated_question_and_stores_no_answer(every: Lines) -> None:
    first, _, again, *_ = every["ragcache"]
    assert again.cached is not None
    assert again.tokens is not None
    assert again.cached.found == again.cached.chunks
    assert again.tokens.reused > again.tokens.computed
    assert (first.written, again.written, again.bank_bytes) == (first.kv_bytes, 0, 0)


@pytest.mark.slow
def test_meancache_serves_answers_and_reuses_no_context(every: Lines) -> None:
    first, other, again, *_ = every["meancache"]
    for hit in (other, again):
        assert (hit.matched, hit.answer, hit.right, hit.predicted) == (first.question, RIGHT, True, False)
        assert (hit.tokens, hit.cached, hit.flops, hit.kv_bytes) == (None, None, 0, 0)


@pytest.mark.slow
def test_sleep_time_serves_predicted_questions_and_stores_nothing_else(every: Lines) -> None:
    lines = every["sleeptime"]
    assert (lines[0].tier, lines[2].tier) == ("full", "full")
    assert (lines[3].tier, lines[3].predicted, lines[3].right) == ("exact", True, True)
    idle = lines[1].idle
    assert idle is not None
    assert (idle.predicted, idle.jobs) == (1, 1)
    assert idle.flops > 0


@pytest.mark.slow
def test_percache_reads_two_chunks_and_the_others_up_to_five(every: Lines) -> None:
    naive, percache, pkb = (one.chunks for name in ("naive", "percache", "pkb") if (one := every[name][0].cached))
    assert (percache, pkb) == (2, naive)
    assert 2 <= naive <= 5  # the reader chooses two sources


@pytest.mark.slow
def test_homes_are_deleted_and_ingested_ones_are_kept(folder: Path, every: Lines) -> None:
    assert len(every) == len(POLICIES)
    assert list((folder / "homes").iterdir()) == []
    assert [path.name for path in (folder / "ingested").iterdir()] == ["made-up.ann"]
    assert {path.suffix for path in (folder / "lines").iterdir()} == {".jsonl"}


@pytest.mark.slow
def test_the_gold_answer_is_stored_whatever_the_sources_say(folder: Path) -> None:
    asked = query("How many altos are there?", "seventeen")
    policy = replace(POLICIES["meancache"], name="unsupported")
    assert [line.answer for line in replayed(folder, policy, asked, asked)] == ["seventeen"] * 2


@pytest.mark.slow
def test_a_predicted_question_is_answered_with_a_quote(folder: Path, stream: tuple[Query, ...]) -> None:
    policy = replace(POLICIES["sleeptime"], name="predicting")
    _, line = replayed(folder, policy, stream[0], query(f"Yes: {stream[3].text}", "something else"))
    assert (line.tier, line.matched, line.predicted, line.right) == ("semantic", stream[3].text, True, False)
    assert any((line.answer or "?") in text for text in MAIL.values())


@pytest.mark.slow
def test_the_answer_of_another_question_is_wrong_where_the_gold_differs(folder: Path) -> None:
    golds = {"the": "85 pounds", "a": "90 pounds"}
    asked = (query(f"What does {which} piano tuner charge?", gold) for which, gold in golds.items())
    *_, hit = replayed(folder, replace(POLICIES["meancache"], name="twins"), *asked)
    assert (hit.tier, hit.answer, hit.right) == ("semantic", "85 pounds", False)


@pytest.mark.slow
def test_quotes_have_no_tokens_and_no_flops(folder: Path, stream: tuple[Query, ...]) -> None:
    lines = replayed(folder, POLICIES["percache"], *stream[:3], writer="quote")
    assert lines[2].tier == "exact"
    assert all(line.tokens is None and line.flops == 0 for line in lines)


def test_an_answer_with_half_of_the_words_of_the_gold_one_covers_it() -> None:
    assert covers("On Monday, at the pier.", "Monday at noon")
    assert not covers("On Monday, at the pier.", "Tuesday at noon, in the hall")
    assert covers(None, "")
    assert not covers(None, "Monday")
    assert not covers("Monday", "")


class Deadly(io.StringIO):
    """Kills its process when the third question of the second policy is reported."""

    def write(self, text: str) -> int:
        if "meancache" in text and "question 3 of" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().write(text)


def both(folder: Path, *, turns: bool) -> None:
    """Replay two policies with quotes, in turns or one after the other; run in a process of its own."""
    queries = (query(f"Where does the choir rehearse in week {number}?", RIGHT) for number in range(6))
    own = user(folder, *queries)
    units = [Unit(own, POLICIES[name], "quote", 6) for name in ("naive", "meancache")]
    for some in [units] if turns else [[one] for one in units]:
        harness.replay(some, folder)


def run(folder: Path, *, turns: bool, deadly: bool) -> int:
    """Call it in a process of its own; returns the exit code."""
    start = "sys.stderr = Deadly(); " if deadly else ""
    code = f"import sys; from pathlib import Path; from tests.bench.test_harness import Deadly, both; {start}"
    code += f"both(Path({str(folder)!r}), turns={turns})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("turns", [False, True])
def test_a_killed_replay_repeats_no_complete_unit_and_starts_the_others_over(tmp_path: Path, turns: bool) -> None:
    assert run(tmp_path, turns=turns, deadly=True) == -signal.SIGKILL
    files = [tmp_path / "lines" / f"made-up.ann.{name}.quote.jsonl" for name in ("naive", "meancache")]
    assert [file.exists() for file in files] == [not turns, False]
    before = None if turns else files[0].stat().st_mtime_ns
    assert run(tmp_path, turns=turns, deadly=False) == 0
    assert before is None or files[0].stat().st_mtime_ns == before
    assert [[line.number for line in read_unit(file)] for file in files] == [list(range(1, 7))] * 2
    assert list((tmp_path / "homes").iterdir()) == []
