"""`pkb wrong`: the last answer was wrong."""

from typing import Annotated

import typer

from cli import out
from cli.plain import one_line
from cli.session import session
from store.errors import PkbError


def wrong(as_json: Annotated[bool, typer.Option("--json", help="Print what was taken back as JSON.")] = False) -> None:
    """Say that the last answer was wrong, and drop it.

    Example: pkb wrong
    """
    from engine.ask.doubt import doubt

    with session() as opened:
        last = doubt(opened.ledger, opened.now)
    if last is None:
        raise PkbError("no answer is kept of the last question", 'pkb ask "QUESTION" --fresh')
    if as_json:
        out.data({"schema": out.SCHEMA, "question": last.question, "tier": last.tier})
    else:
        print(f"dropped: {one_line(last.question, 200)}")
        out.say("pkb: asked again, it is answered anew; to change what is read for it: pkb ask --from, --since, -k")
