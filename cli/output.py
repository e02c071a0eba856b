"""How commands speak: data to stdout, messages to stderr, JSON in one schema. The only place that opens a console."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Literal, TextIO

from engine.text.terminal import in_json, line, plain
from engine.types import SCHEMA as SCHEMA

if TYPE_CHECKING:
    from rich.console import Console

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


@cache
def console(*, stderr: bool = False) -> "Console":
    """Return the console of a stream; styles only on a terminal, and never with NO_COLOR."""
    from rich.console import Console

    class Piped(Console):
        """One that leaves a closed pipe to `run`, where rich would exit with 1."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    plainly: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Piped(stderr=stderr, color_system=plainly, highlight=False, emoji=False, markup=False, soft_wrap=True)


def data(row: dict[str, Any]) -> None:
    """Print one object as one line of JSON and flush it; bytes of file names that are no text stay recoverable."""
    text = json.dumps(row, ensure_ascii=sys.stdout.encoding.lower() != "utf-8")
    sys.stdout.write(in_json(text) + "\n")
    sys.stdout.flush()


_ERASE = "\r\x1b[2K"  # the line that the cursor is in


@contextmanager
def progress_line(opened: "Session", text: str = "Searching...") -> Iterator[Callable[[], None]]:
    """Show on a terminal that a session works, once that takes long; yields a function that removes the line.

    It is removed before a notice, and at the end.
    """
    shown = False
    has_line = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")

    def write(line: str, *, is_text: bool) -> None:
        nonlocal shown
        if has_line and shown != is_text:
            shown = is_text
            sys.stderr.write(line)
            sys.stderr.flush()

    def notify(notice: str) -> None:
        remove()
        usual(notice)

    show, remove = partial(write, text, is_text=True), partial(write, _ERASE, is_text=False)
    usual, opened.on_wait, opened.on_notice = opened.on_notice, show, notify
    try:
        yield remove
    finally:
        remove()
        opened.on_wait, opened.on_notice = lambda: None, usual


class Stream:
    """Text that is printed while it is made, and its line ended even if it is broken off; `begin` is called first."""

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        self.started, self._begin = False, begin

    def say(self, more: str) -> None:
        """Print more of it."""
        if not self.started:
            self._begin()
        self.started = True
        sys.stdout.write(plain(more))
        sys.stdout.flush()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        if self.started:
            sys.stdout.write("\n")


def say(message: str) -> None:
    """Print a message for the person at the terminal, apart from the data."""
    sys.stderr.write(line(message) + "\n")
    sys.stderr.flush()


def error(code: int, message: str, next_step: str | None, *, as_json: bool, question: str | None = None) -> None:
    """Print one line that says what went wrong, with which question of a batch, and what to type next."""
    about = {} if question is None else {"question": question}
    if as_json and _takes({"schema": SCHEMA, **about, "error": {"code": code, "message": message, "next": next_step}}):
        return
    try:
        say(f"pkb: {message}" + (f"; try: {next_step.removeprefix('try ')}" if next_step else ""))
    except OSError:  # there is nowhere left to say it; the exit code does
        close_output(sys.stderr)


def _takes(row: dict[str, Any]) -> bool:
    """Print one object; False where standard output takes nothing, as on a full device."""
    try:
        data(row)
    except BrokenPipeError:
        raise
    except OSError:
        return False
    return True


def close_output(stream: TextIO) -> None:
    """Point a stream to the null device, so that what could not be written is not tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


Tick = Callable[[str, int, int | None], None]


@contextmanager
def bars(*, quiet: bool) -> Iterator[Tick]:
    """Return a function that moves the bar of a step; it does nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield lambda step, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<8}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress, tasks = Progress(*columns, console=console(stderr=True), transient=True), dict[str, TaskID]()

    def tick(step: str, done: int, total: int | None) -> None:
        progress.start()  # not before there is progress: an error before it stands alone
        if step not in tasks:
            tasks[step] = progress.add_task(step, total=total)
        progress.update(tasks[step], completed=done, total=total)

    try:
        yield tick
    finally:
        if tasks:
            progress.stop()
