"""A hundred kills of processes that change one answer cache: it is consistent after each.

Prints what it saw: run it with `pytest -m soak -s`.
"""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.store.answers_kills import end, start, wrong

pytestmark = pytest.mark.soak

_KILLS = 100
_SEED = 2026


def test_the_answer_cache_is_consistent_after_each_of_a_hundred_kills(tmp_path: Path) -> None:
    chance, ends = random.Random(_SEED), Counter[int]()
    writers = [start(tmp_path, seed) for seed in range(3)]
    while ends.total() < _KILLS:
        time.sleep(chance.uniform(0.05, 0.4))
        ends.update(end(writer) for writer in writers)
        assert list(wrong(tmp_path)) == []
        writers = [start(tmp_path, 3 + ends.total() + number) for number in range(3)]
    for writer in writers:
        end(writer)
    print(f"\n{ends.total()} kills: {dict(ends)}; {(tmp_path / 'ledger.db').stat().st_size:,} bytes of ledger")
    assert set(ends) == {-signal.SIGKILL}
