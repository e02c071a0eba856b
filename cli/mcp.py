"""`pkb mcp`: the tools of pkb for agents and editors. Loads the MCP package only when it runs."""

import gc
import sys
from typing import Annotated

import typer

from cli import output
from cli.output import Collection
from store.errors import PkbError


def mcp(
    allow_write: Annotated[
        bool,
        typer.Option(
            "--allow-write", help="Cache and record the client's questions, and add the tools wrong and ingest."
        ),
    ] = False,
    collection: Collection = None,
) -> None:
    """Serve questions and search to agents and editors (MCP).

    Example: pkb mcp --in office
    """
    gc.disable()  # thousands of classes are made, and none is garbage: a tenth of the time
    try:
        from engine.mcp import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mcp", "mcp_types"):
            raise
        from engine.models.runtime import install_command

        raise PkbError("the package mcp is not installed", install_command("mcp")) from None
    finally:
        gc.enable()
    if sys.stdin.isatty():
        output.say("pkb: waiting for an MCP client on standard input; Ctrl-C ends it")
    run(writes=allow_write, collection=collection)
