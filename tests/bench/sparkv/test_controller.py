"""The runtime controller of a plan, on a simulated link and processor."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bench.sparkv.controller import Controller, SlidingWindow, controller
from tests.bench.sparkv.oracle import random_costs
from tests.bench.sparkv.schedule import ComputeUnit, StreamUnit, UnitCosts, greedy, replay
from tests.bench.sparkv.simulation import STEADY, Speed, controlled, recorded, simulated, static

# Mbit/s of a wireless link of 250, each a tenth of a second: a drop to a fifth, and a slow recovery.
DROP = (
    246,
    251,
    243,
    188,
    97,
    55,
    48,
    51,
    47,
    44,
    52,
    49,
    58,
    47,
    50,
    61,
    55,
    72,
    88,
    104,
    131,
    160,
    186,
    204,
    231,
    244,
)


@dataclass(slots=True)
class Recording(Controller):
    """A controller that remembers in which order units were finished."""

    sent: list[StreamUnit] = field(default_factory=list)
    done: list[ComputeUnit] = field(default_factory=list)

    def streamed(self, unit: StreamUnit, now: float) -> None:
        self.sent.append(unit)
        Controller.streamed(self, unit, now)

    def computed(self, unit: ComputeUnit, now: float) -> None:
        self.done.append(unit)
        Controller.computed(self, unit, now)


def costs(factor: float = 1.0, blocks: int = 32) -> UnitCosts:
    rng = Random(blocks)
    return UnitCosts.of(
        blocks,
        12,
        3,
        lambda unit: factor * 0.004 / 3 * rng.uniform(0.7, 1.3),
        lambda unit: 0.005 * (1 + unit.block * 0.03) * rng.uniform(0.9, 1.1),
    )


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_a_controlled_plan_beats_a_static_one_where_the_bandwidth_drops(factor: float) -> None:
    own = costs(factor)
    plan, link = greedy(own), recorded(DROP, 250, replay(own, greedy(own)).finish / 12)
    assert controlled(own, plan, link) < 0.95 * static(own, plan, link)


@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_a_controlled_plan_beats_a_static_one_where_computing_slows_down(factor: float) -> None:
    own = costs(factor)
    plan = greedy(own)
    slow = Speed(((0.0, 1.0), (0.3 * replay(own, plan).finish, 0.4)))
    assert controlled(own, plan, processor=slow) < 0.9 * static(own, plan, processor=slow)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 999),
    blocks=st.integers(1, 24),
    layers=st.integers(1, 12),
    rough=st.sampled_from((1.0, 1.5, 4.0)),
)
def test_a_controlled_plan_is_as_fast_as_a_static_one_where_nothing_changes(
    seed: int, blocks: int, layers: int, rough: float
) -> None:
    own = random_costs(Random(seed), blocks=blocks, layers=layers, groups=2, rough=rough)
    plan = greedy(own)
    # Where units differ as much as 4 times, unplanned moves may lose: in 3 of 243 random plans more than a twentieth.
    assert controlled(own, plan) <= (1.05 if rough < 4 else 1.25) * static(own, plan)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 999),
    blocks=st.integers(1, 12),
    layers=st.integers(1, 6),
    link=st.floats(0.05, 20.0),
    processor=st.floats(0.05, 20.0),
)
def test_whatever_changes_every_unit_is_computed_or_streamed_once(
    seed: int, blocks: int, layers: int, link: float, processor: float
) -> None:
    own = random_costs(Random(seed), blocks=blocks, layers=layers, groups=2, rough=1.5)
    plan = greedy(own)
    sizes = controller(own, plan, replay(own, plan).finish)
    control = Recording(own, plan, sizes.stage, sizes.limit)
    simulated(control, Speed(((0.0, link),)), Speed(((0.0, processor),)))
    streamed, computed = control.sent, control.done
    assert len(set(streamed)) == len(streamed)
    assert len(set(computed)) == len(computed)
    for block in range(blocks + 1):
        for layer in range(layers):
            groups = sum(StreamUnit(block, layer, group) in streamed for group in range(2))
            assert groups == (0 if (block, layer) in computed else 2)
    for unit in computed:
        assert unit.layer == 0 or computed.index(unit._replace(layer=unit.layer - 1)) < computed.index(unit)


def test_no_more_units_than_the_limit_change_sides_in_a_stage() -> None:
    own = costs()
    control = Controller(own, greedy(own), stage=1.0, limit=3)
    control.processor.add(1.0, 50.0)
    assert control.adjust(0.5) == 0  # the stage has not ended
    assert control.adjust(1.0) == 3
    assert control.adjust(1.5) == 0
    assert control.adjust(2.0) == 3
    assert control.migrated == 6


def test_units_change_back_where_the_link_turns_out_slow() -> None:
    own = costs()
    control = Controller(own, greedy(own), stage=1.0, limit=3)
    depths = sum(control.depths)
    control.link.add(1.0, 50.0)
    assert control.adjust(1.0) == 3
    assert sum(control.depths) == depths + 3


def test_what_has_begun_stays_on_its_side() -> None:
    own = costs(blocks=2)
    control = Controller(own, greedy(own), stage=1.0, limit=1000)
    first = control.next_stream(0.0)
    assert first
    control.link.add(1.0, 1e6)
    control.adjust(1.0)
    assert first.whole not in control.computes


def test_a_window_forgets_old_measurements() -> None:
    window = SlidingWindow(span=2)
    assert window.ratio == 1.0
    for seconds in (9.0, 2.0, 4.0):
        window.add(1.0, seconds)
    assert window.ratio == 3.0


def test_a_window_without_predicted_time_says_nothing() -> None:
    window = SlidingWindow()
    window.add(0.0, 1.0)
    assert window.ratio == 1.0


def test_the_clock_of_a_simulation_follows_the_speeds() -> None:
    assert STEADY.end(1.0, 2.0) == 3.0
    assert Speed(((0.0, 1.0), (2.0, 0.5))).end(1.0, 2.0) == 4.0
