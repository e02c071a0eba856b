"""Carries out a plan and changes it as link and processor turn out faster or slower than its costs said.

Knows the units of a plan, predicted and measured seconds, and the time that it is told; no tensors and no clock.
"""

from collections import Counter, deque
from dataclasses import dataclass, field

from tests.bench.sparkv.schedule import ComputeUnit, StreamPlan, StreamUnit, UnitCosts

SPAN = 16  # measurements in a window
STAGES = 32  # of a plan
_MARGIN = 0.05  # of the time left: how far apart link and processor may end before a unit changes sides


@dataclass(slots=True)
class SlidingWindow:
    """How many times as long as predicted the latest units took; mutable."""

    span: int = SPAN
    measured: deque[tuple[float, float]] = field(default_factory=deque)

    def add(self, predicted: float, seconds: float) -> None:
        """Add a measurement, and forget the oldest."""
        self.measured.append((predicted, seconds))
        if len(self.measured) > self.span:
            self.measured.popleft()

    @property
    def ratio(self) -> float:
        """Return measured seconds for each predicted one; 1 before the first measurement."""
        predicted = sum(one for one, _ in self.measured)
        return sum(one for _, one in self.measured) / predicted if predicted > 0 else 1.0


@dataclass(slots=True)
class Controller:
    """The queues of a plan under way; mutable, and for one thread at a time.

    A unit leaves its queue when it begins. Link and processor go on with whatever can begin, so that a slow one never
    holds up the other. Every `stage` seconds at most `limit` units change sides: from the tail of the compute queue to
    the link where computing would end later, and from the link back where that would. A block keeps its lowest layers
    computed and those above streamed, and what has begun stays where it is.
    """

    costs: UnitCosts
    plan: StreamPlan
    stage: float  # seconds
    limit: int
    link: SlidingWindow = field(default_factory=SlidingWindow)
    processor: SlidingWindow = field(default_factory=SlidingWindow)
    migrated: int = 0  # units so far
    depths: list[int] = field(init=False)
    streams: list[StreamUnit] = field(init=False)  # the next one last
    computes: list[ComputeUnit] = field(init=False)
    _begun: set[ComputeUnit] = field(init=False, default_factory=set)
    _sending: tuple[float, float] | None = field(init=False, default=None)  # when it began, and its predicted seconds
    _computing: tuple[float, float] | None = field(init=False, default=None)
    _arrived: Counter[ComputeUnit] = field(init=False, default_factory=Counter)  # groups
    _computed: set[ComputeUnit] = field(init=False, default_factory=set)
    _ready: list[int] = field(init=False)  # by layer: leading blocks with keys and values
    _due: float = field(init=False)

    def __post_init__(self) -> None:
        self.depths = list(self.plan.depths)
        self.streams, self.computes = list(reversed(self.plan.streams)), list(self.plan.computes)
        self._ready, self._due = [0] * self.costs.layers, self.stage

    def next_stream(self, now: float) -> StreamUnit | None:
        """Hand out the next unit to stream; None if there is none."""
        if not self.streams:
            return None
        unit = self.streams.pop()
        self._begun.add(unit.whole)
        self._sending = (now, self.costs.of_stream(unit))
        return unit

    def next_compute(self, now: float) -> ComputeUnit | None:
        """Hand out the first unit that can be computed now; None if all wait for the link, or none is left."""
        for place, unit in enumerate(self.computes):
            if self._ready[unit.layer] >= unit.block and self._has_states(unit):
                del self.computes[place]
                self._begun.add(unit)
                self._computing = (now, self.costs.of_compute(unit))
                return unit
        return None

    @property
    def is_done(self) -> bool:
        """Return whether the question is computed."""
        return ComputeUnit(self.costs.blocks, self.costs.layers - 1) in self._computed

    def streamed(self, unit: StreamUnit, now: float) -> None:
        """Note that the unit being streamed has arrived."""
        assert self._sending, "nothing was being streamed"
        self.link.add(self._sending[1], now - self._sending[0])
        self._sending = None
        self._arrived[unit.whole] += 1
        self._advance(unit.layer)

    def computed(self, unit: ComputeUnit, now: float) -> None:
        """Note that the unit being computed is done."""
        assert self._computing, "nothing was being computed"
        self.processor.add(self._computing[1], now - self._computing[0])
        self._computing = None
        self._computed.add(unit)
        self._advance(unit.layer)

    def adjust(self, now: float) -> int:
        """Move units between the queues where a stage has ended; returns how many were moved."""
        if now < self._due:
            return 0
        self._due = now + self.stage
        link = sum(map(self.costs.of_stream, self.streams)) * self.link.ratio + _left(self._sending, self.link, now)
        link += self.costs.compute[-1][-1] * self.processor.ratio  # the question's last layer waits for all
        processor = sum(map(self.costs.of_compute, self.computes)) * self.processor.ratio
        processor += _left(self._computing, self.processor, now)
        before = self.migrated
        while self.migrated < before + self.limit and abs(processor - link) > _MARGIN * max(link, processor):
            sign = 1 if processor > link else -1  # from the processor to the link, or back
            unit = self._last_computed() if sign > 0 else self._last_streamed()
            if unit is None:
                break
            other_link = link + sign * sum(self.costs.stream[unit.block][unit.layer]) * self.link.ratio
            other_processor = processor - sign * self.costs.of_compute(unit) * self.processor.ratio
            if max(other_link, other_processor) >= max(link, processor):
                break
            (self._to_link if sign > 0 else self._to_processor)(unit)
            link, processor = other_link, other_processor
            self.migrated += 1
        return self.migrated - before

    def _has_states(self, unit: ComputeUnit) -> bool:
        return not unit.layer or unit._replace(layer=unit.layer - 1) in self._computed

    def _advance(self, layer: int) -> None:
        while (unit := ComputeUnit(self._ready[layer], layer)) in self._computed or (
            self._arrived[unit] == self.costs.groups
        ):
            self._ready[layer] += 1

    def _last_computed(self) -> ComputeUnit | None:
        """Return the unit at the tail of the compute queue that could be streamed."""
        for unit in reversed(self.computes):
            if unit.block < self.costs.blocks and unit.layer == self.depths[unit.block] - 1:
                return unit
        return None

    def _last_streamed(self) -> ComputeUnit | None:
        """Return the first block's next layer that could be computed, since nothing of it has been sent."""
        for block, depth in enumerate(self.depths):
            unit = ComputeUnit(block, depth)
            if depth < self.costs.layers and unit not in self._begun:
                return unit
        return None

    def _to_link(self, unit: ComputeUnit) -> None:
        self.computes.remove(unit)
        self.depths[unit.block] -= 1
        place = 0
        while (
            place < len(self.streams) and self.streams[place].layer > unit.layer
        ):  # the question needs low layers first
            place += 1
        self.streams[place:place] = [StreamUnit(*unit, group) for group in reversed(range(self.costs.groups))]

    def _to_processor(self, unit: ComputeUnit) -> None:
        self.streams = [one for one in self.streams if one.whole != unit]
        self.depths[unit.block] += 1
        place = next(place for place, one in enumerate(self.computes) if one.block > unit.block)
        self.computes.insert(place, unit)


def _left(under_way: tuple[float, float] | None, window: SlidingWindow, now: float) -> float:
    """Return the seconds that a unit under way should still take."""
    return max(0.0, under_way[1] * window.ratio - (now - under_way[0])) if under_way else 0.0


def controller(costs: UnitCosts, plan: StreamPlan, finish: float) -> Controller:
    """Return the controller of a plan that should take `finish` seconds, with stages and limit that suit its size."""
    return Controller(costs, plan, finish / STAGES, max(2, 2 * costs.blocks * costs.layers // STAGES))
