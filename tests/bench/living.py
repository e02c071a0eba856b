"""A home in use: real mail, real questions and real idle runs, phase by phase under changing settings.

A phase is one session, as a process has one: settings are read when it begins. Knows nothing of what is measured.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import crc32

from engine.ask.keys import normalise
from engine.idle.plan import IdlePlanner, new_chunks
from engine.idle.predict import offer, pick
from engine.idle.refresh import Reasker
from engine.idle.scheduler import JobRunner, RunContext, RunLimits
from engine.idle.templates import from_forms
from engine.idle.types import Kind
from engine.llm.prompt import Order, in_document_order
from engine.session import Session
from engine.settings import Experiment, save
from engine.types import AskOptions, AskResult
from store.jobs import JobAccount, JobCost, Jobs
from tests.bench.homes import environment, opened, pkb
from tests.bench.idle_runs import rows

DATA = Path(os.environ.get("PKB_BENCH_DATA", Path(__file__).resolve().parents[2] / "build" / "data"))  # public sets
NANO = Path(__file__).resolve().parents[1] / "data" / "nano"
NOW = datetime(2024, 5, 15, tzinfo=UTC)
USERS = {"locomo": "locomo/conv-26", "enron-annotated": "enron-annotated", "qmsum": "qmsum/ami-IS1000"}


class Answers(Mapping[str, str]):
    """A set's answers by question, as it words them or normalised.

    One that is none of the set's has another one's answer, always the same: so that it is as long.
    """

    def __init__(self, golds: Mapping[str, str]) -> None:
        self._golds, self._pool = golds, list(golds.values())
        self._known = {normalise(question): gold for question, gold in golds.items()}

    def __getitem__(self, question: str) -> str:
        """Return the answer to a question."""
        text = normalise(question)
        return self._known[text] if text in self._known else self._pool[crc32(text.encode()) % len(self._pool)]

    def __iter__(self) -> Iterator[str]:
        """Yield the set's questions."""
        return iter(self._golds)

    def __len__(self) -> int:
        """Count the set's questions."""
        return len(self._golds)


def prepared(user: str, home: Path) -> dict[str, str]:
    """Ingest a user's documents; returns the answers by question, each once, in the order of the set."""
    done = pkb(home, "ingest", *map(str, folders(user)))
    assert done.returncode in (0, 3), done.stderr
    return {row["question"]: row["answer"] for row in rows(DATA / USERS[user] / "questions.jsonl")}


def folders(user: str) -> list[Path]:
    """Return the folders of a user's documents."""
    folder = DATA / USERS[user]
    return [folder / name for name in ("docs", "mail") if (folder / name).is_dir()]


def as_it_is(session: Session) -> None:
    """Change nothing."""


def of_file(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that a config file may hold."""
    return {key: value for key, value in settings.items() if not key.startswith("experiment.")}


def experiment(settings: Mapping[str, Any]) -> Experiment:
    """Return the others, which are fields of `Experiment`."""
    parts = {key: value for key, value in settings.items() if key.startswith("experiment.")}
    return Experiment(**{key.removeprefix("experiment."): value for key, value in parts.items()})


@dataclass(slots=True)
class Life:
    """One phase of a home; `settings` hold from here on, and `dress` may put parts into its session."""

    home: Path
    settings: Mapping[str, Any]
    dress: Callable[[Session], None] = as_it_is
    order: Order = in_document_order  # of the passages in a prompt
    session: Session = field(init=False)
    planner: IdlePlanner = field(init=False)

    def __enter__(self) -> Self:
        for key, value in of_file(self.settings).items():
            save(Path(environment(self.home)["PKB_CONFIG"]), key, str(value))
        self.session = opened(self.home)
        self.session.settings = replace(self.session.settings, experiment=experiment(self.settings))
        self.session.now, self.session.order = NOW, self.order
        self.dress(self.session)
        never = self._never
        parts = (self.session, True, 10**6, lambda: never, never)
        self.planner = IdlePlanner(*parts)
        if self.session.load_model:
            self.planner.load()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.session.load_model:
            self.session.models.free()
        self.session.ledger.close()

    def ask(self, text: str, *, fresh: bool = False) -> AskResult:
        """Ask a question as a person does; `fresh` does not look into the bank."""
        answered = self.session.asker.ask(text, AskOptions(k=self.session.settings.ask.k, read_bank=not fresh), NOW)
        answered.keep()
        return answered

    def foresee(self, most: int) -> int:
        """Queue `most` questions predicted by the forms of those asked so far; return their number.

        What a tiny or random model would foresee is no question.
        """
        reasker = Reasker(self.session.ledger, self.session.backend, self.session.room, NOW)
        found = from_forms(new_chunks(self.session), self._asked(self.session.settings.experiment.history))
        shares = dict.fromkeys((one.source for one in found), most)
        chosen = pick(found, shares, self._known())[:most]
        offer(reasker, [replace(one, probability=0.5) for one in chosen])
        return len(chosen)

    def runner(self, kinds: Iterable[Kind] | None = None) -> dict[Kind, JobCost]:
        """Do a night's work, of some kinds or of all; returns what it took by kind."""
        ledger = self.session.ledger
        context = RunContext(
            clock=time.monotonic,
            began=time.monotonic(),
            why_stop=lambda: None,
            generation=lambda: ledger.generation,
            measure=self.planner.measure,
            now=NOW.timestamp(),
        )
        runner = JobRunner(Jobs(ledger), JobAccount(ledger), context, RunLimits(float("inf"), 10**6))
        handlers = self.planner.handlers()
        wanted = set(handlers if kinds is None else kinds)
        for _ in runner.run({kind: handler for kind, handler in handlers.items() if kind in wanted}):
            pass
        return runner.spent

    def flops(self) -> float:
        """Return what the model did in this phase so far, by the formula."""
        return self.planner.measure().flops

    def predicted_counts(self, state: str) -> list[str]:
        """Return the questions that nobody asked and that are in this state."""
        sql = "SELECT question FROM answers WHERE origin = 'predicted' AND state = ? ORDER BY created, question"
        return [text for (text,) in self.session.ledger.rows.execute(sql, (state,))]

    def _asked(self, most: int) -> list[str]:
        """Return the last questions, oldest first, those too whose answers a policy does not keep."""
        sql = "SELECT question FROM history GROUP BY question ORDER BY max(id) DESC LIMIT ?"
        return [text for (text,) in self.session.ledger.rows.execute(sql, (most,))][::-1]

    def _known(self) -> Sequence[str]:
        sql = "SELECT question FROM answers UNION SELECT question FROM history"
        return [text for (text,) in self.session.ledger.rows.execute(sql)]

    @staticmethod
    def _never() -> bool:
        return False


def added(spent: Iterable[Mapping[Kind, JobCost]]) -> JobCost:
    """Add up what nights took."""
    return sum((one for runner in spent for one in runner.values()), JobCost())
