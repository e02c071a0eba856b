"""Fixtures every test may use."""

import os
import signal
from pathlib import Path

import pytest

# A shell gives its background jobs an ignored interrupt, which every command that a test starts would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
# No test leaves a process behind: those about the resident one turn it on, and see to its end.
os.environ["PKB_DAEMON"] = "off"
SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Give the folder of real data beside the checkout, or skip."""
    if not SHARED.is_dir():
        pytest.skip("no folder of real data beside this checkout")
    return SHARED
