"""Fixtures every test may use."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Give the folder of real data beside the checkout, or skip."""
    if not SHARED.is_dir():
        pytest.skip("no folder of real data beside this checkout")
    return SHARED
