"""The costs of computing and loading KV on this machine, learnt from every prompt, and the share of each.

A planner says how many of a prompt's cached tokens to compute, from the front, while a thread loads the rest from the
back, until both meet; every wait has a limit. Knows tokens, bytes and seconds, and where the figures are
stored; no model and no file.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from threading import Condition, Thread
from typing import Annotated, Literal, Self

from msgspec import Meta, Struct, json
from msgspec.structs import astuple

from store.database import Ledger

_MEMORY = 0.9  # weight of what was seen before, at each observation: about the last ten count
_DRIFT = 2.0  # a prediction off by this factor twice in a row: everything is measured again
_LEAST_S = 1e-6
_Sum = Annotated[float, Meta(ge=0)]
_ENOUGH = 1.2  # summed weight of observations below which nothing is predicted: one alone may be an outlier


class CostFit(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Seconds as a sum of two terms, a x + b y, with a and b at least 0.

    Least squares of relative errors: of x/s, y/s against 1, where s are the seconds observed. Newer ones count more.
    """

    xx: _Sum = 0.0
    xy: _Sum = 0.0
    yy: _Sum = 0.0
    x: _Sum = 0.0
    y: _Sum = 0.0
    weight: _Sum = 0.0
    drift: _Sum = 0.0  # how the last observation was off: 1 slower than predicted, 2 faster

    @property
    def terms(self) -> tuple[float, float]:
        """Return a and b, in seconds for one of x and of y."""
        determinant = self.xx * self.yy - self.xy * self.xy
        if determinant > 1e-9 * self.xx * self.yy:
            a = (self.x * self.yy - self.y * self.xy) / determinant
            b = (self.y * self.xx - self.x * self.xy) / determinant
            if a >= 0 and b >= 0:
                return a, b
        # Keep only the term that explains more.
        of_x, of_y = (one / other if other else 0.0 for one, other in ((self.x, self.xx), (self.y, self.yy)))
        return (of_x, 0.0) if of_x * self.x >= of_y * self.y else (0.0, of_y)

    def seconds(self, x: float, y: float) -> float | None:
        """Predict the seconds of x and y; None before anything was observed."""
        if self.weight < _ENOUGH:
            return None
        a, b = self.terms
        return a * x + b * y

    def observe(self, x: float, y: float, seconds: float) -> "CostFit":
        """Return the fit with one more observation; one below a microsecond, which no clock resolves, is left out."""
        if not (_LEAST_S <= seconds < inf and x + y > 0):
            return self
        expected, drift = self.seconds(x, y), 0.0
        if expected is not None and not 1 / _DRIFT < seconds / max(expected, 1e-12) < _DRIFT:
            drift = 1.0 if seconds > expected else 2.0
        old = CostFit() if drift and drift == self.drift else CostFit(*(_MEMORY * value for value in astuple(self)))
        u, v = x / seconds, y / seconds
        return CostFit(old.xx + u * u, old.xy + u * v, old.yy + v * v, old.x + u, old.y + v, old.weight + 1, drift)


def _attended(start: int, stop: int) -> tuple[float, float]:
    """Return the number of tokens, and the number of (token, earlier token) pairs that attention computes."""
    return stop - start, (stop - start) * (start + stop) / 2


_NAME, _LOAD = "kv.costs", "load"  # the small value of the ledger, and what it calls loading
_MODELS = 8  # of which the costs are kept, those used last


class MeasuredCosts:
    """The costs of one model on this machine, kept in the ledger; mutable.

    Those of prefill, by tokens and by tokens they attend to, are kept for each root, which names model and arithmetic;
    those of loading, by files and bytes, for the machine.
    """

    def __init__(self, ledger: Ledger, root: str) -> None:
        self._ledger, self._root, known = ledger, root, known_costs(ledger)
        self.prefill, self.load = self._saved = known.get(root, CostFit()), known.get(_LOAD, CostFit())
        self._is_first = True

    def prefill_s(self, start: int, stop: int) -> float | None:
        """Predict the seconds of computing the tokens from one position to another."""
        return self.prefill.seconds(*_attended(start, stop))

    def record_prefill(self, start: int, stop: int, seconds: float) -> None:
        """Learn from tokens that were computed; not from the first of a process, which warms up the model."""
        if not self._is_first:
            self.prefill = self.prefill.observe(*_attended(start, stop), seconds)
        self._is_first = False

    def record_load(self, files: int, size: int, seconds: float) -> None:
        """Learn from files that were loaded."""
        self.load = self.load.observe(files, size, seconds)

    def save(self) -> None:
        """Write what was learnt since the last time, in place of what another process has of this model."""
        if (self.prefill, self.load) == self._saved:
            return
        others = [one for one in known_costs(self._ledger).items() if one[0] not in (self._root, _LOAD)]
        newest = dict(others[1 - _MODELS :]) | {self._root: self.prefill, _LOAD: self.load}
        self._ledger.set(_NAME, json.encode(newest).decode())
        self._saved = self.prefill, self.load


def known_costs(ledger: Ledger) -> dict[str, CostFit]:
    """Return all costs measured on this machine: of prefill by root, and of loading; what is damaged starts anew."""
    with suppress(ValueError):
        return json.decode(ledger.get(_NAME) or "{}", type=dict[str, CostFit])
    return {}


_CALIBRATIONS = "kv.calibrations"  # the small value of the ledger
_COUNTS = (64, 128, 256, 512, 1024, 2048)  # tokens of the calls that are tried; mlx-lm's own have 2,048
_LONG_S = 0.5  # of a call, in which what every call costs does not show any more
_NEAR_BEST = 0.9  # share of the best rate
Seconds = Callable[[int], float]  # returns those of so many tokens


class Calibration(Struct, frozen=True):
    """What was measured of a model on a GPU: the tokens of a step, and how long `tokens` take both ways."""

    model: str
    sub_step: int
    tokens: int
    compute_s: float
    restore_s: float

    @property
    def saves_time(self) -> bool:
        """Return whether restoring is sooner than computing."""
        return self.restore_s < self.compute_s

    def __str__(self) -> str:
        step = f"{self.model}: steps of {self.sub_step:,} tokens"
        if self.saves_time:
            return step
        times = f"{self.compute_s * 1000:.0f} ms, loading them {self.restore_s * 1000:.0f} ms"
        return f"{step}, no KV cache is kept: computing {self.tokens:,} tokens takes {times}"


def calibrate(model: str, most: int, compute_s: Seconds, restore_s: Seconds) -> Calibration:
    """Find a model's step: twice the fewest tokens, and `most` of them, at which a call is near its best rate.

    Half a step is what neighbouring segments are joined to.
    """
    rates, count, taken = dict[int, float](), 0, 0.0
    for count in (count for count in _COUNTS if count <= max(most, _COUNTS[0])):
        taken = compute_s(count)
        rates[count] = count / max(taken, _LEAST_S)
        if taken > _LONG_S:
            break
    enough = min(count for count, rate in rates.items() if rate >= _NEAR_BEST * max(rates.values()))
    return Calibration(model, 2 * enough, count, taken, restore_s(count))


def calibration(ledger: Ledger, root: str, measure: Callable[[], Calibration]) -> Calibration:
    """Return what was measured under a root, once and for good: with another step its tensors would differ."""
    known = calibrations(ledger)
    if root not in known:
        known[root] = measure()
        ledger.set(_CALIBRATIONS, json.encode(known).decode())
    return known[root]


def calibrations(ledger: Ledger) -> dict[str, Calibration]:
    """Return all calibrations by root; what is damaged is measured anew."""
    with suppress(ValueError):
        return json.decode(ledger.get(_CALIBRATIONS) or "{}", type=dict[str, Calibration])
    return {}


Way = Literal["load", "compute", "overlap"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A sub-step of a cached segment: tokens, bytes, and the seconds to compute and to load it (None: not known)."""

    tokens: int
    size: int
    compute_s: float
    load_s: float | None


Planner = Callable[[Sequence[Unit]], Way]  # whether to load, to compute or to do both until they meet


def loading_s(units: Sequence[Unit]) -> float | None:
    """Return the seconds of loading all units; None if they are not known."""
    known = [unit.load_s for unit in units if unit.load_s is not None]
    return sum(known) if len(known) == len(units) else None


def computing_s(units: Sequence[Unit]) -> float:
    """Return the seconds of computing all units."""
    return sum(unit.compute_s for unit in units)


def overlap_s(units: Sequence[Unit]) -> float:
    """Return the seconds of computing from the front while a thread loads from the back, until both meet (Cake)."""
    return min(max(computing_s(units[:at]), loading_s(units[at:]) or 0.0) for at in range(len(units) + 1))


_CLEAR = 1.05  # one way alone may take this many times as long as both at once
_NOTHING_S = 0.02  # which nobody notices
_NOTHING = 4 << 20  # bytes that any local disk reads in about that time: loaded where nothing was measured yet


def auto(units: Sequence[Unit]) -> Way:
    """Take the faster way alone unless both at once gain more than a twentieth."""
    t_l, t_c = loading_s(units), computing_s(units)
    if t_l is None:
        return "overlap" if sum(unit.size for unit in units) > _NOTHING else "load"
    if min(t_l, t_c) <= max(overlap_s(units) * _CLEAR, _NOTHING_S):
        return "load" if t_l <= t_c else "compute"
    return "overlap"


_JOIN_S = 0.1  # for a read that is not needed any more; the thread ends by itself after it
_LONGEST_S = 1.0  # of one wait
_SHORTEST_S = 1e-3  # between two looks at the loader
_POLLS = 8  # looks at the loader while waiting for as long as computing a unit takes


@dataclass(slots=True)
class Loader:
    """A thread that loads units from the back; mutable, used by the thread that computes.

    `load` is called with a unit's number; what it raises of `failures` ends loading. `cancel`
    ends a load that is not needed any more. Units from `back` on are loaded. It stops waiting at `until`, of
    time.perf_counter(). If it `waits`, units are computed only if loading them fails.
    """

    units: Sequence[Unit]
    load: Callable[[int], None]
    failures: tuple[type[Exception], ...] = ()
    cancel: Callable[[], object] = lambda: None
    until: float = inf
    waits: bool = False
    failed: int | None = None  # the unit that raised one of these
    back: int = 0
    seconds: float = 0.0  # that units from `back` on took
    _front: int = 0
    _claimed: int | None = None
    _since: float = 0.0  # when the claimed unit was begun
    _stopped: bool = False
    _changed: Condition = field(default_factory=Condition)
    _thread: Thread | None = None

    def __enter__(self) -> Self:
        self.back = len(self.units)
        self._thread = Thread(target=self._run, name="kv-load", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        if self._thread:
            self.cancel()
            self._thread.join(_JOIN_S)

    def next(self) -> int | None:
        """Return the unit to compute now; None if all others are loaded; waits where loading them is sooner."""
        with self._changed:
            while self._front < self.back:
                left = self.until - time.perf_counter()
                computing = self.units[self._front].compute_s
                if self.waits:
                    wait = left
                elif self._rest_s() > computing:
                    wait = 0.0
                else:
                    wait = min(left, max(computing / _POLLS, _SHORTEST_S))
                if self._stopped or wait <= 0:
                    taken, self._front = self._front, self._front + 1
                    if taken == self._claimed:  # the thread is still loading it, and is not waited for any longer
                        self._claimed, self._stopped = None, True
                    return taken
                self._changed.wait(min(wait, _LONGEST_S))
            return None

    def _rest_s(self) -> float:
        loaded, left = sum(map(_weight, self.units[self.back :])), self.units[self._front : self.back]
        # The seconds of one unit of weight so far, before any as expected, 0 if nothing was.
        pace = self.seconds / loaded if loaded else float(all(unit.load_s is not None for unit in self.units))
        if self._claimed is None:
            return pace * sum(map(_weight, left))
        passed, weight = time.perf_counter() - self._since, _weight(self.units[self._claimed])
        remaining = pace * weight - passed
        if remaining < 0:  # overdue: it may take as long again
            remaining, pace = passed, max(pace, passed / weight)
        return remaining + pace * sum(map(_weight, left[:-1]))

    def _run(self) -> None:
        unit = None
        try:
            while True:
                with self._changed:
                    if self._stopped or self.back <= self._front:
                        return
                    unit = self._claimed = self.back - 1
                    self._since = time.perf_counter()
                self.load(unit)
                with self._changed:
                    if self._claimed != unit:  # it was computed meanwhile
                        return
                    self.back, self._claimed = unit, None
                    self.seconds += time.perf_counter() - self._since
                    self._changed.notify_all()
        except self.failures:
            self.failed = unit
        finally:
            self._stop()

    def _stop(self) -> None:
        with self._changed:
            self._stopped, self._claimed = True, None
            self._changed.notify_all()


def _weight(unit: Unit) -> float:
    """Return the expected seconds of loading a unit; its tokens where nothing is known."""
    return max(unit.load_s, 1e-9) if unit.load_s is not None else float(max(unit.tokens, 1))
