"""Runs commands two at a time, each on its own core with one BLAS thread. Knows no measurement.

What is measured so shares the memory and its bandwidth with a neighbour; where there is one core, or a GPU that both
would wait for, there is one lane.
"""

import os
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic, sleep, time

from engine.models.runtime import THREADS, device

MOST, POLL_S = 2, 0.1
QUIET = {**dict.fromkeys(THREADS, "1"), "TOKENIZERS_PARALLELISM": "false"}


@dataclass(frozen=True, slots=True)
class Job:
    """A module and its words, the seconds that it may take on one core, and where what it prints is kept.

    One that is `limited` takes the moment at which it is to end (`--until`, seconds since the epoch).
    """

    name: str
    words: Sequence[str]
    seconds: float
    file: Path | None = None
    limited: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a job."""

    job: Job
    seconds: float
    failed: bool


@dataclass(slots=True)
class Running:
    """A job at work."""

    job: Job
    process: "subprocess.Popen[bytes]"
    lane: int
    begun: float
    until: float  # seconds since the epoch


def lanes() -> list[int | None]:
    """Return the core of each lane; None where it is left to the system."""
    if device() != "cpu":
        return [None]
    if sys.platform == "linux":
        return [*sorted(os.sched_getaffinity(0))[:MOST]]
    return [None] * min(MOST, os.cpu_count() or 1)


def ordered(jobs: Sequence[Job], *, limited: bool) -> list[Job]:
    """Put the longest first, so that all lanes end together.

    Where time is limited, those that can be cut short come last, the shortest of them first: a round of a long one may
    take much longer than its share, and the short ones would be left with none.
    """

    def place(job: Job) -> tuple[bool, float]:
        last = limited and job.limited
        return last, job.seconds if last else -job.seconds

    return sorted(jobs, key=place)


def work(jobs: Sequence[Job], cores: Sequence[int | None], until: float) -> Generator[Done, None, None]:
    """Do the jobs in their order until a moment, yielding each when it ends; one that has not begun by then is left."""
    waiting, running = list(jobs), list[Running]()
    with ExitStack() as held:
        held.callback(_stop, running)
        while waiting or running:
            for lane in sorted(set(range(len(cores))) - {one.lane for one in running}):
                if waiting and time() < until:
                    end = _end(waiting, running, len(cores), until)
                    running.append(_begin(waiting.pop(0), lane, cores[lane], end))
            if not running:
                return
            sleep(POLL_S)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                yield _ended(one)


def left(jobs: Sequence[Job], done: Mapping[str, float], count: int) -> float:
    """Estimate the seconds that are left, by what the jobs that are done took of what they were thought to take."""
    known = [job for job in jobs if job.name in done]
    thought, rest = sum(job.seconds for job in known), sum(job.seconds for job in jobs if job.name not in done)
    pace = sum(done[job.name] for job in known) / thought if thought else 1.0
    return rest * pace / count


def _end(waiting: Sequence[Job], running: Sequence[Running], count: int, until: float) -> float:
    """Return the moment at which the next job is to end, so that those behind it have their share of what is left."""
    if until == inf:
        return until
    now = time()
    return now + share(waiting, count * (until - now) - sum(max(0.0, one.until - now) for one in running))


def share(waiting: Sequence[Job], free: float) -> float:
    """Return seconds that the first job may take of those that all lanes have left: as it was thought to, of all."""
    return free * waiting[0].seconds / sum(job.seconds for job in waiting)


def _begin(job: Job, lane: int, core: int | None, until: float) -> Running:
    limit = ["--until", str(until)] if job.limited else []
    command = [sys.executable, "-m", f"tests.bench.{job.words[0]}", *job.words[1:], *limit]
    with ExitStack() as held:
        out = held.enter_context(_part(job.file).open("wb")) if job.file else subprocess.DEVNULL
        process = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=out)
    if core is not None and sys.platform == "linux":
        with suppress(ProcessLookupError):  # it has ended already
            os.sched_setaffinity(process.pid, {core})
    return Running(job, process, lane, monotonic(), until)


def _ended(one: Running) -> Done:
    """Sum up a job that has ended; its file has its name only where it did not fail."""
    failed = one.process.returncode != 0
    if one.job.file and not failed:
        _part(one.job.file).replace(one.job.file)
    return Done(one.job, monotonic() - one.begun, failed)


def _part(file: Path) -> Path:
    return file.with_name(f"{file.name}.part")


def _stop(running: Sequence[Running]) -> None:
    """End what still runs when nobody waits for it any more."""
    for one in running:
        one.process.terminate()
        one.process.wait()
