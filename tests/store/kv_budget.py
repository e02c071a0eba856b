"""Processes that write many times a budget into one cache folder, and what `du` sees of it meanwhile."""

import random
import shutil
import subprocess
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.kv_files import Node
from tests.store.kv_kit import ROOT, Interrupted, Kept, run_python, tensors

BUDGET = 2_000_000
_CODE = "from tests.store.kv_budget import write; import sys; write(*sys.argv[1:])"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the folder came to at most, in how many looks at it, and what was written into it."""

    most: int
    samples: int
    written: int


def watch(home: Path, writers: int, times: int) -> Seen:
    """Have processes write `times` the budget in all, and look at the folder every 20 ms until they are done."""
    kept = Kept(home, budget=BUDGET)
    kept.folder.mkdir(parents=True)
    most, samples = 0, 0
    processes = [start(home, times * BUDGET // writers, seed) for seed in range(writers)]
    while any(process.poll() is None for process in processes):
        most, samples = max(most, du(kept.folder.parent) or 0), samples + 1
        time.sleep(0.02)
    codes = [process.returncode for process in processes]
    for process in processes:
        process.communicate()
    written = kept.store.index.written()
    kept.close()
    assert codes == [0] * writers
    return Seen(most, samples, written)


def start(home: Path, amount: int, seed: int) -> "subprocess.Popen[str]":
    """Start a process that writes so many bytes."""
    return run_python(_CODE, str(home), str(amount), str(seed))


def du(folder: Path) -> int | None:
    """Return what `du -sb` says of a folder; None where there is no such `du`."""
    if not shutil.which("du"):
        return None
    done = subprocess.run(["du", "-sb", folder], capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0]) if done.stdout else None  # it complains of files that go meanwhile


def write(home: str, amount: str, seed: str) -> None:
    """Keep nodes of many sizes at random places of the tree until so many bytes were written."""
    chance, left = random.Random(seed), int(amount)
    with closing(Kept(Path(home), budget=BUDGET)) as kept:
        kept.store.collect()
        while left > 0:
            node = _keep_one(kept, chance)
            left -= node.bytes if node else 0


def _keep_one(kept: Kept, chance: random.Random) -> Node | None:
    """Keep a node below the longest prefix there is of a random prompt, its file half written for a while."""
    prompt = [(chance.randrange(4),) * 3 for _ in range(2)] + [tuple(chance.randrange(99) for _ in range(5))]
    match = kept.store.match(ROOT, prompt)
    ids = prompt[min(len(match.nodes), 2)]
    parent = match.nodes[-1] if match.nodes else None
    parts = Interrupted(tensors(chance.randrange(1000, 400_000), ids), lambda: time.sleep(0.01))
    return kept.store.keep(ROOT, parent, ids, chance.random(), parts)
