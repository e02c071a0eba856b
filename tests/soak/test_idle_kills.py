"""Fifty kills of `pkb idle --force` at random moments while mail comes: nothing is lost, at most one job redone each.

Half of them with quotes, half with the bundled language model. Prints what it did: run it with `pytest -m soak -s`.
"""

import random
from pathlib import Path

import pytest

from store.jobs import MAX_ATTEMPTS
from tests.cli.idle_runs import Killed
from tests.demo import NANO

pytestmark = pytest.mark.soak

_KILLS = 25


@pytest.mark.parametrize("model", [None, NANO], ids=["quote", "nano"])
def test_idle_runs_survive_kills_at_random_moments(tmp_path: Path, model: Path | None) -> None:
    home = Killed(tmp_path, random.Random(2026))
    home.deliver(12)
    home.run("ingest", str(home.mail))
    if model:
        home.use(model)
    longest, whole = home.settle(), 0
    while home.at.total() < _KILLS:
        if home.chance.random() < 0.5:  # else nothing is stale, and later kinds come sooner
            home.deliver(3)
            home.run("ingest", str(home.mail))
        for _ in range(10):
            home.queue()
        home.run("ask", home.question())
        for _ in range(home.chance.randrange(1, MAX_ATTEMPTS)):  # one more, and what was begun each time is given up
            if home.at.total() < _KILLS:
                home.kill(longest)
        whole += 1
        longest = max(longest, home.settle())
    print(f"\n{_KILLS} kills in {whole} rounds: {dict(home.at)}; {home.again} jobs begun again")
    print(f"in the end {len(home.made().answers)} answers, {len(home.made().nodes)} nodes")
