"""Asks and ingests that can be held up at each of their steps: where another process could see what they did."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from threading import Event
from typing import TypeVar

from engine.session import Session
from engine.text.question import Question
from engine.types import Answer, AskOptions, AskResult, Evidence, OnText, Trace
from store.database import Ledger
from store.search import QuestionVectors, Reader
from store.tables import Alone, Tables
from store.types import Hit, Row, Scope, Vectors
from tests.effort import PATIENCE_S
from tests.engine.ask.backend import Wrapped
from tests.engine.ask.small_home import SmallHome

Hook = Callable[[], None]
T = TypeVar("T")
_HERE = threading.local()


def pause() -> None:
    """Let what runs in this thread be held up here."""
    hook: Hook | None = getattr(_HERE, "hook", None)
    if hook:
        hook()


class PausingLedger(Ledger):
    """Pauses around each look at the generation outside of a transaction, which others wait for, and behind each."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with super().transaction():
            yield
        pause()

    @property
    def generation(self) -> int:
        pause() if not self.rows.in_transaction else None
        found = super().generation
        pause() if not self.rows.in_transaction else None
        return found


class PausingTables(Tables):
    """Pauses behind each write."""

    def add(self, name: str, rows: Sequence[Row], width: int = 0) -> None:
        super().add(name, rows, width)
        pause()

    def delete(self, name: str, condition: str) -> None:
        super().delete(name, condition)
        pause()

    def rewrite(self, name: str, alone: Alone = nullcontext) -> None:
        super().rewrite(name, alone)
        pause()


class PausingReader(Reader):
    """Pauses between the looks that one retrieval takes."""

    def by_words(self, words: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        found = super().by_words(words, scope, limit)
        pause()
        return found

    def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        found = super().frequencies(words)
        pause()
        return found


class PausingBackend(Wrapped):
    """Pauses when it has retrieved, opened the vectors of cached questions, or made an answer."""

    def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        return _then(super().retrieve(question, vector, options, trace))

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        return _then(super().generate(question, evidence, trace, on_text))

    def question_vectors(self) -> QuestionVectors | None:
        return _then(super().question_vectors())


def _then(found: T) -> T:
    pause()
    return found


def slow(home: SmallHome) -> Session:
    """Open a home whose every step can be held up."""
    session = home.open()
    session.ledger = PausingLedger(session.ledger.rows)
    session.tables = PausingTables(session.home.tables, session.ledger)
    session.reader = PausingReader(session.ledger, lambda: session.tables, session.mapped)
    return session


class Paused:
    """Work in a thread of its own that is held up at one of its steps, counted from 1."""

    def __init__(self, pool: ThreadPoolExecutor, run: Callable[[], AskResult], stop: int) -> None:
        self._stop, self.steps = stop, 0
        self._reached, self._go = Event(), Event()
        self._future = pool.submit(self._work, run)
        self._future.add_done_callback(lambda _: self._reached.set())
        assert self._reached.wait(PATIENCE_S), "it hangs"

    @property
    def held(self) -> bool:
        """Return whether it came to its step and waits there."""
        return not self._future.done()

    def finish(self) -> AskResult:
        """Run to the end and give what came of it."""
        self._go.set()
        return self._future.result(PATIENCE_S)

    def _work(self, run: Callable[[], AskResult]) -> AskResult:
        _HERE.hook = self._hook
        try:
            return run()
        finally:
            _HERE.hook = None

    def _hook(self) -> None:
        self.steps += 1
        if self.steps == self._stop:
            self._reached.set()
            assert self._go.wait(PATIENCE_S), "it was never let go on"


@contextmanager
def stepping(hook: Hook) -> Iterator[None]:
    """Call this at each step of what runs here."""
    _HERE.hook = hook
    try:
        yield
    finally:
        _HERE.hook = None
