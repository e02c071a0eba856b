"""When changed roots are due: after a quiet period, after the maximum wait, and at every full rescan."""

import os
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.follow import Debouncer, DueFolder, Intervals

INTERVALS = Intervals(quiet=5, max_wait=60, rescan=1000)
FOLDERS = st.sampled_from(["/r", "/r/a", "/r/a/b", "/r/a/c", "/r/d", "/r/ab"])


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
    assert debouncer.due() == [DueFolder("/r", "/r")]
    return debouncer


def test_a_change_is_due_after_the_quiet_period() -> None:
    debouncer = followed()
    for at in (10, 12, 14):
        debouncer.at(at).touch("/r", "/r/a")
    assert (debouncer.next_due(), debouncer.at(18.9).due(), debouncer.at(19).due()) == (
        19,
        [],
        [DueFolder("/r", "/r/a")],
    )
    assert debouncer.at(30).due() == []


def test_steady_changes_are_due_after_the_maximum_wait() -> None:
    debouncer = followed()
    for at in range(10, 70):
        debouncer.at(at).touch("/r", "/r")
    assert debouncer.at(69.9).due() == []
    assert debouncer.at(70).due() == [DueFolder("/r", "/r")]


def test_the_deepest_common_folder_of_all_changes_is_due() -> None:
    debouncer = followed()
    for folder in ("/r/a/b", "/r/a/b", "/r/a/c"):
        debouncer.at(10).touch("/r", folder)
    assert debouncer.at(15).due() == [DueFolder("/r", "/r/a")]


def test_folders_with_a_common_name_prefix_are_distinct() -> None:
    debouncer = followed()
    for folder in ("/r/a", "/r/ab"):
        debouncer.at(10).touch("/r", folder)
    assert debouncer.at(15).due() == [DueFolder("/r", "/r")]


def test_a_root_is_rescanned_at_intervals() -> None:
    debouncer = followed()
    debouncer.at(999).touch("/r", "/r/a")
    assert debouncer.at(1000).due() == [DueFolder("/r", "/r", every=True)]
    assert debouncer.at(1999).due() == []
    assert debouncer.at(2000).due() == [DueFolder("/r", "/r", every=True)]


def test_roots_are_due_independently() -> None:
    debouncer = followed()
    debouncer.at(3).begin("/s")
    debouncer.at(4).touch("/r", "/r")
    assert (debouncer.at(3).due(), debouncer.at(9).due()) == ([DueFolder("/s", "/s")], [DueFolder("/r", "/r")])


def test_a_dropped_root_is_never_due() -> None:
    debouncer = followed()
    debouncer.at(1).touch("/r", "/r")
    debouncer.drop("/r")
    debouncer.at(2).touch("/r", "/r")
    assert (debouncer.at(1e9).due(), debouncer.next_due()) == ([], inf)


@given(st.lists(st.tuples(st.floats(0, 30), FOLDERS), max_size=40))
def test_each_change_is_due_once_within_its_limits(steps: list[tuple[float, str]]) -> None:
    """Step time from change to change and from due time to due time, collecting changes that were not due yet."""
    debouncer, now, unread = followed(Intervals(quiet=5, max_wait=20, rescan=1e9)), 0.0, list[tuple[float, str]]()
    for passed, folder in [*steps, (0.0, "")]:
        ends = now + passed if folder else float("inf")
        while (until := debouncer.next_due()) <= min(ends, 1e8):
            (due,) = debouncer.at(until).due()
            assert unread
            assert {os.path.commonpath((due.folder, inside)) for _, inside in unread} == {due.folder}
            assert until in (unread[-1][0] + 5, unread[0][0] + 20)
            unread.clear()
        if folder:
            now = ends
            debouncer.at(now).touch("/r", folder)
            unread.append((now, folder))
    assert unread == []
