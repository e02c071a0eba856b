"""When changed roots are due: after quiet, after long unrest, and now and then without a cause."""

import os

from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.follow import Debouncer, DueFolder, Intervals

PACE = Intervals(quiet=5, patience=60, rescan=1000)
FOLDERS = st.sampled_from(["/r", "/r/a", "/r/a/b", "/r/a/c", "/r/d", "/r/ab"])


def followed(pace: Intervals = PACE) -> Debouncer:
    """Return a root that was read at 0."""
    unrest = Debouncer(pace)
    unrest.add("/r", 0)
    assert unrest.due(0) == [DueFolder("/r", "/r")]
    return unrest


def test_a_change_is_due_when_it_was_quiet_for_a_while() -> None:
    unrest = followed()
    assert [unrest.touch("/r", "/r/a", at) for at in (10, 12, 14)] == [True, False, False]
    assert (unrest.until(), unrest.due(18.9), unrest.due(19)) == (19, [], [DueFolder("/r", "/r/a")])
    assert unrest.due(30) == []


def test_what_never_rests_is_due_all_the_same_after_a_time() -> None:
    unrest = followed()
    for at in range(10, 70):
        unrest.touch("/r", "/r", at)
    assert unrest.due(69.9) == []
    assert unrest.due(70) == [DueFolder("/r", "/r")]


def test_one_folder_stands_for_all_changes() -> None:
    unrest = followed()
    for folder in ("/r/a/b", "/r/a/b", "/r/a/c"):
        unrest.touch("/r", folder, 10)
    assert unrest.due(15) == [DueFolder("/r", "/r/a")]


def test_folders_whose_names_begin_alike_are_two() -> None:
    unrest = followed()
    for folder in ("/r/a", "/r/ab"):
        unrest.touch("/r", folder, 10)
    assert unrest.due(15) == [DueFolder("/r", "/r")]


def test_everything_is_looked_at_now_and_then() -> None:
    unrest = followed()
    unrest.touch("/r", "/r/a", 999)
    assert unrest.due(1000) == [DueFolder("/r", "/r", every=True)]
    assert unrest.due(1999) == []
    assert unrest.due(2000) == [DueFolder("/r", "/r", every=True)]


def test_the_longer_a_look_takes_the_less_often_it_is_done() -> None:
    unrest = followed()
    unrest.looked("/r", 10, 0.1)
    assert unrest.until() == 1010
    unrest.looked("/r", 10, 100)
    assert unrest.until() == 200_010


def test_roots_are_due_each_in_its_own_time() -> None:
    unrest = followed()
    unrest.add("/s", 3)
    unrest.touch("/r", "/r", 4)
    assert (unrest.due(3), unrest.due(9)) == ([DueFolder("/s", "/s")], [DueFolder("/r", "/r")])


def test_a_root_that_was_let_go_is_never_due() -> None:
    unrest = followed()
    unrest.touch("/r", "/r", 1)
    unrest.drop("/r")
    assert (unrest.touch("/r", "/r", 2), unrest.due(1e9), unrest.until()) == (False, [], None)


@given(st.lists(st.tuples(st.floats(0, 30), FOLDERS), max_size=40))
def test_each_change_is_read_once_not_too_soon_and_not_too_late(steps: list[tuple[float, str]]) -> None:
    """Let time jump from change to change and from one due moment to the next, and keep what is still unread."""
    unrest, now, unread = followed(Intervals(quiet=5, patience=20, rescan=1e9)), 0.0, list[tuple[float, str]]()
    for passed, folder in [*steps, (0.0, "")]:
        ends = now + passed if folder else float("inf")
        while (until := unrest.until()) is not None and until <= min(ends, 1e8):
            (due,) = unrest.due(until)
            assert unread
            assert {os.path.commonpath((due.folder, inside)) for _, inside in unread} == {due.folder}
            assert until in (unread[-1][0] + 5, unread[0][0] + 20)
            unread.clear()
        if folder:
            now = ends
            assert unrest.touch("/r", folder, now) is (not unread)
            unread.append((now, folder))
    assert unread == []
