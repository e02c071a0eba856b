"""When changed roots are due: after quiet, after long unrest, and now and then without a cause."""

import os

from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.follow import Debouncer, DueFolder, Intervals

INTERVALS = Intervals(quiet=5, max_wait=60, rescan=1000)
FOLDERS = st.sampled_from(["/r", "/r/a", "/r/a/b", "/r/a/c", "/r/d", "/r/ab"])


def followed(intervals: Intervals = INTERVALS) -> Debouncer:
    """Return a root that was read at 0."""
    debouncer = Debouncer(intervals)
    debouncer.add("/r", 0)
    assert debouncer.due(0) == [DueFolder("/r", "/r")]
    return debouncer


def test_a_change_is_due_when_it_was_quiet_for_a_while() -> None:
    debouncer = followed()
    assert [debouncer.touch("/r", "/r/a", at) for at in (10, 12, 14)] == [True, False, False]
    assert (debouncer.next_due(), debouncer.due(18.9), debouncer.due(19)) == (19, [], [DueFolder("/r", "/r/a")])
    assert debouncer.due(30) == []


def test_what_never_rests_is_due_all_the_same_after_a_time() -> None:
    debouncer = followed()
    for at in range(10, 70):
        debouncer.touch("/r", "/r", at)
    assert debouncer.due(69.9) == []
    assert debouncer.due(70) == [DueFolder("/r", "/r")]


def test_one_folder_stands_for_all_changes() -> None:
    debouncer = followed()
    for folder in ("/r/a/b", "/r/a/b", "/r/a/c"):
        debouncer.touch("/r", folder, 10)
    assert debouncer.due(15) == [DueFolder("/r", "/r/a")]


def test_folders_whose_names_begin_alike_are_two() -> None:
    debouncer = followed()
    for folder in ("/r/a", "/r/ab"):
        debouncer.touch("/r", folder, 10)
    assert debouncer.due(15) == [DueFolder("/r", "/r")]


def test_everything_is_looked_at_now_and_then() -> None:
    debouncer = followed()
    debouncer.touch("/r", "/r/a", 999)
    assert debouncer.due(1000) == [DueFolder("/r", "/r", every=True)]
    assert debouncer.due(1999) == []
    assert debouncer.due(2000) == [DueFolder("/r", "/r", every=True)]


def test_the_longer_a_look_takes_the_less_often_it_is_done() -> None:
    debouncer = followed()
    debouncer.scanned("/r", 10, 0.1)
    assert debouncer.next_due() == 1010
    debouncer.scanned("/r", 10, 100)
    assert debouncer.next_due() == 200_010


def test_roots_are_due_each_in_its_own_time() -> None:
    debouncer = followed()
    debouncer.add("/s", 3)
    debouncer.touch("/r", "/r", 4)
    assert (debouncer.due(3), debouncer.due(9)) == ([DueFolder("/s", "/s")], [DueFolder("/r", "/r")])


def test_a_root_that_was_let_go_is_never_due() -> None:
    debouncer = followed()
    debouncer.touch("/r", "/r", 1)
    debouncer.drop("/r")
    assert (debouncer.touch("/r", "/r", 2), debouncer.due(1e9), debouncer.next_due()) == (False, [], None)


@given(st.lists(st.tuples(st.floats(0, 30), FOLDERS), max_size=40))
def test_each_change_is_read_once_not_too_soon_and_not_too_late(steps: list[tuple[float, str]]) -> None:
    """Let time jump from change to change and from one due moment to the next, and keep what is still unread."""
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
