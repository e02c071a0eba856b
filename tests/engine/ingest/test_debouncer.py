"""When changed roots are due: after a quiet period, after the maximum wait, and at every full rescan."""

import os

from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.follow import Debouncer, DueFolder, Intervals

INTERVALS = Intervals(quiet=5, max_wait=60, rescan=1000)
FOLDERS = st.sampled_from(["/r", "/r/a", "/r/a/b", "/r/a/c", "/r/d", "/r/ab"])


def followed(intervals: Intervals = INTERVALS) -> Debouncer:
    """Return a debouncer with one root, last due at 0."""
    debouncer = Debouncer(intervals)
    debouncer.add("/r", 0)
    assert debouncer.due(0) == [DueFolder("/r", "/r")]
    return debouncer


def test_a_change_is_due_after_the_quiet_period() -> None:
    debouncer = followed()
    assert [debouncer.touch("/r", "/r/a", at) for at in (10, 12, 14)] == [True, False, False]
    assert (debouncer.next_due(), debouncer.due(18.9), debouncer.due(19)) == (19, [], [DueFolder("/r", "/r/a")])
    assert debouncer.due(30) == []


def test_steady_changes_are_due_after_the_maximum_wait() -> None:
    debouncer = followed()
    for at in range(10, 70):
        debouncer.touch("/r", "/r", at)
    assert debouncer.due(69.9) == []
    assert debouncer.due(70) == [DueFolder("/r", "/r")]


def test_the_deepest_common_folder_of_all_changes_is_due() -> None:
    debouncer = followed()
    for folder in ("/r/a/b", "/r/a/b", "/r/a/c"):
        debouncer.touch("/r", folder, 10)
    assert debouncer.due(15) == [DueFolder("/r", "/r/a")]


def test_folders_with_a_common_name_prefix_are_distinct() -> None:
    debouncer = followed()
    for folder in ("/r/a", "/r/ab"):
        debouncer.touch("/r", folder, 10)
    assert debouncer.due(15) == [DueFolder("/r", "/r")]


def test_a_root_is_rescanned_at_intervals() -> None:
    debouncer = followed()
    debouncer.touch("/r", "/r/a", 999)
    assert debouncer.due(1000) == [DueFolder("/r", "/r", every=True)]
    assert debouncer.due(1999) == []
    assert debouncer.due(2000) == [DueFolder("/r", "/r", every=True)]


def test_the_longer_a_scan_takes_the_rarer_it_is() -> None:
    debouncer = followed()
    debouncer.scanned("/r", 10, 0.1)
    assert debouncer.next_due() == 1010
    debouncer.scanned("/r", 10, 100)
    assert debouncer.next_due() == 200_010


def test_roots_are_due_independently() -> None:
    debouncer = followed()
    debouncer.add("/s", 3)
    debouncer.touch("/r", "/r", 4)
    assert (debouncer.due(3), debouncer.due(9)) == ([DueFolder("/s", "/s")], [DueFolder("/r", "/r")])


def test_a_dropped_root_is_never_due() -> None:
    debouncer = followed()
    debouncer.touch("/r", "/r", 1)
    debouncer.drop("/r")
    assert (debouncer.touch("/r", "/r", 2), debouncer.due(1e9), debouncer.next_due()) == (False, [], None)


@given(st.lists(st.tuples(st.floats(0, 30), FOLDERS), max_size=40))
def test_each_change_is_due_once_within_its_limits(steps: list[tuple[float, str]]) -> None:
    """Step time from change to change and from due time to due time, collecting changes that were not due yet."""
    debouncer, now, unread = followed(Intervals(quiet=5, max_wait=20, rescan=1e9)), 0.0, list[tuple[float, str]]()
    for passed, folder in [*steps, (0.0, "")]:
        ends = now + passed if folder else float("inf")
        while (until := debouncer.next_due()) is not None and until <= min(ends, 1e8):
            (due,) = debouncer.due(until)
            assert unread
            assert {os.path.commonpath((due.folder, inside)) for _, inside in unread} == {due.folder}
            assert until in (unread[-1][0] + 5, unread[0][0] + 20)
            unread.clear()
        if folder:
            now = ends
            assert debouncer.touch("/r", folder, now) is (not unread)
            unread.append((now, folder))
    assert unread == []
