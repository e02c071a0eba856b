"""Parallel jobs; failed and late ones are distinguished from finished ones."""

import os
import sys
from contextlib import closing
from pathlib import Path
from time import time

import psutil
import pytest

from tests.bench.lanes import QUIET, Job, lanes, left, ordered, share, work


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


NEVER = float("inf")


def test_what_a_job_prints_has_its_name_only_where_it_did_not_fail(module: None, tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.txt" for name in ("good", "bad")}
    jobs = [Job(name, ["said", name], 1.0, file) for name, file in files.items()]
    done = {one.job.name: one.failed for one in work(jobs, lanes(), NEVER)}
    assert done == {"good": False, "bad": True}
    assert files["good"].read_text("utf-8").split() == ["good", "1", "1"]
    assert not files["bad"].exists()


def test_the_longest_goes_first_but_of_what_can_be_cut_short_the_shortest() -> None:
    sizes = (("a", 1.0), ("b", 9.0), ("c", 5.0), ("d", 3.0))
    jobs = [Job(name, [], seconds, limited=name in "bd") for name, seconds in sizes]
    assert [job.name for job in ordered(jobs, limited=False)] == ["b", "c", "d", "a"]
    assert [job.name for job in ordered(jobs, limited=True)] == ["c", "a", "d", "b"]


def test_nothing_begins_when_it_is_late(module: None, tmp_path: Path) -> None:
    (tmp_path / "tests" / "bench" / "nap.py").write_text("import time\ntime.sleep(1)\n", "utf-8")
    jobs = [Job(name, ["nap"], 1.0) for name in ("first", "second")]
    assert [one.job.name for one in work(jobs, [None], time() + 0.5)] == ["first"]
    assert list(work(jobs, [None], time())) == []


def test_a_job_has_its_share_of_the_time_that_is_left() -> None:
    jobs = [Job("one", [], 30.0), Job("two", [], 60.0), Job("three", [], 30.0)]
    assert (share(jobs, 60.0), share(jobs[2:], 12.0)) == (15.0, 12.0)
    assert share(jobs, NEVER) == NEVER


def test_a_job_that_can_be_cut_short_is_told_when(module: None, tmp_path: Path) -> None:
    files, end = [tmp_path / f"{number}.txt" for number in range(2)], time() + 1000
    jobs = [Job(str(number), ["said"], 1.0, file, limited=not number) for number, file in enumerate(files)]
    assert len(list(work(jobs, [None], end))) == 2
    said = [file.read_text("utf-8").split() for file in files]
    assert said[0][0] == "--until"
    assert end - 501 < float(said[0][1]) < end - 450
    assert "--until" not in said[1]


def test_jobs_whose_results_nobody_awaits_are_ended(module: None, tmp_path: Path) -> None:
    (tmp_path / "tests" / "bench" / "slow.py").write_text(
        "import time\nprint(1, flush=True)\ntime.sleep(60)\n", "utf-8"
    )
    with closing(work([Job("slow", ["slow"], 9.0), Job("quick", ["said"], 1.0)], [None, None], NEVER)) as found:
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
