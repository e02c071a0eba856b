"""`pkb kv`: what using the KV cache takes on this machine."""

from typing import Annotated

import typer

from cli import output
from cli.output import open_pkb

kv = typer.Typer(help="Measure what using the KV cache takes.", rich_markup_mode=None)


@kv.callback()
def group() -> None:
    """Measure what using the KV cache takes."""


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
