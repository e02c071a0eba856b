"""Where things lie, and that nobody else may read them."""

import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import PkbError
from store.home import NETWORK, file_system, kind_of, locate, size_on_disk, unsafe_place
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


class Going:
    """What is compared with each folder that was listed, and removes it before it is sized."""

    def __ne__(self, other: object) -> bool:
        shutil.rmtree(str(other))
        return True


def test_a_folder_that_goes_while_the_cache_is_counted_counts_for_nothing(tmp_path: Path) -> None:
    home = home_in(tmp_path)
    home.create()
    (home.cache / "kernels").mkdir()
    alone = home.cache.stat().st_size
    assert size_on_disk(home.cache, cast("Path", Going())) == alone
    assert not (home.cache / "kernels").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("Dropbox", "dropbox", "Dropbox (Personal)", "OneDrive", "OneDrive - Firm", "iCloud Drive", "Google Drive"),
        *("Library/Mobile Documents/com~apple~CloudDocs", "Library/CloudStorage/GoogleDrive-ann@example.org"),
        *("Nextcloud", "Syncthing"),
    ],
)
def test_a_folder_that_a_program_syncs_is_no_safe_place(tmp_path: Path, name: str) -> None:
    assert "is in a synced folder" in unsafe_place(tmp_path / name / "notes" / "home")


@pytest.mark.parametrize(
    "name", ["dropbox-exports", "my dropbox", "onedrive2", "OneDriver - notes", "iclouds", "googledrives", "stfolder"]
)
def test_a_folder_whose_name_only_holds_such_a_word_is_safe(tmp_path: Path, name: str) -> None:
    assert unsafe_place(tmp_path / name / "home") == ""


def test_a_synced_folder_of_any_name_is_known_by_its_mark(tmp_path: Path) -> None:
    home = tmp_path / "Sync" / "notes" / "home"
    assert unsafe_place(home) == ""
    (tmp_path / "Sync" / ".stfolder").mkdir(parents=True)
    assert unsafe_place(home) == f"{home} is in a synced folder (Syncthing), where syncing can damage it"


def test_a_link_into_a_synced_folder_and_one_out_of_it_are_both_noticed(tmp_path: Path) -> None:
    (tmp_path / "Dropbox" / "inner").mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    (tmp_path / "into").symlink_to(tmp_path / "Dropbox" / "inner")
    (tmp_path / "Dropbox" / "out").symlink_to(tmp_path / "plain")
    assert "(Dropbox)" in unsafe_place(tmp_path / "into" / "home")
    assert "(Dropbox)" in unsafe_place(tmp_path / "Dropbox" / "out" / "home")


TABLE = rb"""21 28 0:19 / /sys rw,nosuid shared:7 - sysfs sysfs rw
28 1 0:25 / / rw,relatime shared:1 - overlay overlay rw,lowerdir=/a:/b
40 28 0:41 / /home rw,relatime shared:20 - nfs4 server:/home rw,vers=4.2
41 40 254:0 / /home/ann/local rw,relatime - ext4 /dev/vda rw
42 28 0:43 / /mnt/my\040share rw - cifs //server/share rw
43 28 0:44 / /mnt/over rw - ext4 /dev/vdb rw
44 28 0:45 / /mnt/over rw master:1 propagate_from:2 - fuse.sshfs ann@server: rw
45 28 0:46 / /host rw - 9p host rw
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/", "overlay"),
        ("/var/lib", "overlay"),
        ("/home", "nfs4"),
        ("/home/ann/mail", "nfs4"),
        ("/home/ann/local/pkb", "ext4"),
        ("/homes", "overlay"),
        ("/mnt/my share/pkb", "cifs"),
        ("/mnt/over/pkb", "fuse.sshfs"),
        ("/host/pkb", "9p"),
    ],
)
def test_the_file_system_of_a_place_is_that_of_the_nearest_mount_above_it(place: str, kind: str) -> None:
    assert kind_of(TABLE, Path(place)) == kind


def test_network_disks_are_refused_and_the_disks_of_containers_are_not() -> None:
    assert {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "fuse.sshfs", "fuse.rclone", "ceph"} <= NETWORK
    assert not {"overlay", "9p", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "apfs", "virtiofs", "unknown"} & NETWORK


@given(st.binary(max_size=200), st.sampled_from([b"", b" - ", b"1 2 0:1 / / rw - "]))
def test_any_table_of_mounts_is_read_without_an_error(table: bytes, begin: bytes) -> None:
    kind_of(begin + table + TABLE, Path("/home"))


@pytest.mark.skipif(sys.platform != "linux", reason="the table of mounts is Linux's")
def test_a_mount_of_this_machine_has_the_type_that_psutil_tells() -> None:
    told = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    places = [place for place in ("/", "/proc", "/dev/shm", "/sys") if place in told]
    assert {place: file_system(Path(place)) for place in places} == {place: told[place] for place in places}


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no disk without a block device")
@pytest.mark.parametrize(("kind", "refused"), [("nfs4", True), ("fuse.sshfs", True), ("9p", False), ("overlay", False)])
def test_a_home_on_a_network_disk_is_refused_by_the_table_of_mounts(tmp_path: Path, kind: str, refused: bool) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"28 1 0:25 / / rw - overlay overlay rw\n40 28 0:41 / /dev/shm rw - {kind} server:/home rw\n")
    why = f"/dev/shm/ann/home is on a network disk ({kind}), where SQLite is not safe"
    assert unsafe_place(Path("/dev/shm/ann/home"), table) == (why if refused else "")
    assert unsafe_place(Path("/dev/shm/ann/home"), tmp_path / "none") == ""


@pytest.mark.skipif(not shutil.which("unshare"), reason="no program to make a mount with")
def test_a_home_on_a_mount_within_a_folder_is_that_of_the_mount(tmp_path: Path) -> None:
    script = f"mount -t tmpfs none '{tmp_path}' && exec '{sys.executable}' -c \"$0\""
    code = f"from pathlib import Path; import store.home as h; print(h.file_system(Path('{tmp_path}/home')))"
    words = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, code]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    if ran.returncode:
        pytest.skip(f"this system allows no mount: {ran.stderr.strip()}")
    assert ran.stdout == "tmpfs\n"
