"""The paths of one home, private to their owner, and how its files are told apart and written; not their content."""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from store.errors import DiskFull, PkbError, disk_failure


class PathInside:
    """A path inside one of the paths of a home."""

    def __init__(self, above: str, name: str) -> None:
        self._above, self._name = above, name

    def __get__(self, home: "Home", _: object = None) -> Path:
        return Path(getattr(home, self._above), self._name)


@dataclass(frozen=True, slots=True)
class Home:
    """The three paths of one pkb, data, a cache that backups may leave out, and the config file; and those inside."""

    data: Path
    cache: Path
    config: Path
    source: Path | None = None  # of a reader's home: the data of the one whose search tables it reads

    ledger = PathInside("data", "ledger.db")  # SQLite: everything that is counted or looked up by key
    tables = PathInside("bank", "tables")  # LanceDB: everything that is searched
    index = PathInside("data", "index")  # the mapped index: what retrieval reads of the tables, made from them
    locks = PathInside("data", "locks")
    share = PathInside("data", "share")  # the keys that this machine shares its KV cache with
    adapters = PathInside("data", "adapters")  # the language model's LoRA adapters
    models = PathInside("bank", "models")  # those that came from the Python package index
    shared = PathInside("bank", "locks")  # of all who read the tables, and who hold a language model
    mail = PathInside("bank", "mail")  # the mail accounts that were read
    users = PathInside("data", "users")  # the homes of others, who see a part of this one; and who they are
    book = PathInside("data", "users.json")
    kv = PathInside("cache", "kv")
    opened = PathInside("cache", "opened")  # a copy of the attached file that was opened last
    compiled = PathInside("cache", "tmp/mlx")  # code that MLX compiles, and compiles again where it is missing

    @property
    def environ(self) -> dict[str, str]:
        """Return the variables by which another process finds it."""
        return {"PKB_HOME": str(self.data), "PKB_CACHE": str(self.cache), "PKB_CONFIG": str(self.config)}

    @property
    def bank(self) -> Path:
        """Return the data that the search tables are part of, this home's or its source's."""
        return self.source or self.data

    def of_user(self, name: str) -> "Home":
        """Return the home of somebody who sees a part of this one."""
        own = self.users / name
        return Home(own, own / "cache", self.config, self.data)

    def other_cache_bytes(self) -> int:
        """Return the bytes of the rest of the cache."""
        return size_on_disk(self.cache, self.kv)

    def create(self) -> None:
        """Make the folders, readable by their owner alone; PkbError if the disk does not allow it."""
        try:
            for folder in (self.data, self.tables, self.locks, self.cache):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise PkbError(f"cannot write to {error.filename}: {error.strerror}", "pkb doctor") from None

    @contextmanager
    def naming_disk(self, command: str) -> Iterator[None]:
        """Raise DiskFull, with the command to type, where a block that writes finds the disk full or failing."""
        import sqlite3  # imported late: help and usage errors must load nothing heavy

        try:
            yield
        except (OSError, RuntimeError, ValueError, sqlite3.Error) as error:  # LanceDB raises the first three
            if (what := disk_failure(error, self.data)) is None:
                raise
            raise DiskFull(f"{what}: {self.data}", f"{command}, once there is room") from None

    def sizes(self) -> dict[str, int]:
        """Return the bytes on disk of the search tables with the mapped index, the ledger, and the cache."""
        return {
            "tables": _folder_size(self.data / "tables") + _folder_size(self.index),  # none of another home
            "ledger": sum(_size(path) for path in self.data.glob("ledger.db*")),
            "cache": _folder_size(self.cache),
        }

    def entries(self) -> Iterator[Path]:
        """Yield the folders of data and cache and everything in them, once; an entry may be removed meanwhile."""
        apart = not self.cache.is_relative_to(self.data)
        for root in (self.data, self.cache) if apart else (self.data,):
            for folder, folders, names in os.walk(root):  # unlike rglob, it ignores a folder that is removed meanwhile
                yield Path(folder)
                yield from (Path(folder, name) for name in names)
                yield from (path for name in folders if (path := Path(folder, name)).is_symlink())


@contextmanager
def replacing(path: Path, part: Path | None = None, *, lasting: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file of the owner's alone, which takes the place of `path` once it is written as a whole; OSError.

    `part` is its name until then. With `lasting` a power cut leaves no file without its content.
    """
    part = part or path.with_name(f".{path.name}.part")  # no name that the user's files have
    part.unlink(missing_ok=True)  # of a killed process
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            yield file
            if lasting:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


_ROOM = 1 << 20  # bytes; an answer, its history and SQLite's own files take less


def is_full(home: Home) -> bool:
    """Return whether the disk has too little room left for what a question writes."""
    try:
        found = os.statvfs(home.data)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _ROOM


# File systems of other machines, where SQLite's write-ahead log is not safe.
NETWORK = frozenset({
    *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "webdav", "davfs", "fuse.davfs", "fuse.sshfs", "fuse.rclone"),
    *("ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs", "fuse.s3fs", "fuse.gvfsd-fuse"),
})  # fmt: skip
# Folders that programs for syncing make, by name, with what some add to it: "OneDrive - Firm", "Dropbox (Personal)".
_SYNCED = frozenset({
    *("dropbox", "onedrive", "google drive", "googledrive", "icloud drive", "iclouddrive", "mobile documents"),
    *("cloudstorage", "nextcloud", "owncloud", "syncthing"),
})  # fmt: skip
ELSEWHERE = "set PKB_HOME to a local folder, or accept the risk: pkb config set home.place any"
_SYNC_MARKS = {".stfolder": "Syncthing", ".dropbox.cache": "Dropbox"}  # what they put into a folder of any name
MOUNTS = Path("/proc/self/mountinfo")  # Linux's table of mounts
_LOCAL_ROOTS = ("/", "/System/Volumes/Data")  # of a Mac


def unsafe_place(folder: Path, mounts: Path = MOUNTS) -> str:
    """Return why SQLite is not safe in a folder, which may not exist: a network disk or a synced folder; else empty."""
    real = existing(Path(os.path.realpath(folder)))
    parts = {part.casefold().partition(" - ")[0].partition(" (")[0]: part for part in (*folder.parts, *real.parts)}
    places = [str(real), *map(str, real.parents)]  # as text, which is faster than paths: an exact hit waits
    marks = (name for place in places for mark, name in _SYNC_MARKS.items() if os.access(f"{place}/{mark}", os.F_OK))
    if synced := next((parts[one] for one in parts if one in _SYNCED), "") or next(marks, ""):
        return f"{folder} is in a synced folder ({synced}), where syncing can damage it"
    device = real.stat().st_dev
    if sys.platform == "linux":
        is_local = os.major(device) != 0  # 0: no block device; then mounts are read
    else:
        is_local = any(os.access(root, os.F_OK) and root.stat().st_dev == device for root in map(Path, _LOCAL_ROOTS))
    if not is_local and (kind := file_system(real, mounts)) in NETWORK:
        return f"{folder} is on a network disk ({kind}), where SQLite is not safe"
    return ""


def existing(path: Path) -> Path:
    """Return the path, or its nearest parent that exists."""
    # Unlike `exists`, it raises no error in a folder that may not be entered.
    return next(p for p in (path, *path.parents) if os.access(p, os.F_OK))


def file_system(place: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system that a path is on, "unknown" if the system does not tell."""
    if sys.platform == "linux":
        with suppress(OSError):
            return kind_of(mounts.read_bytes(), place)
        return "unknown"
    import psutil  # slow to import

    found = [p for p in psutil.disk_partitions(all=True) if place.is_relative_to(p.mountpoint)]
    return max(found, key=lambda p: len(p.mountpoint)).fstype if found else "unknown"


def kind_of(table: bytes, place: Path) -> str:
    """Return the type of the file system at a path, by Linux's table of mounts; the later of two at a place counts."""
    found, longest, path = b"unknown", -1, os.fsencode(place)
    for line in table.splitlines():
        words, kinds = (part.split(b" ") for part in line.partition(b" - ")[::2])
        point = words[4] if len(words) > 4 else b""
        if b"\\" in point:
            point = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8) & 255]), point)
        if kinds[0] and len(point) >= longest and (path + b"/").startswith(point.rstrip(b"/") + b"/") and point:
            found, longest = kinds[0], len(point)
    return os.fsdecode(found)


def has_tables(home: Home) -> bool:
    """Return whether search tables are stored, and so a ledger must have been."""
    return any(home.tables.glob("*.lance"))


def size_on_disk(folder: Path, apart: Path | None = None) -> int:
    """Return the bytes of a folder and of all in it, as `du -sb` counts them, without another one; 0 if it is gone."""
    found = 0
    for inner, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if Path(inner, name) != apart]
        found += sum(_size(Path(inner, name), lambda _: True) for name in ("", *names))
    return found


def _folder_size(folder: Path) -> int:
    return sum(_size(Path(inner, name)) for inner, _, names in os.walk(folder) for name in names)


def _size(path: Path, counts: Callable[[int], bool] = stat.S_ISREG) -> int:
    """Return the bytes of a file, or of whatever else `counts` accepts by its mode."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return 0  # removed meanwhile
    return status.st_size if counts(status.st_mode) else 0


def locate(environ: Mapping[str, str]) -> Home:
    """Find the home from PKB_HOME, PKB_CACHE and PKB_CONFIG, else from the system's own conventions."""
    data, cache = environ.get("PKB_HOME"), environ.get("PKB_CACHE")
    if not (data and cache):
        import platformdirs  # takes 2 ms

        dirs = platformdirs.PlatformDirs("pkb", appauthor=False)
        data, cache = data or dirs.user_data_dir, cache or dirs.user_cache_dir
    usual = Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pkb" / "config.toml"
    places = (data, cache, environ.get("PKB_CONFIG") or usual)
    found = Home(*(Path(place).expanduser().absolute() for place in places))
    above = found.data.parents[1] if found.data.parent.name == "users" else None
    return replace(found, source=above) if above and (above / "users.json").exists() else found


class Identity(Struct, frozen=True):
    """The `stat` fields of a file: as long as they are the same, nobody has written to it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def identity(file: Path | str | int) -> Identity | None:
    """Return the identity of a file at a path, or open under a descriptor; None if there is no regular file."""
    try:
        found = os.fstat(file) if isinstance(file, int) else os.lstat(file)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return Identity(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
