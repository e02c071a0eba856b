"""`pkb idle`: prefetched segments are reused by the next question, change no answer, and evict nothing used."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cli.app import run
from engine.idle.scheduler import is_quiet
from engine.session import Session
from store.answers import AnswerBank, CachedAnswer
from store.database import open_ledger
from store.jobs import JobRow, Jobs
from store.locks import Locks
from tests.cli.conftest import Pkb
from tests.demo import DATA, NANO, copied, environment
from tests.effort import PATIENCE_S, slow_only

ASKED = ("When is the concert?", "Where is the concert?", "When is the summer concert?")
NEW = "How much is a ticket for the summer concert?"


@pytest.fixture(scope="module")
def asked_before(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home in which questions were answered by quoting, and that has a model since."""
    folder = Path(shutil.copytree(made, tmp_path_factory.mktemp("asked") / "demo"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        config = {"idle.when": "always", "idle.ahead": "10", "predict.standing": "", "model.name": str(NANO)}
        for words in (
            *(["ask", question] for question in ASKED),
            *(["config", "set", *each] for each in config.items()),
        ):
            assert run(words) == 0
    return folder


@pytest.fixture
def runner(
    asked_before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Pkb:
    """Return pkb in a copy of that home."""
    return Pkb(copied(asked_before, tmp_path / "idle"), monkeypatch, capsys)


def tokens(pkb: Pkb, question: str, *flags: str) -> dict[str, int]:
    found: dict[str, int] = pkb("ask", question, "--json", *flags).row["tokens"]
    return found


def units(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs but those of maintenance, which is due once a day."""
    return [unit for unit in row["units"] if unit["job"] != "maintenance"]


def states(row: dict[str, Any]) -> set[str]:
    return {unit["state"] for unit in units(row)}


def done(row: dict[str, Any]) -> int:
    return sum(unit["state"] == "done" for unit in units(row))


def predict_nothing(pkb: Pkb) -> None:
    pkb.experiment(stride=0)
    pkb("config", "set", "predict.standing", "")


def prefetch(pkb: Pkb) -> list[str]:
    """Run idle jobs; return the reason of each segment that was prefetched.

    With time for all of them, however slow the first step of a model in this process is against the estimates.
    """
    predict_nothing(pkb)
    row = pkb("idle", "--json", "--budget", "24h").row
    return [unit["why"] for unit in units(row) if (unit["job"], unit["state"]) == ("prefetch", "done")]


def rows(pkb: Pkb, sql: str) -> list[Any]:
    with sqlite3.connect(pkb.folder / "home" / "ledger.db") as ledger:
        return ledger.execute(sql).fetchall()


@pytest.mark.slow
def test_the_most_retrieved_chunks_are_prefetched_and_the_next_question_reuses_them(runner: Pkb) -> None:
    row = runner("idle", "--json").row
    assert done(row) == len(units(row)) > 2
    assert row["bytes"] == sum(unit["bytes"] for unit in row["units"]) > 0
    assert {unit["job"] for unit in units(row)} == {"prefetch"}
    assert row["units"][0]["what"] == "system prompt"
    assert rows(runner, "SELECT DISTINCT depth FROM kv_nodes ORDER BY depth") == [(1,), (2,)]
    assert rows(runner, "SELECT count(*) FROM kv_nodes") == [(done(row),)]
    assert tokens(runner, ASKED[0])["reused"] > row["units"][0]["tokens"]


@pytest.fixture
def few(fresh: Pkb) -> Pkb:
    """Return pkb with a few meetings, and a model that may prefetch at any time."""
    fresh.experiment(stride=0)  # predicting reads chunks, too
    fresh("ingest", str(DATA / "transcripts"), "--vectors", "later")
    fresh("config", "set", "model.name", str(NANO))
    fresh("config", "set", "idle.when", "always")
    return fresh


@pytest.mark.slow  # three runs; engine/idle holds the rule
def test_each_run_prefetches_new_chunks_further_back(few: Pkb) -> None:
    few("config", "set", "idle.ahead", "3")
    assert prefetch(few) == ["shared by every question", *3 * ["new, not retrieved yet"]]
    assert prefetch(few) == 3 * ["new, not retrieved yet"]
    assert rows(few, "SELECT count(*) FROM kv_nodes WHERE depth = 2") == [(6,)]


@pytest.mark.slow  # prefetches twice; the rule itself is tested in engine/idle
def test_new_chunks_replace_older_prefetched_ones_that_were_never_used(pkb: Pkb, tmp_path: Path) -> None:
    pkb.experiment(stride=0)  # predicting reads chunks, too
    pkb("config", "set", "model.name", str(NANO))
    pkb("config", "set", "idle.when", "always")
    pkb("config", "set", "idle.ahead", "8")
    assert prefetch(pkb) == ["shared by every question", *8 * ["new, not retrieved yet"]]
    nodes = rows(pkb, "SELECT key, bytes FROM kv_nodes WHERE depth = 2 ORDER BY rowid")
    pkb("config", "set", "kv.bytes", str(pkb("stats", "--json").row["bytes"]["cache"] + 100_000))
    for number in (24, 25):
        mail(tmp_path / "post", number, f"The spare key is in room {number}.")
    pkb("ingest", str(tmp_path / "post"))
    newest, newer = prefetch(pkb)
    assert newest == "new, not retrieved yet; replaces older, never used entries"
    assert newest.startswith(newer)
    left = rows(pkb, "SELECT key, bytes FROM kv_nodes WHERE depth = 2 ORDER BY rowid")
    assert left[:-2] == nodes[: len(left) - 2]
    assert len(left) <= len(nodes) + 1
    assert rows(pkb, "SELECT count(*) FROM job_outputs JOIN kv_nodes USING (key)") == [(len(left) + 1,)]
    assert prefetch(pkb) == []


@pytest.mark.slow
def test_the_system_segment_is_stored_at_the_first_question_and_reused_by_any_other(pkb: Pkb) -> None:
    pkb("config", "set", "model.name", str(NANO))
    assert tokens(pkb, ASKED[0])["reused"] == 0
    ((system,),) = rows(pkb, "SELECT length(ids) / 4 FROM kv_nodes WHERE depth = 1")
    assert tokens(pkb, "Who has the spare key to the workshop?")["reused"] == system


@pytest.mark.slow
def test_an_answer_is_the_same_with_prefetched_segments_and_without(runner: Pkb) -> None:
    without = runner("ask", NEW, "--json", "--cache=off").row
    predict_nothing(runner)
    runner("idle", "--force")
    found = runner("ask", NEW, "--json").row
    assert (found["answer"], found["sources"]) == (without["answer"], without["sources"])
    assert found["tokens"]["reused"] > 0 == without["tokens"]["reused"]


@pytest.mark.parametrize("flags", [[], *slow_only(["--force"])])
@pytest.mark.slow
def test_idle_leaves_the_history_the_answers_and_the_hits_as_they_were(runner: Pkb, flags: list[str]) -> None:
    predict_nothing(runner)
    before = runner("stats", "--json").row
    history = rows(runner, "SELECT * FROM history JOIN retrievals ON history.id = retrievals.question")
    answers = rows(runner, "SELECT * FROM answers WHERE origin = 'user' ORDER BY key")
    assert runner("idle", *flags, "--json").row["done"]
    after = runner("stats", "--json").row
    assert rows(runner, "SELECT * FROM history JOIN retrievals ON history.id = retrievals.question") == history
    assert rows(runner, "SELECT * FROM kv_counts") == []
    assert rows(runner, "SELECT * FROM answers WHERE origin = 'user' ORDER BY key") == answers
    changed = {name for name in after if after[name] != before[name]}
    assert changed - {"answers"} == {"kv", "bytes", "idle"}  # predicted questions are new there


@pytest.mark.slow  # a whole run; with quotes the next test holds it
def test_it_prints_nothing_where_there_is_nothing_to_do(runner: Pkb) -> None:
    runner("config", "set", "idle.ahead", "200")
    assert runner("idle").out.count("\n") == 1
    again = runner("idle")
    assert (again.code, again.out, again.err) == (0, "", "")
    assert runner("idle", "--json").row["units"] == []


def test_where_pkb_quotes_and_nothing_is_new_it_gives_the_reason_only_if_asked(pkb: Pkb) -> None:
    pkb("ask", ASKED[0])
    pkb("config", "set", "idle.when", "always")
    pkb("idle")  # answers standing questions
    silent, told, row = pkb("idle"), pkb("idle", "-v"), pkb("idle", "--json").row
    assert (silent.code, silent.out, silent.err) == (0, "", "")
    assert (told.code, told.out) == (0, "")
    assert told.err == "pkb: nothing done: nothing has changed since the last complete run\n"
    assert (row["units"], row["done"], row["reason"]) == ([], 0, told.err.partition("done: ")[2].strip())


def test_in_an_empty_home_the_model_is_not_even_loaded(pkb: Pkb, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    fresh = environment(tmp_path / "empty")
    assert pkb("ingest", str(tmp_path / "none"), env=fresh).code == 0
    pkb("config", "set", "model.name", str(NANO))
    assert pkb("idle", "--force", "--json").row["reason"] == "nothing to do"
    assert rows(pkb, "SELECT count(*) FROM meta WHERE name = 'threads'") == [(0,)]


def test_without_a_cache_nothing_is_prefetched(runner: Pkb) -> None:
    runner("config", "set", "kv.reuse", "off")
    jobs = {unit["job"] for unit in runner("idle", "--json").row["units"]}
    assert "prefetch" not in jobs
    assert rows(runner, "SELECT * FROM kv_nodes") == []


def test_a_dry_run_lists_jobs_with_reasons_and_runs_none(runner: Pkb) -> None:
    ran = runner("idle", "--dry-run")
    assert ran.out.count("planned") == ran.out.count("\n") > 2
    assert "retrieved for 3 questions" in ran.out
    assert rows(runner, "SELECT count(*) FROM kv_nodes") == [(0,)]
    assert states(runner("idle", "--dry-run", "--json").row) == {"planned"}


def test_retrieved_chunks_are_prefetched_before_new_ones(runner: Pkb) -> None:
    units = runner("idle", "--dry-run", "--json").row["units"]
    whys = [unit["why"] for unit in units if unit["job"] == "prefetch"]
    assert set(whys) >= {"retrieved for 3 questions", "retrieved for 2 questions", "retrieved once"}
    new = [why == "new, not retrieved yet" for why in whys]
    assert any(new)
    assert new == sorted(new)


@pytest.mark.slow  # three runs; test_scheduler holds the limits
def test_limits_of_jobs_and_of_time_hold_and_the_rest_is_done_the_next_time(runner: Pkb) -> None:
    one, none = runner("idle", "--max", "1", "--json").row, runner("idle", "--budget", "0s", "--json").row
    assert (done(one), states(one)) == (1, {"done", "limit"})
    assert (none["units"], none["reason"]) == ([], "the time is up")
    rest = runner("idle", "--json").row
    assert (done(rest), states(rest)) == (len(units(one)) - 1, {"done"})


def test_an_invalid_time_is_named(runner: Pkb) -> None:
    ran = runner("idle", "--budget", "soon")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "soon is not a time like 90s, 10m or 2h" in ran.err


def test_used_segments_are_not_evicted_for_prefetched_ones(runner: Pkb) -> None:
    tokens(runner, NEW)
    nodes = rows(runner, "SELECT key FROM kv_nodes")
    used = runner("stats", "--json").row["bytes"]["cache"]
    runner("config", "set", "kv.bytes", str(used + 100_000))
    row = runner("idle", "--json").row
    assert states(row) == {"no space"}
    assert rows(runner, "SELECT key FROM kv_nodes") == nodes
    assert runner("idle").out == ""


@pytest.mark.slow
def test_segments_evicted_for_lack_of_space_are_restored_when_there_is_more(runner: Pkb) -> None:
    for question in ASKED:
        runner("ask", question)
    full = {question: tokens(runner, question, "--cache=refresh")["reused"] for question in ASKED}
    nodes = set(rows(runner, "SELECT key FROM kv_nodes"))
    runner("config", "set", "kv.bytes", "1")
    runner("ask", NEW, "--cache=refresh")
    assert rows(runner, "SELECT count(*) FROM kv_nodes") == [(0,)]
    runner("config", "set", "kv.bytes", "1000000000")
    row = runner("idle", "--json").row
    assert {unit["job"] for unit in row["units"]} >= {"restore"}
    assert set(rows(runner, "SELECT key FROM kv_nodes")) >= nodes
    assert {question: tokens(runner, question, "--cache=refresh")["reused"] for question in ASKED} == full


@pytest.mark.slow
def test_blocks_of_the_most_retrieved_chunks_are_reused_at_any_place(runner: Pkb) -> None:
    runner("config", "set", "kv.reuse", "blocks")
    row = runner("idle", "--force", "--json").row
    assert "prefetch" in {unit["job"] for unit in units(row)}
    found = tokens(runner, ASKED[0])
    assert found["reused"] > 0.8 * found["prompt"]


def test_a_second_idle_run_exits_at_once_and_prints_nothing(runner: Pkb) -> None:
    with Locks(runner.folder / "home" / "locks").sole("idle") as alone:
        assert alone
        ran, row = runner("idle"), runner("idle", "--json").row
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert row["reason"] == "another pkb idle is running"


@pytest.mark.slow
def test_while_tables_are_rewritten_it_exits_and_gives_the_reason_only_if_asked(runner: Pkb) -> None:
    with Locks(runner.folder / "home" / "locks").exclusive():
        ran = runner("idle", "-v")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "pkb: nothing done: another pkb is rewriting its tables\n"


@pytest.mark.slow  # test_idle_budget holds that a run is stopped in time
def test_a_term_signal_ends_it_and_what_was_done_stays_done(runner: Pkb) -> None:
    """Stop it after its first job, at low priority; what is left is done the next time."""
    planned = units(runner("idle", "--dry-run", "--json").row)
    command, env = [sys.executable, "-m", "cli.app", "idle"], environment(runner.folder)
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _wait(lambda: rows(runner, "SELECT count(*) FROM kv_nodes")[0][0] > 0)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) > os.getpriority(os.PRIO_PROCESS, 0)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (143, 0)  # 0: it had ended before
    assert b"Traceback" not in err
    assert bool(out) is (process.returncode == 0)
    assert runner("doctor", "--data", "--read-data", "--json").row["sound"]
    assert rows(runner, "SELECT count(*) FROM kv_nodes")[0][0] > 0
    subprocess.run(command, env=env, capture_output=True, check=True)
    stored = rows(runner, "SELECT count(*) FROM kv_nodes")[0][0]
    assert stored >= len(planned)  # more, if the first run got far: each goes further back than the one before


LATER = {"PKB_NOW": "2024-06-19T20:00"}  # the evening of the day that the bundled data ends


def test_after_new_mail_answers_are_refreshed_and_the_next_one_who_asks_is_told(pkb: Pkb, tmp_path: Path) -> None:
    question, folder = "Where does the sewing circle meet?", tmp_path / "more"
    pkb("config", "set", "idle.when", "always")
    mail(folder, 1, "The sewing circle meets in the old library on Mondays.")
    pkb("ingest", str(folder))
    before = pkb("ask", question, "--json").row["answer"]
    mail(folder, 2, "The sewing circle meets in the boat house from now on.")
    pkb("ingest", str(folder))
    row = pkb("idle", "--json").row
    done = {(unit["job"], unit["state"]) for unit in units(row)}
    assert done == {("refresh", "done"), ("standing", "done")}
    ran = pkb("ask", question)
    assert "boat house" in ran.out
    first = ran.out.splitlines()[0]
    assert first.startswith("Changed by Sewing circle 2 · ")
    assert first.endswith(f"before: “{before}”")
    assert "Changed" not in pkb("ask", question).out


def test_an_answer_that_new_mail_changes_says_so_first(pkb: Pkb, tmp_path: Path) -> None:
    question, folder = "Where does the sewing circle meet?", tmp_path / "more"
    mail(folder, 1, "The sewing circle meets in the old library on Mondays.")
    pkb("ingest", str(folder))
    before = pkb("ask", question, "--json").row
    assert before["correction"] is None
    mail(folder, 2, "The sewing circle meets in the boat house from now on.")
    pkb("ingest", str(folder))
    row = pkb("ask", question, "--json").row
    assert (row["correction"]["kind"], row["correction"]["before"]) == ("changed", before["answer"])
    assert row["correction"]["cause"]["title"] == "Sewing circle 2"
    assert pkb("ask", question, "--json").row["correction"] is None


def test_after_a_quiet_time_predicted_questions_are_answered(pkb: Pkb) -> None:
    pkb("config", "set", "idle.when", "always")
    pkb("config", "set", "predict.standing", "")
    for name in ("Ann Baker", "Ben Carter"):
        pkb("ask", f"What did {name} say about cake?")
    row = pkb("idle", "--json", env=LATER).row
    assert {unit["state"] for unit in units(row)} == {"done"}
    kinds = [unit["job"] for unit in units(row)]
    assert list(dict.fromkeys(kinds)) == ["predict", "populate"]
    predicted = [unit["what"] for unit in row["units"] if unit["job"] == "populate"]
    assert pkb("ask", predicted[0], "--json").row["tier"] == "exact"
    paid = job_of(pkb("stats", "--json").row["idle"]["so_far"], "populate")
    assert (paid["units"], paid["hits"]) == (len(predicted), 1)
    assert 0 < paid["saved_s"] < paid["seconds"]
    idle = pkb("stats", "--json").row["idle"]
    assert (idle["predicted"], idle["asked_later"]) == (len(predicted), 1)


def test_a_clock_that_was_set_back_delays_nothing(pkb: Pkb) -> None:
    pkb("ask", "When is the summer concert?", env=LATER)
    session = Session(environment(pkb.folder))
    with closing(session.ledger):
        assert is_quiet(session)


@pytest.mark.slow  # two runs
def test_while_predicted_answers_are_not_used_questions_are_prefilled_and_once_one_is_answered(runner: Pkb) -> None:
    unused = CachedAnswer(
        "Why?", "{}", "w/5", None, "{}", (), 1, "full", 1.0, 1.0, origin="predicted", source="history"
    )
    with closing(open_ledger(runner.folder / "home" / "ledger.db")) as ledger:
        for number in range(60):
            AnswerBank(ledger).put(bytes([number]), unused, 1 << 20)
    queue(runner, NEW)
    assert outcomes(runner("idle", "--json").row, "populate") == ["done"]
    assert rows(runner, "SELECT origin FROM answers WHERE state = 'prefilled'") == [("predicted",)]
    with closing(open_ledger(runner.folder / "home" / "ledger.db")) as ledger:
        AnswerBank(ledger).record_use(bytes(1), 1, 1.0, ())
    runner("config", "set", "idle.ahead", "0")
    row = runner("idle", "--json").row
    assert outcomes(row, "refresh") == ["done"]
    assert rows(runner, "SELECT * FROM kv_counts WHERE kind IN ('hit', 'partial')") == []  # nobody asked
    assert rows(runner, "SELECT sum(uses) FROM kv_nodes") == [(0,)]
    assert runner("ask", NEW, "--json").row["tier"] == "exact"


def test_after_a_question_nothing_runs_for_a_while(runner: Pkb) -> None:
    runner("config", "set", "idle.when", "free")
    ran, row = runner("idle"), runner("idle", "--json").row
    assert (ran.code, ran.out, ran.err, row["units"]) == (0, "", "", [])
    assert row["reason"]
    assert rows(runner, "SELECT count(*) FROM kv_nodes") == [(0,)]


@pytest.mark.slow
def test_killed_at_any_moment_the_next_run_goes_on(runner: Pkb) -> None:
    """Kill it at any moment; at most the job that was running is done once more."""
    queue(runner, NEW)
    command, env = [sys.executable, "-m", "cli.app", "idle"], environment(runner.folder)
    for nodes in (1, 3):
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _wait(partial(_nodes, runner, nodes))
        process.kill()
        process.communicate()
    assert all(attempts <= 2 for (attempts,) in rows(runner, "SELECT attempts FROM jobs"))
    row = runner("idle", "--json").row
    assert states(row) <= {"done", "cached"}
    assert rows(runner, "SELECT count(*) FROM jobs") == [(0,)]
    assert runner("doctor", "--data", "--read-data", "--json").row["sound"]
    assert runner("ask", NEW, "--json").row["tier"] == "exact"


def mail(folder: Path, number: int, text: str) -> None:
    """Write a mail."""
    folder.mkdir(exist_ok=True)
    head = f"From: Ann <ann@example.org>\nTo: Me <me@example.org>\nMessage-ID: <{number}@sewing>\n"
    head += f"Subject: Sewing circle {number}\n"
    (folder / f"{number}.eml").write_text(f"{head}Date: Mon, {number} Jun 2024 10:00:00 +0000\n\n{text}\n")


def queue(pkb: Pkb, question: str) -> None:
    """Queue a predicted question."""
    with closing(open_ledger(pkb.folder / "home" / "ledger.db")) as ledger:
        Jobs(ledger).offer([JobRow("populate", question, 1.0, 1.0, 0.0, "history/model")])


def _nodes(pkb: Pkb, least: int) -> bool:
    return bool(rows(pkb, "SELECT count(*) FROM kv_nodes")[0][0] >= least)


def job_of(rows: list[dict[str, Any]], job: str) -> dict[str, Any]:
    (found,) = [one for one in rows if one["job"] == job]
    return found


def outcomes(row: dict[str, Any], job: str) -> list[str]:
    return [unit["state"] for unit in row["units"] if unit["job"] == job]


def _wait(there: Callable[[], bool]) -> None:
    for _ in range(3000):  # a process of low priority may wait long
        if there():
            return
        time.sleep(0.1)
    pytest.fail("nothing was prefetched in five minutes")
