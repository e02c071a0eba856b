"""`pkb kv`: the KV cache as a whole, mirrored to where your other machines can read it."""

from typing import Annotated

import typer

from cli import output
from cli.output import open_pkb
from cli.peer import with_cryptography

kv = typer.Typer(help="Mirror the KV cache to a folder or an object store.", rich_markup_mode=None)


@kv.callback()
def group() -> None:
    """Mirror the KV cache to a folder or an object store."""


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
