"""Where things lie, and that nobody else may read them."""

import shutil
import stat
from pathlib import Path

import pytest

from store.errors import PkbError
from store.home import Home, locate
from tests.store.kit import Opened, entry, home_in


def test_variables_name_the_three_places(tmp_path: Path) -> None:
    home = locate({"PKB_HOME": f"{tmp_path}/a", "PKB_CACHE": f"{tmp_path}/b", "PKB_CONFIG": f"{tmp_path}/c"})
    assert (home.data, home.cache, home.config) == (tmp_path / "a", tmp_path / "b", tmp_path / "c")


def test_the_config_follows_the_systems_folder_for_it(tmp_path: Path) -> None:
    assert locate({"XDG_CONFIG_HOME": str(tmp_path)}).config == tmp_path / "pkb" / "config.toml"


def test_an_empty_variable_is_as_none_at_all() -> None:
    assert locate({"PKB_HOME": ""}).data == locate({}).data


def test_new_folders_are_their_owners_alone(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    home.create()
    folders = (home.data, home.tables, home.locks, home.cache)
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_files_of_earlier_versions_are_removed_when_a_home_is_opened_for_writing(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    home.create()
    (home.data / "questions.vectors").write_bytes(b"x")
    home.create()
    assert not (home.data / "questions.vectors").exists()


def test_a_place_that_cannot_be_made_is_an_error_for_the_user(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file in the way")
    with pytest.raises(PkbError, match="cannot write"):
        home_in(tmp_path).create()


def test_sizes_are_those_of_the_files(opened: Opened) -> None:
    opened.keep(entry("a", "red"))
    tables = sum(path.stat().st_size for path in opened.home.tables.rglob("*") if path.is_file())
    assert opened.home.sizes()["tables"] == tables


def test_a_home_that_is_not_there_has_no_size(tmp_path: Path) -> None:
    assert home_in(tmp_path).sizes() == {"tables": 0, "ledger": 0, "cache": 0}


def test_a_link_counts_for_nothing(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 5000)
    (opened.home.cache / "link").symlink_to(tmp_path / "big")
    assert opened.home.sizes()["cache"] == 0


class Going(Home):
    """A home where a folder of the cache goes while its bytes are counted: after it was listed, before it is sized."""

    def __init__(self, home: Home) -> None:
        super().__init__(home.data, home.cache, home.config)

    @property
    def kv(self) -> Path:
        """Return the folder of the KV cache, which is looked up when a folder was listed."""
        if not (self.cache / "kernels" / "listed").exists():
            (self.cache / "kernels" / "listed").mkdir()
        else:
            shutil.rmtree(self.cache / "kernels")
        return self.cache / "kv"


def test_a_folder_that_goes_while_the_cache_is_counted_counts_for_nothing(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    home.create()
    (home.cache / "kernels").mkdir()
    alone = home.cache.stat().st_size
    assert Going(home).other_cache_bytes() == alone
    assert not (home.cache / "kernels").exists()
