"""`pkb model`: lists, selects, downloads and removes language models."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import output
from cli.output import bars, session
from engine.inventory import MINILM, MemoryBudget, memory_budget, memory_needed, select, why_unsupported
from engine.models import lookup, runtime
from engine.models.hub import DownloadPlan, Hub
from engine.models.lookup import InstalledModel, split
from engine.models.runtime import device
from engine.operations import absolute_path
from engine.session import Session
from engine.text.terminal import line, size
from store.errors import NoModel, PkbError, UsageError

if TYPE_CHECKING:
    from engine.models.lookup import GgufFile, InstalledModel
    from engine.session import Session


def agreed(question: str, *, yes: bool, default: bool, step: str) -> bool:
    """Return whether the person agrees, `default` being the answer of an empty line; UsageError without a terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: not a terminal", step)
    sys.stderr.write(f"{line(question)} [{'Y/n' if default else 'y/N'}] ")
    sys.stderr.flush()
    typed = sys.stdin.readline()  # empty at the end of input, which is no consent
    return default if typed == "\n" else typed.strip().casefold() in ("y", "yes")


_NAMED = "pkb model pull ORG/NAME"


def pull_model(opened: Session, given: str | None, *, yes: bool, force: bool, use: bool, as_json: bool) -> None:
    """Download a model after showing its size and asking; then select it."""
    named = split(_default(opened) if given is None else given)
    if named is None:
        raise UsageError(f"{given} is not a name like org/name" if given else "no model name given", _NAMED)
    hub = Hub(os.environ)
    plan = hub.plan(*named)
    role = _role(plan)
    budget = memory_budget(opened, memory_needed(plan.name, plan.weights, plan.config))
    missing = hub.missing(plan)
    _show(plan, missing, hub.free(), budget)
    _require_fit(plan, missing, hub.free(), budget, force=force)
    again = f"pkb model pull {given or plan.name}"
    if missing and not agreed("download it?", yes=yes, default=budget.fits, step=f"{again} --yes"):
        raise PkbError("nothing was downloaded", "pkb model list")
    local = _fetch(hub, plan, again, quiet=as_json)
    if chosen := use and role == "writer":
        select(opened, local.name, local.revision or "")
    _tell(local, role, missing, budget, chosen=chosen, as_json=as_json)


_DECLINED = "embedder_declined"  # in the ledger, once the person has said no


def offer_embedder(opened: Session) -> bool:
    """Ask at a terminal, once, whether to download the default embedding model; returns whether that was done."""
    from engine.models.minilm import FOLDER_VARIABLE  # imports numpy

    usual = opened.settings.embed.model == MINILM and not os.environ.get(FOLDER_VARIABLE)
    if not (usual and sys.stdin.isatty() and sys.stderr.isatty()) or opened.ledger.get(_DECLINED):
        return False
    question = f"download the embedding model {lookup.EMBEDDER} (91 MB) from Hugging Face, to search by meaning too?"
    if not agreed(question, yes=False, default=False, step=""):
        opened.ledger.set(_DECLINED, "yes")
        return False
    try:
        hub = Hub(os.environ)
        plan = hub.plan(lookup.EMBEDDER, "")
        budget = memory_budget(opened, memory_needed(plan.name, plan.weights, plan.config))
        _require_fit(plan, hub.missing(plan), hub.free(), budget, force=False)
        _fetch(hub, plan, f"pkb model pull {plan.name}", quiet=False)
    except PkbError as error:
        output.say(f"pkb: {error.message}")
        return False
    return True


def _default(opened: Session) -> str:
    budget = memory_budget(opened, 0)
    name = lookup.default(budget.total, budget.limit, lambda weights: runtime.needed(weights, 4, device()))
    if name is None:
        here = f"{size(budget.total)} of memory, {device()}"
        raise PkbError(f"no recommended model for this machine ({here}); name one yourself, or use quotes", _NAMED)
    return name


def _role(plan: DownloadPlan) -> lookup.Role:
    """Return what the model is for; PkbError if pkb cannot use it, before its weights are downloaded."""
    role = lookup.role(plan.name, plan.config)
    if role is None:
        raise PkbError(why_unsupported(plan.name, plan.config), _NAMED)
    return role


def _show(plan: DownloadPlan, missing: int, free: int, budget: MemoryBudget) -> None:
    output.say(f"{plan.name}, commit {plan.commit}")
    output.say(f"to download: {size(missing)} of {size(plan.bytes)}; free disk space: {size(free)}")
    output.say(f"{'fits' if budget.fits else 'does not fit'}: it needs {budget}")


def _require_fit(plan: DownloadPlan, missing: int, free: int, budget: MemoryBudget, *, force: bool) -> None:
    """Raise PkbError if a model does not fit on the disk or, unless forced, in memory."""
    if not budget.fits and not force:
        raise PkbError(f"{plan.name} does not fit: it needs {budget}", f"pkb model pull {plan.name} --force")
    if missing > free:
        message = f"{plan.name} does not fit on the disk: it needs {size(missing)}, {size(free)} are free"
        raise PkbError(message, f"free some disk space, then run: pkb model pull {plan.name}")


def _fetch(hub: Hub, plan: DownloadPlan, again: str, *, quiet: bool) -> InstalledModel:
    try:
        with bars(quiet=quiet) as tick:
            tick("MB", 0, None)
            return hub.pull(plan, lambda done: tick("MB", done // 10**6, plan.bytes // 10**6))
    except KeyboardInterrupt:
        output.say(f"pkb: interrupted; the partial download is kept; try: {again}")
        raise


def _tell(
    local: InstalledModel, role: lookup.Role, fetched: int, budget: MemoryBudget, *, chosen: bool, as_json: bool
) -> None:
    if as_json:
        output.data({
            "schema": output.SCHEMA, "name": local.name, "revision": local.revision, "folder": str(local.folder),
            "role": role, "bytes": local.bytes, "fetched": fetched, "needs": budget.needs, "room": budget.limit,
            "fits": budget.fits, "in_use": chosen,
        })  # fmt: skip
        return
    print(f"downloaded {local.name} to {local.folder}")
    if role == "embedder":
        print(_embeds(local))
    elif chosen:
        print('now answering with it; next: pkb ask "when is rehearsal?"')
    else:
        print(f"to answer with it: pkb model use {local.name}")


def _embeds(local: InstalledModel) -> str:
    if local.name != lookup.EMBEDDER:
        return f"to embed with it: pkb config set embed.model {local.name}"
    from engine.models.minilm import find_weights

    if (used := find_weights()) != local.folder:
        return f"embeddings are still computed by the copy in {used}"
    return "embeddings are computed by it; next: pkb ingest"


model = typer.Typer(help="Download, select and remove language models.", rich_markup_mode=None)

_QUOTE = "quote"
Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="ORG/NAME, ORG/NAME@COMMIT or a folder, as list shows it.")]
Usable = Annotated[str, typer.Argument(metavar="NAME", help="As list shows it, a folder, a GGUF file, or quote.")]


@model.command("pull")
def pull(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="ORG/NAME or ORG/NAME@COMMIT; none for one that fits.")
    ] = None,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Even if it does not fit in memory.")] = False,
    no_use: Annotated[bool, typer.Option("--no-use", help="Do not select it.")] = False,
    as_json: Json = False,
) -> None:
    """Download a model from Hugging Face.

    Example: pkb model pull mlx-community/Llama-3.2-3B-Instruct-4bit --yes
    """
    with session() as opened:
        pull_model(opened, name, yes=yes, force=force, use=not no_use, as_json=as_json)


@model.command("list")
def show(as_json: Json = False) -> None:
    """List the models on this machine and their use.

    Example: pkb model list
    """
    from engine.inventory import list_models
    from engine.models.lookup import gguf_files
    from engine.text.terminal import plain, size

    with session() as opened:
        found = list_models(opened)
    files = gguf_files(os.environ)
    if as_json:
        problem = found.problem.message if found.problem else None
        gguf = [{"name": file.name, "path": str(file.path), "bytes": file.bytes} for file in files]
        models = [asdict(row) for row in found.rows]
        output.data({"schema": output.SCHEMA, "models": models, "gguf": gguf, "problem": problem})
        return
    width = max(len(row.name) for row in found.rows) + len("@01234567")
    for row in found.rows:
        print(row.line(width))
    for file in files:
        print(f"  {plain(file.name):<{width}}  GGUF     {size(file.bytes):>8}  pkb model use converts it")
    if found.problem:
        output.say(f"pkb: {found.problem.message}; try: {found.problem.next_step}")


@model.command("use")
def use(name: Usable, as_json: Json = False) -> None:
    """Select the model that answers; a GGUF file is converted first.

    Example: pkb model use llama3.2:3b
    """
    from engine.inventory import memory_budget_of, select

    with session() as opened:
        found = None if name == _QUOTE else _usable(opened, name, quiet=as_json)
        select(opened, found.name if found else "", (found and found.revision) or "")
        if found and not (budget := memory_budget_of(opened, found)).fits:
            output.say(f"pkb: {found.name} does not fit: it needs {budget}; try: pkb config set model.memory_share 1")
    shown, revision = (found.name, found.revision) if found else (_QUOTE, None)
    if as_json:
        output.data({"schema": output.SCHEMA, "name": shown, "revision": revision})
    else:
        print(f"now answering with {shown}")


@model.command("rm")
def remove(name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a downloaded model with all its revisions.

    Example: pkb model rm mlx-community/Llama-3.2-3B-Instruct-4bit --yes
    """
    from engine.inventory import select
    from engine.models.hub import HubCache
    from engine.text.terminal import size

    with session() as opened:
        folder = _removable(name)
        if opened.settings.embed.model == name:
            raise UsageError(f"{name} computes the embeddings and is in use", "pkb config set embed.model minilm")
        step = f"pkb model rm {name} --yes"
        if not agreed(f"remove {name} from {folder}?", yes=yes, default=False, step=step):
            raise PkbError("nothing was removed", "pkb model list")
        freed = HubCache(folder).remove()
        if chosen := opened.settings.model.name == name:
            select(opened, "", "")
    if as_json:
        output.data({"schema": output.SCHEMA, "name": name, "bytes": freed, "was_in_use": chosen})
    else:
        print(f"removed {name}, {size(freed)}" + ("; now answering with quotes" if chosen else ""))


def _named(name: str) -> str:
    """Return the name; UsageError if it is blank, because an empty path is the current folder."""
    if not name.strip():
        raise UsageError("no model name or folder given", "pkb model list")
    return name


def _usable(opened: "Session", name: str, *, quiet: bool) -> "InstalledModel":
    """Find a model that can answer; NoModel if it is not installed, PkbError if it cannot answer."""
    from engine.inventory import why_unsupported
    from engine.models.lookup import EMBEDDER, find, find_gguf, role

    if file := find_gguf(_named(name), os.environ):
        return _converted(opened, file, quiet=quiet)
    found = find(name, None, os.environ)
    if (use := role(found.name, found.config)) is None:
        raise PkbError(why_unsupported(found.name, found.config), "pkb model list")
    if use == "embedder":
        setting = "minilm" if found.name == EMBEDDER else name
        raise UsageError(
            f"{found.name} is an embedding model and cannot answer", f"pkb config set embed.model {setting}"
        )
    return found


def _converted(opened: "Session", file: "GgufFile", *, quiet: bool) -> "InstalledModel":
    """Convert a GGUF file unless that is done already; PkbError if pkb cannot, or the disk has no room."""
    from engine.models.gguf import read
    from engine.models.gguf_weights import convert, plan
    from engine.models.lookup import converted, free, missing_files
    from engine.text.terminal import size

    header = read(file.path)
    planned = plan(header)
    local = converted(file, opened.home.cache / "digests", os.environ)
    if not missing_files(local.folder):
        return local
    output.say(f"{file.name}: {header.architecture}, {header.formats}; licence: {header.licence or 'none named'}")
    room = free(os.environ)
    output.say(f"to convert: {size(planned.read)} into {size(planned.bytes)}; free disk space: {size(room)}")
    if planned.bytes > room:
        raise header.refusal(f"it needs {size(planned.bytes)} on the disk, and {size(room)} are free")
    with output.bars(quiet=quiet) as tick:
        convert(planned, local, os.environ, lambda done: tick("MB", done // 10**6, planned.read // 10**6))
    return local


def _removable(name: str) -> Path:
    """Return the folder of a downloaded model; UsageError for one that pkb must not remove."""
    from engine.models.lookup import repository, split

    named = split(_named(name))
    if named and not named[1] and (folder := repository(name, os.environ)).is_dir():
        return folder
    if name == _QUOTE:
        raise UsageError("quote is built in and cannot be removed", "pkb model list")
    if absolute_path(Path(name)).is_dir():
        raise UsageError(f"{absolute_path(Path(name))} is your own folder; pkb does not remove it", "pkb model list")
    if named and named[1]:
        raise UsageError(f"cannot remove a single revision of {named[0]}", f"pkb model rm {named[0]}")
    raise NoModel(f"model {name} is not installed", "pkb model list")
