"""The loop of `pkb ingest --watch`: reads changed roots, then embeds, then has a process run idle jobs.

No job is queued: that process plans from the stored state, so nothing is lost when it, or this one, is killed.
"""

import gc
import sqlite3
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engine import operations
from engine.idle.scheduler import Machine, why_wait
from engine.session import Session, session
from engine.text.terminal import count
from store.errors import DiskFull, Locked, NoModel, PkbError, Unreachable, as_pkb_error

if TYPE_CHECKING:
    from engine.ingest.follow import Follow, Followed, Intervals
    from engine.ingest.imap import MailAccount, MailConnection
    from engine.ingest.pipeline import Summary
    from store.catalog import SourceRoot
    from store.types import FileState

_PAUSE_S, _AGAIN_S = 10.0, 600.0  # before a mail server is asked again: after a failure at first, and at most
_BURST_S = 1.0  # in which more mail may come
_STOPPED = (130, 143)  # exit codes of a run that was interrupted


class WatchListener(Protocol):
    """Receives a watcher's events; every method returns at once."""

    def followed(self, one: "Followed") -> None:
        """Say how a root is followed from now on, or that it is not there."""

    def read(self, path: str, summary: "Summary", left: int | None, seconds: float, *, always: bool) -> None:
        """Say what was read in a folder; `always` is set at the first time, when even no change is worth a word."""

    def put_off(self, path: str, why: str) -> None:
        """Say that reading waits, and for what."""

    def tell(self, event: str, path: str | None, *, said: str, **values: object) -> None:
        """Say what else happened, or print it with `values`."""

    def progress(self) -> AbstractContextManager[operations.OnProgress]:
        """Return a context in which progress is shown."""


@dataclass(slots=True)
class IdleRuns:
    """Runs a command, one process at a time: after a rest, while the machine is idle, and hourly; mutable."""

    command: Sequence[str]
    pace: "Intervals"
    listener: WatchListener
    environ: Mapping[str, str]
    machine: Machine = field(default_factory=Machine)
    _running: "subprocess.Popen[str] | None" = field(default=None, init=False)
    _began: float = field(default=0.0, init=False)
    _next: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.rest()

    def rest(self) -> None:
        """Put the next run off until nothing has changed for a while."""
        self._next = time.monotonic() + self.pace.rest

    def step(self) -> None:
        """Start a run that is due, or report the one that has ended and plan the next: soon if it was stopped."""
        if self._running is None:
            due = self.command and time.monotonic() > self._next
            if due and self._must_wait():
                self._next = time.monotonic() + self.pace.busy
            elif due:
                self._began, self._next = time.monotonic(), inf
                self._running = subprocess.Popen(
                    ["nice", *self.command],
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,  # a line
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                )
        elif self._running.poll() is not None:
            said, code, self._running = self._running.communicate()[0].strip(), self._running.returncode, None
            if said:
                seconds = round(time.monotonic() - self._began, 3)
                self.listener.tell("idle", None, said=said, message=said, seconds=seconds)
            stopped = code < 0 or code in _STOPPED or self._must_wait()
            self._next = min(self._next, time.monotonic() + (self.pace.busy if stopped else self.pace.again))

    def close(self) -> None:
        """End the run, which repeats at most one job the next time."""
        if running := self._running:
            running.kill()
            running.communicate()

    def _must_wait(self) -> bool:
        try:
            with session(self.environ) as opened, opened.home.naming_disk("pkb idle"):
                opened.make()
                return why_wait(opened, self.machine) is not None
        except (Locked, DiskFull):
            return True


class Watcher:
    """The watched roots, and the work pending for them; mutable."""

    def __init__(self, follow: "Follow", idle: IdleRuns, *, embeds: bool) -> None:
        """Follow roots; `idle` has the pace, the listener and the environment, too."""
        self._follow, self._idle, self._embeds = follow, idle, embeds
        self._pace, self._listener, self._environ = idle.pace, idle.listener, idle.environ
        self._roots: dict[str, SourceRoot] = {}
        self._unread: dict[str, SourceRoot] = {}  # whose collection and kind are not in the catalogue yet
        self._unembedded = False

    def add(self, root: "SourceRoot") -> None:
        """Follow a root."""
        self._roots[root.path] = self._unread[root.path] = root
        self._listener.followed(self._follow.add(root.path))

    def follow_account(self, account: "MailAccount", place: str, password: str | None) -> None:
        """Fetch new mail whenever the server reports it, on a thread of its own; return if the password is refused."""
        from engine.ingest.imap import NoPassword

        pause = _PAUSE_S
        while True:
            try:
                with self._connected(account, password) as connection:
                    pause = _PAUSE_S
                    while True:
                        with session(self._environ) as opened:
                            opened.make()
                            fetched = operations.fetch(opened, connection, lambda *_: None)
                        if fetched.new or fetched.gone:
                            self._follow.touch(place)
                        connection.wait(_AGAIN_S)
                        time.sleep(_BURST_S)
            except NoPassword as error:  # servers lock an account out that is tried too often
                self._listener.put_off(place, f"{error.message}; no longer followed; try: {error.next_step}")
                return
            except (PkbError, OSError, sqlite3.Error) as error:
                self._listener.put_off(place, as_pkb_error(error).message)
            time.sleep(pause)
            pause = min(2 * pause, _AGAIN_S)

    def _connected(self, account: "MailAccount", password: str | None) -> "MailConnection":
        given = iter([password])
        with session(self._environ) as opened:
            return operations.connect(opened, account, lambda _: next(given, None))[0]

    def step(self) -> None:
        """Do one piece of pending work, or wait for an event for one interval at most."""
        for followed in self._follow.check_roots():
            self._listener.followed(followed)
        if due := self._follow.due():
            for path, every in due.items():
                self._read(path, every=every)
        elif self._unembedded:
            self._embed()
        else:
            self._idle.step()
            self._follow.wait()

    def _read(self, path: str, *, every: bool) -> None:
        """Read a due root, and `every` file being written; later if another one writes, or disk or store fail."""
        began = time.monotonic()
        try:
            with session(self._environ) as opened, opened.home.naming_disk("pkb ingest"):
                opened.make()
                summary = self._ingest(opened, path, every=every)
                left = operations.missing_vectors(opened) if summary.kept else None
        except (Locked, DiskFull, Unreachable) as busy:
            self._follow.touch(path)
            self._listener.put_off(path, busy.message)
            return
        seconds = time.monotonic() - began
        if summary.waiting:
            self._follow.touch(path)
        self._listener.read(path, summary, left, seconds, always=self._unread.pop(path, None) is not None)
        self._unembedded |= self._embeds
        if summary.kept or summary.removed:
            self._idle.rest()

    def _ingest(self, opened: Session, path: str, *, every: bool) -> "Summary":
        root = (self._roots | {one.path: one for one in opened.catalogue.roots()} | self._unread)[path]
        roots, missing = ([root], []) if Path(path).exists() else ([], [root])
        settled = None if every else self._settled
        with self._listener.progress() as tick:
            return operations.ingest(opened, roots, missing, prune=False, on_progress=tick, settled=settled)[0]

    def _settled(self, _path: bytes, state: "FileState") -> bool:
        """Return whether a file was not written to recently, or has a time in the future by another machine's clock."""
        return not 0 <= time.time() - state.mtime_ns / 1e9 < self._pace.quiet / 2

    def _embed(self) -> None:
        """Embed chunks that have no vector; stop when a root is due for a scan."""
        self._unembedded, done, left = False, 0, 0
        try:
            with session(self._environ) as opened, opened.home.naming_disk("pkb ingest"):
                opened.make()
                if operations.missing_vectors(opened):
                    for step in operations.embed(opened):
                        done, left = step
                        if left and self._follow.next_due() <= time.monotonic():
                            self._unembedded = True
                            break
        except NoModel as error:
            self._embeds = False
            said = f"{error.message}; keyword search only; try: {error.next_step}"
            self._listener.tell("unembedded", None, said=said, message=error.message)
        except Locked:
            self._unembedded = True
        except (DiskFull, Unreachable):
            pass  # until the next root is read, at the latest by the regular scan
        if done:
            said = f"{count(done, 'chunk')} embedded" + (f", {left:,} left" if left else "")
            self._listener.tell("embedded", None, said=said, embedded=done, without_vector=left)
        gc.collect()  # memory of the embedder is not needed for hours
