"""Compute from the front while a thread loads from the back, until both meet.

Knows units by number: a function computes one, another loads one in the thread. No model, no file.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread
from types import TracebackType
from typing import Self

from engine.kv.planners import Unit

_JOIN_S = 0.1  # for a read that is not needed any more; the thread ends by itself after it
_LEAST_S = 1e-3  # between two looks at the loader
_SLOWEST = 100.0  # a sub-step that took longer was interrupted, and says nothing of the next
_POLLS = 8  # looks at the loader while waiting for as long as computing a unit takes


def _nothing() -> None:
    """Cancel nothing."""


@dataclass(slots=True)
class Loader:
    """A thread that loads units from the back; mutable, used by the thread that computes.

    `load` is called with a unit's number; what it raises of `failures` ends loading, and `error` holds it. `cancel`
    ends a load that is not needed any more. Units from `back` on are loaded.
    """

    units: Sequence[Unit]
    load: Callable[[int], None]
    failures: tuple[type[Exception], ...] = ()
    cancel: Callable[[], object] = _nothing
    error: Exception | None = None
    back: int = 0
    seconds: float = 0.0  # that units from `back` on took
    _front: int = 0
    _claimed: int | None = None
    _since: float = 0.0  # when the claimed unit was begun
    _begun: float = 0.0  # when the last unit was taken to be computed
    _slowness: float = 1.0  # of computing, against what was expected
    _stopped: bool = False
    _changed: Condition = field(default_factory=Condition)
    _thread: Thread | None = None

    def __enter__(self) -> Self:
        self.back = len(self.units)
        self._thread = Thread(target=self._run, name="kv-load", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        if self._thread:
            self.cancel()
            self._thread.join(_JOIN_S)

    @property
    def computed(self) -> int:
        """Return the number of units that were handed out to be computed, those in front."""
        return self._front

    def next(self) -> int | None:
        """Return the unit to compute now, None where all others are loaded; waits where loading them is sooner."""
        self._learn()
        with self._changed:
            while self._front < self.back:
                wait = self.units[self._front].compute_s * self._slowness
                if self._stopped or self._rest_s() > wait:
                    return self._take()
                self._changed.wait(max(wait / _POLLS, _LEAST_S))
            return None

    def _learn(self) -> None:
        """Compare the time of the last unit with what was expected of it."""
        if self._front:
            expected = self.units[self._front - 1].compute_s
            passed = time.perf_counter() - self._begun
            self._slowness = min(_SLOWEST, passed / max(expected, 1e-9))

    def _take(self) -> int:
        """Take the unit in front; one that the thread is still loading is not waited for any longer."""
        taken, self._front, self._begun = self._front, self._front + 1, time.perf_counter()
        if taken == self._claimed:
            self._claimed, self._stopped = None, True
        return taken

    def _rest_s(self) -> float:
        """Estimate the seconds until the thread has loaded all units that are left."""
        pace, left = self._pace(), self.units[self._front : self.back]
        if self._claimed is None:
            return pace * sum(map(_weight, left))
        passed, weight = time.perf_counter() - self._since, _weight(self.units[self._claimed])
        remaining = pace * weight - passed
        if remaining < 0:  # overdue: it may take as long again
            remaining, pace = passed, max(pace, passed / weight)
        return remaining + pace * sum(map(_weight, left[:-1]))

    def _pace(self) -> float:
        """Return the seconds of one unit of weight so far, before any as expected, 0 where nothing was."""
        loaded = sum(map(_weight, self.units[self.back :]))
        return self.seconds / loaded if loaded else float(all(unit.load_s is not None for unit in self.units))

    def _run(self) -> None:
        try:
            while (unit := self._claim()) is not None:
                self.load(unit)
                if not self._finish(unit):
                    return
        except self.failures as error:
            self.error = error
        finally:
            self._stop()

    def _claim(self) -> int | None:
        with self._changed:
            if self._stopped or self.back <= self._front:
                return None
            self._claimed, self._since = self.back - 1, time.perf_counter()
            return self._claimed

    def _finish(self, unit: int) -> bool:
        """Count a unit as loaded, unless it was computed meanwhile."""
        with self._changed:
            if self._claimed != unit:
                return False
            self.back, self._claimed = unit, None
            self.seconds += time.perf_counter() - self._since
            self._changed.notify_all()
            return True

    def _stop(self) -> None:
        with self._changed:
            self._stopped, self._claimed = True, None
            self._changed.notify_all()


def _weight(unit: Unit) -> float:
    """Return the expected seconds of loading a unit; its tokens where nothing is known."""
    return max(unit.load_s, 1e-9) if unit.load_s is not None else float(max(unit.tokens, 1))
