"""Checks whether this machine can run pkb: each check has a finding and a next step. Changes no data."""

import os
import platform
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from engine.models import lookup, runtime
from engine.models.lookup import find, reader_version
from engine.models.runtime import device, install_command, needed_by, total
from engine.settings import KvSettings, ModelSettings, Settings
from engine.types import Check, Checks, CheckState
from store.errors import NoModel, PkbError
from store.home import ELSEWHERE, Home, existing, file_system, unsafe_place

_ENOUGH_DISK, _LEAST_DISK = 2 << 30, 200 << 20  # bytes
_ENOUGH_MEMORY = 4 << 30  # bytes
_GB = 10**9
_SMALL = 300_000_000  # bytes of weights
_FAILURES = (
    PkbError, ImportError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError,
    MemoryError,
)  # fmt: skip


def examine(home: Home, settings: Settings, threads: int, environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield all checks of this machine and home, fast ones first; `threads` are those of language models."""
    model = settings.model
    checks: Checks = {
        "python": _python,
        "sqlite": _sqlite,
        "home": lambda: _home(home),
        "disk": lambda: _disk_kind(home, settings.home.place),
        "space": lambda: _disk_space(home),
        "memory": _memory,
        "packages": _packages,
        "embedder": lambda: _embedder(settings.embed.model, environ),
        "reader": lambda: _reader(home),
        "compute": lambda: _compute(home, settings, threads, environ),
        "cache": lambda: _cache_space(home, settings.kv),
        "model": lambda: _model(model, environ),
    }
    for doctor in _optional():
        checks |= doctor(home, settings, environ)
    if settings.kv.reuse == "blocks":
        checks["blocks"] = lambda: _blocks(model, environ)
    elif model.is_local:
        checks |= {"kv": lambda: _kv_form(settings, environ), "kv costs": lambda: _kv_costs(home)}
    for name, check in checks.items():
        yield _finished(name, check)


def _optional() -> tuple[Callable[[Home, Settings, Mapping[str, str]], Checks], ...]:
    """Return the checks of each part that a home need not use; one may take the place of a check above."""
    from engine.kv.sharing import doctor as peers
    from engine.models.adapters import doctor as adapters
    from engine.models.endpoint import doctor as servers

    return servers, adapters, peers


def _finished(name: str, check: Callable[[], Check]) -> Check:
    """Return the result of a check; an error that ends it is a finding too, and the others follow."""
    try:
        return check()
    except PkbError as error:
        return Check(name, "bad", error.message, error.next_step)
    except _FAILURES as error:
        reason = " ".join(str(error).split())[:200]
        return Check(name, "bad", f"this check failed: {type(error).__name__}: {reason}")


def unfit_places(home: Home) -> list[Check]:
    """Return why this home is no safe place to write to: what `examine` finds bad of its folder and its room.

    Where it cannot be written to at all, nothing: the error of the first write says so.
    """
    if not os.access(existing(home.data), os.R_OK | os.W_OK | os.X_OK):
        return []
    return [check for check in (_home(home), _disk_space(home)) if check.state == "bad"]


def _python() -> Check:
    fit = (3, 11) <= sys.version_info < (3, 14)
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok" if fit else "bad", found, None if fit else "install Python 3.11, 3.12 or 3.13")


def _sqlite() -> Check:
    fit = sqlite3.sqlite_version_info >= (3, 35)
    return Check("sqlite", "ok" if fit else "bad", sqlite3.sqlite_version, None if fit else "install a newer Python")


def _home(home: Home) -> Check:
    place = existing(home.data)
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


def _disk_kind(home: Home, place: str) -> Check:
    """Reject disks on which SQLite's write-ahead log is not safe: network mounts and synced folders."""
    if why := unsafe_place(home.data):
        if place == "any":
            return Check("disk", "note", f"{why}; home.place allows it", "pkb config set home.place local")
        return Check("disk", "bad", why, ELSEWHERE)
    kind = file_system(existing(home.data.resolve()))
    if kind == "9p":
        return Check("disk", "note", "a folder of another system (9p): safe while this one alone uses the home")
    return Check("disk", "ok", f"local ({kind})")


def _disk_space(home: Home) -> Check:
    free = shutil.disk_usage(existing(home.data)).free
    state: CheckState = "ok" if free >= _ENOUGH_DISK else "note" if free >= _LEAST_DISK else "bad"
    return Check("space", state, f"{free / 1e9:.1f} GB free", None if state == "ok" else "free some disk space")


def _memory() -> Check:
    import psutil

    total = psutil.virtual_memory().total
    return Check("memory", "ok" if total >= _ENOUGH_MEMORY else "note", f"{total / (1 << 30):.0f} GiB")


def _packages() -> Check:
    found = {name: _version(name) for name in ("lancedb", "pyarrow", "numpy", "mlx-lm", "rank-bm25")}
    if missing := [name for name, number in found.items() if not number]:
        return Check("packages", "bad", f"not installed: {', '.join(missing)}", install_command())
    return Check("packages", "ok", ", ".join(f"{name} {number}" for name, number in found.items()))


def _version(name: str) -> str:
    """Return the version of an installed package, empty if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _embedder(name: str, environ: Mapping[str, str]) -> Check:
    from engine.models import lookup, minilm

    try:
        if name == "minilm":
            return Check("embedder", "ok", f"all-MiniLM-L6-v2 in {lookup.find_weights()}")
        return Check("embedder", "ok", f"{name} in {minilm.find_model(name, environ).folder}")
    except NoModel as error:
        return Check("embedder", "note", f"{error.message}: keyword search only", error.next_step)


def _reader(home: Home) -> Check:
    """Check whether the reader, which chooses quoted answers, has the weights that it needs."""
    try:
        return Check("reader", "ok", f"version {reader_version(home.cache / 'digests')}")
    except NoModel as error:
        return Check("reader", "note", f"{error.message}: answers are found by words alone", error.next_step)


def _compute(home: Home, settings: Settings, threads: int, environ: Mapping[str, str]) -> Check:
    """Measure the speed of MLX, and say what is missing: a backend, or on a Linux CPU a fast BLAS library."""
    if not runtime.has_backend():
        needed = settings.model.is_local or settings.embed.model != "minilm"
        return Check("compute", "bad" if needed else "note", runtime.NO_BACKEND, runtime.install_command())
    try:
        runtime.private_tmp(home.cache)
    except OSError as error:
        problem = f"{home.cache} cannot be written: {(error.strerror or '').lower()}"
        return Check("compute", "bad", problem, "set PKB_CACHE to a writable folder")
    runtime.load_blas(threads)
    found = runtime.arithmetic()
    with_blas = f"{found['blas']}, {found['threads']} threads" if found["blas"] else "its own BLAS"
    result = f"MLX {found['mlx']} on {found['device']} with {with_blas}: {runtime.gflops():.0f} GFLOP/s in fp32"
    if found["blas"] or found["device"] != "cpu" or sys.platform != "linux":
        return Check("compute", "ok", result)
    return Check("compute", "note", f"{result}, slower than with OpenBLAS", _get_blas(environ))


def _get_blas(environ: Mapping[str, str]) -> str:
    """Return how to get a fast BLAS library where none could be loaded."""
    if environ.get(runtime.BLAS_VARIABLE):
        return f"unset {runtime.BLAS_VARIABLE}"
    return "apt install libopenblas0-pthread" if runtime.wheel_library() else runtime.install_command()


def _cache_space(home: Home, settings: KvSettings) -> Check:
    """Check whether the cache folder's budget leaves space for the KV cache."""
    others = home.other_cache_bytes()
    found = f"{others / 1e6:.1f} MB besides the KV cache, of {settings.bytes / 1e6:.1f} MB allowed (kv.bytes)"
    if others < settings.bytes:
        return Check("cache", "ok", found)
    enough = KvSettings().bytes + others // _GB * _GB
    return Check("cache", "note", f"{found}: no KV cache can be stored", f"pkb config set kv.bytes {enough}")


def _model(settings: ModelSettings, environ: Mapping[str, str]) -> Check:
    """Check that the selected language model is installed and fits in memory."""
    from engine.models.role_adapter import find_adapter

    if not settings.is_local:
        return Check("model", "note", "no language model: answers are quoted", _get_model(settings, environ))
    found = find(settings.name, settings.revision, environ)
    needed, limit = needed_by(found.folder, device()), total() * settings.memory_share
    kind = "fp32" if device() == "cpu" else "as stored"
    adapted = ", with a role adapter" if find_adapter(found.folder) else ""
    result = f"{found.name} in {kind}{adapted}, {needed / 1e9:.1f} GB of memory, {limit / 1e9:.1f} GB allowed"
    if needed > limit:
        return Check("model", "bad", result, "pkb model list")
    if found.bytes < _SMALL:
        quality = "little better than quotes on mail (docs/guide.md has figures)" if adapted else "often wrong"
        return Check("model", "note", f"{result}; a model this small is {quality}", _larger(settings))
    return Check("model", "ok", result)


def _larger(settings: ModelSettings) -> str | None:
    """Return how to get the model that fits the memory; None if none does."""
    limit = int(runtime.total() * settings.memory_share)
    fits = lookup.default(runtime.total(), limit, lambda weights: runtime.needed(weights, 4, device()))
    return "pkb model pull" if fits else None


def _get_model(settings: ModelSettings, environ: Mapping[str, str]) -> str | None:
    """Return how to get a language model: select one that is installed, else download one; None if none fits."""
    limit = int(runtime.total() * settings.memory_share)
    for local in lookup.installed(environ):
        if lookup.role(local.name, local.config) == "writer" and runtime.needed_by(local.folder, device()) <= limit:
            return f"pkb model use {local.name}"
    return _larger(settings)


def _blocks(settings: ModelSettings, environ: Mapping[str, str]) -> Check:
    """Check whether the language model's cached keys can be moved, which block mode needs."""
    from engine.models.load import why_fixed

    if settings.is_served:
        return Check("blocks", "note", "the server has its own cache", "pkb config set kv.reuse prefix")
    if not settings.is_local:
        return Check("blocks", "note", "no language model: nothing to reuse", _get_model(settings, environ))
    found = find(settings.name, settings.revision, environ)
    if why := why_fixed(found.folder):
        return Check("blocks", "bad", f"{found.name} cannot reuse blocks: {why}", "pkb config set kv.reuse prefix")
    return Check("blocks", "ok", f"{found.name} can reuse blocks")


def _kv_form(settings: Settings, environ: Mapping[str, str]) -> Check:
    """Check how the language model's KV cache can be stored."""
    from engine.models.load import form

    if settings.kv.reuse == "off":
        return Check("kv", "note", "the KV cache is off", "pkb config set kv.reuse prefix")
    found = find(settings.model.name, settings.model.revision, environ)
    stored = form(found.folder, settings.kv.bits)
    result = f"{found.name}: {stored.description}"
    return Check("kv", "ok", result) if stored.name else Check("kv", "note", result, "pkb model list")


def _kv_costs(home: Home) -> Check:
    """Say how fast KV is computed and loaded here, by what questions took."""
    from contextlib import closing

    from engine.kv.costs import known_costs, spoken
    from store.database import exists, open_copy, open_ledger

    if not exists(home.ledger):
        return Check("kv costs", "note", "not measured yet", "pkb ingest FOLDER")
    with closing(open_copy(home.ledger) if unsafe_place(home.data) else open_ledger(home.ledger)) as ledger:
        found = spoken(known_costs(ledger))
    return Check("kv costs", "ok" if found else "note", found or "not measured yet: questions measure them")
