"""KV nodes as files and rows together: checked, removed with all that hangs on them, and tidied after a crash.

On the way in a row is there before its file, on the way out until after it: no file is ever without one. Knows no
budget.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

from store import kv_owner
from store.kv_counts import KvCounts
from store.kv_files import PARTIAL, SUFFIX, identity, verify
from store.kv_header import BadNode
from store.kv_index import KvIndex
from store.kv_owner import Owner, is_alive
from store.kv_tree import Key, Node
from store.ledger import Ledger

_OBSOLETE = "quarantine"  # the folder in which earlier versions kept damaged files


class Shelf:
    """The nodes of one folder."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder = ledger, folder
        self.index, self.counts, self.owner = KvIndex(ledger), KvCounts(ledger), Owner(folder)
        self.writing: Key | None = None  # what its owner has reserved and not yet settled

    def path_of(self, key: Key) -> Path:
        """Give the place of a node's file."""
        return self.folder / (key.hex() + SUFFIX)

    def check(self, node: Node, *, read_data: bool = False) -> bool:
        """Tell whether a node's file is whole, and remove the node if not.

        A file that nobody has touched since it was last read whole costs one look at its identity.
        """
        wrong = self.wrong_with(node, read_data=read_data)
        if wrong:
            self.lost(node, wrong)
        return not wrong

    def wrong_with(self, node: Node, *, read_data: bool) -> str:
        """Say in a word what is wrong with a node's file; empty where nothing is."""
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
        """Remove nodes and all below them; gives their number. What another process is writing goes when it is done."""
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
            kv_owner.sweep(self.folder)
            for owner in {owner for _, owner, _ in self.index.pins()}:
                if not is_alive(self.folder, owner):
                    self.index.unpin_owner(owner)
            for path in self.strays():
                _unlink(path)
            rmtree(self.folder / _OBSOLETE, ignore_errors=True)
            sizes = self.index.sizes()
        self.remove([key for key, _, state in sizes if state == "whole" and not self.path_of(key).exists()], "missing")

    def strays(self) -> list[Path]:
        """Give the files that belong to no row, inside a transaction: nobody can reserve one meanwhile."""
        sizes = self.index.sizes()
        expected = {self.path_of(key) for key, _, _ in sizes}
        expected |= {self.path_of(key).with_suffix(PARTIAL) for key, _, state in sizes if state != "whole"}
        return [path for path in self.folder.glob("*") if path.suffix in (SUFFIX, PARTIAL) and path not in expected]

    def _is_left(self, key: Key, owner: str) -> bool:
        return key != self.writing if owner == self.owner.name else not is_alive(self.folder, owner)


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
