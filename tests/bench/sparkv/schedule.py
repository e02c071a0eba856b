"""Which KV of a prompt to stream and which to compute: units, what each waits for, a greedy plan, and its replay.

A prompt is cut into blocks of tokens. A block's KV of one layer is computed at once, or streamed by groups of heads.
Computing a layer needs the block's hidden states behind the layer below, so a block computes its lowest layers, as many
as its depth, and streams those above. The last block, the question, is computed in all layers. Knows seconds alone: no
tensors, links or clocks.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, combinations, product
from typing import NamedTuple

_TRIALS = 2000  # plans at most that are tried, for a prompt of few units
_FEW = 16  # units: more take longer to try than they save
_AS_GOOD = 1.001  # times the best order of streams: what an order that can still be changed may take


class ComputeUnit(NamedTuple):
    """All heads of a layer for the tokens of a block."""

    block: int
    layer: int


class StreamUnit(NamedTuple):
    """A group of key and value heads of a layer for the tokens of a block."""

    block: int
    layer: int
    group: int

    @property
    def whole(self) -> ComputeUnit:
        """Return the unit that is present once all of its groups are."""
        return ComputeUnit(self.block, self.layer)


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds of each unit: `stream` by block, layer and group; `compute` by block and layer, the question last."""

    stream: tuple[tuple[tuple[float, ...], ...], ...]
    compute: tuple[tuple[float, ...], ...]

    @classmethod
    def of(
        cls,
        blocks: int,
        layers: int,
        groups: int,
        stream: Callable[[StreamUnit], float],
        compute: Callable[[ComputeUnit], float],
    ) -> "UnitCosts":
        """Tabulate costs of so many blocks before the question."""
        units = [[ComputeUnit(block, layer) for layer in range(layers)] for block in range(blocks + 1)]
        return cls(
            tuple(
                tuple(tuple(stream(StreamUnit(*unit, group)) for group in range(groups)) for unit in row)
                for row in units[:-1]
            ),
            tuple(tuple(map(compute, row)) for row in units),
        )

    @property
    def blocks(self) -> int:
        """Return the number of blocks before the question."""
        return len(self.stream)

    @property
    def layers(self) -> int:
        """Return the number of layers."""
        return len(self.compute[0])

    @property
    def groups(self) -> int:
        """Return the number of groups that the heads of a layer are streamed in."""
        return len(self.stream[0][0]) if self.stream else 1

    def of_stream(self, unit: StreamUnit) -> float:
        """Return the seconds of a unit on the link, and of decoding it."""
        return self.stream[unit.block][unit.layer][unit.group]

    def of_compute(self, unit: ComputeUnit) -> float:
        """Return the seconds of a unit on the processor."""
        return self.compute[unit.block][unit.layer]

    @property
    def wholes(self) -> list[list[float]]:
        """Return the seconds of streaming all groups, by block and layer."""
        return [list(map(sum, row)) for row in self.stream]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """What is streamed and what is computed, each in its order; `depths` are the computed layers of each block."""

    depths: tuple[int, ...]
    streams: tuple[StreamUnit, ...]
    computes: tuple[ComputeUnit, ...]


@dataclass(frozen=True, slots=True)
class Replay:
    """A plan carried out at its costs: when the question is computed, in seconds, and what the plan did wrong."""

    finish: float
    link: float  # seconds in use
    processor: float
    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueWeights:
    """How much a unit's rating counts the units that it opens on the same path; SparKV has w_s and w_c."""

    stream: float = 1.0
    compute: float = 1.0


def replay(costs: UnitCosts, plan: StreamPlan) -> Replay:
    """Carry a plan out: link and processor each take their units in order, as soon as these can begin."""
    finish, link, processor = _timed(costs, plan)
    return Replay(finish, link, processor, tuple(_violations(costs, plan)))


def _timed(costs: UnitCosts, plan: StreamPlan) -> tuple[float, float, float]:
    """Return when a plan is done, and the seconds that its link and processor are in use."""
    link, arrived = 0.0, [[0.0] * costs.layers for _ in range(costs.blocks)]
    for unit in plan.streams:
        link += costs.of_stream(unit)
        arrived[unit.block][unit.layer] = link
    behind = [[0.0, *accumulate(column, max)] for column in zip(*arrived, strict=True)] or [[0.0]] * costs.layers
    now = spent = 0.0
    for one in plan.computes:
        now = max(now, behind[one.layer][one.block]) + costs.of_compute(one)
        spent += costs.of_compute(one)
    return now, link, spent


def _violations(costs: UnitCosts, plan: StreamPlan) -> Iterator[str]:
    """Yield what is wrong with a plan: units that are missing, come twice, or come before what they need."""
    streamed, there = set(plan.streams), {unit.whole for unit in plan.streams}
    if len(streamed) < len(plan.streams) or len(set(plan.computes)) < len(plan.computes):
        yield "a unit comes twice"
    computed = set[ComputeUnit]()
    for block, layer in plan.computes:
        if layer and (block, layer - 1) not in computed:
            yield f"block {block}, layer {layer}: no hidden states"
        there.add(ComputeUnit(block, layer))
        computed.add(ComputeUnit(block, layer))
        if any((before, layer) not in there for before in range(block)):
            yield f"block {block}, layer {layer}: an earlier block has no keys and values"
    for block in range(costs.blocks + 1):
        for layer in range(costs.layers):
            groups = sum((block, layer, group) in streamed for group in range(costs.groups))
            if groups != (0 if (block, layer) in computed else costs.groups):
                yield f"block {block}, layer {layer}: neither computed alone nor streamed whole"


def greedy(costs: UnitCosts, weights: QueueWeights | None = None, step: float = 0.0) -> StreamPlan:
    """Return a plan that keeps link and processor busy until the question can be computed.

    In stages of `step` seconds, each of the two takes the units on which it is best against the other, rated with what
    they open. Computing grows from the first block and lowest layer, streaming from the last block and highest layer:
    no block before the question waits for the link. By default there are about a hundred stages.
    """
    frontier = _Frontier.of(costs, weights or QueueWeights())
    question = costs.compute[-1]
    link, processor, end = question[-1], sum(question), 0.0  # what is left when the last unit has arrived
    step = step or (sum(map(sum, frontier.stream)) + sum(map(sum, costs.compute))) / 200
    while frontier.is_open:
        end += step
        while link < end and frontier.is_open:
            link += frontier.take_stream()
        while processor < end and frontier.is_open:
            processor += frontier.take_compute()
    return refined(costs, ordered(costs, improved(costs, frontier.depths)))


@dataclass(slots=True)
class _Frontier:
    """The units that are still open: in each block those from its depth up to its ceiling; mutable."""

    stream: list[list[float]]
    compute: Sequence[Sequence[float]]
    weights: QueueWeights
    depths: list[int]
    ceilings: list[int]
    is_open: int = 0  # open units
    streams: list[tuple[float, int, int]] = field(default_factory=list)  # heaps of rated units
    computes: list[tuple[float, int, int]] = field(default_factory=list)

    @classmethod
    def of(cls, costs: UnitCosts, weights: QueueWeights) -> "_Frontier":
        blocks, layers = costs.blocks, costs.layers
        found = cls(costs.wholes, costs.compute, weights, [0] * blocks, [layers] * blocks, blocks * layers)
        if blocks:
            found._offer_stream(blocks - 1, layers - 1)
            found._offer_compute(0, 0)
        return found

    def take_stream(self) -> float:
        """Give the best unit to the link; returns its seconds."""
        block, layer = self._next(self.streams)
        self.ceilings[block] = layer
        self.is_open -= 1
        self._offer_stream(block, layer - 1)
        self._offer_stream(block - 1, layer)
        return self.stream[block][layer]

    def take_compute(self) -> float:
        """Give the best unit to the processor; returns its seconds."""
        block, layer = self._next(self.computes)
        self.depths[block] = layer + 1
        self.is_open -= 1
        self._offer_compute(block, layer + 1)
        self._offer_compute(block + 1, layer)
        return self.compute[block][layer]

    def _next(self, heap: list[tuple[float, int, int]]) -> tuple[int, int]:
        while True:
            _, block, layer = heappop(heap)
            if self._has(block, layer):
                return block, layer

    def _has(self, block: int, layer: int) -> bool:
        return 0 <= block < len(self.depths) and self.depths[block] <= layer < self.ceilings[block]

    def _offer_stream(self, block: int, layer: int) -> None:
        last = block + 1 == len(self.depths)
        if (
            self._has(block, layer)
            and layer + 1 == self.ceilings[block]
            and (last or self.ceilings[block + 1] <= layer)
        ):
            opened = [self._gain(*unit) for unit in ((block, layer - 1), (block - 1, layer)) if self._has(*unit)]
            rated = self._gain(block, layer) + self.weights.stream * _mean(opened)
            heappush(self.streams, (-rated, block, layer))

    def _offer_compute(self, block: int, layer: int) -> None:
        if self._has(block, layer) and layer == self.depths[block] and (not block or self.depths[block - 1] > layer):
            opened = [1 / self._gain(*unit) for unit in ((block, layer + 1), (block + 1, layer)) if self._has(*unit)]
            rated = 1 / self._gain(block, layer) + self.weights.compute * _mean(opened)
            heappush(self.computes, (-rated, block, layer))

    def _gain(self, block: int, layer: int) -> float:
        """Return the seconds of computing a unit for each second of streaming it."""
        return self.compute[block][layer] / self.stream[block][layer]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def improved(costs: UnitCosts, depths: Sequence[int]) -> list[int]:
    """Return depths with single units moved between link and processor as long as that helps.

    Depths never rise from block to block, neither those given nor those returned.
    """
    stream, found = costs.wholes, list(depths)
    by_layer = [
        sum(stream[block][layer] for block, depth in enumerate(found) if depth <= layer)
        for layer in range(costs.layers)
    ]
    computed = sum(sum(costs.compute[block][:depth]) for block, depth in enumerate(found))
    left = list(accumulate(reversed(costs.compute[-1])))[::-1]  # seconds of the question from each layer on
    best = _finish(by_layer, computed, left)
    while True:
        move = None
        for block, layer, sign in _moves(found, costs.layers):
            by_layer[layer] -= sign * stream[block][layer]
            finish = _finish(by_layer, computed + sign * costs.compute[block][layer], left)
            by_layer[layer] += sign * stream[block][layer]
            if finish < best * (1 - 1e-9):
                best, move = finish, (block, layer, sign)
        if move is None:
            return found
        block, layer, sign = move
        by_layer[layer] -= sign * stream[block][layer]
        computed += sign * costs.compute[block][layer]
        found[block] += sign


def _moves(depths: Sequence[int], layers: int) -> Iterator[tuple[int, int, int]]:
    """Yield the block and layer of each unit that can change sides, and by how much the depth would change."""
    for block, depth in enumerate(depths):
        if depth < (depths[block - 1] if block else layers):
            yield block, depth, 1
        if depth > (depths[block + 1] if block + 1 < len(depths) else 0):
            yield block, depth - 1, -1


def _finish(by_layer: Sequence[float], computed: float, left: Sequence[float]) -> float:
    """Return when the question is computed if streams come by layer; `left` are its seconds from each layer on."""
    return max(computed + left[0], *(arrived + rest for arrived, rest in zip(accumulate(by_layer), left, strict=True)))


def refined(costs: UnitCosts, plan: StreamPlan, trials: int = _TRIALS) -> StreamPlan:
    """Return a plan with the depths of one to three blocks changed as long as that helps, within some trials.

    It pays for few blocks whose costs differ much from unit to unit, which evens out over many blocks.
    """
    best, improving = _timed(costs, plan)[0], costs.blocks * costs.layers <= _FEW
    while improving:
        others = {depths for count in (1, 2, 3) for depths in _changed(plan.depths, costs.layers, count)}
        trials -= len(others)
        if trials < 0:
            return plan
        improving = False
        for depths in sorted(others):
            other = ordered(costs, depths)
            if (finish := _timed(costs, other)[0]) < best * (1 - 1e-9):
                plan, best, improving = other, finish, True
    return plan


def _changed(depths: tuple[int, ...], layers: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield depths with those of so many blocks replaced by any."""
    for blocks in combinations(range(len(depths)), count):
        for new in product(range(layers + 1), repeat=count):
            found = list(depths)
            for block, depth in zip(blocks, new, strict=True):
                found[block] = depth
            yield tuple(found)


def ordered(costs: UnitCosts, depths: Sequence[int]) -> StreamPlan:
    """Return the plan with these depths.

    Units that wait for no stream are computed first, block by block; what the others wait for is streamed first. Of the
    rest, the last blocks are streamed first and whole; those next to what is computed last and layer by layer, so that
    they can still change sides, and the question begins while they arrive.
    """
    lowest = list(accumulate(depths, min, initial=costs.layers))  # of the blocks before each
    units = [ComputeUnit(block, layer) for block, depth in enumerate(depths) for layer in range(depth)]
    waiting = sorted((unit for unit in units if unit.layer >= lowest[unit.block]), key=lambda unit: (unit.layer, unit))
    question = [ComputeUnit(costs.blocks, layer) for layer in range(costs.layers)]
    computes = [*(unit for unit in units if unit.layer < lowest[unit.block]), *waiting, *question]
    needed = dict.fromkeys(
        ComputeUnit(block, unit.layer) for unit in waiting for block in range(unit.block) if depths[block] <= unit.layer
    )
    streamed = [block for block, depth in enumerate(depths) if depth < costs.layers]

    def plan(count: int) -> StreamPlan:
        """Return the plan that streams the first `count` of the streamed blocks layer by layer, after the others."""
        far = (ComputeUnit(block, layer) for block in reversed(streamed[count:]) for layer in range(costs.layers))
        near = (ComputeUnit(block, layer) for layer in range(costs.layers) for block in streamed[:count])
        own = dict.fromkeys(unit for part in (needed, far, near) for unit in part if unit.layer >= depths[unit.block])
        streams = tuple(StreamUnit(*unit, group) for unit in own for group in range(costs.groups))
        return StreamPlan(tuple(depths), streams, tuple(computes))

    whole = plan(len(streamed))
    best, count = _timed(costs, whole)[0], 1
    while count < len(streamed):
        found = plan(count)
        if _timed(costs, found)[0] <= best * _AS_GOOD:
            return found
        count *= 2
    return whole
