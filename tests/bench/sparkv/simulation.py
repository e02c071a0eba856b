"""A link and a processor whose speeds change with time: carries out plans by their costs, with an injected clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from tests.bench.sparkv.controller import Controller, controller
from tests.bench.sparkv.schedule import StreamPlan, UnitCosts, replay


@dataclass(frozen=True, slots=True)
class Speed:
    """How many predicted seconds a real one is worth, from each time on."""

    steps: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def end(self, begin: float, seconds: float) -> float:
        """Return when work of so many predicted seconds is done."""
        now, left = begin, seconds
        for (_, speed), (until, _) in pairwise((*self.steps, (inf, 1.0))):
            if until > now:
                if (until - now) * speed >= left:
                    return now + left / speed
                left -= (until - now) * speed
                now = until
        return now


STEADY = Speed()


def simulated(control: Controller, link: Speed = STEADY, processor: Speed = STEADY) -> float:
    """Return when the question is computed."""
    costs, now = control.costs, 0.0
    sending, computing = None, None
    sent = done = inf
    while not control.is_done:
        control.adjust(now)
        if sending is None and (sending := control.next_stream(now)):
            sent = link.end(now, costs.of_stream(sending))
        if computing is None and (computing := control.next_compute(now)):
            done = processor.end(now, costs.of_compute(computing))
        assert sending or computing, "nothing can begin"
        now = min(sent, done)
        if sending and now == sent:
            control.streamed(sending, now)
            sending, sent = None, inf
        if computing and now == done:
            control.computed(computing, now)
            computing, done = None, inf
    return now


def static(costs: UnitCosts, plan: StreamPlan, link: Speed = STEADY, processor: Speed = STEADY) -> float:
    """Return the same for a plan that is never changed."""
    return simulated(Controller(costs, plan, inf, 0), link, processor)


def controlled(costs: UnitCosts, plan: StreamPlan, link: Speed = STEADY, processor: Speed = STEADY) -> float:
    """Return the same for a plan that a controller changes."""
    return simulated(controller(costs, plan, replay(costs, plan).finish), link, processor)


def recorded(mbps: Sequence[float], expected: float, step: float) -> Speed:
    """Return the speed of a link whose bandwidth was measured every `step` seconds, against an expected one."""
    return Speed(tuple((number * step, one / expected) for number, one in enumerate(mbps)))
