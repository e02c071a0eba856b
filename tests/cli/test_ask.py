"""The contract of `pkb ask`: keys, tiers, exit codes, and what makes two questions the same."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Pkb
from tests.demo import DATA, QUESTIONS, environment

KEY = "Who has the spare key to the workshop?"
NONSENSE = "Which quorv blimmers the zant?"
KEYS = [
    "schema", "question", "answer", "answered", "grade", "synthesis",
    "correction", "highlight", "tier", "writer", "model", "adapter", "matched_question",
    "similarity", "age_s", "stale", "lead", "before", "context", "answer_source", "sources", "tokens", "ms", "notices",
]  # fmt: skip
SOURCE = [
    "path", "message_id", "title", "date", "lines", "score", "quote", "own_lines", "copy", "written", "sender",
    "recipients", "role", "author", "place", "speaker", "at", "date_claimed", "first_seen", "warnings", "span", "rival",
]  # fmt: skip
STAGES = ["embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total"]


def answer(pkb: Pkb, *words: str, **variables: str) -> dict[str, Any]:
    row: dict[str, Any] = pkb("ask", *words, "--json", env=variables).row
    return row


def test_an_answer_has_every_key_in_order(pkb: Pkb) -> None:
    made, declined = answer(pkb, KEY), answer(pkb, NONSENSE)
    rows = [made, declined, answer(pkb, KEY), answer(pkb, NONSENSE)]
    assert [list(row) for row in rows] == [KEYS] * 4
    assert [list(row["ms"]) for row in rows] == [STAGES] * 4
    assert [list(source) for row in rows for source in row["sources"]] == [SOURCE] * sum(
        len(r["sources"]) for r in rows
    )


def test_an_answer_stands_on_sources_best_first(pkb: Pkb) -> None:
    row = answer(pkb, KEY)
    scores = [source["score"] for source in row["sources"]]
    assert row["answered"]
    assert row["answer"] is not None
    assert scores == sorted(scores, reverse=True)
    assert 1 <= len(scores) <= 5
    assert all(Path(source["path"]).is_absolute() for source in row["sources"])


CONCERT = "When is the summer concert?"


def test_the_source_that_an_answer_was_taken_from_is_listed_first(pkb: Pkb) -> None:
    row = answer(pkb, CONCERT)
    first, *others = row["sources"]
    assert row["answer"].split(",")[0] == "Saturday 22 June 2024"
    assert "22 June" in first["quote"]
    scores = [source["score"] for source in others if source["score"] != first["score"]]  # without its copies
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > first["score"]  # another source ranks higher


@pytest.mark.slow
def test_every_answer_stands_in_its_first_source(pkb: Pkb) -> None:
    for question in QUESTIONS:
        row = answer(pkb, question)
        if row["answered"] and row["writer"] == "quote":
            told = [line for line in pkb("ask", question).out.splitlines() if line.startswith("    “")]
            assert told[0].startswith(f"    “{' '.join(row['sources'][0]['quote'].split())[:200]}")


def test_a_cached_answer_lists_the_same_source_first_when_its_files_have_moved(pkb: Pkb, tmp_path: Path) -> None:
    made = answer(pkb, CONCERT)
    shutil.copytree(DATA / "mail", tmp_path / "moved")
    pkb("ingest", str(tmp_path / "moved"))
    again = answer(pkb, CONCERT)
    assert (again["tier"], again["sources"][0]["quote"]) == ("exact", made["sources"][0]["quote"])


def test_a_question_without_support_is_declined_with_exit_code_4(pkb: Pkb) -> None:
    ran = pkb("ask", NONSENSE, "--json")
    assert (ran.code, ran.row["answered"], ran.row["answer"]) == (4, False, None)


def test_the_same_question_again_is_exact_and_has_the_same_answer(pkb: Pkb) -> None:
    made, again = answer(pkb, KEY), answer(pkb, "  who HAS the spare key\tto the workshop ")
    assert (made["tier"], again["tier"]) == ("full", "exact")
    assert (again["answer"], again["sources"]) == (made["answer"], made["sources"])
    assert again["ms"]["first_token"] == again["ms"]["total"]
    assert again["age_s"] == 0.0
    assert made["age_s"] is None


def test_a_declined_question_again_is_exact_and_declined(pkb: Pkb) -> None:
    pkb("ask", NONSENSE)
    ran = pkb("ask", NONSENSE, "--json")
    assert (ran.code, ran.row["tier"], ran.row["answered"]) == (4, "exact", False)


@pytest.mark.parametrize("words", [("-k", "3"), ("--in", "transcripts"), ("--from", "dele"), ("--since", "2024-01-01")])
def test_other_limits_make_another_question(pkb: Pkb, words: tuple[str, ...]) -> None:
    answer(pkb, KEY)
    assert answer(pkb, KEY, *words)["tier"] == "full"
    assert answer(pkb, KEY, *words)["tier"] == "exact"
    assert answer(pkb, KEY)["tier"] == "exact"


@pytest.mark.parametrize(("question", "tier"), [("What is on tomorrow?", "full"), (KEY, "exact")])
def test_what_moves_with_the_calendar_is_a_miss_on_the_next_day(pkb: Pkb, question: str, tier: str) -> None:
    answer(pkb, question)
    assert answer(pkb, question)["tier"] == "exact"
    assert answer(pkb, question, PKB_NOW="2024-06-20T08:00")["tier"] == tier


def test_without_the_cache_nothing_is_read_or_kept(pkb: Pkb) -> None:
    assert answer(pkb, KEY, "--cache=off")["tier"] == "full"
    assert pkb.answers() == 0
    answer(pkb, KEY)
    assert answer(pkb, KEY, "--cache=off")["tier"] == "full"
    assert pkb.answers() == 1


def test_a_fresh_answer_is_made_anew_and_kept(pkb: Pkb) -> None:
    answer(pkb, KEY)
    assert answer(pkb, KEY, "--cache=refresh", PKB_NOW="2024-06-19T09:00")["tier"] == "full"
    again = answer(pkb, KEY)
    assert (again["tier"], again["age_s"]) == ("exact", 0.0)
    assert pkb.answers() == 1


def test_a_question_that_is_no_text_is_asked_with_marks_in_place_of_it(pkb: Pkb) -> None:
    rows = [answer(pkb, "who has the caf\udce9 key?"), answer(pkb, "who?", "--from", "\udce9")]
    assert [row["question"] for row in rows] == ["who has the caf\ufffd key?", "who?"]
    assert pkb("search", "caf\udce9", "--json").row["query"] == "caf\ufffd"


def test_explain_adds_one_key_and_the_steps(pkb: Pkb) -> None:
    row = answer(pkb, KEY, "--explain")
    assert list(row) == [*KEYS, "explain"]
    steps = ["key", "match", "understand", "people", "embed", "similar", "open", "retrieve", "import", "write"]
    assert [step["name"] for step in row["explain"]] == steps
    assert [step["name"] for step in answer(pkb, KEY, "--explain")["explain"]] == ["key", "match", "count"]


@pytest.mark.slow
def test_a_batch_answers_every_line_and_goes_on_after_bad_ones(pkb: Pkb) -> None:
    lines = [KEY.encode(), b"\xff\xfe who?", b"", b"   ", b"???", b"budget " * 1_000, KEY.encode()]
    ran = pkb("ask", "-", "--json", stdin=b"\n".join(lines))
    assert ran.code == 0
    assert [row["question"][:5] for row in ran.rows] == ["Who h", "\ufffd\ufffd wh", "???", "budge", "Who h"]
    assert ran.rows[2] == {
        "schema": 4,
        "question": "???",
        "error": {"code": 2, "message": "the question is empty", "next": 'pkb ask "when is rehearsal?"'},
    }
    assert [row.get("tier") for row in ran.rows] == ["full", "full", None, "full", "exact"]


def test_a_batch_without_an_answer_still_exits_0(pkb: Pkb) -> None:
    assert pkb("ask", "-", "--json", stdin=NONSENSE.encode()).code == 0


def test_a_batch_where_nothing_was_ingested_is_one_error(fresh: Pkb) -> None:
    ran = fresh("ask", "-", "--json", stdin=b"who?\nwhere?\n")
    assert (ran.code, ran.row["error"]["code"]) == (10, 10)


@pytest.mark.slow
def test_a_batch_flushes_each_answer_before_it_reads_on(pkb: Pkb) -> None:
    pkb("ask", KEY)
    command = [sys.executable, "-m", "cli.app", "ask", "-", "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment(pkb.folder), stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(KEY.encode() + b"\n")
        process.stdin.flush()
        first = json.loads(process.stdout.readline())  # while more may come
        rest, _ = process.communicate(NONSENSE.encode())
    assert (first["question"], first["tier"]) == (KEY, "exact")
    assert [json.loads(line)["question"] for line in rest.splitlines()] == [NONSENSE]
    assert process.returncode == 0


@pytest.mark.parametrize("options", [(), ("--json",), ("--from", "ann")])
@pytest.mark.parametrize("question", [KEY, NONSENSE])
def test_an_exact_hit_loads_nothing_heavy(pkb: Pkb, question: str, options: tuple[str, ...]) -> None:
    words = ["ask", question, *options]
    pkb(*words)
    code = f"import sys; from cli.app import run; run({words!r}); print(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=environment(pkb.folder), capture_output=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.decode().splitlines()[-1].split()}
    heavy = {"lancedb", "pyarrow", "numpy", "mlx", "transformers", "tokenizers", "rank_bm25", "rich"}
    assert loaded & heavy == set()
    assert "sqlite3" in loaded


def test_the_source_that_an_answer_rests_on_is_marked_with_its_words(pkb: Pkb) -> None:
    row = answer(pkb, CONCERT)
    first, *others = row["sources"]
    start, end = first["span"]
    assert (row["answer_source"], first["quote"][start:end]) == (0, "Saturday 22 June at 19:00")
    assert [source["span"] for source in others] == [None] * len(others)
    marked = [line for line in pkb("ask", CONCERT).out.splitlines() if line.endswith("← answer")]
    assert [line[:3] for line in marked] == ["[1]"]


@pytest.mark.parametrize("question", ["When is rehearsal?", "Who won the second prize in the raffle?"])
def test_a_name_a_time_or_a_heading_alone_is_told_as_no_other_answer(pkb: Pkb, question: str) -> None:
    assert "another mail" not in pkb("ask", question).err


def test_a_price_that_the_next_sentence_changes_is_told_as_what_it_was(pkb: Pkb) -> None:
    said = pkb("ask", "How much is a ticket for the summer concert?").out
    assert "the ticket price is now 10 pounds" in said
    assert "(before: 12 pounds" in said
