"""Computing and loading meet, whatever the speed of either, and whatever goes wrong."""

import threading
import time
from collections.abc import Callable
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.costs import Loader, Unit

EIGHT = [Unit(64, 1 << 21, 0.02, None)] * 8


class Fault(Exception):
    """What a load raises."""


def met(loader: Loader, compute: Callable[[int], None] = lambda number: None) -> list[int]:
    """Run a loader until both meet; returns the units computed."""
    computed = []
    with loader:
        while (number := loader.next()) is not None:
            compute(number)
            computed.append(number)
    return computed


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "kv-load"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 2e-3), min_size=1, max_size=10), st.floats(0, 2e-3), st.booleans())
def test_every_unit_is_computed_or_loaded_and_none_is_both(loads: list[float], compute_s: float, known: bool) -> None:
    units, loaded = [Unit(64, 1 << 21, compute_s, one if known else None) for one in loads], list[int]()

    def load(number: int) -> None:
        time.sleep(loads[number])
        loaded.append(number)

    loader = Loader(units, load)
    computed = met(loader, lambda number: time.sleep(compute_s))
    assert computed == list(range(loader.back))
    assert set(computed).isdisjoint(loaded) or loaded[-1] == computed[-1]  # given up while it was being loaded
    assert set(computed) | set(loaded) == set(range(len(units)))


def test_units_are_loaded_from_the_back() -> None:
    loaded = list[int]()
    assert met(Loader([Unit(64, 1 << 21, 100.0, None)] * 5, loaded.append)) == []
    assert loaded == [4, 3, 2, 1, 0]


def test_a_load_that_hangs_is_not_waited_for() -> None:
    free = Event()

    def load(number: int) -> None:
        if number < 6:
            free.wait()

    loader = Loader(EIGHT, load)
    with loader:
        computed = []
        while (number := loader.next()) is not None:
            computed.append(number)
        free.set()
    assert computed == [0, 1, 2, 3, 4, 5]
    assert threads() == []


def test_after_a_failure_the_rest_is_computed_and_what_was_loaded_counts() -> None:
    def load(number: int) -> None:
        if number == 5:
            raise Fault

    loader = Loader([Unit(64, 1 << 21, 100.0, None)] * 8, load, (Fault,))
    assert met(loader) == [0, 1, 2, 3, 4, 5]
    assert loader.back == 6
    assert loader.failed == 5


def test_an_interrupt_while_computing_ends_the_thread() -> None:
    def interrupt(number: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        met(Loader(EIGHT, lambda number: time.sleep(0.01) if number else time.sleep(0.05)), interrupt)
    assert threads() == []


def test_nothing_is_loaded_after_both_met() -> None:
    loaded = list[int]()
    loader = Loader(EIGHT, loaded.append)
    met(loader)
    before = list(loaded)
    time.sleep(0.05)
    assert loaded == before


def test_no_units_need_no_work() -> None:
    assert met(Loader([], lambda number: None)) == []


def test_what_is_waited_for_and_does_not_come_in_time_is_computed() -> None:
    free = Event()

    def load(number: int) -> None:
        if number < 7:
            free.wait()

    loader = Loader(EIGHT, load, waits=True, until=time.perf_counter() + 0.05)
    with loader:
        computed = list(iter(loader.next, None))
        free.set()
    assert computed == [0, 1, 2, 3, 4, 5, 6]
