"""A small home in which questions can be asked: real rows, and chunks that are retrieved by their words.

The evidence of a question are the chunks that share a word with it, the latest first; its answer is the text of the
first of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from engine.idle.refresh import Reasker
from engine.idle.scheduler import JobRunner
from engine.settings import Settings
from engine.text.question import Question
from engine.types import Answer, AskOptions, Evidence, Passage, Source, Trace
from store.answers import AnswerBank, CachedAnswer
from store.database import Ledger, open_ledger
from store.jobs import Job, JobResult, Outcome
from store.types import Chunk
from tests.engine.ask.backend import Unable
from tests.engine.ask.passages import passage

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
WRITER = "writer-1"
PLENTY = (1e9, 10_000)  # seconds on the clock, jobs


@dataclass
class Home:
    """A home, and the questions that were answered and prefilled in it."""

    ledger: Ledger
    texts: dict[str, str] = field(default_factory=dict)  # chunks by name, oldest first
    written: list[str] = field(default_factory=list)  # questions that were answered
    read: list[str] = field(default_factory=list)  # questions that were prefilled
    folder: str = "/mail"

    def add(self, name: str, text: str) -> None:
        """Ingest a chunk."""
        self.texts[name] = text
        self.ledger.raise_generation()

    def reasker(self) -> Reasker:
        """Return what asks the questions of this home again."""
        return Reasker(self.ledger, _SmallBackend(self), Settings(), NOW)

    def ask(self, question: str, *, uses: int = 0, decode: bool = True, predicted: bool = False) -> bytes:
        """Ask a question, then use its answer so often; return its key."""
        made = self.reasker().prepare(question, AskOptions(), "", "predicted" if predicted else "user", decode=decode)
        for _ in range(uses):
            self.bank.record_use(made.key, made.kept.generation, NOW.timestamp())
        self.written.clear()
        return made.key

    def found(self, key: bytes) -> CachedAnswer:
        """Return an entry that must be there."""
        kept = self.bank.find(key)
        assert kept
        return kept

    @property
    def bank(self) -> AnswerBank:
        """Return the bank."""
        return AnswerBank(self.ledger)


class _SmallBackend(Unable):
    """Finds the chunks of a small home that share a word with the question, and answers with the newest."""

    fingerprint = WRITER

    def __init__(self, home: Home) -> None:
        self._home = home

    def retrieve(self, question: Question, vector: object, options: AskOptions, trace: Trace) -> Evidence:
        words = set(question.text.lower().strip("?").split())
        names = [name for name, text in self._home.texts.items() if words & set(text.lower().split())][::-1]
        return Evidence(tuple(self._passage(name) for name in names), tuple(names), 0.0)

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: object) -> Answer:
        self._home.written.append(question.text)
        answer = evidence.passages[0].text if evidence.passages else None
        sources = evidence.sources([""] * len(evidence.passages))
        return Answer(question.text, answer, "full", "quote", None, sources, trace.ms())

    def prefill(self, question: Question, evidence: Evidence, trace: Trace) -> None:
        self._home.read.append(question.text)

    def _passage(self, name: str) -> Passage:
        source = Source(f"{self._home.folder}/{name}", None, f"about {name}", None, (1, 1), 1.0, "")
        return passage((Chunk(name, name, 0, "", self._home.texts[name], 1, 1),), "", (), None, 1.0, (source,))


def home(folder: Path) -> Home:
    """Make an empty home."""
    return Home(open_ledger(folder / "ledger.db", create=True))


def runner(
    ledger: Ledger,
    *,
    limits: tuple[float, int] = PLENTY,
    clock: Callable[[], float] = lambda: 0.0,
    why_stop: Callable[[], str | None] = lambda: None,
    now: datetime = NOW,
) -> JobRunner:
    """Begin an idle run."""
    return JobRunner(ledger, clock, why_stop, now.timestamp(), *limits)


def run_jobs(home: Home, jobs: list[Job], run: Callable[[Job], Outcome]) -> list[JobResult]:
    """Run jobs of one kind."""
    planned = [(job, partial(run, job)) for job in jobs]
    return list(runner(home.ledger).run({jobs[0].kind: lambda: planned})) if jobs else []


def states(results: list[JobResult]) -> list[str]:
    """Return the states of jobs."""
    return [one.state for one in results]
