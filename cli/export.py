"""What leaves pkb: exported answers; forgetting messages with all made from them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from cli import output
from cli.output import agreed, bars, filtered, open_pkb
from engine.text.terminal import count, line, one_line
from engine.types import NO_FILTERS, Filters, json_text
from store.errors import UsageError
from store.home import replacing

if TYPE_CHECKING:
    from engine.app import Pkb
    from engine.forget import ForgetPlan
    from store.erasure import Erased


def export(
    path: Annotated[Path | None, typer.Argument(metavar="FILE", help="The file; none or -: standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write cached questions with answers and sources as JSON, an object a line.

    Example: pkb export answers.jsonl
    """
    with open_pkb() as pkb, _written(path, force=force) as file:
        for row in pkb.export():
            file.write(json_text(row, ascii_alone=sys.stdout.encoding.lower() != "utf-8") + "\n")


@contextmanager
def _written(path: Path | None, *, force: bool) -> Iterator[TextIO]:
    """Yield standard output, or a private file that replaces the target once it is complete."""
    if path is None or str(path) == "-":
        yield sys.stdout
        return
    if path.exists() and not force:
        raise UsageError(f"{line(str(path))} exists", "pkb export FILE --force")
    if not path.absolute().parent.exists():
        raise UsageError(f"no such folder: {line(str(path.parent))}")
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with replacing(path, part) as raw, TextIOWrapper(raw, encoding="utf-8") as file:
        yield file


_LISTED = 10


@filtered()
def forget(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="WHAT...", help="Files, folders, Message-IDs, or numbers of sources.")
    ] = None,
    question: Annotated[str | None, typer.Option(metavar="TEXT", help="Forget a question and its answers.")] = None,
    filters: Filters = NO_FILTERS,
    quoting: Annotated[bool, typer.Option("--quoting", help="Also forget messages that quote them.")] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Erase the remains of documents that are gone.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be forgotten.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Erase messages or a question, with everything derived from them.

    Example: pkb forget --from ann@example.org --since 2024-05 --dry-run
    """
    from store.erasure import is_unfinished

    with open_pkb() as pkb:
        scope = pkb.scope(filters)
        if question is not None and (targets or deleted or filters):
            raise UsageError("--question forgets a question, and no messages", 'pkb forget --question "QUESTION"')
        planned = pkb.plan_forgetting(targets or [], scope, question=question, quoting=quoting, deleted=deleted)
        goes_on = not dry_run and (not planned.is_empty or is_unfinished(pkb.session.ledger))
        if not as_json:
            _show_plan(planned)
            if planned.is_empty and not goes_on:
                print("Nothing to forget.")
        messages = len(planned.ids) + len(planned.left_out)
        parts = {"document": messages, "question": len(planned.questions), "cached answer": planned.answers}
        what = ", ".join(count(number, name) for name, number in parts.items() if number) or "their rest"
        asked = f"forget {what} for good?"
        if not (planned.is_empty or dry_run) and not agreed(asked, yes=yes, default=False, step="pkb forget ... --yes"):
            raise typer.Exit(1)
        erased = None
        if goes_on:
            with bars(quiet=as_json) as tick:
                erased = pkb.forget(planned, tick)
        if as_json:
            output.data(_row(planned, erased))
        elif erased:
            _show(pkb, erased, planned)
    raise typer.Exit(0 if erased or not planned.is_empty else 4)


def _show_plan(planned: "ForgetPlan") -> None:
    related = {one.row["id"] for one in planned.related}
    named = [row for row in planned.documents if row["id"] not in related]
    for row in named[:_LISTED]:
        print(_line(row))
    if len(named) > _LISTED:
        print(f"and {count(len(named) - _LISTED, 'more document')}")
    for _, row in planned.left_out:
        print(f"{_line(row)}  (left out of the index)")
    if planned.removed or planned.request.deleted:
        print(f"{count(len(planned.removed), 'document')} no longer indexed")
    for one in planned.related:  # every one: nobody can agree to what is not shown
        print(f"{_line(one.row)}  ({one.reason})" + f": not forgotten; pkb forget {one.row['id']}" * bool(one.stays))
    for question in planned.questions[:_LISTED]:
        print(f"question: {one_line(question, 200)}")
    if len(planned.questions) > _LISTED or planned.answers:
        print(f"{count(len(planned.questions), 'question')} in all, {count(planned.answers, 'cached answer')}")
    if planned.quoted_by:
        also = count(planned.quoted_by, "other message quotes", "other messages quote")
        output.say(f"pkb: {also} them and would keep that text; to forget those too: --quoting")
    if planned.left:
        left = count(planned.left, "document", "documents")
        output.say(f"pkb: {left} removed earlier may still be found in files; to erase them: pkb forget --deleted")


def _line(row: dict[str, Any]) -> str:
    day = row["date"].date().isoformat() if row["date"] else "no date   "
    who = row["sender"] or ", ".join(row["recipients"])
    return line(f"{day}  {one_line(who, 30):<30}  {one_line(row['title'], 60) or 'no subject'}")


def _show(pkb: "Pkb", erased: "Erased", planned: "ForgetPlan") -> None:
    parts = {
        "removed document": len(planned.removed),
        "document": erased.documents,
        "message left out of the index": len(planned.left_out),
        "chunk": erased.chunks,
        "answer": erased.answers,
        "question": erased.questions,
        "KV node": erased.nodes,
    }
    found = ", ".join(count(number, name) for name, number in parts.items() if number) or "nothing was left"
    print(f"Forgot {found}.")
    print(f"Examined {count(erased.files, 'file')}: none holds them any more.")
    from engine.inventory import optional_parts

    for part in optional_parts():
        for place in part.elsewhere(pkb.session):
            output.say(f"pkb: {place}")


def _row(planned: "ForgetPlan", erased: "Erased | None") -> dict[str, Any]:
    names = ("documents", "chunks", "answers", "questions", "nodes", "files")
    return {
        "documents": [_about(row) for row in planned.documents],
        "removed": len(planned.removed),
        "removed_ids": list(planned.removed),
        "questions": list(planned.questions),
        "answers": planned.answers,
        "left_out": len(planned.left_out),
        "copies": planned.copies,
        "quoted_by": planned.quoted_by,
        "related": [
            _about(one.row)
            | {"reason": one.reason, "sentences": one.sentences, "forgotten": one.row["id"] in planned.ids}
            for one in planned.related
        ],
        "left": planned.left,
        "erased": {name: getattr(erased, name) for name in names} if erased else None,
    }


def _about(row: dict[str, Any]) -> dict[str, Any]:
    about = {name: row[name] for name in ("id", "title", "sender", "message_id")}
    return about | {"date": row["date"].isoformat() if row["date"] else None}
