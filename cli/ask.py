"""`pkb ask`: one question, or many from standard input, in one process."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from cli import output
from cli.output import InDocument, filtered, open_pkb
from cli.render import show_answer
from engine.serve.client import unknown_person
from engine.session import Session
from engine.text.terminal import valid_text
from engine.types import NO_FILTERS, Answer, AskResult, Filters
from store.errors import NoModel, NoStore, PkbError, UsageError


@filtered(document=InDocument)
def ask(
    question: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUESTION", help="The question; with - or none, one a line from stdin."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per question.")] = False,
    k: output.NumberOfSources = None,
    filters: Filters = NO_FILTERS,
    model: output.Model = None,
    max_tokens: output.MostTokens = None,
    cache: output.Cache = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show each step with its time and result.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also list sources that do not support the answer.")] = False,
    no_daemon: output.NoDaemon = False,
) -> None:
    """Answer a question from your mail and meetings, with sources.

    Example: pkb ask "when is rehearsal?" --since 2024-06-01
    """
    piped = [] if question or sys.stdin.isatty() else [line for line in sys.stdin.buffer if line.strip()]
    if not question and not piped:
        raise UsageError("no question", 'pkb ask "when is rehearsal?"')
    with open_pkb() as pkb:
        override(pkb.session, model=model, max_tokens=max_tokens, cache=cache, no_daemon=no_daemon)
        scope = pkb.scope(filters)
        options = pkb.options(scope, k, cache or "use")
        more = "" if every else "add --all"

        def ask_one(question: str) -> Answer:
            with output.progress_line(pkb.session) as streamed:
                answered = pkb.answer(question, options, None if as_json else streamed.say)
            try:
                show(answered, streamed.started, as_json=as_json, explain=explain, more=more)
            finally:  # also if the reader has closed the pipe
                answered.keep()
            return answered.reply

        if not question or question == ["-"]:
            _batch(sys.stdin.buffer if question else piped, ask_one, as_json=as_json)
        else:
            reply = ask_one(valid_text(" ".join(question)))
            if reply.answered:
                return
            if not reply.sources and (lost := unknown_person(pkb.session, scope)):  # which opens the tables
                output.say(f"pkb: {lost}")
            raise typer.Exit(4)


def override(opened: Session, *, model: str | None, max_tokens: int | None, cache: str | None, no_daemon: bool) -> None:
    """Change settings for this command alone, as its options say."""
    if model is not None:
        opened.override("model.name", model)
        opened.override("model.revision", "")
    if max_tokens is not None:
        opened.override("model.max_tokens", max_tokens)
    if no_daemon:
        opened.override("serve.daemon", "off")
    opened.keeps_tensors = opened.keeps_tensors and cache != "off"


def _batch(lines: Iterable[bytes], ask_one: Callable[[str], Answer], *, as_json: bool) -> None:
    """Answer one question a line; report one that fails in its place, and continue."""
    questions = (line.decode("utf-8", "replace").strip() for line in lines)
    for question in filter(None, questions):
        try:
            ask_one(question)
        except (NoStore, NoModel):
            raise  # for every question alike
        except PkbError as error:
            output.error(error.code, error.message, error.next_step, as_json=as_json, question=question)


def show(
    answered: AskResult, streamed: bool, *, as_json: bool, explain: bool, more: str, brief: bool = False, **about: Any
) -> None:
    """Print an answer as `show_answer` does, or as JSON, with what else there is to say about it."""
    if as_json:
        row = answered.reply.to_json() | {"notices": answered.trace.notices, **about}
        output.data(row | {"explain": answered.trace.steps} if explain else row)
    else:
        show_answer(answered, streamed=streamed, explain=explain, more=more, brief=brief)
