"""Two writers into one small KV cache for a hundred budgets, and writers killed at random: `du` never sees too much.

Prints what it saw: run it with `pytest -m soak -s`.
"""

import random
import time
from contextlib import closing
from pathlib import Path

import pytest

from store.kv_index import KvIndex
from tests.store.kv_budget import BUDGET, du, start, watch
from tests.store.kv_kit import Kept

pytestmark = pytest.mark.soak

_KILLS = 100
_SEED = 2026


@pytest.fixture(autouse=True)
def _du(tmp_path: Path) -> None:
    if du(tmp_path) is None:
        pytest.skip("no du that counts bytes on this machine")


def test_a_hundred_budgets_written_by_two_processes_never_exceed_one(tmp_path: Path) -> None:
    seen = watch(tmp_path, writers=2, times=100)
    print(f"\n{seen.written:,} bytes written, at most {seen.most:,} of {BUDGET:,} there in {seen.samples} looks")
    assert (seen.most <= BUDGET, seen.written >= 99 * BUDGET) == (True, True)


def test_writers_killed_at_random_moments_leave_no_more_than_the_budget(tmp_path: Path) -> None:
    chance, kills, most, samples = random.Random(_SEED), 0, 0, 0
    (tmp_path / "cache" / "kv").mkdir(parents=True)
    writers = [start(tmp_path, 1 << 40, seed) for seed in range(2)]
    while kills < _KILLS:
        until = time.monotonic() + chance.uniform(0.2, 1.0)
        while time.monotonic() < until:
            most, samples = max(most, du(tmp_path / "cache") or 0), samples + 1
            time.sleep(0.02)
        victim = chance.randrange(2)
        writers[victim].kill()
        writers[victim].communicate()
        kills += 1
        writers[victim] = start(tmp_path, 1 << 40, 2 + kills)
    for writer in writers:
        writer.kill()
        writer.communicate()
    with closing(Kept(tmp_path, budget=BUDGET)) as kept:
        kept.store.collect()
        sound = [kept.store.folder.check(node, read_data=True) for node in KvIndex(kept.ledger).nodes()]
        print(f"\n{kills} kills, at most {most:,} of {BUDGET:,} there in {samples} looks; {len(sound)} nodes left")
        assert (most <= BUDGET, all(sound), len(kept.files())) == (True, True, len(sound))
