"""Fixtures for tests of the store."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.store.kit import Fuse, Opened, home_in
from tests.store.kv_kit import Kept

Open = Callable[..., Opened]


@pytest.fixture
def open_home(tmp_path: Path) -> Iterator[Open]:
    """Yield what opens the test's home, each time as another process would."""
    with ExitStack() as stack:

        def open_one(fuse: Fuse | None = None) -> Opened:
            opened = Opened(home_in(tmp_path), fuse or Fuse(0))
            stack.enter_context(closing(opened.ledger))
            return opened

        yield open_one


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    """Yield a new store of KV nodes with plenty of room."""
    with closing(Kept(tmp_path)) as one:
        yield one


@pytest.fixture
def opened(open_home: Open) -> Opened:
    """Return a new home, open."""
    return open_home()
