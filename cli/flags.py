"""Flags that several commands share: what a question is limited to, and JSON."""

from typing import Annotated

import typer

Sender = Annotated[str | None, typer.Option("--from", metavar="PERSON", help="Only messages from this person.")]
Recipient = Annotated[str | None, typer.Option("--to", metavar="PERSON", help="Only messages to this person.")]
Since = Annotated[
    str | None, typer.Option("--since", metavar="DAY", help="Only from this day on: 2024-05-03, 2024-05 or 30d.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="DAY", help="Only up to and including this day.")]
Collection = Annotated[str | None, typer.Option("--in", metavar="NAME", help="Only this collection.")]
