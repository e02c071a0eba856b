"""`pkb wrong`: the last answer was wrong."""

from typing import Annotated

import typer

from cli import out
from cli.out import session
from cli.plain import one_line
from store.errors import PkbError


def wrong(as_json: Annotated[bool, typer.Option("--json", help="Print the dropped question as JSON.")] = False) -> None:
    """Mark the last answer as wrong and drop it from the cache.

    Example: pkb wrong
    """
    from engine.ask.semantic import doubt

    with session() as opened:
        last = doubt(opened.ledger, opened.now)
    if last is None:
        raise PkbError("the last question has no cached answer", 'pkb ask "QUESTION" --fresh')
    if as_json:
        out.data({"schema": out.SCHEMA, "question": last.question, "tier": last.tier})
    else:
        print(f"Dropped: {one_line(last.question, 200)}")
        out.say("pkb: the next time you ask, it will be answered from scratch")
