"""Fixtures for tests of the store."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.store.kit import Fuse, Opened, home_in

Open = Callable[..., Opened]


@pytest.fixture
def open_home(tmp_path: Path) -> Iterator[Open]:
    """Give what opens the test's home, each time as another process would."""
    with ExitStack() as stack:

        def open_one(fuse: Fuse | None = None) -> Opened:
            opened = Opened(home_in(tmp_path), fuse or Fuse(0))
            stack.enter_context(closing(opened.ledger))
            return opened

        yield open_one


@pytest.fixture
def opened(open_home: Open) -> Opened:
    """Give a new home, open."""
    return open_home()
