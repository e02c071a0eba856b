"""`pkb adapter`: LoRA adapters of the language model, added or trained here, and which task has which one on."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.output import session
from engine.operations import absolute_path
from store.errors import PkbError, UsageError

if TYPE_CHECKING:
    from engine.idle.finetune import FineTuning
    from engine.inventory import Task

adapter = typer.Typer(help="Add, train and use LoRA adapters of the language model.", rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
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
    from engine.text.terminal import size

    source = absolute_path(folder)
    with session() as opened:
        kept, warning = add_adapter(opened, source, source.name if name is None else name)
        read = kept.read()
        length = read.weights.stat().st_size
    if as_json:
        row = {"name": kept.name, "version": kept.version, "model": kept.model, "rank": read.rank}
        output.data(
            {"schema": output.SCHEMA, **row, "digest": read.digest, "bytes": length, "warning": warning or None}
        )
        return
    print(f"added {kept.name}, rank {read.rank}, {size(length)}, for {kept.model}; next: pkb adapter use {kept.name}")
    if warning:
        output.say(f"pkb: {warning}")


@adapter.command("list")
def show(as_json: Json = False) -> None:
    """List the adapters and the tasks that use them.

    Example: pkb adapter list
    """
    from engine.inventory import list_adapters
    from engine.text.terminal import line

    with session() as opened:
        rows = list_adapters(opened)
    if as_json:
        output.data({"schema": output.SCHEMA, "adapters": [asdict(row) for row in rows]})
        return
    for row in rows:
        print(line(row.line(max(len(row.name) for row in rows))))
    if not rows:
        output.say("pkb: no adapters; try: pkb adapter add FOLDER, or pkb adapter train")


@adapter.command("use")
def use(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `pkb adapter list` shows it, or none.")],
    role: Annotated[
        str | None,
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
    from engine.inventory import NO_ADAPTER, use_adapter
    from engine.text.terminal import line

    task = _task(role)
    if task and collection is not None:
        raise UsageError("an adapter for a collection answers; give --role or --in", "pkb adapter use NAME --in NAME")
    with session() as opened:
        use_adapter(opened, name, task, collection)
        chosen = opened.settings.adapter
    if as_json:
        row = {"answer": chosen.answer, "abstract": chosen.abstract, "predict": chosen.predict}
        output.data({"schema": output.SCHEMA, **row, "collections": chosen.collections})
        return
    where = f"in {line(collection)}" if collection is not None else task or ("all" if name == NO_ADAPTER else "answer")
    print(f"{where}: {'no adapter' if name == NO_ADAPTER else name}")


def _task(role: str | None) -> "Task | None":
    from engine.inventory import TASKS

    found = next((task for task in TASKS if task == role), None)
    if role is not None and found is None:
        raise UsageError(f"--role must be {' or '.join(TASKS)}", "pkb adapter use NAME --role answer")
    return found


@adapter.command("train")
def train(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The adapter to train, or to train on.")] = "own",
    iters: Annotated[int, typer.Option("--iters", metavar="N", min=1, help="Updates, of four examples each.")] = 60,
    ordinary: Annotated[
        bool, typer.Option("--ordinary", help="Act on the whole prompt, not on its last segment: no KV is shared.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many examples there are.")] = False,
    as_json: Json = False,
) -> None:
    """Train an adapter on your cached answers, and use it if it answers better.

    Example: pkb adapter train --dry-run
    """
    from engine.idle.finetune import finetune

    with session() as opened, output.bars(quiet=as_json) as tick:
        done = finetune(opened, name, iters, activated=not ordinary, dry_run=dry_run, on_progress=tick)
    if as_json:
        output.data({"schema": output.SCHEMA, **_figures(done), "dry_run": dry_run})
    else:
        _show_training(done, dry_run=dry_run)


def _figures(done: "FineTuning") -> dict[str, Any]:
    """Return what a training came to, as JSON values."""
    before, after = done.before, done.after
    return {
        "name": done.name,
        "version": done.version,
        "examples": len(done.examples.trained),
        "held_out": len(done.examples.held_out),
        "left_out": dict(done.examples.left_out),
        "enough": done.examples.are_enough,
        "iterations": done.updates,
        "resumed": done.resumed,
        "seconds": round(done.seconds, 3),
        "loss": done.loss,
        "context_reused": done.context["reused"],
        "context_computed": done.context["computed"],
        "before": asdict(before) if before else None,
        "after": asdict(after) if after else None,
    }


def _show_training(done: "FineTuning", *, dry_run: bool) -> None:
    """Print what there is to learn, or what a training came to, as a person reads it."""
    from engine.text.terminal import count

    found = done.examples
    print(f"{count(len(found.trained), 'answer')} to learn, {len(found.held_out)} held out to judge")
    for reason, number in found.left_out.most_common():
        print(f"{number} left out: {reason}")
    if dry_run:
        if not found.are_enough:
            print("too few: ask more, or import answers")
        return
    if done.before and done.after:
        loaded = done.context["reused"] / max(1, done.context.total())
        context = f", {loaded:.0%} of the context from the KV cache" if done.context else ""
        print(f"{count(done.updates, 'iteration')} in {done.seconds:.0f} s{context}")
        for label, score in (("before", done.before), ("after", done.after)):
            print(f"{label:<6}  F1 {score.f1:.3f}, {score.exact} of {score.count} exact")
    if done.version:
        back = f"rollback {done.name}" if done.version > 1 else "use none"
        print(f"now answering with {done.name}, version {done.version}; to go back: pkb adapter {back}")
    else:
        print("not better than before: nothing was changed")


@adapter.command("rollback")
def rollback(name: Name, as_json: Json = False) -> None:
    """Return to the version of an adapter before the current one.

    Example: pkb adapter rollback own
    """
    from engine.inventory import adapter_folder

    with session() as opened:
        kept = adapter_folder(opened).roll_back(name)
    if as_json:
        output.data({"schema": output.SCHEMA, "name": kept.name, "version": kept.version})
    else:
        print(f"{kept.name}: version {kept.version}")


@adapter.command("rm")
def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Remove an adapter with its versions and KV cache, and take it off.

    Example: pkb adapter rm mail --yes
    """
    from cli.pull import agreed
    from engine.inventory import adapter_folder, adapter_uses, remove_adapter
    from engine.text.terminal import line, size

    with session() as opened:
        if name not in adapter_folder(opened).names():
            raise UsageError(f"there is no adapter {line(name)[:64]}", "pkb adapter list")
        used = any(adapter_uses(opened, name))
        if not agreed(f"remove {name}?", yes=yes, default=False, step=f"pkb adapter rm {name} --yes"):
            raise PkbError("nothing was removed", "pkb adapter list")
        freed = remove_adapter(opened, name)
    if as_json:
        output.data({"schema": output.SCHEMA, "name": name, "bytes": freed, "was_in_use": used})
    else:
        print(f"removed {name}, {size(freed)} freed" + ("; the base model answers" if used else ""))
