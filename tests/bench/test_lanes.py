"""Jobs run side by side; those that fail or come too late are told from those that are done."""

import os
import sys
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.bench.lanes import QUIET, Job, lanes, left, ordered, work


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a module among the measurements that says on what it runs, or fails."""
    text = (
        "import os, sys\n"
        "threads = os.environ['OPENBLAS_NUM_THREADS']\n"
        "cores = len(os.sched_getaffinity(0)) if sys.platform == 'linux' else 1\n"
        "print(*sys.argv[1:], threads, cores)\n"
        "sys.exit('bad' in sys.argv)\n"
    )
    (tmp_path / "tests" / "bench").mkdir(parents=True)
    for folder in ("tests", "tests/bench"):
        (tmp_path / folder / "__init__.py").write_text("", "utf-8")
    (tmp_path / "tests" / "bench" / "said.py").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)


def never() -> bool:
    """Be in time."""
    return False


def test_what_a_job_prints_has_its_name_only_where_it_did_not_fail(module: None, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.txt" for name in ("good", "bad")}
    jobs = [Job(name, ["said", name], 1.0, file) for name, file in files.items()]
    done = {one.job.name: one.failed for one in work(jobs, lanes(), never)}
    assert done == {"good": False, "bad": True}
    assert files["good"].read_text("utf-8").split() == ["good", "1", "1"]
    assert not files["bad"].exists()


def test_the_longest_goes_first_and_then_the_shortest_where_time_is_limited() -> None:
    jobs = [Job(name, [], seconds) for name, seconds in (("a", 1.0), ("b", 9.0), ("c", 5.0), ("d", 3.0))]
    assert [job.name for job in ordered(jobs, limited=False)] == ["b", "c", "d", "a"]
    assert [job.name for job in ordered(jobs, limited=True)] == ["b", "a", "d", "c"]


def test_nothing_begins_when_it_is_late(module: None) -> None:
    jobs = [Job("long", ["said"], 9.0), Job("between", ["said"], 5.0), Job("short", ["said"], 1.0)]
    began = list[str]()

    def late() -> bool:
        return len(began) >= 2

    for one in work(jobs, [None], late):
        began.append(one.job.name)
    assert began == ["long", "between"]


def test_jobs_whose_results_nobody_awaits_are_ended(module: None, tmp_path: Path) -> None:
    (tmp_path / "tests" / "bench" / "slow.py").write_text(
        "import time\nprint(1, flush=True)\ntime.sleep(60)\n", "utf-8"
    )
    with closing(work([Job("slow", ["slow"], 9.0), Job("quick", ["said"], 1.0)], [None, None], never)) as found:
        assert next(found).job.name == "quick"
    assert not [one for one in psutil.Process().children() if "tests.bench.slow" in one.cmdline()]


def test_what_is_left_follows_the_pace_of_what_is_done() -> None:
    jobs = [Job("one", [], 10.0), Job("two", [], 20.0), Job("three", [], 40.0)]
    assert left(jobs, {}, 2) == 35.0
    assert left(jobs, {"one": 5.0}, 2) == 15.0
    assert left(jobs, {"one": 5.0, "two": 10.0, "three": 40.0}, 2) == 0.0


def test_there_are_at_most_two_lanes_each_with_one_thread() -> None:
    assert 1 <= len(lanes()) <= 2
    assert set(QUIET) >= {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}
    assert sys.platform != "linux" or set(lanes()) <= os.sched_getaffinity(0)
