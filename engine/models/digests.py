"""Digests of model files, computed once a file. Light to import: an exact hit asks for them."""

import os
from hashlib import blake2b, file_digest
from pathlib import Path


def digest(path: Path, notes: Path | None = None) -> str:
    """Give a file's BLAKE2b digest, remembered in the folder `notes` while its path, size, mtime and inode stay."""
    if notes is None:
        return _digest(path)
    stat = path.stat()
    state = f"{path.resolve()}\n{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    note = notes / f"digest-{blake2b(state.encode(), digest_size=16).hexdigest()}"
    try:
        return note.read_text(encoding="ascii")
    except FileNotFoundError:
        found = _digest(path)
    notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = note.with_suffix(f".{os.getpid()}")
    fresh.write_text(found, encoding="ascii")
    fresh.replace(note)
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=32)).hexdigest()
