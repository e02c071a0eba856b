"""What tests of the KV tree share: a store over real files, tensors of given sizes, and processes that write to it."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from store.database import Ledger, open_ledger
from store.home import size_on_disk
from store.kv_files import Node, Tensor, TreeRoot, root_of
from store.kv_store import KvStore, Score, scores

SUB_STEP = 4
PARTS = {"model": "nano", "adapter": "none", "dtype": "F32"}
ROOT = root_of(PARTS)
PLENTY = 1 << 30
A, B, C = (1, 2, 3, 4, 5, 6), (7, 8), (9, 10, 11, 12)  # segments
HALF_LIFE_S = 100.0
PROJECT = Path(__file__).parents[2]


@dataclass(slots=True)
class Clock:
    """Seconds that pass when told to."""

    at: float = 1_000_000.0

    def __call__(self) -> float:
        return self.at


@dataclass(slots=True)
class Kept:
    """A store in a folder, with its ledger and clock; `keep` takes whole prefixes."""

    home: Path
    budget: int = PLENTY
    daily: int = PLENTY
    score: Score = field(default=scores(HALF_LIFE_S)["value"])
    clock: Clock = field(default_factory=Clock)
    others: Callable[[], int] = lambda: 0
    meanwhile: Callable[[], object] | None = None  # what happens while a file is half written
    ledger: Ledger = field(init=False)
    store: KvStore = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = open_ledger(self.home / "ledger.db", create=True)
        self.store = KvStore(
            self.ledger,
            self.folder,
            budget=self.budget,
            daily=self.daily,
            score=self.score,
            sub_step=SUB_STEP,
            now=self.clock,
            others=self.others,
        )

    @property
    def folder(self) -> Path:
        """Return the folder of the nodes' files."""
        return self.home / "cache" / "kv"

    def keep(
        self, *segments: Sequence[int], size: int = 1024, seconds: float = 1.0, root: TreeRoot = ROOT
    ) -> Node | None:
        """Keep the last segment below the others, which must be there."""
        match = self.store.match(root, segments[:-1])
        assert len(match.nodes) == len(segments) - 1
        parent = match.nodes[-1] if match.nodes else None
        parts: Sequence[Tensor] = tensors(size, segments[-1])
        if self.meanwhile:
            parts = Interrupted(parts, self.meanwhile)
        return self.store.keep(root, parent, segments[-1], seconds, parts)

    def has(self, *segments: Sequence[int], root: TreeRoot = ROOT) -> bool:
        """Return whether a whole prefix is there."""
        match = self.store.match(root, segments)
        return len(match.nodes) == len(segments)

    def path_of(self, *segments: Sequence[int]) -> Path:
        """Return the file of a prefix that is there."""
        match = self.store.match(ROOT, segments)
        return self.store.folder.path_of(match.nodes[-1].key)

    def shape(self, *segments: Sequence[int]) -> tuple[int, tuple[int, ...], int]:
        """Return how many nodes match, the ids of the one that lends its beginning, and the tokens in all."""
        match = self.store.match(ROOT, segments)
        return len(match.nodes), match.found[-1].ids if match.shared else (), match.tokens

    def files(self) -> set[str]:
        """Return the names of the nodes' files, whole or half written."""
        return {path.name for path in self.folder.glob("*") if path.suffix in (".safetensors", ".part")}

    def used(self) -> int:
        """Return the bytes of the cache folder, as `du -sb` counts them."""
        return size_on_disk(self.folder.parent) if self.folder.exists() else 0

    def orphans(self) -> list[bytes]:
        """Return the keys of nodes whose parent is not there."""
        sql = "SELECT key FROM kv_nodes WHERE depth > 1 AND parent NOT IN (SELECT key FROM kv_nodes)"
        return [row[0] for row in self.ledger.rows.execute(sql)]

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.store.index.all_keys())

    def close(self) -> None:
        """Let go of everything, as a process that ends."""
        self.ledger.close()


class Interrupted(Sequence[Tensor]):
    """Tensors in whose middle something else happens, once the file is half written."""

    def __init__(self, parts: Sequence[Tensor], meanwhile: Callable[[], object]) -> None:
        self._parts, self._meanwhile, self._times = parts, meanwhile, 0

    def __iter__(self) -> Iterator[Tensor]:
        self._times += 1
        for number, part in enumerate(self._parts):
            if (self._times, number) == (3, 2):  # after the size was taken, and the sums
                self._meanwhile()
            yield part

    def __len__(self) -> int:
        return len(self._parts)

    @overload
    def __getitem__(self, at: int) -> Tensor: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, at: int | slice) -> Tensor | Sequence[Tensor]:
        return self._parts[at]


def tensors(size: int, ids: Sequence[int] = ()) -> list[Tensor]:
    """Make four tensors of so many bytes in all, of a content that depends on the ids."""
    part = max(size // 16, 1)
    noise = random.Random(str(tuple(ids)))
    return [
        Tensor(f"{layer}.{name}", "F32", (1, 1, part, 1), noise.randbytes(4 * part))
        for layer in (0, 1)
        for name in "kv"
    ]


def run_python(code: str, *words: str, **environ: str) -> "subprocess.Popen[str]":
    """Start a Python of our own in the project's folder."""
    command = [sys.executable, "-c", code, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=PROJECT, env=os.environ | environ, text=True, stdin=pipe, stdout=pipe)
