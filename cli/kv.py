"""`pkb kv`: what the KV cache takes on this machine."""

from typing import Annotated

import typer

from cli import output
from cli.output import session
from engine.text.terminal import line
from store.errors import NoModel, PkbError

kv = typer.Typer(help="Measure what computing KV takes.", rich_markup_mode=None)


@kv.callback()
def group() -> None:
    """Measure what computing KV takes."""


@kv.command("calibrate")
def calibrate(
    longest: Annotated[
        int, typer.Option("--longest", metavar="N", min=128, help="Measure up to N tokens (2048).", show_default=False)
    ] = 2048,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure how long the language model takes for each layer.

    Example: pkb kv calibrate --longest 1024
    """
    from engine.kv.calibrate import calibrate, keep
    from engine.models.mlx import Mlx

    with session() as opened:
        if opened.load_model is None:
            raise NoModel("no language model is in use", "pkb model list")
        model = opened.load_model().model
        if not isinstance(model, Mlx):
            raise PkbError("only a model on this machine can be calibrated", "pkb model list")
        found = calibrate(model, longest)
        keep(opened.ledger, found)
    errors = {"line_error": round(found.line_error, 4), "roofline_error": round(found.roofline_error, 4)}
    if as_json:
        about = {"schema": output.SCHEMA, "model": found.model, "longest": found.longest, "units": found.units}
        output.data(about | errors | {"seconds": round(found.seconds, 3)})
        return
    print(f"{line(found.model)}: {found.units} units at up to {found.longest} tokens, in {found.seconds:.1f} s")
    print(f"error of the fit {found.line_error:.1%}, of a roofline {found.roofline_error:.1%}")
