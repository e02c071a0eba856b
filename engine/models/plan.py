"""What a model consists of at the hub: the files that are needed of it, at one commit, each by its digest.

Knows neither the network nor the disk.
"""

import io
import json
from dataclasses import dataclass
from fnmatch import fnmatch
from hashlib import file_digest, sha1
from typing import Any

from engine.models.place import CONFIG, INDEX, SPEAKING, TOKENS, WEIGHTS
from store.errors import PkbError


@dataclass(frozen=True, slots=True)
class File:
    """One file of a model as the hub announces it; the digest is SHA-256, or for a small file git's SHA-1."""

    name: str
    size: int
    digest: str

    def is_in(self, stream: io.BytesIO | io.BufferedReader) -> bool:
        """Tell whether a stream holds this file and nothing else."""
        if len(self.digest) == 64:
            return file_digest(stream, "sha256").hexdigest() == self.digest
        return file_digest(stream, lambda: sha1(f"blob {self.size}\0".encode())).hexdigest() == self.digest


@dataclass(frozen=True, slots=True)
class Plan:
    """What a model consists of at one commit, and its config.json, which says whether the rest is worth fetching."""

    name: str
    revision: str  # as asked for; empty for the branch main
    commit: str
    files: tuple[File, ...]
    config_text: bytes

    @property
    def bytes(self) -> int:
        """Give the size of all files."""
        return sum(file.size for file in self.files)

    @property
    def weights(self) -> int:
        """Give the size of the weights."""
        return sum(file.size for file in self.files if fnmatch(file.name, WEIGHTS))

    @property
    def config(self) -> dict[str, Any]:
        """Read its config.json."""
        found: dict[str, Any] = json.loads(self.config_text)
        return found


def wanted(name: str) -> bool:
    """Tell whether a model needs a file here: nothing that could be run, and nothing of a subfolder."""
    return name in (*SPEAKING, INDEX) or fnmatch(name, WEIGHTS)


def demand_whole(name: str, files: set[str]) -> None:
    """Raise PkbError where a repository lacks what a model needs here."""
    if not any(fnmatch(file, WEIGHTS) for file in files):
        raise PkbError(f"{name} has no safetensors weights, and pkb loads no other format")
    for needed in (CONFIG, TOKENS):
        if needed not in files:
            raise PkbError(f"{name} has no {needed}, which pkb needs")


def verified_config(name: str, file: File, text: bytes) -> bytes:
    """Give a config.json that is what was announced; PkbError where it is not, or is no config."""
    if not file.is_in(io.BytesIO(text)):
        raise wrong(CONFIG, name)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PkbError(f"the {CONFIG} of {name} cannot be read")
    return text


def wrong(file: str, name: str) -> PkbError:
    """Give the error of a file that is not the one that was announced."""
    return PkbError(f"{file} does not match the hub's checksum and was removed", f"pkb model pull {name}")
