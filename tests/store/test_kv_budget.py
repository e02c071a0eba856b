"""The KV budget: never exceeded by any writers, and what is evicted for it."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.home import size_on_disk
from store.jobs import JobAccount
from store.kv_files import Node
from tests.effort import examples
from tests.store.kit import home_in
from tests.store.kv_budget import BUDGET, du, watch
from tests.store.kv_kit import PLENTY, ROOT, A, B, C, Kept

SIZE = 400_000  # bytes of a node
ROOM = 1_300_000  # for three of them, with folders and what is set aside for their growth
Open = Callable[..., Kept]


@pytest.fixture
def open_kept(tmp_path: Path) -> Iterator[Open]:
    """Yield what opens the test's store, each time as another process would."""
    with ExitStack() as stack:

        def open_one(budget: int = ROOM, daily: int = PLENTY) -> Kept:
            return stack.enter_context(closing(Kept(tmp_path, budget=budget, daily=daily)))

        yield open_one


def add(path: Path, size: int) -> None:
    """Add a file some time after all others: the clock of a file system may stand still for milliseconds."""
    path.write_bytes(bytes(size))
    later = path.parent.stat().st_mtime_ns + 10**9
    os.utime(path.parent, ns=(later, later))


def keep(kept: Kept, *segments: tuple[int, ...], seconds: float = 1.0) -> Node | None:
    kept.clock.at += 1
    return kept.keep(*segments, size=SIZE, seconds=seconds)


def test_the_size_of_a_folder_is_what_du_says(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "one").write_bytes(b"x" * 5000)
    (tmp_path / "two").write_bytes(b"x" * 7)
    (tmp_path / "link").symlink_to("two")
    if (seen := du(tmp_path)) is None:
        pytest.skip("no du that counts bytes on this machine")
    assert size_on_disk(tmp_path) == seen


def test_a_missing_folder_has_no_size(tmp_path: Path) -> None:
    assert size_on_disk(tmp_path / "none") == 0


def test_the_node_of_the_lowest_score_is_evicted_when_there_is_no_space(open_kept: Open) -> None:
    kept = open_kept()
    for segment, seconds in ((A, 5.0), (B, 1.0), (C, 5.0), ((1,), 5.0)):
        keep(kept, segment, seconds=seconds)
    there = [kept.has(segment) for segment in (A, B, C, (1,))]
    assert (there, kept.used() <= ROOM) == ([True, False, True, True], True)


def test_the_parent_of_a_new_node_is_not_evicted_for_it(open_kept: Open) -> None:
    kept = open_kept()
    keep(kept, A, seconds=0.1)
    keep(kept, B, seconds=5.0)
    keep(kept, C, seconds=5.0)
    assert keep(kept, A, B, seconds=0.1) is not None
    assert (kept.has(A, B), kept.orphans()) == (True, [])


def test_a_node_larger_than_the_budget_is_refused_and_evicts_nothing(open_kept: Open) -> None:
    kept = open_kept()
    keep(kept, A)
    assert kept.keep(B, size=ROOM) is None
    assert kept.has(A)


def test_the_bytes_written_per_day_are_limited(open_kept: Open) -> None:
    kept = open_kept(daily=2 * SIZE + 50_000)
    for segment in (A, B, C):
        keep(kept, segment)
    today = [kept.has(segment) for segment in (A, B, C)]
    kept.clock.at += 86_400
    assert (today, keep(kept, C) is not None) == ([True, True, False], True)


def test_other_files_of_the_cache_folder_count(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    other = home.cache / "compiled"
    other.parent.mkdir()
    other.write_bytes(bytes(600_000))
    kept = Kept(tmp_path, budget=ROOM, others=home.other_cache_bytes)
    for segment in (A, B, C):
        keep(kept, segment)
    assert (home.kv, kept.used() <= ROOM, len(kept.files())) == (kept.folder, True, 1)
    kept.close()


def test_files_that_grow_while_a_node_is_written_count_afterwards(tmp_path: Path) -> None:
    grown = [0]
    kept = Kept(tmp_path, budget=ROOM, others=lambda: sum(grown))
    keep(kept, A, seconds=0.1)
    keep(kept, B)
    kept.meanwhile = lambda: grown.append(200_000)
    keep(kept, C)
    assert (kept.used() + sum(grown) <= ROOM, kept.has(A), kept.has(C)) == (True, False, True)
    kept.close()


def test_a_foreign_file_in_the_folder_counts(open_kept: Open) -> None:
    kept = open_kept()
    keep(kept, A)
    add(kept.folder / "notes.txt", 600_000)
    keep(kept, B)
    assert (kept.has(A), kept.has(B), kept.used() <= ROOM) == (False, True, True)


def test_a_node_that_is_evicted_after_the_match_is_a_miss(open_kept: Open) -> None:
    kept, other = open_kept(), open_kept()
    keep(kept, A, seconds=0.1)
    match = other.store.match(ROOT, [A])
    for n in range(3):
        keep(kept, (n,), seconds=5.0)
    assert [other.store.folder.check(node) for node in match.nodes] == [False]


def test_shrinking_evicts_the_lowest_scores_at_once(open_kept: Open) -> None:
    kept = open_kept()
    for segment, seconds in ((A, 5.0), (B, 1.0), (C, 3.0)):
        keep(kept, segment, seconds=seconds)
    held = kept.store.shrink(ROOM // 2)
    there = [kept.has(segment) for segment in (A, B, C)]
    assert (there, kept.used() <= held <= ROOM // 2) == ([True, False, False], True)


def test_a_smaller_budget_applies_when_the_store_is_opened(open_kept: Open) -> None:
    kept = open_kept()
    for segment in (A, B, C):
        keep(kept, segment)
    later = open_kept(budget=ROOM // 2)
    later.store.collect()
    assert (kept.used() <= ROOM // 2, len(kept.files())) == (True, 1)


def test_stats_count_what_is_there(open_kept: Open) -> None:
    kept = open_kept()
    sizes = [node.bytes for node in (keep(kept, A), keep(kept, A, B)) if node]
    index, held = kept.store.index, kept.store.index.totals()
    assert (held.count, held.bytes, index.written(kept.clock())) == (2, sum(sizes), sum(sizes))


# Two at once: each a connection of its own, as two processes have.


def test_a_node_being_written_is_not_matched_even_in_part(open_kept: Open) -> None:
    kept, other = open_kept(), open_kept()
    kept.meanwhile = lambda: shapes.extend([other.shape(A), other.shape((*A, 9))])
    shapes: list[object] = []
    assert (keep(kept, A) is None, shapes) == (False, [(0, (), 0), (0, (), 0)])


def test_while_one_writes_another_finds_what_is_there_and_writes_nothing(open_kept: Open) -> None:
    kept, other = open_kept(), open_kept()
    first = keep(kept, B)
    kept.meanwhile = lambda: results.extend([other.keep(A), other.keep(C), other.keep(B)])
    results: list[Node | None] = []
    keep(kept, A)
    assert (results, kept.has(A), len(kept.files())) == ([None, None, first], True, 2)


def test_collection_leaves_what_a_living_process_is_writing(open_kept: Open) -> None:
    kept, other = open_kept(), open_kept()
    collecting = Thread(target=other.store.collect)
    kept.meanwhile = collecting.start
    node = keep(kept, A)
    collecting.join()
    assert (node is None, other.has(A)) == (False, True)


def test_a_node_deleted_while_it_is_written_leaves_nothing(open_kept: Open) -> None:
    kept, other = open_kept(), open_kept()
    parent = keep(kept, A)
    assert parent is not None
    kept.meanwhile = lambda: other.store.folder.remove([parent.key])
    assert keep(kept, A, B) is None
    assert (kept.count(), kept.files()) == (0, set())


def test_a_write_that_is_interrupted_leaves_nothing(open_kept: Open) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    kept = open_kept()
    kept.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        keep(kept, A)
    assert (kept.count(), kept.files()) == (0, set())


def test_collection_removes_files_without_rows_and_rows_without_files(open_kept: Open) -> None:
    kept = open_kept()
    for segments in ((A,), (A, B), (C,)):
        keep(kept, *segments)
    kept.path_of(A).unlink()
    (kept.folder / ("f" * 32 + ".safetensors")).write_bytes(b"x")
    (kept.folder / ("f" * 32 + ".part")).write_bytes(b"x")
    kept.store.collect()
    assert (kept.has(C), len(kept.files()), kept.count()) == (True, 1, 1)


def test_collection_removes_the_owner_files_of_earlier_versions(open_kept: Open) -> None:
    kept = open_kept()
    kept.keep(A)
    (kept.folder / "1-dead.owner").touch()
    kept.store.collect()
    assert (len(list(kept.folder.glob("*.owner"))), kept.has(A)) == (0, True)


def test_the_folder_is_its_owner_s_alone(open_kept: Open) -> None:
    kept = open_kept()
    kept.store.collect()
    keep(kept, A)
    assert (kept.folder.is_dir(), kept.folder.stat().st_mode & 0o777) == (True, 0o700)


STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["keep", "keep", "keep", "match", "forget", "lost", "shrink", "collect", "damage"]),
    st.lists(st.integers(0, 2), min_size=1, max_size=3),
)


@given(st.lists(STEPS, max_size=25))
@examples(25)
def test_no_interleaving_of_two_stores_exceeds_the_budget_or_parts_a_child_from_its_parent(
    steps: list[tuple[int, str, list[int]]],
) -> None:
    with TemporaryDirectory() as folder, ExitStack() as stack:
        both = [stack.enter_context(closing(Kept(Path(folder), budget=ROOM))) for _ in range(2)]
        for number, step, numbers in steps:
            both[number].clock.at += 1
            _take(both[number], step, [(n,) * 6 for n in numbers])
            assert both[0].used() <= ROOM
            assert both[0].orphans() == []
        both[0].store.collect()
        assert len(both[0].files()) == both[0].count()


def _take(kept: Kept, step: str, segments: list[tuple[int, ...]]) -> None:
    match = kept.store.match(ROOT, segments)
    node = match.nodes[-1] if match.nodes else None
    if step == "keep" and len(match.nodes) < len(segments):
        kept.keep(*segments[: len(match.nodes) + 1], size=SIZE)
    elif step == "forget" and node:
        kept.store.folder.remove([node.key])
    elif step == "lost" and node:
        kept.store.folder.remove_damaged(node)
    elif step == "damage" and node:
        kept.store.folder.path_of(node.key).write_bytes(b"damaged")
    elif step == "shrink":
        kept.store.shrink(ROOM // 2)
        kept.store.shrink(ROOM)
    elif step == "collect":
        kept.store.collect()


def test_two_processes_that_write_ten_times_the_budget_never_exceed_it(tmp_path: Path) -> None:
    if du(tmp_path) is None:
        pytest.skip("no du that counts bytes on this machine")
    seen = watch(tmp_path, writers=2, times=10)
    assert (BUDGET // 2 < seen.most <= BUDGET, seen.written >= 9 * BUDGET, seen.samples > 5) == (True, True, True)


def test_evicting_an_unused_node_deletes_its_file_and_frees_its_bytes(open_kept: Open) -> None:
    kept = open_kept()
    a, b = keep(kept, A), keep(kept, B)
    assert a
    assert b
    free = kept.store.free()
    assert kept.store.free(a.bytes) == free + a.bytes
    kept.store.evict_unused([a.key, b"nothing"])
    assert (kept.has(A), kept.has(B), len(kept.files())) == (False, True, 1)
    assert free + a.bytes <= kept.store.free() <= free + a.bytes + 50_000


def test_used_and_inner_nodes_are_not_evicted_as_unused(open_kept: Open) -> None:
    kept = open_kept(budget=PLENTY)
    nodes = [keep(kept, *path) for path in ((A,), (A, B), (B,), (C,))]
    match = kept.store.match(ROOT, (A, B))
    kept.store.record_use(match, 1.0)
    kept.store.evict_unused([node.key for node in nodes if node])
    assert [kept.has(*path) for path in ((A,), (A, B), (B,), (C,))] == [True, True, False, False]


def test_eviction_does_not_raise_the_bytes_that_can_be_written_today(open_kept: Open) -> None:
    kept = open_kept(daily=SIZE + 50_000)
    node = keep(kept, A)
    assert node
    assert kept.store.free(node.bytes) <= 50_000


def test_unused_prefetched_nodes_are_leaves_below_the_first_segment(open_kept: Open) -> None:
    kept = open_kept(budget=PLENTY)
    nodes = [keep(kept, *path) for path in ((A,), (A, B), (A, C), (A, B, C))]
    for node in nodes:
        assert node
        JobAccount(kept.ledger).add_outputs("prefetch", [node.key])
    assert keep(kept, A, (1,))
    assert nodes[2]
    assert nodes[3]
    assert [one.key for one in kept.store.index.unused("prefetch")] == [nodes[2].key, nodes[3].key]
    match = kept.store.match(ROOT, (A, C))
    kept.store.record_use(match, 1.0)
    assert [(one.key, one.bytes) for one in kept.store.index.unused("prefetch")] == [(nodes[3].key, nodes[3].bytes)]
    assert kept.store.index.unused("blocks") == []
