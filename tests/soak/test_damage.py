"""Damage to every file of a home, in every way, tried with the commands themselves; prints what it did (`-s`)."""

from pathlib import Path

import pytest

from tests.damage import Verdict, build, cases, sample, try_all


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home that holds everything."""
    return build(tmp_path_factory.mktemp("damage") / "home")


def _problems(verdicts: list[Verdict]) -> dict[tuple[str, str, int], list[str]]:
    return {(v.case.file, v.case.damage, v.case.seed): v.problems for v in verdicts if v.problems}


@pytest.mark.slow
def test_damage_anywhere_is_said_and_mended(home: Path) -> None:
    """One in sixty of the cases that the long form tries."""
    assert _problems(list(try_all(home, sample(cases(home, "home/"))[::60]))) == {}


@pytest.mark.soak
def test_damage_to_every_file_is_said_and_mended(home: Path) -> None:
    verdicts = list(try_all(home, cases(home)))
    print(f"{len(verdicts)} cases, {len({one.case.file for one in verdicts})} files", flush=True)
    assert _problems(verdicts) == {}
    assert all(one.mended for one in verdicts)
