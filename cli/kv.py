"""`pkb kv`: the KV cache as a whole, mirrored to where your other machines can read it; what using it takes."""

from typing import Annotated

import typer

from cli import output
from cli.output import open_pkb
from cli.peer import with_cryptography

kv = typer.Typer(help="Mirror the KV cache, or measure what using it takes.", rich_markup_mode=None)


@kv.callback()
def group() -> None:
    """Mirror the KV cache, or measure what using it takes."""


@kv.command("push")
def push(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="A folder or object store (default: the setting kv.remote)")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written and removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Mirror the KV cache, encrypted, to a folder or an object store.

    Example: pkb kv push file:///Volumes/disk/pkb
    """
    from engine.text.terminal import count, size

    with open_pkb() as pkb, with_cryptography(), output.bars(quiet=as_json) as tick:
        done = pkb.push_kv(url, dry_run=dry_run, on_progress=tick)
    if as_json:
        row = {"uploaded": done.uploaded, "bytes": done.uploaded_bytes, "deleted": done.deleted}
        output.data({"schema": output.SCHEMA, **row, "unchanged": done.unchanged, "dry_run": dry_run})
        return
    would = "would write" if dry_run else "wrote"
    removed = "would remove" if dry_run else "removed"
    print(f"{would} {count(done.uploaded, 'node')}, {size(done.uploaded_bytes)}; {removed} {done.deleted}; ", end="")
    print(f"{done.unchanged} unchanged")


@kv.command("drop")
def drop(
    url: Annotated[str, typer.Argument(metavar="URL", help="A folder or object store that was pushed to")],
    gone: Annotated[bool, typer.Option("--gone", help="It is gone for good: only forget it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Remove this machine's objects from a mirror, and forget the mirror.

    Example: pkb kv drop file:///Volumes/disk/pkb
    """
    from engine.text.terminal import count

    with open_pkb() as pkb, with_cryptography():
        removed = pkb.drop_mirror(url, gone=gone)
    if as_json:
        output.data({"schema": output.SCHEMA, "deleted": removed, "gone": gone})
        return
    print("the mirror is forgotten" if gone else f"removed {count(removed, 'node')}; the mirror is forgotten")


@kv.command("calibrate")
def calibrate(
    longest: Annotated[
        int, typer.Option("--longest", metavar="N", min=128, help="Measure up to N tokens.", show_default=False)
    ] = 1024,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure how fast the language model prefills, and how fast KV loads.

    Example: pkb kv calibrate
    """
    from engine.text.terminal import line

    with open_pkb() as pkb, output.bars(quiet=as_json) as tick:
        done, speeds = pkb.calibrate_kv(longest, on_progress=tick)
    if as_json:
        row = {"tokens": done.tokens, "bytes": done.loaded, "seconds": round(done.seconds, 3), "speeds": speeds}
        output.data({"schema": output.SCHEMA, **row})
        return
    print(line(speeds))
