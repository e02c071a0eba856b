"""Runs jobs side by side, each in a process on its own core with one BLAS thread."""

import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep, time

from cli.app import THREADS
from engine.models.runtime import device

WORKERS, POLL_S = 2, 0.1
QUIET = {**dict.fromkeys(THREADS, "1"), "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, slots=True)
class Job:
    """A module of tests.bench with its arguments, and the seconds that it is estimated to take.

    A job that is `limited` gets a deadline (`--until`, seconds since the epoch).
    """

    name: str
    words: Sequence[str]
    seconds: float
    limited: bool = False
    python: str = sys.executable


@dataclass(frozen=True, slots=True)
class Done:
    """A job that has ended."""

    job: Job
    seconds: float
    failed: bool


@dataclass(frozen=True, slots=True)
class Running:
    """A job in progress."""

    job: Job
    process: "subprocess.Popen[bytes]"
    core: int | None
    begun: float
    until: float  # seconds since the epoch


def cores() -> list[int | None]:
    """Return the core of each worker, None where the system chooses; one worker where jobs would share a GPU."""
    if device() != "cpu":
        return [None]
    if sys.platform == "linux":
        return [*sorted(os.sched_getaffinity(0))[:WORKERS]]
    return [None] * min(WORKERS, os.cpu_count() or 1)


def ordered(jobs: Sequence[Job], *, limited: bool) -> list[Job]:
    """Sort the longest first; where time is limited, jobs with a deadline come last, the shortest of them first."""
    return sorted(jobs, key=lambda job: (True, job.seconds) if limited and job.limited else (False, -job.seconds))


def run(jobs: Sequence[Job], free: Sequence[int | None], until: float) -> Generator[Done, None, None]:
    """Run jobs in their order until a moment, yielding each when it ends; jobs not begun by then are left out."""
    waiting, running, free = list(jobs), list[Running](), list(free)
    count = len(free)
    try:
        while waiting or running:
            while free and waiting and time() < until:
                end = deadline(waiting, running, count, until)
                running.append(_begin(waiting.pop(0), free.pop(0), end))
            if not running:
                return
            sleep(POLL_S)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                free.append(one.core)
                yield Done(one.job, monotonic() - one.begun, one.process.returncode != 0)
    finally:
        for one in running:
            one.process.terminate()
            one.process.wait()


def deadline(waiting: Sequence[Job], running: Sequence[Running], count: int, until: float) -> float:
    """Return the end of the first waiting job: its share, by its estimate, of the time that is left to all of them."""
    if until == float("inf"):
        return until
    now = time()
    left = count * (until - now) - sum(max(0.0, one.until - now) for one in running)
    return now + left * waiting[0].seconds / sum(job.seconds for job in waiting)


def _begin(job: Job, core: int | None, until: float) -> Running:
    limit = ["--until", str(until)] if job.limited else []
    command = [job.python, "-m", f"tests.bench.{job.words[0]}", *job.words[1:], *limit]
    process = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=subprocess.DEVNULL)
    if core is not None and sys.platform == "linux":
        with suppress(ProcessLookupError):  # it has ended already
            os.sched_setaffinity(process.pid, {core})
    return Running(job, process, core, monotonic(), until)
