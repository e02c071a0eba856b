"""A home whose store several processes share and some die over, and what it looks like from outside. Knows no model."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store.database import Ledger, open_ledger
from store.home import Home, size_on_disk
from store.kv_files import root_of
from store.kv_index import KvFolder
from store.kv_store import KvStore, scores
from tests.store.kv_kit import HALF_LIFE_S, PLENTY, run_python

SUB_STEP = 64
BUDGET = 420_000  # bytes: a prompt or two, so that something goes at almost every one
ROOT = root_of({"model": "random", "adapter": ""})
_RUN = "import sys; from tests.engine.ask import equivalence_process as p; getattr(p, sys.argv[1])(p.Path(sys.argv[2]))"


def home_in(folder: Path) -> Home:
    """Return the home below a folder; a model and what was computed cold stand beside it."""
    return Home(folder / "data", folder / "cache", folder / "config.toml")


@contextmanager
def open_store(folder: Path) -> Iterator[tuple[Ledger, KvStore]]:
    """Open the ledger and the store of a home below a folder, tidied, as every command does."""
    home = home_in(folder)
    home.create()
    ledger = open_ledger(home.ledger, create=True)
    score = scores(HALF_LIFE_S)["value"]
    store = KvStore(
        ledger,
        home.kv,
        budget=BUDGET,
        daily=PLENTY,
        score=score,
        sub_step=SUB_STEP,
        now=time.time,
        others=home.other_cache_bytes,
    )
    store.collect()
    yield ledger, store
    ledger.close()


def wrong_with(folder: Path) -> str:
    """Tidy up after whoever died, and give what an examination that reads every byte finds wrong with the tensors."""
    from store.integrity import examine  # brings LanceDB's threads, which are lost to a process that forks
    from store.tables import Tables

    home = home_in(folder)
    with open_store(folder) as (ledger, _):
        found = examine(home, ledger, Tables(home.tables, ledger), read_data=True)
        return next(one.wrong for one in found if one.name == "kv")


def unfinished(folder: Path) -> list[str]:
    """Return the kinds of files that somebody left without a row."""
    ledger = open_ledger(home_in(folder).ledger, create=True)  # somebody may have died before it was there
    found = [path.suffix for path in KvFolder(ledger, home_in(folder).kv).orphans()]
    ledger.close()
    return found


def used(folder: Path) -> int:
    """Return the bytes of the cache folder, as `du -sb` counts them."""
    return size_on_disk(home_in(folder).cache)


@dataclass
class Worker:
    """A process that asks prompts, in forks that may die; `said` has what it said of each, `codes` how they ended."""

    folder: Path
    said: list[dict[str, Any]] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._process, self._ready = run_python(_RUN, "serve", str(self.folder)), False

    def begin(self, seed: int, count: int, **ending: float) -> None:
        """Have a fork ask so many prompts: until `seconds` have gone by, or up to a `step` of keeping."""
        self._ready = self._ready or bool(self._answer())
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"seed": seed, "count": count} | ending) + "\n")
        self._process.stdin.flush()

    def finish(self) -> list[dict[str, Any]]:
        """Wait for the fork to end; returns what it said."""
        before = len(self.said)
        while "code" not in (answer := self._answer()):
            self.said.append(answer)
        self.codes.append(answer["code"])
        return self.said[before:]

    def wrong(self) -> list[dict[str, Any]]:
        """Return the prompts whose logits were not those computed cold."""
        return [one for one in self.said if not one["same"]]

    def close(self) -> None:
        """Have it end."""
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        """Read a line; of one that was cut off by a kill nothing is known."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process has ended"
        found: dict[str, Any] = json.loads(line)
        return found


def prepare(folder: Path) -> None:
    """Compute all prompts cold, in a process of its own."""
    process = run_python(_RUN, "prepare", str(folder))
    process.communicate()
    assert process.returncode == 0
