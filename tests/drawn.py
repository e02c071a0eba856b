"""A digest of the examples that hypothesis draws, by test: `python -m pytest -p tests.drawn --drawn FILE ...`.

A plugin of pytest. Two runs drew the same where their files are equal.
"""

import json
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis.internal.conjecture.data import ConjectureData

_DRAWN = dict[str, blake2b]()
_NOW = [""]  # the test that runs


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the file to write."""
    parser.addoption("--drawn", metavar="FILE", help="write a digest of the examples of each test as JSON")


def pytest_configure(config: pytest.Config) -> None:
    """Note what each test case was made of, once it is over."""
    if not config.getoption("--drawn"):
        return
    freeze = ConjectureData.freeze

    def noted(data: ConjectureData) -> None:
        if not data.frozen:
            drawn = _DRAWN.setdefault(_NOW[0], blake2b(digest_size=8))
            drawn.update(repr(data.choices).encode("utf-8", "surrogatepass"))
        freeze(data)

    ConjectureData.freeze = noted  # type: ignore[method-assign, assignment]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note which test runs."""
    _NOW[0] = item.nodeid


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the digests."""
    if path := session.config.getoption("--drawn"):
        found = {name: digest.hexdigest() for name, digest in sorted(_DRAWN.items())}
        Path(path).write_text(json.dumps(found, indent=0), "utf-8")
