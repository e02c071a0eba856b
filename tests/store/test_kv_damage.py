"""What happens to a node whose file or row is not what it was: a miss, never an error."""

import os
from pathlib import Path

import pytest

from store.database import Ledger
from store.integrity import examine, repair
from store.kv_files import Header, Node, Tensor, first_key, pack, write
from store.kv_store import KvStore, scores
from tests.store.kit import Opened
from tests.store.kv_kit import HALF_LIFE_S, PLENTY, ROOT, SUB_STEP, A, B, C, Interrupted, Kept, tensors


def damage_missing(path: Path) -> None:
    path.unlink()


def damage_torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def damage_flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 4
    path.write_bytes(data)


def damage_flipped_with_its_time_restored(path: Path) -> None:
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        byte = file.read(1)
        file.seek(-5, os.SEEK_END)
        file.write(bytes([byte[0] ^ 4]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def damage_foreign(path: Path) -> None:
    path.write_bytes(b"not a node at all")


def damage_another_node(path: Path) -> None:
    write(path, Header(b"r" * 16, b"k" * 16, b"p" * 16, b"a" * 16, (1,)), tensors(100))


def damage_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"version":"1"', b'"version":"0"'))


def damage_larger(path: Path) -> None:
    path.write_bytes(bytes(100_000))


def damage_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def rot(ledger: Ledger, path: Path) -> None:
    """Flip a bit as a failing disk does: the file system says that nobody wrote."""
    damage_flipped(path)
    file = path.stat()
    identity = (file.st_size, file.st_mtime_ns, file.st_ctime_ns, file.st_ino)
    ledger.rows.execute("UPDATE kv_nodes SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?", identity)


DAMAGE = {
    "missing": damage_missing, "truncated": damage_torn, "checksum": damage_flipped,
    "restored": damage_flipped_with_its_time_restored, "mismatch": damage_foreign, "another": damage_another_node,
    "version": damage_version, "larger": damage_larger, "folder": damage_folder,
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_node_is_a_miss_with_all_below_it(kept: Kept, kind: str) -> None:
    for segments in ((A,), (A, B), (A, B, C), (C,)):
        kept.keep(*segments)
    DAMAGE[kind](kept.path_of(A, B))
    assert (kept.shape(A, B, C), kept.shape(C)) == ((1, (), 6), (1, (), 4))
    assert kept.count() == 2


@pytest.mark.parametrize("kind", sorted(DAMAGE))
def test_a_damaged_node_can_be_kept_again(kept: Kept, kind: str) -> None:
    kept.keep(A)
    DAMAGE[kind](kept.path_of(A))
    assert not kept.has(A)
    assert (kept.keep(A) is None, kept.has(A)) == (False, True)


def test_where_a_nodes_place_cannot_be_cleared_it_is_not_kept_and_nothing_is_left(kept: Kept) -> None:
    kept.keep(A)
    path = kept.path_of(A)
    damage_folder(path)
    (path / "of somebody else").touch()
    assert not kept.has(A)
    assert (kept.keep(A), kept.count()) == (None, 0)


def test_a_damaged_node_that_would_lend_its_beginning_is_a_miss(kept: Kept) -> None:
    kept.keep(A)
    damage_flipped(kept.path_of(A))
    assert kept.shape((*A, 7)) == (0, (), 0)


def test_where_the_best_beginning_is_damaged_the_next_best_lends(kept: Kept) -> None:
    best, next_best = (1, 2, 3, 4, 5, 6, 7, 8, 9, 9), (1, 2, 3, 4, 9, 9)
    kept.keep(best)
    kept.keep(next_best)
    damage_torn(kept.path_of(best))
    assert kept.shape((1, 2, 3, 4, 5, 6, 7, 8, 8, 8)) == (0, next_best, 4)


def test_rows_whose_ids_were_changed_are_a_miss(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    kept.ledger.rows.execute("UPDATE kv_nodes SET ids = x'01000000' WHERE depth = 1")
    assert (kept.shape(A, B), kept.count()) == ((0, (), 0), 0)


def test_a_row_whose_ids_were_changed_lends_nothing(kept: Kept) -> None:
    kept.keep((1, 2, 3, 4, 9))
    ids, first = pack((1, 2, 3, 4, 5, 6, 7, 8)), first_key((1, 2, 3, 4), SUB_STEP)
    kept.ledger.rows.execute("UPDATE kv_nodes SET ids = ?, first = ?", (ids, first))
    assert (kept.shape((1, 2, 3, 4, 5, 6, 7, 8, 8)), kept.count()) == ((0, (), 0), 0)


def test_a_file_in_which_not_all_arrived_as_it_was_is_not_kept(kept: Kept) -> None:
    memory = bytearray(400)
    parts = [Tensor(name, "U8", (100,), memoryview(memory)[at : at + 100]) for at, name in enumerate(("k", "v", "w"))]
    changing = Interrupted(parts, lambda: memory.__setitem__(50, 1))
    assert kept.store.keep(ROOT, None, A, 1.0, changing) is None
    assert (kept.count(), kept.files()) == (0, set())


def test_a_file_that_was_only_touched_is_read_once_and_stays(kept: Kept) -> None:
    kept.keep(A)
    path = kept.path_of(A)
    path.touch()
    found = kept.ledger.rows.execute("SELECT mtime_ns FROM kv_nodes").fetchone()[0]
    assert kept.has(A)
    again = kept.ledger.rows.execute("SELECT mtime_ns FROM kv_nodes").fetchone()[0]
    assert (found == path.stat().st_mtime_ns, again == path.stat().st_mtime_ns) == (False, True)


def test_an_untouched_file_is_read_again_only_when_all_is_to_be_read(kept: Kept) -> None:
    node = kept.keep(A)
    assert node is not None
    rot(kept.ledger, kept.store.folder.path_of(node.key))
    assert (kept.store.folder.check(node), kept.store.folder.check(node, read_data=True)) == (True, False)


def test_a_node_that_could_not_be_loaded_goes_with_all_below_it(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    kept.store.folder.remove_damaged(kept.store.match(ROOT, [A]).nodes[0])
    assert (kept.shape(A, B), kept.count()) == ((0, (), 0), 0)


def test_losing_a_node_twice_is_no_error(kept: Kept) -> None:
    node = kept.keep(A)
    assert node is not None
    kept.store.folder.remove_damaged(node)
    kept.store.folder.remove_damaged(node)
    assert (kept.has(A), kept.count()) == (False, 0)


def test_a_node_kept_anew_is_not_lost_with_its_predecessor(kept: Kept) -> None:
    old = kept.keep(A)
    assert old is not None
    kept.store.folder.remove([old.key])
    kept.clock.at += 1
    kept.keep(A)
    kept.store.folder.remove_damaged(old)
    assert kept.has(A)


def test_a_folder_that_was_removed_is_an_empty_tree_and_is_used_again(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    for path in kept.folder.iterdir():
        path.unlink()
    kept.folder.rmdir()
    assert (kept.shape(A, B), kept.keep(A) is None, kept.has(A)) == ((0, (), 0), False, True)


def test_the_file_of_a_damaged_node_is_removed(kept: Kept) -> None:
    kept.keep(A)
    damage_flipped(kept.path_of(A))
    kept.shape(A)
    assert {path.name for path in kept.folder.iterdir()} == {"kv.lock"}


# What `pkb doctor --data` sees of it.


@pytest.fixture
def checked(opened: Opened) -> tuple[Opened, KvStore, Node]:
    """Return a home with a node in it."""
    score = scores(HALF_LIFE_S)["value"]
    store = KvStore(
        opened.ledger, opened.home.kv, budget=PLENTY, daily=PLENTY, score=score, sub_step=SUB_STEP, now=lambda: 1.0
    )
    node = store.keep(ROOT, None, A, 1.0, tensors(1000))
    assert node is not None
    return opened, store, node


def found(opened: Opened, *, read_data: bool) -> str:
    findings = examine(opened.home, opened.ledger, opened.tables, read_data=read_data)
    return next(one.wrong for one in findings if one.name == "kv")


def test_an_examination_finds_nothing_wrong_with_a_sound_node(checked: tuple[Opened, KvStore, Node]) -> None:
    assert [found(checked[0], read_data=read) for read in (False, True)] == ["", ""]


def test_an_examination_makes_no_folder(opened: Opened) -> None:
    assert (found(opened, read_data=True), opened.home.kv.exists()) == ("", False)


@pytest.mark.parametrize("kind", ["missing", "truncated", "checksum", "restored"])
def test_an_examination_finds_a_damaged_node_and_repair_removes_it(
    checked: tuple[Opened, KvStore, Node], kind: str
) -> None:
    opened, store, node = checked
    DAMAGE[kind](store.folder.path_of(node.key))
    wrong = found(opened, read_data=False)
    repair(opened.home, opened.ledger, opened.tables, opened.knowledge)
    assert (wrong, found(opened, read_data=True)) == ("1 damaged KV cache entries, 0 orphaned files", "")


def test_an_examination_finds_a_file_too_many_and_repair_removes_it(checked: tuple[Opened, KvStore, Node]) -> None:
    opened, store, node = checked
    stray = store.folder.path_of(node.key).with_name("f" * 32 + ".safetensors")
    stray.write_bytes(b"x")
    wrong = found(opened, read_data=False)
    repair(opened.home, opened.ledger, opened.tables, opened.knowledge)
    assert (wrong, stray.exists()) == ("0 damaged KV cache entries, 1 orphaned files", False)


def test_only_reading_all_finds_a_bit_that_rotted_unseen(checked: tuple[Opened, KvStore, Node]) -> None:
    opened, store, node = checked
    rot(opened.ledger, store.folder.path_of(node.key))
    assert [bool(found(opened, read_data=read)) for read in (False, True)] == [False, True]
