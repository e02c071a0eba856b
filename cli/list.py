"""`pkb list`: the messages and meetings within some limits, one a line; and their number."""

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.options import Collection, Recipient, Sender, Since, Until
from cli.output import open_pkb
from engine.text.terminal import cells, count, line, one_line, valid_text

if TYPE_CHECKING:
    from engine.types import Listing

_WHO, _DAY, _NARROWEST = 26, len("2024-05-14"), 60  # columns


def list_documents(
    title: Annotated[list[str] | None, typer.Argument(metavar="TITLE", help="Words of the title, in any case.")] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", min=0, help="How many to list; 0 for all.")] = 20,
    oldest: Annotated[bool, typer.Option("--oldest", help="List the oldest first.")] = False,
    count_only: Annotated[bool, typer.Option("--count", help="Print only how many there are.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print only the path of each file.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as one JSON object.")] = False,
    sender: Sender = None,
    recipient: Recipient = None,
    since: Since = None,
    until: Until = None,
    collection: Collection = None,
) -> None:
    """List messages and meetings, newest first.

    Example: pkb list budget --from ann --since 2024-05
    """
    from engine.types import ListOptions

    with open_pkb() as pkb:
        scope = pkb.scope(sender, recipient, since, until, collection)
        words = tuple(valid_text(" ".join(title or [])).split())
        with output.progress_line(pkb.session, "Listing..."):
            found = pkb.list_documents(ListOptions(scope, words, 0 if count_only else number or None, oldest))
        if as_json:
            output.data({"schema": output.SCHEMA, "total": found.total, "documents": found.documents})
        elif count_only:
            print(found.total)
        else:
            _print(found, paths=paths)
        for notice in pkb.matched_senders(scope):
            output.say(f"pkb: {notice}")
        if not found.total:
            lost = pkb.unknown_person(scope)
            output.say(f"pkb: {lost}; try: part of a name or address" if lost else "pkb: nothing within these limits")
        raise typer.Exit(0 if found.total else 4)


def _print(found: "Listing", *, paths: bool) -> None:
    if paths:
        for path in dict.fromkeys(row["path"] for row in found.documents):
            print(line(path))
        return
    width = max(get_terminal_size().columns, _NARROWEST) if sys.stdout.isatty() else None
    for row in found.documents:
        print(_line(row, width))
    if 0 < len(found.documents) < found.total:
        output.say(f"{len(found.documents):,} of {found.total:,}; all: pkb list -n 0")


def _line(row: dict[str, Any], width: int | None) -> str:
    """Return one document on a line, cut at the width of a terminal."""
    copies = f" ({count(row['copies'], 'copy', 'copies')})" if row["copies"] else ""
    title = line(" ".join(row["title"].split())) or "no subject"
    room = len(title) if width is None else width - _DAY - _WHO - 4 - len(copies)
    return f"{(row['date'] or 'no date')[:_DAY]:<{_DAY}}  {_fitted(_who(row), _WHO)}  {_cut(title, room)}{copies}"


def _who(row: dict[str, Any]) -> str:
    """Return who sent a message, or the first who took part in a meeting."""
    people = [row["sender"]] if row["kind"] == "mail" else row["recipients"]
    if not people:
        return ""
    more = f" +{len(people) - 1}" if len(people) > 1 else ""
    name = people[0].partition(" <")[0].strip("<> ")
    return f"{_cut(one_line(name, 200), _WHO - len(more))}{more}"


def _fitted(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _cut(text: str, width: int) -> str:
    """Return a text in at most so many columns."""
    if cells(text) <= width:
        return text
    while text and cells(text) >= width:
        text = text[:-1]
    return f"{text.rstrip()}…"
