"""Compute from the front while a thread loads from the back, until both meet; nothing is waited for without end.

Knows units by number: a function computes one, another loads one in the thread. No model, no file.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from threading import TIMEOUT_MAX, Condition, Thread
from types import TracebackType
from typing import Self, TypeVar

from engine.kv.costs import Unit

T = TypeVar("T")
_JOIN_S = 0.1  # for a read that is not needed any more; the thread ends by itself after it
_HANGS_S = 2.0  # that a read which nobody waits for takes, from which the disk counts as hanging
_LONGEST_S = 1.0  # of one wait
_LEAST_S = 1e-3  # between two looks at the loader
_SLOWEST = 100.0  # a sub-step that took longer was interrupted, and says nothing of the next
_POLLS = 8  # looks at the loader while waiting for as long as computing a unit takes


def _nothing(*_: object) -> None:
    """Cancel or discard nothing."""


_given_up = list[tuple[Callable[[], bool], float]]()  # of all prompts: whether a read goes on, and when it was given up


def hangs(after_s: float = _HANGS_S) -> bool:
    """Return whether a read that was given up so long ago is still not over: another would cost a thread and a wait."""
    _given_up[:] = [(goes_on, since) for goes_on, since in _given_up if goes_on()]
    return any(time.monotonic() - since >= after_s for _, since in _given_up)


def within(
    until: float,
    work: Callable[[], T],
    failures: tuple[type[Exception], ...] = (),
    discard: Callable[[T], object] = _nothing,
) -> T | None:
    """Return what `work` returns in another thread, or raise what it raises of `failures`.

    None where it takes longer than to `until`, of time.perf_counter(): then `discard` gets what it returns later.
    """
    result, going_on = Future[T](), [True]

    def tell(found: T) -> None:
        if result.set_running_or_notify_cancel():
            result.set_result(found)
        else:
            discard(found)

    def fail(error: Exception) -> None:
        if result.set_running_or_notify_cancel():
            result.set_exception(error)

    def run() -> None:
        try:
            done = partial(tell, work())
        except failures as error:
            done = partial(fail, error)
        finally:
            going_on.clear()
        done()

    Thread(target=run, name="kv-open", daemon=True).start()
    try:
        with suppress(TimeoutError):
            return result.result(min(max(0.0, until - time.perf_counter()), TIMEOUT_MAX))
    finally:
        result.cancel()
    if not result.cancelled():
        return result.result()  # it came meanwhile
    _given_up.append((lambda: bool(going_on), time.monotonic()))
    return None


@dataclass(slots=True)
class Loader:
    """A thread that loads units from the back; mutable, used by the thread that computes.

    `load` is called with a unit's number; what it raises of `failures` ends loading, and `error` holds it. `cancel`
    ends a load that is not needed any more. Units from `back` on are loaded. Nothing is waited for from `until` on, of
    time.perf_counter(). With `fixed`, so many units in front are computed, and the others only where they do not come.
    """

    units: Sequence[Unit]
    load: Callable[[int], None]
    failures: tuple[type[Exception], ...] = ()
    cancel: Callable[[], object] = _nothing
    until: float = inf
    fixed: int | None = None
    error: Exception | None = None
    failed: int | None = None  # the unit that raised it
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
            if self._thread.is_alive():
                _given_up.append((self._thread.is_alive, time.monotonic()))

    def next(self) -> int | None:
        """Return the unit to compute now, None where all others are loaded; waits where loading them is sooner."""
        self._learn()
        with self._changed:
            while self._front < self.back:
                wait = self._wait_s()
                if self._stopped or wait <= 0:
                    return self._take()
                self._changed.wait(min(wait, _LONGEST_S))
            return None

    def _wait_s(self) -> float:
        """Return how long to wait for the thread before the unit in front is computed; not above 0 for not at all."""
        left = self.until - time.perf_counter()
        if self.fixed is not None:
            return left if self._front >= self.fixed else 0.0
        computing = self.units[self._front].compute_s * self._slowness
        return 0.0 if self._rest_s() > computing else min(left, max(computing / _POLLS, _LEAST_S))

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
        unit = None
        try:
            while (unit := self._claim()) is not None:
                self.load(unit)
                if not self._finish(unit):
                    return
        except self.failures as error:
            self.error, self.failed = error, unit
        finally:
            self._stop()

    def _claim(self) -> int | None:
        with self._changed:
            if self._stopped or self.back <= max(self._front, self.fixed or 0):
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
