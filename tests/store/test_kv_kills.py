"""A process killed before any step of a change to the KV tree leaves one that opens, within budget, and is mended."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.effort import slow_only
from tests.store.kv_kit import PROJECT

FACTS = ("within budget", "usable", "tidy", "parents", "again")
Death = dict[str, Any]


@pytest.fixture(scope="module", params=["keep", *slow_only("forget", "lose", "let_go")])
def deaths(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Death]:
    """Die before every step of a change; returns what was found after each death."""
    command = [sys.executable, "-m", "tests.store.kv_kills", request.param, str(tmp_path_factory.mktemp("deaths"))]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_tree_is_whole_again_after_a_death_before_any_step(deaths: list[Death]) -> None:
    assert len(deaths) > 10
    assert [(number, fact) for number, one in enumerate(deaths) for fact in FACTS if not one[fact]] == []


def test_some_deaths_leave_a_file_without_its_row(deaths: list[Death]) -> None:
    assert any(one["left"] for one in deaths)
