"""Nothing of a forgotten mail is found, whatever was being made of it meanwhile, and whatever became of it before."""

from pathlib import Path

import pytest

from tests.attack.forgetting import ATTACKS, attack


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_nothing_of_a_forgotten_mail_is_found(tmp_path: Path, name: str) -> None:
    assert attack(tmp_path / "lab", name) == []
