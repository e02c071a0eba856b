"""`pkb adapter`: LoRA adapters of the language model, and which task has which one on."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cli import output
from cli.output import Json, session
from engine.operations import absolute_path
from engine.text.terminal import line, size
from engine.types import SCHEMA
from store.errors import PkbError, UsageError

adapter = typer.Typer(help="Add and use LoRA adapters of the language model.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `pkb adapter list` shows it.")]


@adapter.command("add")
def add(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where mlx-lm saved it.")],
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What to call it (default: the folder's name)")
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy an adapter that mlx-lm trained for the model in use.

    Example: pkb adapter add ~/adapters/mail --name mail
    """
    from engine.inventory import add_adapter

    source = absolute_path(folder)
    with session() as opened:
        kept, warning = add_adapter(opened, source, source.name if name is None else name)
        read = kept.read()
        length = read.weights.stat().st_size
    row = {"name": kept.name, "model": kept.model, "rank": read.rank, "digest": read.digest, "bytes": length}
    said = f"added {kept.name}, rank {read.rank}, {size(length)}, for {kept.model}; next: pkb adapter use {kept.name}"
    output.result(row | {"warning": warning or None}, said, as_json=as_json)
    if warning and not as_json:
        output.say(f"pkb: {warning}")


@adapter.command("list")
def show(as_json: Json = False) -> None:
    """List the adapters and the tasks that use them.

    Example: pkb adapter list
    """
    from engine.inventory import list_adapters

    with session() as opened:
        rows = list_adapters(opened)
    if as_json:
        output.data({"schema": SCHEMA, "adapters": rows})
        return
    for row in rows:
        print(line(row.line(max(len(row.name) for row in rows))))
    if not rows:
        output.say("pkb: no adapters; try: pkb adapter add FOLDER")


@adapter.command("use")
def use(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `pkb adapter list` shows it, or none.")],
    task: Annotated[
        Literal["answer", "abstract", "predict"] | None,
        typer.Option("--role", metavar="TASK", help="Use it to answer, abstract or predict (default: answer)"),
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--in", metavar="NAME", help="Use it for questions limited to this collection.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Use an adapter for a task or a collection, or none.

    Example: pkb adapter use mail --role answer
    """
    from engine.inventory import NO_ADAPTER, TASKS, use_adapter

    if task and collection is not None:
        raise UsageError("an adapter for a collection answers; give --role or --in", "pkb adapter use NAME --in NAME")
    with session() as opened:
        use_adapter(opened, name, task, collection)
        chosen = opened.settings.adapter
    where = f"in {line(collection)}" if collection is not None else task or ("all" if name == NO_ADAPTER else "answer")
    said = f"{where}: {'no adapter' if name == NO_ADAPTER else name}"
    output.result({key: getattr(chosen, key) for key in (*TASKS, "collections")}, said, as_json=as_json)


@adapter.command("rm")
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Remove an adapter with its KV cache, and take it off.

    Example: pkb adapter rm mail --yes
    """
    from cli.pull import agreed
    from engine.inventory import adapter_folder, adapter_uses, remove_adapter

    with session() as opened:
        if name not in adapter_folder(opened).names():
            raise UsageError(f"there is no adapter {line(name)[:64]}", "pkb adapter list")
        used = any(adapter_uses(opened, name))
        if not agreed(f"remove {name}?", yes=yes, default=False, step=f"pkb adapter rm {name} --yes"):
            raise PkbError("nothing was removed", "pkb adapter list")
        freed = remove_adapter(opened, name)
    said = f"removed {name}, {size(freed)} freed" + ("; the base model answers" if used else "")
    output.result({"name": name, "bytes": freed, "was_in_use": used}, said, as_json=as_json)
