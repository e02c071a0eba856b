"""`pkb ask`: one question, or many from standard input, in one process."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cli import out
from cli.flags import Collection, Recipient, Sender, Since, Until
from cli.given import limits, text
from cli.session import Session, session
from store.errors import NoModel, NoStore, PkbError, UsageError

if TYPE_CHECKING:
    from engine.ask.answer import Answered, Manner


def ask(
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="The question; - reads one per line from standard input."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per question.")] = False,
    k: Annotated[
        int | None, typer.Option("-k", metavar="N", min=1, max=50, help="Sources to read for an answer (5).")
    ] = None,
    sender: Sender = None,
    recipient: Recipient = None,
    since: Since = None,
    until: Until = None,
    collection: Collection = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The language model to answer with; quote for none.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither use kept answers nor keep this one.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Make the answer anew and keep it.")] = False,
    stale_ok: Annotated[
        bool, typer.Option("--stale-ok", help="Show a kept answer even if new mail may change it.")
    ] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show each step, its time and what it found.")] = False,
) -> None:
    """Answer a question from your mail and meetings, with the sources.

    Example: pkb ask "when is rehearsal?" --since 2024-06-01
    """
    if model not in (None, "quote"):
        raise NoModel(f"there is no language model {model} here", "pkb ask --model quote")
    if not question:
        raise UsageError("no question", 'pkb ask "when is rehearsal?"')
    from engine.ask.answer import Manner

    with session() as opened:
        scope = limits(opened, sender, recipient, since, until, collection)
        count = opened.settings.ask.k if k is None else k
        manner = Manner(scope, count, not (no_cache or fresh), not no_cache, stale_ok)
        printer = partial(_print, as_json=as_json, explain=explain)
        if question == ["-"]:
            _batch(opened, manner, printer, as_json=as_json)
        else:
            answered = opened.asker.ask(text(" ".join(question)), manner, opened.now)
            printer(answered)
            raise typer.Exit(0 if answered.reply.answer is not None else 4)


def _batch(opened: Session, manner: "Manner", printer: "Callable[[Answered], None]", *, as_json: bool) -> None:
    """Answer one question a line; one that fails is reported in its place, and the rest goes on."""
    for line in sys.stdin.buffer:
        question = line.decode("utf-8", "replace").strip()
        if not question:
            continue
        try:
            printer(opened.asker.ask(question, manner, opened.now))
        except NoStore:
            raise  # for every question alike
        except PkbError as error:
            out.error(error.code, error.message, error.next_step, as_json=as_json, question=question)


def _print(answered: "Answered", *, as_json: bool, explain: bool) -> None:
    if as_json:
        row = answered.reply.to_json()
        out.data(row | {"explain": answered.trace.to_json()} if explain else row)
        return
    from cli.answers import show_answer  # and with it rich

    show_answer(answered, explain=explain)
