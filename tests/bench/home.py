"""Temporary homes for measurements: ingested by the command line, then asked and idle in this process."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.idle.plan import IdlePlanner, new_chunks
from engine.idle.predict import Prediction, from_forms, offer, pick
from engine.idle.refresh import Reasker
from engine.idle.scheduler import JobRunner
from engine.llm import prompt
from engine.llm.prompt import in_document_order
from engine.session import Session
from engine.settings import Experiment, save
from engine.types import AskOptions, AskResult
from store.jobs import Kind
from store.types import Hit, replace
from tests.bench.metered import Metered, MeteredResident
from tests.bench.policies import Order

if TYPE_CHECKING:
    from collections.abc import Iterator

NANO = Path(__file__).resolve().parents[1] / "data" / "nano"
NOW = datetime(2024, 5, 15, tzinfo=UTC)
ABOUT = 10  # words of a passage in a question about it
DECODED = 6.0


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a home below a folder."""
    places = {"PKB_HOME": f"{folder}/home", "PKB_CACHE": f"{folder}/cache", "PKB_CONFIG": f"{folder}/config.toml"}
    return places | {"PKB_DAEMON": "off"}  # each command is measured by itself


def pkb(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one pkb command in a process of its own."""
    command = [sys.executable, "-m", "cli.app", *words]
    return subprocess.run(
        command, env={**os.environ, **environment(folder)}, capture_output=True, text=True, check=False
    )


def ingest(folder: Path, documents: Sequence[Path]) -> None:
    """Ingest and embed folders of documents; unreadable files are skipped."""
    done = pkb(folder, "ingest", *map(str, documents))
    assert done.returncode in (0, 3), done.stderr


def of_file(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the settings that a config file may hold."""
    return {key: value for key, value in settings.items() if not key.startswith("experiment.")}


def experiment(settings: Mapping[str, Any]) -> Experiment:
    """Return the others, which are fields of `Experiment`."""
    parts = {key: value for key, value in settings.items() if key.startswith("experiment.")}
    return Experiment(**{key.removeprefix("experiment."): value for key, value in parts.items()})


@dataclass(frozen=True, slots=True)
class Work:
    """Idle jobs that were done, and the tokens that the model prefilled (`read`) and decoded (`written`) for them."""

    units: int
    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Spent:
    """Milliseconds by the clock, and of the processor, of all threads together."""

    wall: float
    processor: float


@contextmanager
def ordered(order: Order) -> "Iterator[None]":
    """Have prompts show their chunks in an order, instead of in document order."""
    vars(prompt)["in_document_order"] = order
    try:
        yield
    finally:
        vars(prompt)["in_document_order"] = in_document_order


@dataclass(frozen=True, slots=True)
class Home:
    """An open home under given settings."""

    session: Session
    planner: IdlePlanner
    order: Order = in_document_order
    spent: list[Spent] = field(default_factory=list)  # of each question, without what is stored after its answer

    def ask(self, text: str, *, read_bank: bool = True, write_bank: bool = True) -> AskResult:
        """Ask a question and store what was computed once the answer is there."""
        options = AskOptions(k=self.session.settings.ask.k, read_bank=read_bank, write_bank=write_bank)
        wall, processor = time.perf_counter(), time.process_time()
        with ordered(self.order):
            answered = self.session.asker.ask(text, options, NOW)
        self.spent.append(Spent(1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - processor)))
        answered.keep()
        return answered

    def predict(self, most: int, *, fill: bool = False) -> int:
        """Queue up to `most` questions predicted from the forms of those asked so far; return their number.

        A tiny or random model would not write questions. With `fill` questions about the newest passages take the
        places that are left, as a model writes them from its knowledge bank (PerCache 4.1.2).
        """
        reasker, new = (
            Reasker(self.session.ledger, self.session.backend, self.session.settings, NOW),
            new_chunks(self.session),
        )
        found = from_forms(new, self._asked(self.session.settings.experiment.history), lambda: False)
        limits = dict.fromkeys((one.source for one in found), most)
        chosen = pick(found, limits, known := self._known(), lambda _: False)[:most]
        if fill and len(chosen) < most:
            chosen += pick([about(one) for one in new], {"chunks/form": most - len(chosen)}, known, lambda _: False)[
                : most - len(chosen)
            ]
        offer(reasker, [replace(one, probability=0.5) for one in chosen])
        return len(chosen)

    def idle(self, kinds: Iterable[Kind] | None = None, most: float = float("inf")) -> Work:
        """Do all idle jobs of some kinds, or of all; returns their number and the model's work.

        None is begun once the model has done work worth `most` tokens of prefill.
        """
        ledger, before = self.session.ledger, self._meter()

        def work() -> Work:
            return Work(runner.done, *(now - then for now, then in zip(self._meter(), before, strict=True)))

        def why_stop() -> str | None:
            return "enough" if worth(work()) >= most else None

        runner = JobRunner(
            ledger,
            clock=time.monotonic,
            why_stop=why_stop,
            now=NOW.timestamp(),
            until=float("inf"),
            most=10**6,
        )
        plans = self.planner.plans()
        wanted = set(plans if kinds is None else kinds)
        with ordered(self.order):
            for _ in runner.run({kind: plan for kind, plan in plans.items() if kind in wanted}):
                pass
        return work()

    def _meter(self) -> tuple[int, int]:
        """Return the tokens that the model has prefilled and decoded."""
        model = self.session.models._model
        return (model.work.read, model.work.generated) if isinstance(model, Metered) else (0, 0)

    def flops(self) -> float:
        """Return the model's FLOPs since the home was opened, by formula."""
        model = self.session.models._model
        return model.flops if isinstance(model, Metered) else 0.0

    def _asked(self, most: int) -> list[str]:
        """Return the latest questions, oldest first, those without a stored answer too."""
        sql = "SELECT question FROM history GROUP BY question ORDER BY max(id) DESC LIMIT ?"
        return [text for (text,) in self.session.ledger.rows.execute(sql, (most,))][::-1]

    def _known(self) -> list[str]:
        sql = "SELECT question FROM answers UNION SELECT question FROM history"
        return [text for (text,) in self.session.ledger.rows.execute(sql)]


def about(hit: Hit) -> Prediction:
    """Return a question about a passage: with the words of its longest sentence."""
    sentence = max(re.split(r"(?<=[.!?])\s+|\n+", hit.chunk.text), key=len)
    return Prediction(f"What was said about {' '.join(sentence.split()[:ABOUT]).rstrip('.?!,;:')}?", "chunks/form")


def worth(cost: Work) -> float:
    """Return the work of a model as tokens of prefill; on a processor decoding one takes as long as prefilling six."""
    return cost.read + DECODED * cost.written


def _unchanged(session: Session) -> None:
    pass


@contextmanager
def opened(
    folder: Path,
    settings: Mapping[str, Any],
    order: Order = in_document_order,
    prepare: Callable[[Session], None] = _unchanged,
) -> "Iterator[Home]":
    """Open a home; `order` is of the passages in a prompt, and `prepare` may replace parts of the session."""
    for key, value in of_file(settings).items():
        save(Path(environment(folder)["PKB_CONFIG"]), key, str(value))
    session = Session(environment(folder))
    session.make()
    session.settings = replace(session.settings, experiment=experiment(settings))
    session.now = NOW
    session.__dict__["models"] = MeteredResident(session.home.locks)
    prepare(session)
    planner = IdlePlanner(session, True, _never)
    try:
        if session.model:
            planner.load()
        yield Home(session, planner, order)
    finally:
        if session.model:
            session.models.free()
        session.ledger.close()


def _never() -> bool:
    return False
