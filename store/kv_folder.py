"""KV nodes as files and rows together: verified, removed with their descendants, and cleaned up after a crash.

A row is inserted before its file is written and deleted after its file is removed, so that no file is without a row.
Knows no budget.
"""

import fcntl
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from store.database import Ledger
from store.kv_files import PARTIAL, SUFFIX, BadNode, Identity, Key, Node, identity, verify
from store.kv_index import KvCounts, KvIndex

_SUFFIX = ".owner"


class ProcessOwner:
    """A process as the owner of unfinished writes and of pins, by a lock file that shows whether it is alive."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._name, self._descriptor = folder, "", -1

    @property
    def name(self) -> str:
        """Return the name (process id and token), locked from now on; a new one where its file was removed."""
        while not (
            self._name and _path(self._folder, self._name).exists()
        ):  # as `remove_dead_owners` may before it is locked
            self.close()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{os.getpid()}-{token_hex(8)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor, self._name = os.open(_path(self._folder, name), flags, 0o600), name
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return self._name

    def close(self) -> None:
        """Release the name; other processes finish what this one left."""
        if self._name:
            _path(self._folder, self._name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._name = ""


def is_alive(folder: Path, name: str) -> bool:
    """Return whether the process of a name still runs."""
    path = _path(folder, name)
    return path.exists() and not _free(path, fcntl.LOCK_SH, remove=False)  # shared: two may ask at once


def remove_dead_owners(folder: Path) -> None:
    """Remove the lock files of processes that have ended."""
    for path in folder.glob(f"*{_SUFFIX}"):
        _free(path, fcntl.LOCK_EX, remove=True)  # removed under the lock, or a new holder could lose it


def _free(path: Path, kind: int, *, remove: bool) -> bool:
    """Return whether nobody holds a file's lock, and if so remove the file where `remove` is set."""
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


def inspect(path: Path, node: Node, verified: Identity | None) -> tuple[str, Identity | None]:
    """Return in a word how a node's file is damaged, empty if it is intact, and its identity if that was not known.

    Looks at the file alone, which may take as long as the disk does.
    """
    found = identity(path)
    if found is None or found == verified:
        return "" if found else "missing", None
    try:
        header = verify(path)
    except BadNode as bad:
        return bad.reason, None
    except OSError:
        return "mismatch", None
    if (header.key, header.parent, header.path, header.ids) != (node.key, node.parent, node.path, node.ids):
        return "mismatch", None
    return "", found if found == identity(path) else None


class KvFolder:
    """The node files of one folder."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.index, self.counts, self.owner = KvIndex(ledger), KvCounts(ledger), ProcessOwner(folder)
        self.writing: Key | None = None  # reserved by its owner and not complete yet

    def path_of(self, key: Key) -> Path:
        """Return the path of a node's file."""
        return self.folder / (key.hex() + SUFFIX)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Return whether a node's file is intact, and remove the node if not.

        A file that has not changed since it was last verified costs one `stat`.
        """
        damage = self.find_damage(node, read_data=read_data)
        if damage:
            self.remove_damaged(node, damage)
        return not damage

    def find_damage(self, node: Node, *, read_data: bool) -> str:
        """Return in a word how a node's file is damaged; empty if it is intact."""
        entry = self.index.find(node.key)
        if entry is None or entry.state != "complete":
            return "missing"
        damage, found = inspect(self.path_of(node.key), node, None if read_data else entry.verified)
        if found and found != entry.verified:
            self.index.set_verified(node.key, found)
        return damage

    def remove_damaged(self, node: Node, reason: str) -> None:
        """Remove a node whose file cannot be used, and its descendants."""
        entry = self.index.find(node.key)
        if entry and entry.node.created == node.created:  # else it was stored again under the same key
            self.remove([node.key], reason)

    def remove(self, keys: Collection[Key], reason: str) -> int:
        """Remove nodes and their descendants; returns their number. Those being written are removed when finished."""
        with self.ledger.transaction():
            found = [entry for key in self.index.below(keys) if (entry := self.index.find(key))]
            complete = [entry.node for entry in found if entry.state == "complete"]
            if found:
                self.index.mark_deleting([entry.node.key for entry in found], self.owner.name)
                self.counts.removed(complete, reason)
        self.remove_files(node.key for node in complete)
        with self.ledger.transaction():
            self.finish_removals()
        return len(found)

    def remove_unlinked(self) -> int:
        """Remove the nodes of documents that are not stored any more, with their descendants; return their number."""
        keys = self.index.of_removed_documents()
        return self.remove(keys, "deleted") if keys else 0

    def remove_files(self, keys: Iterable[Key]) -> None:
        """Remove files; one that cannot be removed stays, and still counts towards the budget."""
        for key in keys:
            for suffix in (SUFFIX, PARTIAL):
                _unlink(self.path_of(key).with_suffix(suffix))

    def finish_removals(self) -> None:
        """Inside a transaction, remove the nodes that this process or a dead one left unfinished."""
        left = [key for key, owner in self.index.unfinished() if self._is_left(key, owner)]
        self.remove_files(left)
        self.index.drop(left)

    def collect(self) -> None:
        """Clean up: unfinished nodes of dead processes, files without a row, rows without a file."""
        with self.ledger.transaction():
            remove_dead_owners(self.folder)
            for owner in {owner for _, owner, _ in self.index.pins()}:
                if not is_alive(self.folder, owner):
                    self.index.unpin_owner(owner)
            for path in self.orphans():
                _unlink(path)
            sizes = self.index.sizes()
        self.remove(
            [key for key, _, state in sizes if state == "complete" and not self.path_of(key).exists()], "missing"
        )

    def orphans(self) -> list[Path]:
        """Return the files without a row; inside a transaction, so that no node is reserved meanwhile."""
        sizes = self.index.sizes()
        expected = {self.path_of(key) for key, _, _ in sizes}
        expected |= {self.path_of(key).with_suffix(PARTIAL) for key, _, state in sizes if state != "complete"}
        return [path for path in self.folder.glob("*") if path.suffix in (SUFFIX, PARTIAL) and path not in expected]

    def _is_left(self, key: Key, owner: str) -> bool:
        return key != self.writing if owner == self.owner.name else not is_alive(self.folder, owner)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()
