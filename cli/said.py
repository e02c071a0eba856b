"""What was said in a conversation, and the commands about it: sources, their documents, the history, taking back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli import out
from cli.plain import line, one_line
from cli.session import Session
from store.errors import PkbError, UsageError

if TYPE_CHECKING:
    from engine.types import Reply, Source

_HELP = {
    "/sources": "list the sources of the last answer",
    "/open N": "print the document of source N",
    "/wrong": "mark the last answer as wrong and drop it",
    "/history": "list the questions and answers so far",
    "/help": "show this help",
    "/quit": "quit (or Ctrl-D)",
}


@dataclass(frozen=True, slots=True)
class Said:
    """A question as it was typed, the same as it stands alone (None where it does not), and its reply."""

    typed: str
    asked: str | None
    reply: "Reply"


def sources(said: Sequence[Said], _: str, opened: Session, as_json: bool) -> None:
    """Print the sources of the last answer; copies have the number of their original."""
    numbered = enumerate(_groups(said), 1)
    if as_json:
        rows = [{"number": number, **source.to_json()} for number, places in numbered for source in places]
        out.data({"schema": out.SCHEMA, "sources": rows})
        return
    from cli.answers import show_source

    for number, places in numbered:
        show_source(number, places)
    print(flush=True)


def open_source(said: Sequence[Said], number: str, opened: Session, as_json: bool) -> None:
    """Print the document of a source of the last answer, as `pkb show` does."""
    from cli import deeds
    from cli.look import print_document

    groups = _groups(said)
    if not (number.isdecimal() and len(number) < 4 and 0 < int(number) <= len(groups)):
        raise UsageError(f"no source {one_line(number, 20) or 'without a number'} of {len(groups)}", "/sources")
    source = groups[int(number) - 1][0]
    rows = deeds.documents(opened, Path(source.path), source.message_id)
    if not rows:
        raise PkbError(f"{line(source.path)} is no longer indexed", "pkb ingest")
    for row in rows:
        out.data(row) if as_json else print_document(row)


def history(said: Sequence[Said], _: str, opened: Session, as_json: bool) -> None:
    """Print what was asked in this conversation, and what was answered."""
    if as_json:
        rows = [{"question": one.typed, "asked": one.asked, "answer": one.reply.answer} for one in said]
        out.data({"schema": out.SCHEMA, "history": rows})
        return
    for number, one in enumerate(said, 1):
        print(f"{number:>3}  {one_line(one.typed, 200)}")
        if one.asked not in (None, one.typed):
            print(f"     → {one_line(one.asked or '', 200)}")
        print(f"     {one_line(one.reply.answer or 'no answer', 200)}")
    print(flush=True)


def show_help(said: Sequence[Said], _: str, opened: Session, as_json: bool) -> None:
    """Print the commands."""
    if as_json:
        out.data({"schema": out.SCHEMA, "commands": _HELP})
        return
    lines = [f"{name:<10} {does}" for name, does in _HELP.items()]
    more = "Anything else is a question. Follow-ups are completed from the questions before them."
    print("\n".join([*lines, more]), end="\n\n", flush=True)


def take_back(said: Sequence[Said], opened: Session, *, as_json: bool) -> None:
    """Drop the last answer of this conversation, unless something else was asked elsewhere since."""
    from engine.ask.semantic import doubt
    from store.history import History

    last, asked = _last(said), History(opened.ledger).last()
    mine = asked is not None and asked.question == (last.asked or last.typed)
    taken = doubt(opened.ledger, opened.now) if mine else None
    if taken is None:
        raise PkbError("the last question has no cached answer", "/history")
    if as_json:
        out.data({"schema": out.SCHEMA, "question": taken.question, "tier": taken.tier})
    else:
        print(f"Dropped: {one_line(taken.question, 200)}", end="\n\n", flush=True)


COMMANDS: dict[str, Callable[[Sequence[Said], str, Session, bool], None]] = {
    "/sources": sources,
    "/open": open_source,
    "/history": history,
    "/help": show_help,
}


def _last(said: Sequence[Said]) -> Said:
    if not said:
        raise UsageError("no question asked yet", "/help")
    return said[-1]


def _groups(said: Sequence[Said]) -> "list[list[Source]]":
    from cli.answers import grouped

    return grouped(_last(said).reply.sources)
