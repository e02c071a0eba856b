"""How commands speak: data to stdout, messages to stderr, JSON in one schema. The only place that knows rich.

Also the options that several commands share: people, days and collections.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from engine.text.terminal import line, plain
from store.errors import PkbError, UsageError

if TYPE_CHECKING:
    from engine.app import Pkb
    from engine.session import Session


@contextmanager
def session(environ: Mapping[str, str] = os.environ) -> "Iterator[Session]":
    """Open a home for one command; what its user should know goes to stderr."""
    from engine.session import session

    with session(environ) as opened:
        opened.on_notice = lambda notice: say(f"pkb: {notice}")
        yield opened


@contextmanager
def open_pkb() -> "Iterator[Pkb]":
    """Open the home of this process for one command; what its user should know goes to stderr."""
    from engine.app import Pkb

    with Pkb(server=True) as pkb:
        pkb.session.on_notice = lambda notice: say(f"pkb: {notice}")
        yield pkb


def data(row: Mapping[str, Any]) -> None:
    """Print one object under the schema as a line of JSON and flush it; undecodable bytes of names stay recoverable."""
    from engine.types import SCHEMA, json_text

    shown = json_text({"schema": SCHEMA, **row}, ascii_alone=sys.stdout.encoding.lower() != "utf-8")
    sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


def result(row: Mapping[str, Any], said: str | None, *, as_json: bool) -> None:
    """Print what a command did or found: in words, if there are any, or as JSON."""
    if as_json:
        data(row)
    elif said is not None:
        print(said, flush=True)


_NARROWEST, _WIDEST = 60, 200  # columns


def width() -> int:
    """Return the columns that text is fitted to: those of the terminal, of a pipe 80, unless COLUMNS is set."""
    return min(max(get_terminal_size().columns, _NARROWEST), _WIDEST)


_ERASE = "\r\x1b[2K"  # the line that the cursor is in


@contextmanager
def progress_line(opened: "Session", text: str = "Searching...") -> Iterator["Stream"]:
    """Show on a terminal that a session works, once that takes long; yields a stream, before which the line is removed.

    It is removed before a notice, and at the end, too; the line of the stream is ended even if it is broken off.
    """
    streamed, usual = Stream(text), opened.on_notice

    def notify(notice: str) -> None:
        streamed.wait(shown=False)
        usual(notice)

    opened.on_wait, opened.on_notice = partial(streamed.wait, shown=True), notify
    try:
        yield streamed
    finally:
        if streamed.started:
            sys.stdout.write("\n")
        streamed.wait(shown=False)
        opened.on_wait, opened.on_notice = lambda: None, usual


class Stream:
    """Text that is printed while it is made, and the line that a terminal shows before; mutable."""

    def __init__(self, waiting: str) -> None:
        self.started, self._waiting, self._shown = False, waiting, False

    def wait(self, *, shown: bool) -> None:
        """Show the line, or remove it."""
        if self._shown != shown and _can_redraw():
            self._shown = shown
            sys.stderr.write(self._waiting if shown else _ERASE)
            sys.stderr.flush()

    def say(self, more: str) -> None:
        """Print more of the text."""
        if not self.started:
            self.wait(shown=False)
        self.started = True
        sys.stdout.write(plain(more))
        sys.stdout.flush()


def say(message: str) -> None:
    """Print a message for the person at the terminal, apart from the data."""
    sys.stderr.write(line(message) + "\n")
    sys.stderr.flush()


def agreed(question: str, *, yes: bool, default: bool, step: str) -> bool:
    """Return whether the person agrees, `default` being the answer of an empty line; UsageError without a terminal."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UsageError("cannot ask for confirmation: not a terminal", step)
    sys.stderr.write(f"{line(question)} [{'Y/n' if default else 'y/N'}] ")
    sys.stderr.flush()
    typed = sys.stdin.readline()  # empty at the end of input, which does not agree
    return default if typed == "\n" else typed.strip().casefold() in ("y", "yes")


def error(code: int, message: str, next_step: str | None, *, as_json: bool, question: str | None = None) -> None:
    """Print one line that says what went wrong, with which question of a batch, and what to type next."""
    about = {} if question is None else {"question": question}
    if as_json:
        try:
            data(about | {"error": {"code": code, "message": message, "next": next_step}})
            return
        except BrokenPipeError:
            raise
        except OSError:  # standard output takes nothing, as on a full device
            pass
    try:
        say(f"pkb: {message}" + (f"; try: {next_step.removeprefix('try ')}" if next_step else ""))
    except OSError:  # there is nowhere left to say it; the exit code does
        close_output(sys.stderr)


def close_output(stream: TextIO) -> None:
    """Point a stream to the null device, so that what could not be written is not tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


Tick = Callable[[str, int, int | None], None]
_BAR = 16  # columns, so that figure and time fit on one line of 60


@contextmanager
def bars(*, quiet: bool, stay: bool = True) -> Iterator[Tick]:
    """Return a function that moves the bar of a step; it does nothing if nobody watches.

    A bar pulses while its step has no total, or has done nothing yet. At the end those that counted something `stay`.
    """
    if quiet or not _can_redraw():
        yield lambda step, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Figure(ProgressColumn):
        """What is done, of how much, and how fast."""

        def render(self, task: Task) -> Text:
            if task.finished or not task.completed:
                return Text(f"{task.completed:,.0f}" if task.completed else "")
            of = f"/{task.total:,.0f}" if task.total else ""
            return Text(f"{task.completed:,.0f}{of}" + (f" {task.speed:,.0f}/s" if task.speed else ""))

    left = TimeRemainingColumn(compact=True, elapsed_when_finished=True)  # of a finished step, the time that it took
    columns = (TextColumn("{task.description}"), BarColumn(_BAR), Figure(), left)
    plainly: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(stderr=True, color_system=plainly, highlight=False, emoji=False, markup=False, soft_wrap=True)
    shown = Progress(*columns, console=console, transient=not stay)

    def move(step: str, done: int, total: int | None) -> None:
        """Move the bar of a step; the first call draws it, so that an earlier error is printed alone."""
        known = next((task.id for task in shown.tasks if task.description == step), None)
        moved = shown.add_task(step, total=None) if known is None else known
        shown.update(moved, completed=done, total=total if done else None)
        for task in shown.tasks:
            shown.update(task.id, visible=task.id == moved or task.completed > 0)
        shown.start()

    try:
        yield move
        for task in shown.tasks:
            shown.update(task.id, total=task.completed)
    finally:
        for task in shown.tasks:
            shown.update(task.id, visible=task.completed > 0)
        shown.live.transient = not stay or not any(task.visible for task in shown.tasks)
        shown.stop()


def _can_redraw() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


_IN_BASH = re.compile(r"([^\w@%+=:,./-])")  # what bash takes apart, unless it is escaped


def completes(kind: Literal["person", "collection", "title", "setting", "model"]) -> Callable[[str], list[str]]:
    """Return the function that a shell's completion calls with the beginning of a value."""

    def complete(incomplete: str) -> list[str]:
        found = list[str]()
        with suppress(PkbError):  # there is nothing to complete from
            if kind == "setting":
                from engine.settings import Settings, keys

                found = list(keys(Settings()))
            elif kind == "model":
                from engine.models.lookup import installed

                found = ["quote", *(one.name for one in installed(os.environ))]
            else:
                from store.catalog import beginning_with
                from store.database import open_ledger
                from store.home import locate

                with closing(open_ledger(locate(os.environ).ledger)) as ledger:
                    found = beginning_with(ledger, kind, incomplete)
        in_bash = os.environ.get("_PKB_COMPLETE") == "complete_bash"
        return [_IN_BASH.sub(r"\\\1", line(one)) if in_bash else line(one) for one in dict.fromkeys(found)]

    return complete


person, _collection, title, _model = (completes(one) for one in ("person", "collection", "title", "model"))
Sender = Annotated[str | None, typer.Option("--from", metavar="WHO", help="From this person.", autocompletion=person)]
Recipient = Annotated[str | None, typer.Option("--to", metavar="WHO", help="To this person.", autocompletion=person)]
Since = Annotated[str | None, typer.Option(metavar="DAY", help="From this day on: 2024-05-03, 30d or 'last week'.")]
Until = Annotated[str | None, typer.Option("--until", metavar="DAY", help="Only up to and including this day.")]
Collection = Annotated[
    str | None, typer.Option("--in", metavar="NAME", help="Only this collection.", autocompletion=_collection)
]
_ONE = "Only this meeting or message: words of its title, or its file."
InDocument = Annotated[str | None, typer.Option("--doc", metavar="TITLE", help=_ONE, autocompletion=title)]


FILTERS = {"sender": Sender, "recipient": Recipient, "since": Since, "until": Until, "collection": Collection}


def filtered(**others: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `FILTERS`, and others, in place of the `filters` that it takes."""
    from engine.app import takes_filters

    return lambda command: takes_filters(command, FILTERS | others)


Json = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
NumberOfSources = Annotated[int | None, typer.Option("-k", metavar="N", min=1, max=50, help="Sources (default: 5).")]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="Language model, or quote.", autocompletion=_model)]
MostTokens = Annotated[int | None, typer.Option(metavar="N", min=1, help="Most tokens to generate (default: 256).")]
Cache = Annotated[
    Literal["refresh", "off", "stale"] | None,
    typer.Option(help="Replace the cached answer, use no cache at all, or accept an outdated answer too."),
]
NoDaemon = Annotated[bool, typer.Option("--no-daemon", help="Do not use the background server.")]


_TIME = re.compile(r"(\d{1,6})\s*([smh]?)")


def duration(flag: str, time: str, example: str = "pkb idle --budget 10m") -> float:
    """Return the seconds of a time like 10m; UsageError naming what cannot be, and an example."""
    if found := _TIME.fullmatch(time.strip()):
        return float(int(found[1]) * {"m": 60, "h": 3600}.get(found[2], 1))
    raise UsageError(f"{flag} {time} is not a time like 90s, 10m or 2h", example)
