"""Processes that change one answer cache concurrently and are killed leave it consistent."""

import random
import signal
import time
from pathlib import Path

import pytest

from tests.store.answers_kills import end, start, wrong


@pytest.mark.slow
def test_two_processes_killed_at_random_moments_leave_a_consistent_answer_cache(tmp_path: Path) -> None:
    chance = random.Random(2026)
    writers = [start(tmp_path, seed) for seed in range(2)]
    ends = []
    for kill in range(4):
        time.sleep(chance.uniform(0.1, 0.4))
        ends.append(end(writers[kill % 2]))
        writers[kill % 2] = start(tmp_path, 2 + kill)
    ends += [end(writer) for writer in writers]
    assert (ends, list(wrong(tmp_path))) == ([-signal.SIGKILL] * 6, [])
