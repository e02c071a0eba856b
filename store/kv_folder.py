"""KV nodes as files and rows together: checked, removed with all that hangs on them, and tidied after a crash.

On the way in a row is there before its file, on the way out until after it: no file is ever without one. Knows no
budget.
"""

import fcntl
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from shutil import rmtree

from store.database import Ledger
from store.kv_files import PARTIAL, SUFFIX, BadNode, identity, verify
from store.kv_index import KvCounts, KvIndex
from store.kv_tree import Key, Node

_SUFFIX = ".owner"


class ProcessOwner:
    """One holder of things half done."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._name, self._descriptor = folder, "", -1

    @property
    def name(self) -> str:
        """Return the name, process id and a token, held from now on; another one where somebody removed its file."""
        while not (self._name and _path(self._folder, self._name).exists()):  # as a sweep does before it is locked
            self.close()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{os.getpid()}-{token_hex(8)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor, self._name = os.open(_path(self._folder, name), flags, 0o600), name
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return self._name

    def close(self) -> None:
        """Let go of the name; whatever is still half done in it is for others to finish."""
        if self._name:
            _path(self._folder, self._name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._name = ""


def is_alive(folder: Path, name: str) -> bool:
    """Return whether the holder of a name still runs."""
    path = _path(folder, name)
    return path.exists() and not _free(path, fcntl.LOCK_SH, remove=False)  # shared: two may ask at once


def sweep(folder: Path) -> None:
    """Remove the files of holders that have ended."""
    for path in folder.glob(f"*{_SUFFIX}"):
        _free(path, fcntl.LOCK_EX, remove=True)  # removed under the lock, or it could go from under a new holder


def _free(path: Path, kind: int, *, remove: bool) -> bool:
    """Return whether nobody holds a file's lock, and remove the file then, if told to."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if remove:
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _path(folder: Path, name: str) -> Path:
    return folder / (name + _SUFFIX)


_OBSOLETE = "quarantine"  # the folder in which earlier versions kept damaged files


class KvFolder:
    """The nodes of one folder."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.index, self.counts, self.owner = KvIndex(ledger), KvCounts(ledger), ProcessOwner(folder)
        self.writing: Key | None = None  # what its owner has reserved and not yet settled

    def path_of(self, key: Key) -> Path:
        """Return the place of a node's file."""
        return self.folder / (key.hex() + SUFFIX)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Return whether a node's file is whole, and remove the node if not.

        A file that nobody has touched since it was last read whole costs one look at its identity.
        """
        wrong = self.wrong_with(node, read_data=read_data)
        if wrong:
            self.lost(node, wrong)
        return not wrong

    def wrong_with(self, node: Node, *, read_data: bool) -> str:
        """Return in a word what is wrong with a node's file; empty where nothing is."""
        path, entry = self.path_of(node.key), self.index.find(node.key)
        found = identity(path)
        if entry is None or entry.state != "whole" or found is None:
            return "missing"
        if found == entry.verified and not read_data:
            return ""
        try:
            header = verify(path)
        except BadNode as bad:
            return bad.reason
        if (header.key, header.parent, header.path, header.ids) != (node.key, node.parent, node.path, node.ids):
            return "foreign"
        if found == identity(path) != entry.verified:
            self.index.verified(node.key, found)
        return ""

    def lost(self, node: Node, reason: str) -> None:
        """Remove a node whose file cannot be used, and all below it."""
        entry = self.index.find(node.key)
        if entry and entry.node.created == node.created:  # else it is another one under the same key
            self.remove([node.key], reason)

    def remove(self, keys: Collection[Key], reason: str) -> int:
        """Remove nodes and their descendants; returns their number. Those being written elsewhere go when finished."""
        with self.ledger.transaction():
            gone = [entry for key in self.index.below(keys) if (entry := self.index.find(key))]
            mine = [entry.node for entry in gone if entry.state == "whole"]
            if gone:
                self.index.doom([entry.node.key for entry in gone], self.owner.name)
                self.counts.removed(mine, reason)
        self.discard(node.key for node in mine)
        with self.ledger.transaction():
            self.finish()
        return len(gone)

    def discard(self, keys: Iterable[Key]) -> None:
        """Remove files; one that cannot be removed stays, and is counted for as long as it does."""
        for key in keys:
            for suffix in (SUFFIX, PARTIAL):
                _unlink(self.path_of(key).with_suffix(suffix))

    def finish(self) -> None:
        """Inside a transaction, end what this process or a dead one has left half done."""
        left = [key for key, owner in self.index.unfinished() if self._is_left(key, owner)]
        self.discard(left)
        self.index.drop(left)

    def collect(self) -> None:
        """Tidy up: what dead processes left, files without a row, rows without a file."""
        with self.ledger.transaction():
            sweep(self.folder)
            for owner in {owner for _, owner, _ in self.index.pins()}:
                if not is_alive(self.folder, owner):
                    self.index.unpin_owner(owner)
            for path in self.strays():
                _unlink(path)
            rmtree(self.folder / _OBSOLETE, ignore_errors=True)
            sizes = self.index.sizes()
        self.remove([key for key, _, state in sizes if state == "whole" and not self.path_of(key).exists()], "missing")

    def strays(self) -> list[Path]:
        """Return the files that belong to no row, inside a transaction: nobody can reserve one meanwhile."""
        sizes = self.index.sizes()
        expected = {self.path_of(key) for key, _, _ in sizes}
        expected |= {self.path_of(key).with_suffix(PARTIAL) for key, _, state in sizes if state != "whole"}
        return [path for path in self.folder.glob("*") if path.suffix in (SUFFIX, PARTIAL) and path not in expected]

    def _is_left(self, key: Key, owner: str) -> bool:
        return key != self.writing if owner == self.owner.name else not is_alive(self.folder, owner)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
