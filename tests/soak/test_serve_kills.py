"""A hundred kills of the resident process at random moments: every question is answered, and answered the same.

Prints what it did: run it with `pytest -m soak -s`.
"""

import random
from pathlib import Path

import pytest

from tests.cli.serving import ask_through_kills, served
from tests.demo import DATA, NANO, environment

pytestmark = pytest.mark.soak

_KILLS = 100


def test_questions_are_answered_whenever_the_resident_process_is_killed(tmp_path: Path) -> None:
    with served(tmp_path, environment(tmp_path)) as own:
        own.run("ingest", str(DATA / "mail"), str(DATA / "transcripts"))
        own.run("config", "set", "model.name", str(NANO))
        found = ask_through_kills(own, _KILLS, random.Random(2026))
    print(f"\n{_KILLS} kills; {dict(found)}")
