"""Replays users' documents and questions under each policy and writes a JSON line per question.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.harness --out FOLDER [--data DATA] [--corpora NAME...] [--users N]
[--questions N] [--policies NAME...] [--writer quote|nano|135M|0.5B|1.2B]`. A unit is a corpus, a user, a policy and a
writer; its lines lie in FOLDER/lines once all are there, and it is not done again, whatever their number. The units of
a user take turns, question by question; those that were killed begin anew. With weights of a real shape, which are
random, answers are forced (see forced.py).
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, TextIO, cast

from filelock import FileLock

from engine.ask.keys import normalise
from engine.ask.prepare import begin, gather_context
from engine.models.mlx import Mlx
from engine.session import Session
from engine.types import AskOptions, Trace
from tests.bench.corpora import CORPORA, users
from tests.bench.corpus import User
from tests.bench.forced import force
from tests.bench.forced import model as random_model
from tests.bench.homes import pkb
from tests.bench.lines import Replay, Work
from tests.bench.living import DATA, NANO, NOW, Life
from tests.bench.policies import POLICIES
from tests.bench.printed import engine
from tests.engine.models.shapes import REAL

WRITERS = ("quote", "nano", *REAL)
LEARNT_FROM = 400_000  # characters of each user's documents that a tokenizer is learnt from
ALWAYS: dict[str, Any] = {"kv.daily_bytes": 10**13}  # a replay lives many days in one


def main() -> None:
    """Do all units that are not done."""
    options = arguments()
    for corpus in options.corpora:
        found = users(corpus, options.data, options.out / "scratch")[: options.users]
        if not found:
            print(f"{corpus}: not in {options.data}", file=sys.stderr)
        for user in found:
            works = [Work(user, POLICIES[name], options.writer, options.questions) for name in options.policies]
            together(works, options.out, _never)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--corpora", nargs="+", default=list(CORPORA), choices=CORPORA)
    parser.add_argument("--users", type=int, default=sys.maxsize, help="of each corpus, the first")
    parser.add_argument("--questions", type=int, default=sys.maxsize, help="of each user, the first")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=tuple(POLICIES))
    parser.add_argument("--writer", default="quote", choices=WRITERS)
    return parser.parse_args()


def replay(work: Work, folder: Path) -> Path:
    """Do one unit, unless it is done; returns the file of its lines."""
    together([work], folder, _never)
    return unit_file(work, folder)


def together(works: Sequence[Work], folder: Path, late: Callable[[], bool]) -> None:
    """Do those units of one user that are not done, in turns, each question with another one first.

    What else the machine does meanwhile then meets all policies alike. When it is late no more is asked; what was asked
    until then is kept.
    """
    waiting = [work for work in works if not unit_file(work, folder).exists()]
    before, loaded = os.environ.get("TMPDIR"), dict[Hashable, Mlx]()
    try:
        with ExitStack() as held:
            open_ = [held.enter_context(unit(work, folder, loaded)) for work in waiting]
            number = 0
            while (left := [one for one in open_ if not one.replay.over]) and not late():
                number += 1
                turns = left[number % len(left) :] + left[: number % len(left)]
                for one in turns:
                    one.replay.sleep()
                for one in turns:
                    one.write(one.replay.next())
    finally:
        os.environ.pop("TMPDIR", None)  # a model that was loaded has put it into a home, which is gone
        os.environ.update({"TMPDIR": before} if before else {})


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit at work, and where its lines go."""

    replay: Replay
    out: TextIO

    def write(self, line: Mapping[str, Any]) -> None:
        """Write a line."""
        work = self.replay.work
        count = min(work.questions, len(work.user.queries))
        self.out.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.out.flush()
        print(f"{work.name}: question {line['number']} of {count}, {line['tier']}", file=sys.stderr, flush=True)


@contextmanager
def unit(work: Work, folder: Path, loaded: dict[Hashable, Mlx]) -> Iterator[Unit]:
    """Open a unit, anew where one was killed; its lines have their name once nothing went wrong."""
    file = unit_file(work, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    part, home = file.with_suffix(".part"), folder / "homes" / work.name
    rmtree(home, ignore_errors=True)  # of one who was killed
    copytree(made(work.user, folder), home)
    try:
        with part.open("w", encoding="utf-8") as out, lived(work, home, folder, loaded) as at_work:
            yield Unit(at_work, out)
    finally:
        rmtree(home, ignore_errors=True)
    if at_work.asked:
        part.rename(file)
    else:
        part.unlink()


def unit_file(work: Work, folder: Path) -> Path:
    """Return the file of a unit's lines, which is there when it is done."""
    return folder / "lines" / f"{work.name}.jsonl"


@contextmanager
def lived(work: Work, home: Path, folder: Path, loaded: dict[Hashable, Mlx]) -> Iterator[Replay]:
    """Open a home, all that answers take made ready before the first one."""
    settings = {**ALWAYS, **work.policy.settings, "model.name": model(work, folder)}
    golds = {normalise(one.text): one.answer for one in reversed(work.user.queries)}
    forced = {"dress": partial(force, golds=golds, loaded=loaded)} if work.writer in REAL else {}
    with Life(home, settings, order=work.policy.order, **forced) as life:
        warm(life.session)
        # Its first steps are slow, too, and the speed is wanted for what is printed.
        measured = engine(cast("Mlx", life.planner.load().model)) if life.session.load_model else None
        yield Replay(work, life, measured if work.policy.printed else None)
        if life.session.load_model:
            life.session.models.forget()


def warm(session: Session) -> None:
    """Embed, retrieve and quote once, so that nothing is opened or imported while the first question waits."""
    asked = gather_context(session.backend, begin(session.backend, session.ledger, "Where is it?", AskOptions(), NOW))
    if session.load_model:
        for name in ("engine.ask.semantic", "engine.llm.generate"):
            import_module(name)
    else:
        session.backend.generate(asked.question, asked.evidence, Trace(), None)


def made(user: User, folder: Path) -> Path:
    """Return a home with a user's documents read and embedded, made when first asked for."""
    there = folder / "made" / f"{user.corpus}.{user.name}"
    with _alone(folder, there.name):
        if there.is_dir():
            return there
        making = there.with_name(f"making.{there.name}")
        rmtree(making, ignore_errors=True)
        done = pkb(making, "ingest", *map(str, user.folders))
        assert done.returncode in (0, 3), done.stderr
        return making.rename(there)


def model(work: Work, folder: Path) -> str:
    """Name the model that a writer stands for; one of random weights is made when first asked for."""
    if work.writer in REAL:
        with _alone(folder, work.writer):
            return str(random_model(work.writer, folder / "models", texts(work.user)))
    return str(NANO) if work.writer == "nano" else "quote"


def texts(user: User) -> Iterator[str]:
    """Yield the beginning of what a user's files hold."""
    left = LEARNT_FROM
    for path in sorted(path for folder in user.folders for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes()[:left].decode("utf-8", "replace")
        yield text
        left -= len(text)
        if left <= 0:
            return


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Have nobody else make the same thing meanwhile."""
    locks = folder / "locks"
    locks.mkdir(exist_ok=True)
    with FileLock(locks / f"{name}.lock"):
        yield


def _never() -> bool:
    return False


if __name__ == "__main__":
    main()
