"""`pkb chat`: a conversation, at a terminal or over a pipe; its questions are asked as `pkb ask` asks them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Annotated

import typer

from cli import deeds, out
from cli.flags import Collection, Recipient, Sender, Since, Until
from cli.given import limits
from cli.out import session
from cli.session import Session
from store.errors import NoModel, NoStore, PkbError

_STOPPED = 130
_Hear = Callable[[str, Session], bool]


def chat(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per answer.")] = False,
    k: Annotated[
        int | None, typer.Option("-k", metavar="N", min=1, max=50, help="Number of sources to retrieve (default: 5).")
    ] = None,
    sender: Sender = None,
    recipient: Recipient = None,
    since: Since = None,
    until: Until = None,
    collection: Collection = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Language model to answer with; quote for none.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", min=1, help="Most tokens to generate (default: 256).")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither use nor write any cache.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show each rewritten question, and each step with its time.")
    ] = False,
    no_daemon: Annotated[bool, typer.Option("--no-daemon", help="Do not use the background server.")] = False,
) -> None:
    """Ask several questions in a conversation, with follow-ups.

    Example: pkb chat --since 2024-06-01
    """
    from cli.talk import Talk
    from engine.types import Manner

    chosen = {"model.max_tokens": max_tokens, "serve.daemon": "off" if no_daemon else None}
    if model is not None:
        chosen |= {"model.name": model, "model.revision": ""}

    def configure(opened: Session) -> Session:
        for key, value in chosen.items():
            if value is not None:
                opened.override(key, value)
        opened.keeps_tensors = not no_cache
        return opened

    with session() as opened:
        scope = limits(configure(opened), sender, recipient, since, until, collection)
        manner = Manner(scope, opened.settings.ask.k if k is None else k, not no_cache, not no_cache)
        _ = opened.ledger  # NoStore before the first question
        if lost := deeds.nobody(opened, scope):
            out.say(f"pkb: {lost}; try: part of a name or address")
    _converse(Talk(manner, as_json=as_json, explain=explain).hear, configure, as_json=as_json)


def _converse(hear: _Hear, configure: Callable[[Session], Session], *, as_json: bool) -> None:
    """Hear line after line; one that fails or is broken off is reported in its place, and the rest goes on."""
    with ExitStack() as held:
        opened = configure(held.enter_context(session()))
        for line in _typed(as_json=as_json):
            try:
                opened = _current(opened, held, configure)
                if not hear(line, opened):
                    return
            except (NoStore, NoModel):
                raise  # for every question alike
            except PkbError as error:
                out.error(error.code, error.message, error.next_step, as_json=as_json, question=line.strip())
            except KeyboardInterrupt:
                out.error(_STOPPED, "stopped", None, as_json=as_json, question=line.strip())


def _current(opened: Session, held: ExitStack, configure: Callable[[Session], Session]) -> Session:
    """Give a session for the next line: what a model is told of the day, and which process has it, may have changed."""
    from cli.daemon.client import wants
    from engine.clock import now

    today = now(opened.environ)
    if wants(opened) or opened.now.date() != today.date():
        if "models" in vars(opened):
            opened.models.forget()
        held.close()
        opened = configure(held.enter_context(session()))
    opened.now = today
    return opened


def _typed(*, as_json: bool) -> Iterator[str]:
    """Give the lines that are typed, or piped in; with a prompt and editing where both ends are a terminal."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        for line in sys.stdin.buffer:
            yield line.decode("utf-8", "replace")
        return
    with suppress(ImportError):
        import readline  # makes what is typed editable; its history stays in memory

        readline.set_auto_history(True)
    while True:
        try:
            yield input("> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
