"""Fixtures for tests of the ingest pipeline."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.ingest.box import Box


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """Yield a new home next to an empty folder of mail."""
    made = Box(tmp_path)
    yield made
    made.opened.ledger.close()
