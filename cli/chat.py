"""`pkb chat`: a conversation, at a terminal or over a pipe; its questions are handled as in `pkb ask`."""

import operator
import sys
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from signal import SIGINT, SIGTERM, pthread_kill
from threading import Timer, get_ident
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cli import output
from cli.ask import override, show
from cli.inspect import print_document
from cli.output import InDocument, filtered, open_pkb
from cli.render import show_answer
from engine import operations
from engine.app import Pkb
from engine.serve.client import ReadAhead, follow_up_writer, unknown_person, wants
from engine.session import now
from engine.text.terminal import one_line
from engine.types import NO_FILTERS, AskOptions, AskResult, Filters, FollowedAnswer, Source, Step, grouped
from store.errors import NoModel, NoStore, PkbError, UsageError
from store.types import replace

if TYPE_CHECKING:
    from engine.ask.followup import Turn


_ENDS, _HELPS = ("/quit", "quit", "exit"), ("/help", "help", "?")
_PAUSE_S, _SOON_S = 0.3, 0.05  # in typing, after which sources are read; before a signal is sent again


@filtered(document=InDocument)
def chat(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per answer.")] = False,
    k: output.NumberOfSources = None,
    filters: Filters = NO_FILTERS,
    model: output.Model = None,
    max_tokens: output.MostTokens = None,
    cache: output.Cache = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show rewritten questions, and each step.")] = False,
    no_daemon: output.NoDaemon = False,
) -> None:
    """Ask several questions in a conversation, with follow-ups.

    Example: pkb chat --since 2024-06-01
    """
    limit: str | None = None  # of the documents that are shown, too

    def configure(pkb: Pkb) -> Pkb:
        override(pkb.session, model=model, max_tokens=max_tokens, cache=cache, no_daemon=no_daemon)
        pkb.session.collection = limit
        return pkb

    with open_pkb() as pkb:
        scope = configure(pkb).scope(filters)
        limit = scope.collection
        options = pkb.options(scope, k, cache or "use")
        _ = pkb.session.ledger  # NoStore before the first question
        with output.progress_line(pkb.session):
            lost = unknown_person(pkb.session, scope)
        if lost:
            output.say(f"pkb: {lost}")
    _converse(Conversation(options, as_json=as_json, explain=explain), configure, as_json=as_json)


def _converse(conversation: "Conversation", configure: Callable[[Pkb], Pkb], *, as_json: bool) -> None:
    """Handle line after line; report one that fails or is interrupted in its place, and continue."""
    with ExitStack() as held:
        pkb, ahead = configure(held.enter_context(open_pkb())), ReadAhead()

        def look(line: str) -> None:
            if not line.startswith("/"):
                ahead.typed(pkb.session, line, conversation.options)

        for line in _typed(look, as_json=as_json):
            ahead.end()
            try:
                pkb = _current(pkb, held, configure)
                if not conversation.hear(line, pkb):
                    return
            except (NoStore, NoModel):
                raise  # for every question alike
            except PkbError as error:
                output.error(error.code, error.message, error.next_step, as_json=as_json, question=line.strip())
            except KeyboardInterrupt:
                output.error(130, "stopped", None, as_json=as_json, question=line.strip())


def _current(pkb: Pkb, held: ExitStack, configure: Callable[[Pkb], Pkb]) -> Pkb:
    """Return the home for the next line: the date in prompts, and the process with the model, may have changed."""
    today = now(pkb.session.environ)
    if wants(pkb.session) or pkb.session.now.date() != today.date():
        held.close()
        pkb = configure(held.enter_context(open_pkb()))
    pkb.session.now = today
    return pkb


@contextmanager
def _watched(look: Callable[[str], None]) -> Iterator[None]:
    """Have `look` called with the line being typed after a pause, in this thread.

    By the hook for event loops that the interpreter calls ten times a second while readline waits for a key, and when a
    signal comes: its exception would be lost there, so the signal is noted again, for `input` to raise. One that comes
    between two waits would be noticed with the next key, so it is also sent again.
    """
    import ctypes
    import readline

    again = list[Timer]()

    def pauses() -> Iterator[Callable[[], object]]:
        before, since, last = "", time.monotonic(), cast("Callable[[], object]", int)
        while True:
            try:
                yield last  # called by what is written in C: Python would handle the signal at once
                line, last = readline.get_line_buffer(), int
                if line != before:
                    before, since = line, time.monotonic()
                elif time.monotonic() - since > _PAUSE_S:
                    look(line)
            except (KeyboardInterrupt, SystemExit) as lost:
                number = SIGINT if isinstance(lost, KeyboardInterrupt) else SIGTERM
                last = partial(interrupt_main, number)
                again.append(Timer(_SOON_S, pthread_kill, (get_ident(), number)))
                again[-1].start()

    steps = map(operator.call, pauses())
    next(steps)
    called = ctypes.CFUNCTYPE(None)(partial(next, steps))
    hook = ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyOS_InputHook")
    was, hook.value = hook.value, ctypes.cast(called, ctypes.c_void_p).value
    try:
        yield
    finally:
        hook.value = was
        for one in again:
            one.cancel()


def _typed(look: Callable[[str], None], *, as_json: bool) -> Iterator[str]:
    """Yield the lines that are typed, or piped in; with a prompt and editing where both ends are a terminal."""
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        for line in sys.stdin.buffer:
            yield line.decode("utf-8", "replace")
        return
    output.say("pkb: ask a question; /help lists commands")
    watched: Callable[[], AbstractContextManager[None]] = nullcontext
    with suppress(ImportError):
        import readline  # makes what is typed editable; its history stays in memory

        readline.set_auto_history(True)
        watched = partial(_watched, look)
    while True:
        try:
            with watched():
                line = input("> ")
            yield line
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()


_HELP = """\
/answer    show the last answer with all its sources
/show N    print the document of source N
/open N    open the file of source N
/wrong     mark the last answer as wrong and drop it
/help      show this help
/quit      quit (or Ctrl-D)
Anything else is a question. Follow-ups are completed from the questions before them.
"""


class Conversation:
    """A conversation; mutable: it grows."""

    def __init__(self, options: AskOptions, *, as_json: bool, explain: bool) -> None:
        self.options, self._as_json, self._explain = options, as_json, explain
        self._last: tuple[str, str | None, AskResult] | None = None  # as typed, as asked, the result
        self._source: Source | None = None  # of the last answer that has one
        self._turns: list[Turn] = []  # the complete questions

    def hear(self, typed: str, pkb: Pkb) -> bool:
        """Do what a line says; False if it ends the conversation, PkbError if it cannot be done."""
        name, _, rest = typed.strip().partition(" ")
        if typed.strip().casefold() in _ENDS:
            return False
        if name == "/answer":
            said, asked, result = self._asked()
            if self._as_json:
                output.data(result.reply.to_json() | {"question": said, "asked": asked})
            else:
                show_answer(result, streamed=False, explain=False, more="")
                print(flush=True)
        elif name in ("/show", "/open"):
            self._show_source(rest.strip(), pkb, opens=name == "/open")
        elif name == "/wrong":
            self._wrong(pkb)
        elif typed.strip().casefold() in _HELPS:
            print(_HELP, flush=True)
        elif name.startswith("/"):
            raise UsageError(f"no command {one_line(name, 40)}", "/help")
        elif name:
            self._ask(typed.strip(), pkb)
        return True

    def _asked(self) -> tuple[str, str | None, AskResult]:
        if not self._last:
            raise UsageError("no question asked yet", "/help")
        return self._last

    def _show_source(self, number: str, pkb: Pkb, *, opens: bool) -> None:
        """Print the document of a source of the last answer, or open its file, as `pkb show` does."""
        groups = grouped(self._asked()[2].reply.sources)
        if not (number.isdecimal() and len(number) < 4 and 0 < int(number) <= len(groups)):
            raise UsageError(f"no source {one_line(number, 20) or 'without a number'} of {len(groups)}", "/answer")
        source = groups[int(number) - 1][0]
        if opens:
            operations.open_source(pkb.session, source, f"/show {number}")
            if self._as_json:
                output.data({"number": int(number), "source": source})
            return
        with output.progress_line(pkb.session, "Reading..."):
            rows = pkb.show_source(source)
        for row in rows:
            output.data(row) if self._as_json else print_document(row, source.lines)

    def _ask(self, typed: str, pkb: Pkb) -> None:
        from engine.ask.followup import condense, turn_of
        from store.history import may_be_followed

        begun = time.perf_counter()
        self._turns = [turn for turn in self._turns if may_be_followed(pkb.session.ledger, turn.asked)]
        condensed = condense(typed, self._turns, follow_up_writer(pkb.session))
        took = round((time.perf_counter() - begun) * 1000, 3)
        asked, options = condensed.asked or typed, self.options
        before = self._source if condensed.by != "itself" else None
        if before:
            said = before.path, before.quote, before.message_id
            options = replace(options, after=FollowedAnswer(*said, typed if condensed.asked else ""))
        if condensed.asked is None:  # an unclear question must neither find nor leave a cached answer
            options = replace(options, read_bank=False, write_bank=False)
        if not self._as_json and (self._explain or condensed.asked is None or condensed.by != "itself"):
            title = one_line(before.title, 60) or "no subject" if before else ""
            unclear = f"asked as typed, in “{title}” first" if title else "asked as typed: unclear what it refers to"
            output.say(f"→ {condensed.asked or unclear}")
        with output.progress_line(pkb.session) as streamed:
            answered = pkb.answer(asked, options, None if self._as_json else streamed.say)
        note = f"by {condensed.by}" if condensed.asked else "asked as typed, without the answer cache"
        answered.trace.steps.insert(0, Step("condense", took, note))
        show(answered, streamed.started, as_json=self._as_json, explain=self._explain, more="/answer", brief=True,
             question=typed, asked=condensed.asked)  # fmt: skip
        if not self._as_json:
            print(flush=True)
        self._last = typed, condensed.asked, AskResult(answered.reply, answered.trace, answered.covered)
        if answered.reply.answered and answered.reply.sources:
            self._source = answered.reply.sources[0]
        if condensed.asked is not None:
            self._turns.append(turn_of(answered.reply))
        answered.keep()

    def _wrong(self, pkb: Pkb) -> None:
        """Drop the last answer; it is no context for the next then."""
        said, asked, _ = self._asked()
        taken = pkb.reject(asked or said)
        row = {"question": taken.question, "tier": taken.tier}
        output.result(row, f"Dropped: {one_line(taken.question, 200)}\n", as_json=self._as_json)
        if asked is not None and self._turns:
            self._turns[-1] = replace(self._turns[-1], answer=None, focus="")
