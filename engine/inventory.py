"""Lists the models and adapters on this machine, what each needs, and which are in use; selects one.

Also lists the parts that a home need not use, each with its own checks and figures, and what it forgets.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from engine.models import adapters, lookup, runtime
from engine.models.adapters import Adapter, AdapterFolder, KeptAdapter, parse_collections, spell_collections
from engine.session import Session
from engine.settings import Settings, save
from engine.text.terminal import line, size
from engine.types import SCHEMA, Checks, json_values
from store.answers import AnswerBank
from store.errors import NoModel, PkbError, UsageError
from store.home import Home


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory that a model needs, that pkb may use, and that this machine has, in bytes."""

    needs: int
    limit: int
    total: int

    @property
    def fits(self) -> bool:
        """Return whether the model may be loaded."""
        return self.needs <= self.limit

    def __str__(self) -> str:
        return f"{size(self.needs)} of memory; pkb may use {size(self.limit)} of {size(self.total)}"


def memory_budget(opened: Session, needs: int) -> MemoryBudget:
    """Compare the bytes that a model needs with the memory limit."""
    total = runtime.total()
    return MemoryBudget(needs, int(total * opened.settings.model.memory_share), total)


def memory_needed(name: str, weights: int, config: Mapping[str, Any]) -> int:
    """Return the bytes of memory that a model needs, from the bytes of its weights and its config.json."""
    # Embedders of the package index are used as stored.
    stored = lookup.SINGLE if name in (lookup.EMBEDDER, lookup.MULTILINGUAL) else lookup.bits(config)
    return runtime.needed(weights, stored, runtime.device())


def memory_budget_of(opened: Session, local: lookup.InstalledModel) -> MemoryBudget:
    """Compare the memory that an installed model needs with the limit."""
    weights = sum(path.stat().st_size for path in local.weights)
    return memory_budget(opened, memory_needed(local.name, weights, local.config))


def select(opened: Session, name: str, revision: str, *, embeds: bool = False) -> None:
    """Select the model that answers, or embeds; an empty name selects none."""
    # The revision is cleared first: after a kill in between, the old one must not apply to the new name.
    of_writer = (("model.revision", ""), ("model.name", name), ("model.revision", revision))
    for key, value in (("embed.model", name),) if embeds else of_writer:
        save(opened.home.config, key, value)


def why_unsupported(name: str, config: Mapping[str, Any]) -> str:
    """Return why pkb cannot use a model."""
    if "model_file" in config:
        return f"{name} needs custom code, which pkb does not run"
    return f"pkb cannot use {name}: mlx-lm does not support architecture {lookup.architecture(config) or 'none'}"


QUOTE, MINILM = "quote", "minilm"  # names in the settings that are not names on the hub


def list_models(opened: Session) -> tuple[list[dict[str, Any]], NoModel | None]:
    """List the installed models as `--json` shows them, quoting first; with the problem of the selected one, if any.

    Sizes are in bytes, and `room` is the memory that pkb may use.
    """
    chosen, embedder, used, problem = opened.settings.model, _embedder(opened), None, None
    try:
        used = lookup.find(chosen.name, chosen.revision, os.environ) if chosen.is_local else None
    except NoModel as error:
        problem = error
    found = dict.fromkeys([*lookup.installed(os.environ), *([embedder] if embedder else []), *([used] if used else [])])
    rows = list[dict[str, Any]]()
    for local in sorted(found, key=lambda local: local.name):
        config, budget = local.config, memory_budget_of(opened, local)
        use = "embedder" if local == embedder else lookup.role(local.name, config) or "writer"
        rows.append({
            "name": local.name, "revision": local.revision, "folder": str(local.folder), "role": use,
            "architecture": lookup.architecture(config) or None, "bytes": local.bytes, "needs": budget.needs,
            "room": budget.limit, "fits": budget.fits, "in_use": local in (used, embedder),
        })  # fmt: skip
    without: dict[str, Any] = {"revision": None, "folder": None, "role": "writer", "architecture": None}
    without |= {"bytes": 0, "needs": 0, "room": memory_budget(opened, 0).limit, "fits": True}
    quoting = used is None and problem is None and not chosen.is_served
    served = [{"name": chosen.name, **without, "in_use": True}] if chosen.is_served else []
    return [{"name": QUOTE, **without, "in_use": quoting}, *served, *rows], problem


def _embedder(opened: Session) -> lookup.InstalledModel | None:
    """Return the embedder in use; MiniLM may be an installed package instead of a download."""
    name = opened.settings.embed.model
    try:
        if name != MINILM:
            return lookup.find(name, None, os.environ)
        folder = lookup.find_weights()
    except NoModel:
        return None
    return lookup.InstalledModel(lookup.EMBEDDER, folder, folder.name if folder.parent.name == "snapshots" else None)


Task = Literal["answer", "predict"]
TASKS: tuple[Task, ...] = ("answer", "predict")
NO_ADAPTER = "none"


def local_model_of(opened: Session) -> tuple[lookup.InstalledModel, str]:
    """Return the model in use, and what identifies it; UsageError if none of this machine is, NoModel if it is gone."""
    chosen = opened.settings.model
    if not chosen.is_local:
        raise UsageError("an adapter belongs to one model, and no local model is in use", "pkb model use NAME")
    found = lookup.find(chosen.name, chosen.revision, os.environ)
    return found, adapters.base_of(found.folder) or lookup.fingerprint(found, opened.home.cache / "digests")


def list_adapters(opened: Session) -> list[dict[str, Any]]:
    """List the adapters as `--json` shows them, each with why it cannot be used with the model in use, if so."""
    base = ""
    with suppress(UsageError, NoModel):
        base = local_model_of(opened)[1]
    folder, found = AdapterFolder(opened.home), list[dict[str, Any]]()
    for name in folder.names():
        about: dict[str, Any] = {"kind": "ordinary", "rank": 0, "digest": "", "bytes": 0, "model": "", "problem": None}
        try:
            kept = folder.find(name)
            read = kept.read(folder.notes)
            about |= {"kind": "activated" if read.activated else "ordinary", "rank": read.rank, "digest": read.digest}
            about |= {"bytes": read.weights.stat().st_size, "model": kept.model}
            about |= {"problem": None if kept.base == base else f"for {kept.model}"}
        except PkbError as error:
            about["problem"] = error.message
        tasks, collections = adapter_uses(opened, name)
        found.append({"name": name, **about, "tasks": tasks, "collections": collections})
    return found


def adapter_uses(opened: Session, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tasks and the collections that an adapter is chosen for."""
    chosen = opened.settings.adapter
    tasks = tuple(task for task in TASKS if getattr(chosen, task) == name)
    return tasks, tuple(one for one, used in parse_collections(chosen.collections).items() if used == name)


def add_adapter(opened: Session, source: Path, name: str) -> tuple[KeptAdapter, str]:
    """Copy an adapter of the model in use into the home; returns a warning, too, empty if there is none. PkbError."""
    found, base = local_model_of(opened)
    if not source.is_dir():
        raise UsageError(f"there is no folder {line(str(source))}", "pkb adapter add FOLDER")
    runtime.require_backend()
    runtime.load_blas()
    opened.make()

    def check(read: Adapter) -> None:
        from engine.models.mlx import open_lazily

        adapters.check_fit(open_lazily(found.folder), read)
        adapters.check_values(read)

    kept = AdapterFolder(opened.home).add(source, name, base, found.name, check)
    named = json.loads((kept.files / adapters.CONFIG).read_text("utf-8")).get("model")
    if not isinstance(named, str) or Path(named).name in ("", Path(found.name).name):
        return kept, ""
    return kept, f"its config says that it was trained on {line(named)[:80]}; the model in use is {found.name}"


def use_adapter(opened: Session, name: str, task: Task | None, collection: str | None) -> None:
    """Choose an adapter, for answers unless a task or a collection is given; `none` alone takes all off. UsageError."""
    if name != NO_ADAPTER:
        kept = AdapterFolder(opened.home).find(name)
        if kept.base != local_model_of(opened)[1]:
            raise UsageError(f"adapter {name} is for {kept.model}, another model", f"pkb model use {kept.model}")
        kept.read()
    value = "" if name == NO_ADAPTER else name
    if collection is not None:
        chosen = parse_collections(opened.settings.adapter.collections)
        known = opened.catalogue.by_collection() if opened.there else {}
        if value and collection not in known:
            there = ", ".join(map(line, known)) or "none"
            raise UsageError(f"no collection {line(collection)}, only {there}", "pkb stats")
        if any(sign in collection for sign in "=;"):
            step = "pkb ingest --in NAME FOLDER"
            raise UsageError("a collection with = or ; in its name cannot have an adapter", step)
        _set(opened, "collections", spell_collections({**chosen, collection: value}))
    elif task is None and not value:
        for key in (*TASKS, "collections"):
            _set(opened, key, "")
    else:
        _set(opened, task or "answer", value)


def _set(opened: Session, key: str, value: str) -> None:
    if getattr(opened.settings.adapter, key) != value:
        save(opened.home.config, f"adapter.{key}", value)
        opened.override(f"adapter.{key}", value)


def remove_adapter(opened: Session, name: str) -> int:
    """Take an adapter off wherever it is used, then remove it with its KV; returns the bytes freed."""
    from engine.backends import open_store

    folder = AdapterFolder(opened.home)
    tasks, collections = adapter_uses(opened, name)
    for task in tasks:
        _set(opened, task, "")
    if collections:
        chosen = parse_collections(opened.settings.adapter.collections)
        _set(opened, "collections", spell_collections({one: used for one, used in chosen.items() if used != name}))
    freed, left = folder.remove(name), set[str]()
    if not opened.there:
        return freed
    for one in folder.names():
        with suppress(PkbError):  # one that cannot be read is never put on
            left.add(folder.find(one).read(folder.notes).digest)
    return freed + open_store(opened.home, opened.ledger, opened.settings.kv).forget_adapters(left)


def export(opened: Session) -> Iterator[dict[str, Any]]:
    """Yield what an export begins with, then each cached answer with its evidence, the most used first."""
    from importlib.metadata import version

    from engine.ask.keys import answer_of, scope_of

    bank = AnswerBank(opened.ledger)  # NoStore before anything is written
    yield {"schema": SCHEMA, "kind": "export", "version": version("pkb"), "created": opened.now.isoformat()}
    for key, kept in bank.answered():
        created = datetime.fromtimestamp(kept.created, opened.now.tzinfo).isoformat()
        about = {name: getattr(kept, name) for name in ("writer", "day", "evidence")}
        use = {name: getattr(kept, name) for name in ("made_ms", "origin", "source", "tau", "uses")}
        asked = {"key": key.hex(), "scope": json_values(scope_of(kept.scope)), **about, "created": created, **use}
        yield {"schema": SCHEMA, "kind": "answer", **asked, "reply": answer_of(kept).to_json()}


class OptionalPart(Struct, frozen=True):
    """A part that a home need not use, and what it brings to the commands that look at all of a home."""

    doctor: Callable[[Home, Settings, Mapping[str, str]], Checks] = lambda *_: {}  # which may replace other checks
    forget: Callable[[Session, Collection[str]], None] = lambda *_: None  # removes all that it has of some files
    elsewhere: Callable[[Session], Collection[str]] = lambda _: ()  # says where this machine does not reach copies


def optional_parts() -> tuple[OptionalPart, ...]:
    """Return model servers, adapters, peers and mail accounts."""
    from engine.kv import sharing
    from engine.models import served

    return (
        OptionalPart(served.doctor),
        OptionalPart(adapters.doctor),
        OptionalPart(sharing.doctor, elsewhere=lambda one: sharing.elsewhere(one.home, one.settings)),
        OptionalPart(forget=_forget_messages),
    )


def _forget_messages(opened: Session, files: Collection[str]) -> None:
    if opened.home.mail.is_dir():  # most have no account, and need not wait for TLS
        from engine.ingest.imap import forget_message

        for path in files:
            forget_message(opened.home.mail, path)
