"""Fifty kills of `pkb ingest` at random moments, over real mail: what is there in the end is as if there had been none.

Prints what it did: run it with `pytest -m soak -s`.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from store.checksums import TableFiles
from store.home import Home
from tests.store.kit import Opened, home_in

pytestmark = pytest.mark.soak

_KILLS = 50
_SEED = 2026


@dataclass(frozen=True, slots=True)
class Kept:
    """What a home holds in the end."""

    documents: frozenset[str]
    chunks: frozenset[str]
    frequencies: frozenset[tuple[str, int]]
    places: int


@dataclass(frozen=True, slots=True)
class Run:
    """`pkb ingest` of a folder into a home."""

    folder: Path
    home: Home
    vectors: str

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the process."""
        places = {"PKB_HOME": self.home.data, "PKB_CACHE": self.home.cache, "PKB_CONFIG": self.home.config}
        environ = os.environ | {name: str(path) for name, path in places.items()}
        words = [sys.executable, "-m", "cli.app", "ingest", str(self.folder), "--vectors", self.vectors, "--json"]
        return subprocess.Popen(words, env=environ, stdout=subprocess.DEVNULL)

    def finish(self) -> float:
        """Run it to its end; returns the seconds."""
        began = time.monotonic()
        assert self.start().wait() in (0, 3)
        return time.monotonic() - began

    def die(self, after: float) -> bool:
        """Kill it after so many seconds; returns whether it was still running."""
        process = self.start()
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
        return process.wait() == -signal.SIGKILL


@contextmanager
def opened(home: Home) -> Iterator[Opened]:
    """Open a home and close it again."""
    bank = Opened(home)
    yield bank
    bank.ledger.close()


def kept(home: Home) -> Kept:
    """Look at a home that is done, and find nothing wrong with it."""
    with opened(home) as bank:
        assert bank.wrong() == []
        places = bank.catalogue.counts()["places"]
        words = frozenset(bank.frequencies().items())
        return Kept(frozenset(bank.documents()), frozenset(bank.chunks()), words, places)


def stage(home: Home) -> str:
    """Return how far a killed run had come."""
    if not home.ledger.exists():
        return "before the home"
    with opened(home) as bank:
        if TableFiles(bank.ledger, home.tables).unlisted():
            return "inside a change"
        if not bank.ledger.count("chunks"):
            return "before the first change"
        return "between changes" if bank.ledger.count("untidy") else "behind the last change"


def test_text_survives_kills_at_random_moments(shared: Path, tmp_path: Path) -> None:
    chance, mail = random.Random(_SEED), shared / "data" / "enron" / "kean-s"
    sound = Run(mail, home_in(tmp_path / "sound"), "later")
    seconds = sound.finish()
    expected, run = kept(sound.home), replace(sound, home=home_in(tmp_path / "killed"))
    stages: Counter[str] = Counter()
    while stages.total() < _KILLS:
        if run.die(chance.uniform(0.1, 1.0) * seconds):
            stages[stage(run.home)] += 1
        if chance.random() < 0.6:  # else killed again before it is whole
            run.finish()
            assert kept(run.home) == expected
            shutil.rmtree(tmp_path / "killed")
    print(f"\n{_KILLS} kills, a whole run takes {seconds:.1f} s; {dict(stages)}; {len(expected.chunks)} chunks")


def test_vectors_survive_kills_at_random_moments(shared: Path, tmp_path: Path) -> None:
    chance, mail = random.Random(_SEED), shared / "data" / "enron" / "carson-m"
    sound = Run(mail, home_in(tmp_path / "sound"), "later")
    sound.finish()
    expected, run = kept(sound.home), Run(mail, home_in(tmp_path / "killed"), "now")
    missing, kills, rounds = [], 0, 0
    while kills < _KILLS:
        kills += run.die(chance.uniform(2.0, 20.0))
        if run.home.ledger.exists():
            with opened(run.home) as bank:
                missing.append(bank.vectors.missing)
                done = bank.ledger.count("chunks") and not bank.vectors.missing
            if done:
                run.finish()
                assert kept(run.home) == expected
                shutil.rmtree(tmp_path / "killed")
                rounds += 1
    run.finish()
    assert kept(run.home) == expected
    print(f"\n{kills} kills, {rounds} whole homes between them, {len(expected.chunks)} chunks; missing: {missing}")
