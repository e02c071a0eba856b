"""What a resident process must agree on with who asks it: the code, the home, the config, and the environment.

One digest over all of it; whatever differs, another process must answer.
"""

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from cli.daemon.wire import PROTOCOL

if TYPE_CHECKING:
    from store.home import Home

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("cli", "engine", "store", "prompts")
_CODE = (".py", ".txt")
# Where models are found, what computes, and where the days begin.
_NAMES = ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME", "PKB_BLAS", "TZ")


def identity(home: "Home", environ: Mapping[str, str]) -> str:
    """Give the digest; it reads no code, only when its files were written."""
    try:
        config = home.config.read_bytes().hex()
    except OSError:
        config = ""
    places = [os.fsencode(place).hex() for place in (home.data, home.cache, home.config)]
    parts = [PROTOCOL, places, config, [environ.get(name) for name in _NAMES], sorted(_files()), _libraries()]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _files() -> Iterator[tuple[str, int, int]]:
    for package in _PACKAGES:
        for folder, _, names in os.walk(_ROOT / package):
            for name in names:
                if name.endswith(_CODE):
                    found = (Path(folder) / name).stat()
                    yield f"{folder}/{name}", found.st_mtime_ns, found.st_size


def _libraries() -> int:
    """Tell when a library was last installed or removed beside typer, which every command has imported."""
    import typer

    return Path(typer.__file__).parents[1].stat().st_mtime_ns
