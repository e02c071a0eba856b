"""Every test here is an attack."""

from pathlib import Path

import pytest

from tests.attack.lab import Lab
from tests.cli.conftest import fresh as fresh
from tests.cli.conftest import private as private


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a home where nothing was ingested."""
    return Lab(tmp_path)
