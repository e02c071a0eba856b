"""What people type after a flag, understood: days, paths, and what a question is limited to."""

import re
from typing import Annotated

import typer

from store.errors import UsageError

Sender = Annotated[str | None, typer.Option("--from", metavar="PERSON", help="Only messages from this person.")]
Recipient = Annotated[str | None, typer.Option("--to", metavar="PERSON", help="Only messages to this person.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="DAY", help="Only from this day on: 2024-05-03, 2024-05, 30d, yesterday or 'last week'."
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="DAY", help="Only up to and including this day.")]
Collection = Annotated[str | None, typer.Option("--in", metavar="NAME", help="Only this collection.")]


_TIME = re.compile(r"(\d{1,6})\s*([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}


def duration(flag: str, time: str, example: str = "pkb idle --budget 10m") -> float:
    """Return the seconds of a time like 10m; UsageError naming what cannot be, and an example."""
    if found := _TIME.fullmatch(time.strip()):
        return float(int(found[1]) * _SECONDS[found[2]])
    raise UsageError(f"{flag} {time} is not a time like 90s, 10m or 2h", example)
