"""When changed roots are due: after a quiet period, after the maximum wait, and at every full rescan."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.follow import Debouncer, Intervals

INTERVALS = Intervals(quiet=5, max_wait=60, rescan=1000)


class Timed(Debouncer):
    """A debouncer whose clock is set by hand."""

    def __init__(self, intervals: Intervals) -> None:
        super().__init__(intervals, lambda: self.now)
        self.now = 0.0

    def at(self, now: float) -> "Timed":
        """Set the clock."""
        self.now = now
        return self


def followed(intervals: Intervals = INTERVALS) -> Timed:
    """Return a debouncer with one root, last due at 0."""
    debouncer = Timed(intervals)
    debouncer.begin("/r")
    assert debouncer.due() == {"/r": False}
    return debouncer


def test_a_change_is_due_after_the_quiet_period() -> None:
    debouncer = followed()
    for at in (10, 12, 14):
        debouncer.at(at).touch("/r")
    assert (debouncer.next_due(), debouncer.at(18.9).due(), debouncer.at(19).due()) == (
        19,
        {},
        {"/r": False},
    )
    assert debouncer.at(30).due() == {}


def test_steady_changes_are_due_after_the_maximum_wait() -> None:
    debouncer = followed()
    for at in range(10, 70):
        debouncer.at(at).touch("/r")
    assert debouncer.at(69.9).due() == {}
    assert debouncer.at(70).due() == {"/r": False}


def test_a_root_is_rescanned_at_intervals() -> None:
    debouncer = followed()
    debouncer.at(999).touch("/r")
    assert debouncer.at(1000).due() == {"/r": True}
    assert debouncer.at(1999).due() == {}
    assert debouncer.at(2000).due() == {"/r": True}


def test_roots_are_due_independently() -> None:
    debouncer = followed()
    debouncer.at(3).begin("/s")
    debouncer.at(4).touch("/r")
    assert (debouncer.at(3).due(), debouncer.at(9).due()) == ({"/s": False}, {"/r": False})


def test_a_dropped_root_is_never_due() -> None:
    debouncer = followed()
    debouncer.at(1).touch("/r")
    debouncer.drop("/r")
    debouncer.at(2).touch("/r")
    assert (debouncer.at(1e9).due(), debouncer.next_due()) == ({}, inf)


@given(st.lists(st.floats(0, 30), max_size=40))
def test_each_change_is_due_once_within_its_limits(steps: list[float]) -> None:
    """Step time from change to change and from due time to due time, collecting changes that were not due yet."""
    debouncer, now, unread = followed(Intervals(quiet=5, max_wait=20, rescan=1e9)), 0.0, list[float]()
    for passed in [*steps, inf]:
        ends = now + passed
        while (until := debouncer.next_due()) <= min(ends, 1e8):
            assert debouncer.at(until).due() == {"/r": False}
            assert unread
            assert until in (unread[-1] + 5, unread[0] + 20)
            unread.clear()
        if passed < inf:
            now = ends
            debouncer.at(now).touch("/r")
            unread.append(now)
    assert unread == []
