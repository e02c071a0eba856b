"""Replays users' documents and questions under each policy, a JSON line a question: what it took and what it was given.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.harness --out FOLDER [--data DATA] [--corpora NAME...] [--users N]
[--questions N] [--policies NAME...] [--writer quote|nano|135M|0.5B|1.2B]`. A unit is a corpus, a user, a policy and a
writer; its lines lie in FOLDER/lines once all are there, and it is not done again, whatever their number. One that was
killed begins anew. With weights of a real shape, which are random, answers are forced (see forced.py).
"""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any, TextIO, cast

from cli.session import Session
from engine.ask.begin import begin, look
from engine.ask.exact import normalise
from engine.ask.means import Manner
from engine.ask.trace import Trace
from engine.models.mlx import Mlx
from tests.bench.corpora import CORPORA, User, users
from tests.bench.forced import force
from tests.bench.forced import model as random_model
from tests.bench.homes import pkb
from tests.bench.lines import Replay, Work
from tests.bench.living import NANO, NOW, SHARED, Life
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
            for name in options.policies:
                replay(Work(user, POLICIES[name], options.writer, options.questions), options.out)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--corpora", nargs="+", default=list(CORPORA), choices=CORPORA)
    parser.add_argument("--users", type=int, default=sys.maxsize, help="of each corpus, the first")
    parser.add_argument("--questions", type=int, default=sys.maxsize, help="of each user, the first")
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), choices=tuple(POLICIES))
    parser.add_argument("--writer", default="quote", choices=WRITERS)
    return parser.parse_args()


def replay(work: Work, folder: Path) -> Path:
    """Do one unit, unless it is done; gives the file of its lines."""
    file = folder / "lines" / f"{work.name}.jsonl"
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    part, home = file.with_suffix(".part"), folder / "homes" / work.name
    rmtree(home, ignore_errors=True)  # of one who was killed
    copytree(made(work.user, folder), home)
    try:
        with part.open("w", encoding="utf-8") as out, lived(work, home, folder) as at_work:
            write(at_work, out)
    finally:
        rmtree(home, ignore_errors=True)
    return part.rename(file)


def write(at_work: Replay, out: TextIO) -> None:
    """Write each line as it comes."""
    work = at_work.work
    count = min(work.questions, len(work.user.queries))
    for line in at_work.lines():
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
        out.flush()
        print(f"{work.name}: question {line['number']} of {count}, {line['tier']}", file=sys.stderr, flush=True)


@contextmanager
def lived(work: Work, home: Path, folder: Path) -> Iterator[Replay]:
    """Open a home, all that answers take made ready before the first one."""
    settings = {**ALWAYS, **work.policy.settings, "model.name": model(work, folder)}
    golds = {normalise(one.text): one.answer for one in reversed(work.user.queries)}
    forced = {"dress": partial(force, golds=golds)} if work.writer in REAL else {}
    with Life(home, settings, **forced) as life:
        warm(life.session)
        # Its first steps are slow, too, and the speed is wanted for what is printed.
        measured = engine(cast("Mlx", life.nightly.load().model)) if life.session.writer.load else None
        yield Replay(work, life, measured if work.policy.printed else None)
        if life.session.writer.load:
            life.session.models.forget()


def warm(session: Session) -> None:
    """Embed, retrieve and quote once, so that nothing is opened or imported while the first question waits."""
    asked = look(session.means, begin(session.means, session.ledger, "Where is it?", Manner(), NOW))
    if session.writer.load:
        for name in ("engine.ask.bears", "engine.ask.generate"):
            import_module(name)
    else:
        session.means.write(asked.question, asked.evidence, Trace(), None)


def made(user: User, folder: Path) -> Path:
    """Give a home with a user's documents read and embedded, made when first asked for."""
    there = folder / "made" / f"{user.corpus}.{user.name}"
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
        return str(random_model(work.writer, folder / "models", texts(work.user)))
    return str(NANO) if work.writer == "nano" else "quote"


def texts(user: User) -> Iterator[str]:
    """Give the beginning of what a user's files hold."""
    left = LEARNT_FROM
    for path in sorted(path for folder in user.folders for path in folder.rglob("*") if path.is_file()):
        text = path.read_bytes()[:left].decode("utf-8", "replace")
        yield text
        left -= len(text)
        if left <= 0:
            return


if __name__ == "__main__":
    main()
