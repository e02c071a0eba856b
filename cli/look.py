"""`pkb search`, `pkb show` and `pkb stats`: looking at what is kept, changing nothing."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import counts, deeds, out
from cli.flags import Collection, Recipient, Sender, Since, Until
from cli.given import limits, place, text
from cli.out import session
from cli.plain import line, plain
from store.errors import UsageError


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Keywords, or a question.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the passages as JSON.")] = False,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, max=50, help="Number of passages.")] = 10,
    sender: Sender = None,
    recipient: Recipient = None,
    since: Since = None,
    until: Until = None,
    collection: Collection = None,
) -> None:
    """Show the best matching passages, without answering.

    Example: pkb search minutes budget --from ann -k 3
    """
    with session() as opened:
        scope = limits(opened, sender, recipient, since, until, collection)
        limited = any((sender, recipient, since, until, collection))
        query = text(" ".join(words))
        found = deeds.search(opened, query, scope, k)
        if as_json:
            rows = [source.to_json() for source in found.sources([read.text for read in found.reads])]
            out.data({"schema": out.SCHEMA, "query": query, "sources": rows})
        else:
            from cli.answers import show_source

            for number, read in enumerate(found.reads, 1):
                show_source(number, read.sources, whole=read.text)
            if not found.reads:
                print("No matches.")
        if not found.reads:
            out.say(f"pkb: {_advice(deeds.nobody(opened, scope), query, limited=limited)}")
        raise typer.Exit(0 if found.reads else 4)


def _advice(unknown: str | None, query: str, *, limited: bool) -> str:
    """Return why nothing was found, and what to type next."""
    if unknown:
        return f"{unknown}; try: part of a name or address"
    if limited:
        return f"nothing matches within these filters; try: pkb search {shlex.quote(query)}"
    return "no message has these words; try: pkb search OTHER WORDS"


def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="An indexed file, as a source names it.")],
    message_id: Annotated[str | None, typer.Option(metavar="ID", help="Message-ID of one message of an mbox.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the documents as JSON.")] = False,
) -> None:
    """Print the indexed text of a file, with line numbers.

    Example: pkb show ~/Mail/archive.mbox --message-id 1234@example.org
    """
    with session() as opened:
        rows = deeds.documents(opened, place(path), message_id)
        if not rows:
            which = f"message {message_id} of {path}" if message_id else path
            raise UsageError(f"{which} is not indexed", f"pkb ingest {path}")
        for row in rows:
            out.data(row) if as_json else print_document(row)


def print_document(row: dict[str, Any]) -> None:
    """Print one document, its lines numbered."""
    about = {
        "Message-ID": row["message_id"],
        "From": row["sender"],
        "To": ", ".join(row["recipients"]),
        "Date": row["date"],
        "Title": row["title"],
    }
    for name, value in about.items():
        if value:
            print(f"{name}: {line(value)}")
    print()
    first = row["lines"][0]
    for number, shown in enumerate(row["text"].split("\n"), first):
        print(f"{number:>5}  {plain(shown)}")
    print()


def stats(as_json: Annotated[bool, typer.Option("--json", help="Print the statistics as JSON.")] = False) -> None:
    """Show the size of index and caches, and the time they saved.

    Example: pkb stats --json
    """
    with session() as opened:
        row = counts.gather(opened)
    if as_json:
        out.data(row)
        return
    from cli.figures import show_figures

    show_figures(row)
