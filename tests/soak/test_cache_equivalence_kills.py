"""A process that asks prompts is killed 200 times in one home: the store stays sound, in budget, and bit-identical.

Prints what it saw: run it with `pytest -m soak -s`.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread

import pytest

from tests.engine.ask.equivalence_home import BUDGET, Worker, home_in, open_store, prepare, unfinished, wrong_with
from tests.store.kv_budget import du

pytestmark = pytest.mark.soak

_KILLS = 200
_SEED = 2026
_LONGEST_S = 1.0  # that a process is left alone; some are killed before they have read anything
_MANY = 10_000  # prompts: it never gets so far


@contextmanager
def watched(folder: Path) -> Iterator[list[int]]:
    """Look every 20 ms at what `du` says of a folder."""
    seen, done = list[int](), Event()

    def look() -> None:
        while not done.is_set():
            seen.append(du(folder) or 0)
            time.sleep(0.02)

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def test_two_hundred_kills_leave_a_sound_tree_within_its_budget_that_is_bit_identical(tmp_path: Path) -> None:
    if du(tmp_path) is None:
        pytest.skip("no du that counts bytes on this machine")
    prepare(tmp_path)
    chance, left, silent = Random(_SEED), Counter[str](), 0
    home_in(tmp_path).create()
    with watched(home_in(tmp_path).cache) as seen, closing(Worker(tmp_path)) as worker:
        for seed in range(_KILLS):
            worker.begin(seed, _MANY, seconds=chance.uniform(0.05, _LONGEST_S))
            silent += not worker.finish()
            left.update(unfinished(tmp_path) or ["nothing"])
            assert (worker.codes[-1], wrong_with(tmp_path)) == (-9, "")
            worker.begin(_KILLS + seed, 2)  # prompts that are asked to the end
            worker.finish()
            assert (worker.codes[-1], worker.wrong()) == (0, [])
    with open_store(tmp_path) as (_, store):
        written = store.index.written()
    reused = sum(one["reused"] > 0 for one in worker.said)
    print(f"\n{_KILLS} kills, {silent} before the first prompt; left on their way: {dict(left)}")
    print(f"{len(worker.said)} prompts, {reused} with something reused, {written:,} bytes written")
    print(f"at most {max(seen):,} of {BUDGET:,} bytes in {len(seen)} looks")
    assert (max(seen) <= BUDGET, reused > _KILLS) == (True, True)
