"""What pkb says of itself: the checks of `pkb doctor`, each with a finding and a next step; the figures of `pkb stats`.

Changes no data, and prints nothing. Checks go on where a package is missing or the home is damaged.
"""

import platform
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from shutil import which
from typing import Any

from engine import operations
from engine.inventory import optional_parts
from engine.models import lookup, runtime
from engine.models.adapters import find_adapter
from engine.models.lookup import find, reader_version
from engine.models.runtime import device, needed_by, threads_of, total
from engine.session import Session
from engine.settings import KvSettings, ModelSettings, Settings
from engine.types import SCHEMA, Check, Checks
from store.answers import AnswerBank, Notices, RejectedAnswers, Verifications, predicted_use, upper
from store.checksums import PLACE
from store.errors import NoModel, PkbError, UsageError, as_pkb_error
from store.history import History
from store.home import ELSEWHERE, Home, existing, file_system, unsafe_place
from store.jobs import JobAccount, Jobs
from store.types import replace

_HERE = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
_GB = 10**9
_WITHOUT = {"embedder": "keyword search only", "reader": "answers are found by words alone"}
_FAILURES = (
    PkbError, ImportError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError,
    MemoryError,
)  # fmt: skip


def doctor(opened: Session) -> Iterator[Check]:
    """Look at this machine and this home."""
    settings, threads = Settings(), 1
    try:
        settings = opened.settings
    except PkbError as error:
        yield _bad("config", error)
    try:
        threads = threads_of(opened.ledger if opened.there else None)
    except UsageError as error:
        yield _bad("threads", error)
    except (PkbError, OSError, sqlite3.Error) as error:
        yield _bad("ledger", error)
    yield from examine(opened, settings, threads)
    with suppress(PkbError, OSError, sqlite3.Error):  # said above
        for one in operations.problems(opened):
            found = f"{one['meaning']}: {one['count']:,}, such as {one['items'][0]['path']}"
            yield Check("mail", "note", found, "pkb list --problems")


def _bad(name: str, error: Exception) -> Check:
    found = as_pkb_error(error)
    return Check(name, "bad", found.message, None if found.next_step == "pkb doctor" else found.next_step)


def examine(opened: Session, settings: Settings, threads: int) -> Iterator[Check]:
    """Yield all checks of this machine and home, fast ones first; `threads` are those of language models."""
    home, environ, model = opened.home, opened.environ, settings.model
    checks: Checks = {
        "python": lambda: Check("python", "ok", f"{_HERE}, SQLite {sqlite3.sqlite_version}"),
        "home": lambda: operations.home_check(home),
        "disk": lambda: _disk_kind(home, settings.home.place),
        "space": lambda: operations.space_check(home),
        "memory": lambda: Check("memory", "ok" if total() >= 4 << 30 else "note", f"{total() / (1 << 30):.0f} GiB"),
        "embedder": lambda: _embedder(settings.embed.model, environ),
        "reader": lambda: Check("reader", "ok", f"version {reader_version(home.cache / 'digests')}"),
        "compute": lambda: _compute(home, settings, threads),
        "cache": lambda: _cache_space(home, settings.kv),
        "model": lambda: _model(model, environ),
    }
    for part in optional_parts():
        checks |= part.doctor(home, settings, environ)
    if settings.home.tables:
        checks |= {"tables": lambda: _tables(opened)}
    if settings.ingest.ocr:
        missing = Check("ocr", "bad", "tesseract is not installed", "apt install tesseract-ocr")
        checks |= {"ocr": lambda: Check("ocr", "ok", "tesseract") if which("tesseract") else missing}
    if model.is_local:
        checks |= {"kv": lambda: _kv_form(settings, environ)}
        checks |= {"kv steps": lambda: _kv_steps(opened)} if device() != "cpu" else {}
    for name, check in checks.items():
        try:
            found = check()
        except PkbError as error:  # a finding, too, and the others follow
            found = _bad(name, error)
            if isinstance(error, NoModel) and name in _WITHOUT:
                found = replace(found, state="note", found=f"{error.message}: {_WITHOUT[name]}")
        except _FAILURES as error:
            reason = " ".join(str(error).split())[:200]
            found = Check(name, "bad", f"this check failed: {type(error).__name__}: {reason}")
        yield found


def _disk_kind(home: Home, place: str) -> Check:
    """Reject disks on which SQLite's write-ahead log is not safe: network mounts and synced folders."""
    if why := unsafe_place(home.data):
        if place == "any":
            return Check("disk", "note", f"{why}; home.place allows it", "pkb config set home.place local")
        return Check("disk", "bad", why, ELSEWHERE)
    kind = file_system(existing(home.data.resolve()))
    if kind == "9p":
        return Check("disk", "note", "a folder of another system (9p): safe if no other system uses the home")
    return Check("disk", "ok", f"local ({kind})")


def _tables(opened: Session) -> Check:
    """Say whether the object store with the tables can be reached, and is the one of the settings."""
    wanted = opened.settings.home.tables
    if not opened.there:
        return Check("tables", "note", f"{wanted}, where nothing was written yet", "pkb ingest FOLDER")
    if (place := opened.ledger.get(PLACE)) != wanted:
        step = f"pkb config set home.tables '{place or ''}'"
        return Check("tables", "bad", f"in {place or 'this home'}, but home.tables is {wanted}", step)
    return Check("tables", "ok", f"{place}, {len(opened.tables.stored()):,} objects")


def _embedder(name: str, environ: Mapping[str, str]) -> Check:
    from engine.models import minilm

    usual = name == "minilm"
    folder = lookup.find_weights() if usual else minilm.find_model(name, environ).folder
    return Check("embedder", "ok", f"{'all-MiniLM-L6-v2' if usual else name} in {folder}")


def _compute(home: Home, settings: Settings, threads: int) -> Check:
    """Say what is missing: a backend, or on a Linux CPU a fast BLAS library."""
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
    gpu = f" ({found['architecture']}, {found['software']})" if "architecture" in found else ""
    result = f"MLX {found['mlx']} on {found['device']}{gpu} with {with_blas}"
    if found["blas"] or found["device"] != "cpu" or sys.platform != "linux":
        return Check("compute", "ok", result)
    step = None if runtime.wheel_library() else runtime.install_command()  # a kernel may forbid what it needs
    return Check("compute", "note", f"{result}, slower than with OpenBLAS", step)


def _cache_space(home: Home, settings: KvSettings) -> Check:
    others = home.other_cache_bytes()
    found = f"{others / 1e6:.1f} MB besides the KV cache, of {settings.bytes / 1e6:.1f} MB allowed (kv.bytes)"
    if others < settings.bytes:
        return Check("cache", "ok", found)
    enough = KvSettings().bytes + others // _GB * _GB
    return Check("cache", "note", f"{found}: no KV cache can be stored", f"pkb config set kv.bytes {enough}")


def _model(settings: ModelSettings, environ: Mapping[str, str]) -> Check:
    limit = int(total() * settings.memory_share)
    if not settings.is_local:  # one that is installed is selected, else one downloaded
        writers = (one for one in lookup.installed(environ) if lookup.role(one.name, one.config) == "writer")
        fitting = next((one.name for one in writers if needed_by(one.folder, device()) <= limit), None)
        step = f"pkb model use {fitting}" if fitting else _larger(limit)
        return Check("model", "note", "no language model: answers are quoted", step)
    found = find(settings.name, settings.revision, environ)
    needed = needed_by(found.folder, device())
    kind = "fp32" if device() == "cpu" else "as stored"
    adapted = ", with a role adapter" if find_adapter(found.folder) else ""
    result = f"{found.name} in {kind}{adapted}, {needed / 1e9:.1f} GB of memory, {limit / 1e9:.1f} GB allowed"
    if needed > limit:
        return Check("model", "bad", result, "pkb model list")
    if found.bytes < 300_000_000:
        quality = "little better than quotes on mail (docs/guide.md has figures)" if adapted else "often wrong"
        return Check("model", "note", f"{result}; a model this small is {quality}", _larger(limit))
    return Check("model", "ok", result)


def _larger(limit: int) -> str | None:
    """Return how to get the model that fits so many bytes of memory; None if none does."""
    fits = lookup.default(total(), limit, lambda weights: runtime.needed(weights, 4, device()))
    return "pkb model pull" if fits else None


def _kv_form(settings: Settings, environ: Mapping[str, str]) -> Check:
    from engine.models.load import form

    if settings.kv.reuse == "off":
        return Check("kv", "note", "the KV cache is off", "pkb config set kv.reuse prefix")
    found = find(settings.model.name, settings.model.revision, environ)
    in_blocks = settings.kv.reuse == "blocks"
    stored = form(found.folder, settings.kv.bits, in_blocks=in_blocks)
    result = f"{found.name}: {stored.description}"
    if stored.name:
        return Check("kv", "ok", result + ", in blocks" * in_blocks)
    if in_blocks:
        return Check("kv", "bad", result, "pkb config set kv.reuse prefix")
    return Check("kv", "note", result, "pkb model list")


def _kv_steps(opened: Session) -> Check:
    from engine.kv.costs import calibrations

    if not opened.there:
        return Check("kv steps", "note", "not measured yet", "pkb ingest FOLDER")
    found = "".join(map(str, list(calibrations(opened.ledger).values())[-1:]))
    return Check("kv steps", "ok" if found else "note", found or "not measured yet: the first question measures them")


def gather(opened: Session) -> dict[str, Any]:
    """Return all figures, as the reference of `--json` describes them."""
    from engine.ingest.imap import shown_path

    chunks, is_part = opened.ledger.count("chunks"), opened.home.source is not None  # of an archive: its own alone
    vectors = opened.reader.totals().embedded if is_part else chunks - operations.missing_vectors(opened)
    history, chosen, adapter = History(opened.ledger), opened.settings.model, opened.settings.adapter
    tiers = history.by_tier()
    weeks = history.by_week((opened.now + timedelta(1)).timestamp())  # later ones were asked when the clock was wrong
    return {
        "schema": SCHEMA,
        "generation": 0 if is_part else opened.ledger.generation,
        "model": chosen.name if chosen.is_local or chosen.is_served else None,
        "adapters": {"answer": adapter.answer or None, "predict": adapter.predict or None},
        "index": {**opened.catalogue.counts(), "chunks": chunks, "vectors": vectors},
        "collections": opened.catalogue.by_collection(),
        "folders": [
            {"path": shown_path(opened.home.mail, root.path), "collection": root.collection, **counts}
            for root, counts in opened.catalogue.root_counts()
        ],
        "answers": _answers(opened),
        "kv": _kv(opened),
        "bytes": opened.home.sizes(),
        "tiers": tiers,
        "saved_s": round(sum(one["saved_s"] for one in tiers), 3),
        "history": {"first": min((day for *_, day in weeks), default=None), "weeks": weekly(weeks)},
        "prompts": history.prompts(),
        "idle": _idle_counts(opened),
    }


def weekly(counted: Sequence[tuple[str, str, int, float, str]]) -> list[dict[str, Any]]:
    """Return questions, tiers and savings of the last 104 weeks, by `History.by_week`, and of those in between."""
    mondays = [date.fromisoformat(monday) for monday, *_ in counted]
    number = (mondays[-1] - mondays[0]).days // 7 + 1 if mondays else 0
    found = list[dict[str, Any]]()
    for back in reversed(range(min(number, 104))):
        start = (mondays[-1] - timedelta(7 * back)).isoformat()
        own = [one for one in counted if one[0] == start]
        tiers = {tier: questions for _, tier, questions, *_ in own}
        saved_s = round(sum(saved for *_, saved, _ in own) / 1000, 3)
        found.append({"start": start, "questions": sum(tiers.values()), "tiers": tiers, "saved_s": saved_s})
    return found


def _answers(opened: Session) -> dict[str, Any]:
    bank = AnswerBank(opened.ledger)
    verified, wrong = Verifications(opened.ledger).result_counts()
    return {
        **bank.counts(),
        "bytes": bank.size()[1],
        "budget": opened.settings.bank.bytes,
        "tau": opened.tau,
        "verified": verified,
        "wrong": wrong,
        "false_hit_rate": round(wrong / verified, 4) if verified else None,
        "false_hit_upper": round(upper(wrong, verified), 4) if verified else None,
        "rejected": RejectedAnswers(opened.ledger).count(),
        "notices": Notices(opened.ledger).count(),
    }


def _kv(opened: Session) -> dict[str, Any]:
    from store.kv_index import KvIndex

    settings, index = opened.settings.kv, KvIndex(opened.ledger)
    held, hits, fetched = index.totals(), index.counted("hit"), index.counted("fetched")
    return {
        "reuse": settings.reuse, "nodes": held.count, "bytes": held.bytes, "budget": settings.bytes,
        "other_bytes": opened.home.other_cache_bytes(), "written_today": index.written(time.time()),
        "daily_budget": settings.daily_bytes, "hits": hits.count, "tokens": hits.tokens,
        "saved_s": round(float(hits.seconds), 3), "fetched_tokens": fetched.tokens,
        "fetched_bytes": fetched.bytes, "fetched_saved_s": round(float(fetched.seconds), 3),
    }  # fmt: skip


def _idle_counts(opened: Session) -> dict[str, Any]:
    account, predicted = JobAccount(opened.ledger), predicted_use(opened.ledger).values()
    account.update()
    return {
        "pending": Jobs(opened.ledger).counts(),
        "so_far": [{"job": kind, **one} for kind, one in account.by_kind().items()],
        "predicted": sum(made for _, made in predicted),
        "asked_later": sum(used for used, _ in predicted),
    }
