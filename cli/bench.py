"""`pkb bench`: one's own machine, data and model on one screen: what each tier costs here, and what idle would save."""

from typing import Annotated

import typer

from cli import out
from cli.session import session
from store.errors import UsageError


def bench(
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The language model to try, if not the one in use.")
    ] = None,
    questions: Annotated[int, typer.Option("--questions", metavar="N", min=1, help="The latest N questions.")] = 10,
    blocks: Annotated[bool, typer.Option("--blocks", help="Try reading in blocks too: it may change answers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure what each tier costs here, and what idle would save.

    Example: pkb bench --questions 5
    """
    from cli.aside import room
    from cli.tiers import Wanted, gather

    with session() as opened, room(opened) as place:
        if model is not None:
            opened.override("model.name", model)
            opened.override("model.revision", "")
        if blocks and opened.settings.model.name in ("", "quote"):
            raise UsageError("there is no language model to try", "pkb model pull")
        row = gather(opened, place, Wanted(questions, model, blocks, quiet=as_json))
    if as_json:
        out.data(row)
        return
    from cli.prices import show

    show(row)
