"""Every test here is an attack."""

from pathlib import Path

import pytest

from tests.attack.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a home where nothing was ingested."""
    return Lab(tmp_path)
