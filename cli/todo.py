"""`pkb todo`: what is still to be done and to be answered."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli import output
from cli.output import Collection, InDocument, Recipient, Sender, Until, open_pkb
from engine.text.terminal import count

if TYPE_CHECKING:
    from engine.app import Pkb
    from engine.types import OpenLoops
    from store.types import Scope

_Since = Annotated[
    str | None, typer.Option("--since", metavar="DAY", help="Only from this day on; by default the last 30 days.")
]


def todo(
    number: Annotated[int, typer.Option("-n", metavar="N", min=0, help="How many to show; 0 for all.")] = 20,
    kind: Annotated[Literal["task", "question"] | None, typer.Option("--kind", help="Only tasks or questions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the items as one JSON object.")] = False,
    since: _Since = None,
    until: Until = None,
    sender: Sender = None,
    recipient: Recipient = None,
    collection: Collection = None,
    document: InDocument = None,
) -> None:
    """List open tasks and unanswered questions, what is due first.

    Example: pkb todo --since 2024-05 --from ann
    """
    filters = {"sender": sender, "recipient": recipient, "since": since, "until": until}
    with open_pkb() as pkb:
        options = pkb.open_loop_options(kind, number or None, collection=collection, document=document, **filters)
        with output.progress_line(pkb.session, "Reading..."):
            found = pkb.open_loops(options)
        if as_json:
            output.data({"schema": output.SCHEMA, "items": [item.to_json() for item in found.items]})
        else:
            from cli.render import show_open_loop

            for place, item in enumerate(found.items, 1):
                show_open_loop(place, item, pkb.session.now.date())
        for notice in pkb.matched_senders(options.scope):
            output.say(f"pkb: {notice}")
        for notice in _notices(pkb, found, options.scope):
            output.say(f"pkb: {notice}")
        raise typer.Exit(0 if found.items else 4)


def _notices(pkb: "Pkb", found: "OpenLoops", scope: "Scope") -> list[str]:
    """Return what is not shown, and what to type for it."""
    if not found.items:
        lost = None if found.documents else pkb.unknown_person(scope)
        return [f"{lost}; try: a name, an address or @domain" if lost else _nothing(pkb, found.documents, scope)]
    notices = [f"{len(found.items):,} of {found.total:,}; all: pkb todo -n 0"] if len(found.items) < found.total else []
    if found.read < found.documents:
        notices.append(
            f"only the newest {found.read:,} of {found.documents:,} documents were read; for others, set --until"
        )
    return notices


def _nothing(pkb: "Pkb", documents: int, scope: "Scope") -> str:
    """Return that nothing is open, and the year to try, which is that of the newest document."""
    from engine.types import ListOptions

    ever = ListOptions(replace(scope, since=None, until=None), limit=1)
    newest = [row["date"] for row in pkb.list_documents(ever).documents if row["date"]]
    advice = f"; try: pkb todo --since {newest[0][:4]}" if newest else ""
    where = f"nothing is open in {count(documents, 'document')}" if documents else "no document is of these days"
    return where + advice
