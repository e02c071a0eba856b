"""Whether this machine is fit for pkb: each check finds one thing, says so, and what to type next. Changes nothing."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from engine.settings import KvSettings, ModelSettings, Settings
from store.errors import NoModel, UsageError
from store.home import Home

State = Literal["ok", "note", "bad"]

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "webdav", "fuse.sshfs", "fuse.rclone", "9p", "ceph"}
_SYNCED = ("dropbox", "onedrive", "google drive", "googledrive", "icloud", "mobile documents", "nextcloud", "syncthing")
_ROOM, _TIGHT = 2 << 30, 200 << 20  # bytes of disk
_MEMORY = 4 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, how it stands, what was found, and what to type if it should be better."""

    name: str
    state: State
    found: str
    next_step: str | None = None


def examine(home: Home, settings: Settings, threads: int, environ: Mapping[str, str]) -> Iterator[Check]:
    """Look at this machine and this home, the quick things first; language models compute with so many threads."""
    yield _python()
    yield _sqlite()
    yield _home(home)
    yield _disk_kind(home)
    yield _room(home)
    yield _memory()
    yield _packages()
    yield _embedder(settings.embed.model, environ)
    yield _arithmetic(home, threads)
    yield _cache(home, settings.kv)
    yield _writer(settings.model, environ)
    if settings.kv.reuse == "blocks":
        yield _blocks(settings.model, environ)
    elif settings.model.name not in ("", "quote"):
        yield _kept(settings, environ)


def _python() -> Check:
    fit = (3, 11) <= sys.version_info < (3, 14)
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok" if fit else "bad", found, None if fit else "install Python 3.11, 3.12 or 3.13")


def _sqlite() -> Check:
    fit = sqlite3.sqlite_version_info >= (3, 35)
    return Check("sqlite", "ok" if fit else "bad", sqlite3.sqlite_version, None if fit else "install a newer Python")


def _home(home: Home) -> Check:
    place = _existing(home.data)
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        found = f"{place} is not a folder that you can read and write"
        return Check("home", "bad", found, "fix its permissions, or set PKB_HOME to another folder")
    if place != home.data:
        return Check("home", "note", f"{home.data} will be created by the first ingest", "pkb ingest FOLDER")
    mode = home.data.stat().st_mode & 0o777
    private = not mode & 0o077
    return Check(
        "home", "ok" if private else "bad", f"{home.data}, mode {mode:o}", None if private else "pkb check --repair"
    )


def _disk_kind(home: Home) -> Check:
    """Refuse disks on which SQLite's write-ahead log is not safe: network mounts and synced folders."""
    place = _existing(home.data)
    kind = file_system(place)
    if kind in NETWORK:
        return Check(
            "disk",
            "bad",
            f"{place} is on a network disk ({kind}); SQLite is not safe there",
            "set PKB_HOME to a local folder",
        )
    synced = next((name for name in _SYNCED if name in str(place).lower()), None)
    if synced:
        return Check(
            "disk",
            "bad",
            f"{place} is in a synced folder ({synced}); syncing can corrupt it",
            "set PKB_HOME to another folder",
        )
    return Check("disk", "ok", f"local ({kind})")


def file_system(place: Path) -> str:
    """Return the kind of file system that a path lies on, "unknown" where the system does not say."""
    import psutil

    mounts = [p for p in psutil.disk_partitions(all=True) if place.is_relative_to(p.mountpoint)]
    return max(mounts, key=lambda p: len(p.mountpoint)).fstype if mounts else "unknown"


def _room(home: Home) -> Check:
    free = shutil.disk_usage(_existing(home.data)).free
    state: State = "ok" if free >= _ROOM else "note" if free >= _TIGHT else "bad"
    return Check("room", state, f"{free / 1e9:.1f} GB free", None if state == "ok" else "free some disk space")


def _memory() -> Check:
    import psutil

    total = psutil.virtual_memory().total
    return Check("memory", "ok" if total >= _MEMORY else "note", f"{total / (1 << 30):.0f} GiB")


def _packages() -> Check:
    names = ("lancedb", "pyarrow", "numpy", "mlx", "mlx-lm", "rank-bm25")
    try:
        return Check("packages", "ok", ", ".join(f"{name} {version(name)}" for name in names))
    except PackageNotFoundError as error:
        return Check("packages", "bad", f"{error.name} is not installed", "make setup")


def _embedder(name: str, environ: Mapping[str, str]) -> Check:
    from engine.models import minilm, qwen3

    try:
        if name == "minilm":
            return Check("embedder", "ok", f"all-MiniLM-L6-v2 in {minilm.find_weights()}")
        return Check("embedder", "ok", f"{name} in {qwen3.find_model(name, environ).folder}")
    except NoModel as error:
        return Check("embedder", "note", f"{error.message}: keyword search only", error.next_step)
    except UsageError as error:
        return Check("embedder", "bad", error.message, error.next_step)


def _arithmetic(home: Home, threads: int) -> Check:
    """Measure MLX; on a Linux CPU a reference BLAS is fifty times slower than a fast one."""
    from engine.models import runtime

    try:
        runtime.private_tmp(home.cache)
        found = runtime.arithmetic(home.cache, threads)
    except OSError as error:
        said = f"{home.cache} cannot be written: {(error.strerror or '').lower()}"
        return Check("arithmetic", "bad", said, "set PKB_CACHE to a writable folder")
    speed = runtime.gflops()
    slow = found["device"] == "cpu" and speed < 20
    with_blas = f"{found['blas']}, {found['threads']} threads" if found["blas"] else "its own BLAS"
    said = f"MLX {found['mlx']} on {found['device']} with {with_blas}: {speed:.0f} GFLOP/s in fp32"
    return Check("arithmetic", "note" if slow else "ok", said, "apt install libopenblas0-pthread" if slow else None)


def _cache(home: Home, settings: KvSettings) -> Check:
    """See whether anything is left for tensors of the room that the cache may take."""
    others = home.beside_tensors()
    said = f"{others / 1e6:.1f} MB besides the KV cache, of {settings.bytes / 1e6:.1f} MB allowed (kv.bytes)"
    if others < settings.bytes:
        return Check("cache", "ok", said)
    step = f"pkb config set kv.bytes {KvSettings().bytes}"
    return Check("cache", "note", f"{said}: no KV cache can be stored", step)


def _writer(settings: ModelSettings, environ: Mapping[str, str]) -> Check:
    """Look for the language model that the settings name, and whether memory holds it."""
    from engine.models.lookup import find
    from engine.models.memory import need, total
    from engine.models.runtime import device

    if settings.name in ("", "quote"):
        return Check("writer", "note", "no language model: answers are quoted", "pkb model pull")
    try:
        found = find(settings.name, settings.revision or None, environ)
    except NoModel as error:
        return Check("writer", "bad", error.message, error.next_step)
    wanted, most = need(found.folder, device()), total() * settings.memory_share
    kind = "fp32" if device() == "cpu" else "as stored"
    said = f"{found.name} in {kind}, {wanted / 1e9:.1f} GB of memory, {most / 1e9:.1f} GB allowed"
    return Check("writer", "ok", said) if wanted <= most else Check("writer", "bad", said, "pkb model list")


def _blocks(settings: ModelSettings, environ: Mapping[str, str]) -> Check:
    """Try whether the language model's keys can be moved, which reading in blocks needs."""
    from engine.models.lookup import find
    from engine.models.rope import why_not

    if settings.name in ("", "quote"):
        return Check("blocks", "note", "no language model: nothing to reuse", "pkb model pull")
    try:
        found = find(settings.name, settings.revision or None, environ)
    except NoModel as error:
        return Check("blocks", "bad", error.message, error.next_step)
    why = why_not(found.folder)
    said = f"{found.name} cannot reuse blocks: {why}" if why else f"{found.name} can reuse blocks"
    return Check("blocks", "bad" if why else "ok", said, "pkb config set kv.reuse prefix" if why else None)


def _kept(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Ask the language model's layers how what it reads is kept."""
    from engine.models.load import form
    from engine.models.lookup import find

    if settings.kv.reuse == "off":
        return Check("kept", "note", "the KV cache is off", "pkb config set kv.reuse prefix")
    try:
        found = find(settings.model.name, settings.model.revision or None, environ)
    except NoModel as error:
        return Check("kept", "bad", error.message, error.next_step)
    how = form(found.folder, settings.kv.bits)
    said = f"{found.name}: {how.description}"
    return Check("kept", "ok", said) if how.name else Check("kept", "note", said, "pkb model list")


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that is there."""
    return next(p for p in (path, *path.parents) if _is_there(p))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that may not be entered
        return False
