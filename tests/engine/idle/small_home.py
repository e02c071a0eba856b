"""A small home in which questions can be asked: real rows, and a bank of chunks that a question names by its words.

The evidence of a question are the chunks that share a word with it, the latest first; its answer is the text of the
first of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from engine.ask.prepare import BankBudget, prepare
from engine.idle.refresh import Reasker
from engine.idle.scheduler import JobResult, JobRunner, RunContext, RunLimits
from engine.idle.types import IdleJob
from engine.text.question import Question
from engine.types import Answer, AskOptions, Backend, Evidence, GeneratedAnswer, Passage, Source, Trace
from store.answers import AnswerBank, CachedAnswer
from store.database import Ledger, open_ledger
from store.jobs import JobAccount, JobCost, Jobs
from store.types import Chunk
from tests.engine.ask.passages import passage

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
WRITER = "writer-1"
PLENTY = RunLimits(until=1e9, units=10_000)


@dataclass
class Home:
    """A home, and all that was done in it."""

    ledger: Ledger
    texts: dict[str, str] = field(default_factory=dict)  # chunks by name, oldest first
    written: list[str] = field(default_factory=list)  # questions that were answered
    read: list[str] = field(default_factory=list)  # questions that were read ahead
    folder: str = "/mail"

    def add(self, name: str, text: str) -> None:
        """Ingest a chunk."""
        self.texts[name] = text
        self.ledger.raise_generation()

    def reasker(self) -> Reasker:
        """Return what asks questions here."""
        backend = Backend(
            embed=lambda text, trace: None,
            gather=self._gather,
            write=self._write,
            read=lambda question, evidence, trace: self.read.append(question.text),
            entails=lambda *_: True,
            questions=lambda: None,
            writer=WRITER,
        )
        return Reasker(self.ledger, backend, BankBudget(1_000_000, 5), NOW)

    def ask(self, question: str, *, uses: int = 0, decode: bool = True, predicted: bool = False) -> bytes:
        """Have a question asked, and so often again; returns its key."""
        reasker = self.reasker()
        parts = (self.ledger, reasker.backend, reasker.room, question, AskOptions(), NOW)
        made = prepare(*parts, decode=decode, origin="predicted" if predicted else "user")
        for _ in range(uses):
            self.bank.used(made.key, made.kept.generation, NOW.timestamp())
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

    def _gather(self, question: Question, vector: object, options: AskOptions, trace: Trace) -> Evidence:
        words = set(question.text.lower().strip("?").split())
        names = [name for name, text in self.texts.items() if words & set(text.lower().split())][::-1]
        reads = tuple(self._read(name) for name in names)
        return Evidence(reads, tuple(names), 0.0)

    def _read(self, name: str) -> Passage:
        source = Source(f"{self.folder}/{name}", None, f"about {name}", None, (1, 1), 1.0, "")
        return passage((Chunk(name, name, 0, "", self.texts[name], 1, 1),), "", (), None, 1.0, (source,))

    def _write(self, question: Question, evidence: Evidence, trace: Trace, say: object) -> GeneratedAnswer:
        self.written.append(question.text)
        answer = evidence.passages[0].text if evidence.passages else None
        sources = evidence.sources([""] * len(evidence.passages))
        return GeneratedAnswer(Answer(question.text, answer, "full", "quote", None, sources, trace.ms()))


def home(folder: Path) -> Home:
    """Make an empty home."""
    return Home(open_ledger(folder / "ledger.db", create=True))


def runner(
    ledger: Ledger,
    *,
    limits: RunLimits = PLENTY,
    clock: Callable[[], float] = lambda: 0.0,
    may_go_on: Callable[[], str | None] = lambda: None,
    generation: Callable[[], int] = lambda: 1,
    measure: Callable[[], JobCost] = JobCost,
    now: datetime = NOW,
) -> JobRunner:
    """Begin a night."""
    world = RunContext(clock, clock(), may_go_on, generation, measure, now.timestamp())
    return JobRunner(Jobs(ledger), JobAccount(ledger), world, limits)


def do(home: Home, units: list[IdleJob]) -> list[JobResult]:
    """Do the units of one kind."""
    return list(runner(home.ledger).work({units[0].kind: lambda: units})) if units else []


def states(done: list[JobResult]) -> list[str]:
    """Return what became of units."""
    return [one.state for one in done]
