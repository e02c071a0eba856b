"""What a resident process keeps in memory between questions, and a session for each of them made of that.

Knows no sockets and no turns: one thread uses it.
"""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from importlib import import_module
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from engine.llm.resident import ResidentModel
from engine.serve.protocol import Broken, Frame, Request, answer, requested, under
from engine.session import Session
from store.errors import NoModel, PkbError
from store.history import History

if TYPE_CHECKING:
    from engine.llm.prefill import PromptReader
    from engine.types import Evidence
    from store.tables import Tables


_LOOKED_AT = 50  # questions: the longest of their prompts may be read from disk again
_Folders = tuple[tuple[str, int], ...]


class WorkerState:
    """The open home of a resident process; `yield_point` is called between two steps of a model."""

    def __init__(self, environ: Mapping[str, str], yield_point: Callable[[], None]) -> None:
        self._environ = environ
        self._base = Session(environ)
        self.models = ResidentModel(self._base.home.locks, yield_point)
        self._tables: Tables | None = None
        self._folders: _Folders = ()
        self._tried = False  # to load the model that the settings name
        self._readies = False  # a model that is in memory, and that nobody has to wait for yet

    @contextmanager
    def session(self, asked: Request) -> Iterator[Session]:
        """Return what one question is answered with: its own settings and time, and all that is open already."""
        time.tzset()  # the machine may have travelled
        base, opened = self._base, Session(self._environ)
        opened.settings, opened.now = under(base.settings, asked.settings), asked.now
        opened.keeps_tensors, opened.models = asked.keeps_tensors, self.models
        opened.ledger, opened.tables = base.ledger, self._fresh_tables()
        if opened.settings.embed == base.settings.embed:
            with suppress(NoModel):
                opened.embedder, opened.question_vectors = base.embedder, base.question_vectors
        try:
            yield opened
        finally:
            vars(opened).clear()  # it refers to itself, and all that it read would stay until garbage is collected

    def own(self) -> Session:
        """Return what this process does by itself with: the settings and the time as they are now."""
        opened = Session(self._environ)
        opened.settings, opened.models = self._base.settings, self.models
        opened.ledger, opened.tables = self._base.ledger, self._fresh_tables()
        with suppress(NoModel):
            opened.embedder, opened.question_vectors = self._base.embedder, self._base.question_vectors
        opened.backend = replace(opened.backend, gather=partial(self._gather, opened.backend.gather))
        return opened

    def _gather(self, gather: "Callable[..., Evidence]", *parts: Any) -> "Evidence":
        """Retrieve, after what somebody waits for: planning a night retrieves hundreds of times."""
        self.models.yield_point()
        return gather(*parts)

    def warm(self) -> None:
        """Do what the next question is likely to need, but with no model."""
        from engine.ask.extract import write
        from engine.ask.prepare import begin, gather_context
        from engine.types import AskOptions

        opened = self.own()
        ask = begin(opened.backend, opened.ledger, "what", AskOptions(), opened.now)
        asked = gather_context(opened.backend, ask)
        write(asked.question, asked.evidence, ask.trace, opened.settings.ask.decline_below)
        _ = opened.asker, opened.rules()  # which import what they are made of

    @property
    def model(self) -> str | None:
        """Name the model that is ready to answer."""
        return None if self._readies else self.models.loaded

    @property
    def lacks_model(self) -> bool:
        """Return whether the model that the settings name is still to be loaded."""
        return not self._tried and self.models.loaded is None and self._base.settings.model.name not in ("", "quote")

    def load(self) -> None:
        """Load the model that the settings name, as soon as no other process has one in memory."""
        if self.lacks_model and self.models.claim():
            self._tried = self._readies = True  # what fails is tried again by a question, which hears why
            try:
                opened = self.own()
                if load := opened.writer.load:
                    _first_step(load(), History(opened.ledger).most_reused(_LOOKED_AT))
            finally:
                self._readies = False

    def let_go(self) -> None:
        """Close all that is open of the home; a loaded model stays."""
        self.models.close()
        self.roll_back()
        if "ledger" in self._base.__dict__:
            self._base.ledger.close()
        self._tables, self._base = None, Session(self._environ)

    def roll_back(self) -> None:
        """End a transaction that was broken off."""
        if "ledger" in self._base.__dict__ and self._base.ledger.rows.in_transaction:
            self._base.ledger.rows.execute("ROLLBACK")

    def yield_model(self) -> bool:
        """Let another process have its model in memory, where one waits for that."""
        if not self.models.wanted:
            return False
        self.models.forget()
        self.models.free()
        self._tried = False
        return True

    def swaps(self, asked: Request) -> bool:
        """Return whether a question needs another model than the one in memory."""
        name, revision = (asked.settings.get(f"model.{part}", "") for part in ("name", "revision"))
        own = self._base.settings.model
        return name not in ("", "quote") and (name, revision) != (own.name, own.revision)

    def is_large(self) -> bool:
        """Return whether this process takes more memory than it may, without what it can do without."""
        from engine.models.memory import release, resident, total

        most = total() * self._base.settings.serve.memory_share
        if resident() > most:
            self.let_go()
            release()
        return resident() > most

    def _fresh_tables(self) -> "Tables":
        """Return the tables; opened again where one was made anew, for what is open would be the old one."""
        folders = tuple(sorted((one.name, one.inode()) for one in os.scandir(self._base.home.tables)))
        if self._tables is None or folders != self._folders:
            from store.tables import Tables

            self._tables, self._folders = Tables(self._base.home.tables), folders
        return self._tables


def _first_step(reading: "PromptReader", expected: int) -> None:
    """Have a model read and write, for what its steps are made of is compiled at the first, longer than an answer.

    Then have memory ready for as many tokens as the first question may find kept.
    """
    for name in ("engine.llm.generate", "engine.ask.extract"):
        import_module(name)
    model = reading.model
    cache, ids = model.begin(), model.tokens("When?")
    model.prefill(cache, ids)
    next(model.decode(cache, ids, 1), None)
    if reading.kept:
        reading.kept.model.expect(cache, expected)


_OUTSIDE = (PkbError, OSError, RuntimeError, ValueError, sqlite3.Error)  # what is not pkb's own fault
_LOOK_S = 0.25  # how often the model's locks are looked at
Tell = Callable[[str, Mapping[str, Any]], None]


class Cancelled(KeyboardInterrupt):
    """Nobody waits for the answer any more: an interrupt that came over the socket."""


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """What one caller asks for; `tell` sends a frame back."""

    frame: Frame
    tell: Tell
    cancelled: bool = False
    answered: bool = False  # what is still done is done for the next question

    @property
    def is_idle(self) -> bool:
        """Return whether nobody waits for it."""
        return str(self.frame["kind"]) == "idle"


class RequestQueue(Thread):
    """Does the jobs of all callers; `done` is called after each, and when the thread ends, `sound` unless by a bug."""

    def __init__(self, environ: Mapping[str, str], done: Callable[[], None]) -> None:
        super().__init__(name="turns", daemon=True)
        self._state, self._done = WorkerState(environ, self.yield_point), done
        self._waiting, self._idle = deque[QueuedRequest](), deque[QueuedRequest]()
        self._changed, self._ended, self._current = Condition(), False, list[QueuedRequest]()
        self.answered, self.large, self.sound = 0, False, False

    @property
    def model(self) -> str | None:
        """Name the model that is ready to answer."""
        return self._state.model

    @property
    def works(self) -> bool:
        """Return whether something is done that was asked for, or that follows from it."""
        return bool(self._current)

    def add(self, job: QueuedRequest) -> None:
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
            self._quietly(self._state.warm)
            while job := self._next():
                self._do(job)
            self.sound = True
        finally:
            self._state.let_go()
            self._ended = True
            self._done()

    def yield_point(self) -> None:
        """Stop what nobody waits for; in idle work, do first what somebody waits for."""
        while self._idles and self._waiting:
            if self._needs_all(self._waiting[0]):
                raise Cancelled
            self._do(self._waiting.popleft())
        if self._ended or (self._current and self._current[-1].cancelled):
            raise Cancelled
        if self._idles:
            self._state.models.yield_to_questions()

    def _quietly(self, work: Callable[[], object]) -> None:
        """Do what nobody waits for: if it fails, who asks next will hear why."""
        try:
            work()
        except (Cancelled, *_OUTSIDE):
            self._state.let_go()

    def _next(self) -> QueuedRequest | None:
        """Wait for the next job; meanwhile let the model go, if another process wants it, and have it again later."""
        while not self._ended:
            with self._changed:
                if self._waiting or self._idle:
                    return (self._waiting or self._idle).popleft()
                looks = self._state.models.claimed or self._state.lacks_model
                self._changed.wait(_LOOK_S if looks else None)
                found = self._waiting or self._idle or self._ended
            if not found and not self._state.yield_model():
                self._quietly(self._state.load)
        return None

    def _do(self, job: QueuedRequest) -> None:
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
            self.large = self.large or (not self._current and self._state.is_large())
            self._done()

    @property
    def _idles(self) -> bool:
        return bool(self._current) and self._current[-1].is_idle

    def _needs_all(self, job: QueuedRequest) -> bool:
        """Return whether idle work must let go of its model, or of all that it has open, before a job can be done."""
        if job.frame["kind"] == "release":
            return True
        try:
            return self._state.swaps(requested(job.frame.get("request")))
        except Broken:
            return False

    def _tidy(self) -> None:
        """Clean up behind a job that was broken off; what idle work has open below it stays open."""
        if len(self._current) > 1:
            self._state.roll_back()
        else:
            self._state.let_go()

    def _serve(self, job: QueuedRequest) -> None:
        kinds: dict[str, Callable[[QueuedRequest], None]] = {
            "ask": self._ask,
            "complete": self._complete,
            "idle": self._idle_run,
            "release": self._release,
        }
        kinds[job.frame["kind"]](job)

    def _ask(self, job: QueuedRequest) -> None:
        asked = requested(job.frame.get("request"))

        def say(text: str) -> None:
            job.tell("piece", {"text": text})

        with self._state.session(asked) as opened:
            answered = opened.asker.ask(asked.text, asked.options, asked.now, say if asked.streams else None)
            self.answered, job.answered = self.answered + 1, True
            job.tell("answered", {"answer": answer(answered)})
            answered.keep()

    def _complete(self, job: QueuedRequest) -> None:
        from engine.serve.client import completed

        asked = requested(job.frame.get("request"))
        with self._state.session(asked) as opened:
            job.tell("completed", {"said": completed(opened, asked.text, job.frame.get("turns"))})

    def _idle_run(self, job: QueuedRequest) -> None:
        from engine.idle.run import run_idle
        from engine.serve.client import done_here

        opened = self._state.own()
        opened.now = datetime.fromisoformat(str(job.frame.get("now")))
        done_here(job, opened, run_idle)

    def _release(self, job: QueuedRequest) -> None:
        from engine.models.memory import release

        self._state.let_go()
        release()  # what is left of earlier questions may have files open
        job.tell("released", {})
