"""Carries out a plan for real: a thread receives and decodes what is streamed, the caller's thread computes the rest.

Knows a model by its layers, and the far side as a function from a unit to its bytes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from threading import Condition, Thread
from time import monotonic
from typing import Any

from store.errors import PkbError
from tests.bench.sparkv.bitstream import BadBitstream, Chunk32, Level, decode_both, encode_both
from tests.bench.sparkv.controller import Controller
from tests.bench.sparkv.layerwise import LayerwiseModel
from tests.bench.sparkv.schedule import ComputeUnit, StreamUnit

_LONGEST_WAIT = 1.0  # seconds until the queues are looked at again

Source = Callable[[StreamUnit], bytes]
Ids = Sequence[int]


class StreamFailed(PkbError):
    """The far side is gone, or sent something else than keys and values; the prompt must be computed here."""


@dataclass(slots=True)
class _Run:
    """What both threads share, under the lock of `changed`; mutable."""

    control: Controller
    clock: Callable[[], float]
    changed: Condition = field(default_factory=Condition)
    arrived: list[tuple[StreamUnit, Chunk32, Chunk32]] = field(default_factory=list)
    failed: Exception | None = None
    is_over: bool = False
    received: int = 0  # bytes


@dataclass(frozen=True, slots=True)
class Executed:
    """The logits of the question, (1, tokens, vocabulary), and what was received, computed and moved for them."""

    logits: Any
    received: int  # bytes
    computed: int  # units
    migrated: int  # units
    seconds: float


def execute(
    model: LayerwiseModel,
    blocks: Sequence[Ids],
    control: Controller,
    source: Source,
    clock: Callable[[], float] = monotonic,
) -> Executed:
    """Compute a question, the last block, behind blocks that are streamed or computed; StreamFailed.

    Arrays are made in the calling thread alone. Whatever it raises, the receiving thread ends with its current unit.
    """
    began = clock()
    run = _Run(control, lambda: clock() - began)
    starts = list(accumulate(map(len, blocks), initial=0))
    thread = Thread(target=_receive, args=(run, source, model, list(map(len, blocks))), daemon=True)
    thread.start()
    try:
        states, computed = _compute(run, model, blocks, starts)
    finally:
        with run.changed:
            run.is_over = True
            run.changed.notify_all()
        thread.join()
    return Executed(model.logits(states), run.received, computed, control.migrated, run.clock())


def _compute(run: _Run, model: LayerwiseModel, blocks: Sequence[Ids], starts: Sequence[int]) -> tuple[Any, int]:
    """Compute until the question is done; returns its states behind the last layer, and the units computed."""
    states, count = dict[int, Any](), 0
    per_group = model.heads // run.control.costs.groups
    while not run.control.is_done:
        unit = _next(run, model, starts, per_group)
        if unit.layer == 0:
            states[unit.block] = model.embed(blocks[unit.block])
        own, is_question = states[unit.block], unit.block + 1 == len(blocks)
        states[unit.block] = model.forward(unit.layer, own, starts[unit.block], adapted=is_question)
        count += 1
        with run.changed:
            run.control.computed(unit, run.clock())
    return states[len(blocks) - 1], count


def _next(run: _Run, model: LayerwiseModel, starts: Sequence[int], per_group: int) -> ComputeUnit:
    """Put what has arrived into the cache, and return the next unit to compute, once there is one."""
    while True:
        with run.changed:
            if run.failed:
                raise StreamFailed("keys and values could not be received") from run.failed
            if not run.arrived:
                run.control.adjust(run.clock())
                run.changed.notify_all()
                if unit := run.control.next_compute(run.clock()):
                    return unit
                run.changed.wait(min(run.control.stage, _LONGEST_WAIT))
            arrived, run.arrived = run.arrived, []
        for one, keys, values in arrived:
            model.place(one.layer, starts[one.block], one.group * per_group, keys, values)


def _receive(run: _Run, source: Source, model: LayerwiseModel, lengths: Sequence[int]) -> None:
    """Receive and decode units until the run is over; the first failure ends it."""
    per_group = model.heads // run.control.costs.groups
    while True:
        with run.changed:
            while not run.is_over and (unit := run.control.next_stream(run.clock())) is None:
                run.changed.wait()
            if run.is_over:
                return
        assert unit
        try:
            stream = source(unit)
            shape = (per_group, lengths[unit.block], model.width)
            keys, values = decode_both(stream, shape, shape)
        except (OSError, EOFError, BadBitstream, PkbError) as error:
            with run.changed:
                run.failed = error
                run.changed.notify_all()
            return
        with run.changed:
            run.received += len(stream)
            run.control.streamed(unit, run.clock())
            run.arrived.append((unit, keys, values))
            run.changed.notify_all()


def encode_units(
    tensors: Sequence[tuple[Chunk32, Chunk32]], starts: Sequence[int], groups: int, level: Level
) -> dict[StreamUnit, bytes]:
    """Return the streams of all units: `tensors` are keys and values by layer, `starts` the borders of the blocks."""
    found, layers = dict[StreamUnit, bytes](), len(tensors)
    for layer, (keys, values) in enumerate(tensors):
        per_group = keys.shape[0] // groups
        for block, (start, stop) in enumerate(pairwise(starts)):
            for group in range(groups):
                part = (slice(group * per_group, (group + 1) * per_group), slice(start, stop))
                found[StreamUnit(block, layer, group)] = encode_both(keys[part], values[part], level, layer, layers)
    return found
