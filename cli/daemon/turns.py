"""The questions of a resident process, one at a time and in turn, in a thread of their own. Knows no sockets.

A model has one thread. A question that is given up ends at the model's next step; one that comes while idle work is
done is answered between two steps of that.
"""

import sqlite3
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Condition, Thread
from typing import Any

from cli.daemon.desk import Desk
from cli.daemon.request import answer, requested
from cli.daemon.wire import Broken, Frame
from store.errors import PkbError

_OUTSIDE = (PkbError, OSError, RuntimeError, ValueError, sqlite3.Error)  # what is not pkb's own fault
_LOOK_S = 0.25  # how often the model's locks are looked at
Tell = Callable[[str, Mapping[str, Any]], None]


class Cancelled(KeyboardInterrupt):
    """Nobody waits for the answer any more: an interrupt that came over the socket."""


@dataclass(slots=True, eq=False)
class Job:
    """What one caller asks for; `tell` sends a frame back."""

    frame: Frame
    tell: Tell
    cancelled: bool = False
    answered: bool = False  # what is still done is done for the next question

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody waits for it."""
        return str(self.frame["kind"]) == "idle"


class Turns(Thread):
    """Does the jobs of all callers; `done` is called after each, and when the thread ends, `sound` unless by a bug."""

    def __init__(self, environ: Mapping[str, str], done: Callable[[], None]) -> None:
        super().__init__(name="turns", daemon=True)
        self._desk, self._done = Desk(environ, self.breathe), done
        self._waiting, self._idle = deque[Job](), deque[Job]()
        self._changed, self._ended, self._current = Condition(), False, list[Job]()
        self.answered, self.large, self.sound = 0, False, False

    @property
    def model(self) -> str | None:
        """Name the model that is ready to answer."""
        return self._desk.model

    @property
    def works(self) -> bool:
        """Tell whether something is done that was asked for, or that follows from it."""
        return bool(self._current)

    def add(self, job: Job) -> None:
        """Put a job behind those that wait."""
        with self._changed:
            (self._idle if job.is_idle else self._waiting).append(job)
            self._changed.notify()

    def end(self) -> None:
        """Have the thread end as soon as it may."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Open what questions need, then do the jobs."""
        try:
            self._quietly(self._desk.warm)
            while job := self._next():
                self._do(job)
            self.sound = True
        finally:
            self._desk.let_go()
            self._ended = True
            self._done()

    def breathe(self) -> None:
        """Stop what nobody waits for; in idle work, do first what somebody waits for."""
        while self._idles and self._waiting:
            if self._needs_all(self._waiting[0]):
                raise Cancelled
            self._do(self._waiting.popleft())
        if self._ended or (self._current and self._current[-1].cancelled):
            raise Cancelled
        if self._idles:
            self._desk.models.give_way()

    def _quietly(self, work: Callable[[], object]) -> None:
        """Do what nobody waits for: if it fails, who asks next will hear why."""
        try:
            work()
        except (Cancelled, *_OUTSIDE):
            self._desk.let_go()

    def _next(self) -> Job | None:
        """Wait for the next job; meanwhile let the model go, if another process wants it, and have it again later."""
        while not self._ended:
            with self._changed:
                if self._waiting or self._idle:
                    return (self._waiting or self._idle).popleft()
                looks = self._desk.models.claimed or self._desk.lacks_model
                self._changed.wait(_LOOK_S if looks else None)
                found = self._waiting or self._idle or self._ended
            if not found and not self._desk.yield_model():
                self._quietly(self._desk.load)
        return None

    def _do(self, job: Job) -> None:
        self._current.append(job)
        try:
            if not job.cancelled:
                self._serve(job)
        except (Cancelled, Broken, *_OUTSIDE):
            self._tidy()
            if not job.answered:  # the caller finds out for itself what is wrong, and says so in its own words
                job.tell("declined", {})
        finally:
            self._current.pop()
            self.large = self.large or (not self._current and self._desk.is_large())
            self._done()

    @property
    def _idles(self) -> bool:
        return bool(self._current) and self._current[-1].is_idle

    def _needs_all(self, job: Job) -> bool:
        """Tell whether idle work must let go of its model, or of all that it has open, before a job can be done."""
        if job.frame["kind"] == "release":
            return True
        try:
            return self._desk.swaps(requested(job.frame.get("request")))
        except Broken:
            return False

    def _tidy(self) -> None:
        """Clean up behind a job that was broken off; what idle work has open below it stays open."""
        if len(self._current) > 1:
            self._desk.roll_back()
        else:
            self._desk.let_go()

    def _serve(self, job: Job) -> None:
        kinds: dict[str, Callable[[Job], None]] = {
            "ask": self._ask,
            "complete": self._complete,
            "idle": self._night,
            "release": self._release,
        }
        kinds[job.frame["kind"]](job)

    def _ask(self, job: Job) -> None:
        asked = requested(job.frame.get("request"))

        def say(text: str) -> None:
            job.tell("piece", {"text": text})

        with self._desk.session(asked) as opened:
            answered = opened.asker.ask(asked.text, asked.manner, asked.now, say if asked.streams else None)
            self.answered, job.answered = self.answered + 1, True
            job.tell("answered", {"answer": answer(answered)})
            answered.keep()

    def _complete(self, job: Job) -> None:
        from cli.daemon.complete import completed

        asked = requested(job.frame.get("request"))
        with self._desk.session(asked) as opened:
            job.tell("completed", {"said": completed(opened, asked.text, job.frame.get("turns"))})

    def _night(self, job: Job) -> None:
        from cli.daemon.shift import done_here
        from cli.idle_run import work

        opened = self._desk.own()
        opened.now = datetime.fromisoformat(str(job.frame.get("now")))
        done_here(job, opened, work)

    def _release(self, job: Job) -> None:
        from engine.models.memory import release

        self._desk.let_go()
        release()  # what is left of earlier questions may have files open
        job.tell("released", {})
