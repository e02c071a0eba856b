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
    """Return the digest; it reads no code, only when that was written or installed."""
    try:
        config = home.config.read_bytes().hex()
    except OSError:
        config = ""
    places = [os.fsencode(place).hex() for place in (home.data, home.cache, home.config)]
    parts = [PROTOCOL, places, config, [environ.get(name) for name in _NAMES], code(_ROOT), _libraries()]
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def code(root: Path) -> list[tuple[str, int, int]]:
    """Return what changes with the code below a folder: of a checkout each file, of installed packages the folder.

    An installer adds and removes entries of that folder. A file of a checkout may be written without any such trace.
    """
    if not (root / "pyproject.toml").exists():
        return [(str(root), root.stat().st_mtime_ns, 0)]
    return sorted(file for package in _PACKAGES for file in _files(str(root / package)))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield path, time and size of the files of code in a folder and in those below it."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            elif entry.name.endswith(_CODE):
                found = entry.stat()
                yield entry.path, found.st_mtime_ns, found.st_size


def _libraries() -> int:
    """Tell when a library was last installed or removed beside typer, which every command has imported."""
    import typer

    return Path(typer.__file__).parents[1].stat().st_mtime_ns
