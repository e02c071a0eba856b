"""Does units of idle work, best first: each is one segment read and kept, and between two the limits are looked at.

A unit that is broken off leaves nothing behind but what was kept before it. Knows no plan and no home; what was kept
for questions never goes for what is only expected to be asked.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from engine.ask.prefill import Kept, Reading, keep, prefill
from engine.ask.trace import Trace
from engine.idle.units import Path, Unit
from store.kv_match import path_keys

State = Literal["done", "there", "time", "units", "room", "changed", "planned"]  # why a unit was left, where it was


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a unit, and what it took; bytes are those of the cache."""

    unit: Unit
    state: State
    seconds: float = 0.0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: seconds on the clock, and units."""

    until: float
    units: int


def work(
    reading: Reading, units: Sequence[Unit], limits: Limits, clock: Callable[[], float], changed: Callable[[], bool]
) -> Iterator[Done]:
    """Do the units that the limits and the free room allow, and yield each with what became of it.

    A unit is only begun where there is time for it, by what those before it took beside what they were thought to, and
    as long as the bank has not changed since they were planned: what it no longer holds must not be read.
    """
    kept, left, done, taken, thought = reading.kept, dict[Path, State](), 0, 0.0, 0.0
    assert kept, "there is nowhere to keep what is read"
    for unit in units:
        slower = max(1.0, taken / thought) if thought else 1.0
        late = clock() + unit.seconds * slower > limits.until
        state = "changed" if changed() else _why_not(unit, kept, left, late=late, enough=done >= limits.units)
        if state is None:
            begun, before = clock(), kept.store.peek.kept().bytes
            state = "done" if _read(reading, kept, unit.path) else "room"
            seconds, more = clock() - begun, kept.store.peek.kept().bytes - before
            done, taken, thought = done + 1, taken + seconds, thought + unit.seconds
            yield Done(unit, state, seconds, max(0, more))
        else:
            yield Done(unit, state)
        if state not in ("done", "there"):
            left[unit.path] = state


def is_kept(kept: Kept, path: Path) -> bool:
    """Tell whether the last segment of a path is kept."""
    return kept.store.peek.uses(path_keys(kept.root, path)[-1]) is not None


def _why_not(unit: Unit, kept: Kept, left: dict[Path, State], *, late: bool, enough: bool) -> State | None:
    """Say why a unit is not done; None where it is to be done."""
    if unit.path[:-1] in left:
        return left[unit.path[:-1]]
    if is_kept(kept, unit.path):
        return "there"
    if enough:
        return "units"
    if late:
        return "time"
    return "room" if unit.bytes > kept.store.free() else None


def _read(reading: Reading, kept: Kept, path: Path) -> bool:
    """Read a segment behind its prefix and keep it; False where there was no room after all."""
    with ExitStack() as held:
        read = prefill(reading, path, Trace(), held, asked=False)
        return len(read.nodes) + keep(kept, path, read, evict=False) == len(path)
