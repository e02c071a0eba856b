"""The incremental check reads all KV files slice by slice and deletes damaged ones."""

from itertools import count
from pathlib import Path

from store.home import Home, locate
from store.integrity import check_slice
from tests.store.kv_kit import A, B, C, Kept


def home_of(box: Kept) -> Home:
    return locate({"PKB_HOME": str(box.home), "PKB_CACHE": str(box.home / "cache"), "PKB_CONFIG": str(box.home / "c")})


def test_slices_cover_all_files_and_delete_damaged_ones(tmp_path: Path) -> None:
    box = Kept(tmp_path)
    for segments in ((A,), (B,), (C,)):
        assert box.keep(*segments)
    home = home_of(box)
    assert home.kv == box.folder
    path = box.path_of(B)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    removed = [check_slice(home, box.ledger, 2) for _ in range(3)]
    assert sum(removed) == 1
    assert [box.has(name) for name in (A, B, C)] == [True, False, True]
    assert check_slice(home, box.ledger, 100) == 0
    box.close()


def test_a_check_whose_time_is_up_stops_before_a_file_and_goes_on_there(tmp_path: Path) -> None:
    box = Kept(tmp_path)
    for segments in ((A,), (B,), (C,)):
        assert box.keep(*segments)
    for name in (A, B, C):
        path = box.path_of(name)
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    calls = count()
    assert check_slice(home_of(box), box.ledger, 100, lambda: next(calls) > 0) == 1
    assert check_slice(home_of(box), box.ledger, 100, lambda: True) == 0
    assert check_slice(home_of(box), box.ledger, 100) == 2
    box.close()
