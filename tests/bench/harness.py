"""Replays users' documents and questions under each policy and writes a JSON line per question.

The lines of a unit are in FOLDER/lines once it is complete, and it is not repeated, whatever the number of its
questions; an interrupted unit starts over. With weights of a real shape, which are random, answers are teacher-forced
(forced.py).
"""

import json
import os
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, TextIO

from filelock import FileLock

from engine.ask.keys import begin, gather_context, normalise
from engine.models.mlx import Mlx
from engine.session import Session
from engine.types import AskOptions, Trace
from tests.bench import home
from tests.bench.corpus import User
from tests.bench.forced import force, random_model
from tests.bench.home import NANO, NOW
from tests.bench.records import Line
from tests.bench.replay import Replay, Unit
from tests.engine.models.shapes import REAL

VOCABULARY = 400_000  # characters of each user's documents that a tokenizer is trained on
ALWAYS: dict[str, Any] = {"kv.daily_bytes": 10**13}  # a replay puts many days into one


def never() -> bool:
    """Return False: there is no deadline."""
    return False


def replay(units: Sequence[Unit], folder: Path, late: Callable[[], bool] = never) -> list[Path]:
    """Replay the incomplete units of one user in turns, each question with another one first; returns their files.

    All policies then meet the same load of the machine. Once it is late no more questions are asked; the answered ones
    are kept.
    """
    waiting = [unit for unit in units if not unit_file(unit, folder).exists()]
    before, loaded = os.environ.get("TMPDIR"), dict[Hashable, Mlx]()
    try:
        with ExitStack() as held:
            all_ = [held.enter_context(writing(unit, folder, loaded)) for unit in waiting]
            number = 0
            while (left := [one for one in all_ if not one.replay.done]) and not late():
                number += 1
                turns = left[number % len(left) :] + left[: number % len(left)]
                for one in turns:
                    one.replay.idle()
                for one in turns:
                    one.write(one.replay.ask())
    finally:
        os.environ.pop("TMPDIR", None)  # loading a model has set it to a home that is deleted now
        os.environ.update({"TMPDIR": before} if before else {})
    return [unit_file(unit, folder) for unit in units]


@dataclass(frozen=True, slots=True)
class Writing:
    """A unit in progress, and the file for its lines."""

    replay: Replay
    out: TextIO

    def write(self, line: Line) -> None:
        """Write a line and report it on stderr."""
        unit = self.replay.unit
        self.out.write(json.dumps(asdict(line), ensure_ascii=False) + "\n")
        self.out.flush()
        print(f"{unit.name}: question {line.number} of {len(unit.queries)}, {line.tier}", file=sys.stderr, flush=True)


@contextmanager
def writing(unit: Unit, folder: Path, loaded: dict[Hashable, Mlx]) -> Iterator[Writing]:
    """Open a unit from its start; its file gets its final name unless something fails."""
    file = unit_file(unit, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    part, copy = file.with_suffix(".part"), folder / "homes" / unit.name
    rmtree(copy, ignore_errors=True)  # of an interrupted run
    copytree(ingested(unit.user, folder), copy)
    try:
        with part.open("w", encoding="utf-8") as out, ready(unit, copy, folder, loaded) as found:
            yield Writing(found, out)
    finally:
        rmtree(copy, ignore_errors=True)
    if found.asked:
        part.rename(file)
    else:
        part.unlink()


def unit_file(unit: Unit, folder: Path) -> Path:
    """Return the file of a unit's lines, which exists once it is complete."""
    return folder / "lines" / f"{unit.name}.jsonl"


@contextmanager
def ready(unit: Unit, copy: Path, folder: Path, loaded: dict[Hashable, Mlx]) -> Iterator[Replay]:
    """Open a home with everything loaded and warm."""
    settings = {**ALWAYS, **unit.policy.settings, "model.name": model(unit, folder)}
    golds = {normalise(one.text): one.answer for one in reversed(unit.user.queries)}
    forced = {"prepare": partial(force, golds=golds, loaded=loaded)} if unit.writer in REAL else {}
    with home.opened(copy, settings, unit.policy.order, **forced) as found:
        warm(found.session)
        if found.session.model:
            language_model = found.planner.load().model
            language_model.prefill(language_model.begin(), list(range(10, 90)))  # whose first steps are slow
        yield Replay(unit, found)
        if found.session.model:
            found.session.models.forget()


def warm(session: Session) -> None:
    """Embed, retrieve and quote once, so that the first question waits for no import."""
    asked = gather_context(session.backend, begin(session.backend, session.ledger, "Where is it?", AskOptions(), NOW))
    if session.model:
        for name in ("engine.ask.semantic", "engine.llm.generate"):
            import_module(name)
    else:
        session.backend.generate(asked.question, asked.evidence, Trace(), None)


def ingested(user: User, folder: Path) -> Path:
    """Return a home with a user's documents, made on the first call."""
    there = folder / "ingested" / f"{user.corpus}.{user.name}"
    with _locked(folder, there.name):
        if there.is_dir():
            return there
        making = there.with_name(f"making.{there.name}")
        rmtree(making, ignore_errors=True)
        home.ingest(making, user.folders)
        return making.rename(there)


def model(unit: Unit, folder: Path) -> str:
    """Return the model setting of a writer; a model of random weights is made on the first call."""
    if unit.writer in REAL:
        with _locked(folder, unit.writer):
            return str(random_model(unit.writer, folder / "models", texts(unit.user)))
    return str(NANO) if unit.writer == "nano" else "quote"


def texts(user: User) -> Iterator[str]:
    """Yield the start of a user's files."""
    left = VOCABULARY
    for path in sorted(path for folder in user.folders for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes()[:left].decode("utf-8", "replace")
        yield text
        left -= len(text)
        if left <= 0:
            return


@contextmanager
def _locked(folder: Path, name: str) -> Iterator[None]:
    """Keep other processes from making the same thing."""
    locks = folder / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"{name}.lock"):
        yield
