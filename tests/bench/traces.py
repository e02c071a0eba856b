"""Counts what each policy does for every question: tiers, tokens, KV and steps of the model, with no model computing.

Run `python -m tests.bench.traces CORPUS USER --out FOLDER [--data DATA] [--questions N] [--policies NAME...]`. Ingest,
retrieval, prompts, KV tree, answer cache and idle runs are pkb's own; the model is that of counting.py. A user's rows
are in FOLDER/traces/CORPUS.USER.jsonl.gz once all policies are done; what is there is not repeated.
"""

import gzip
import json
import os
import sys
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

from engine.ask.keys import normalise
from engine.types import AskResult
from tests.bench import home
from tests.bench.agreement import agree
from tests.bench.corpus import DATA, Query, User, users
from tests.bench.counting import Memo, Tally, count, folder_of
from tests.bench.harness import ALWAYS, ingested, warm
from tests.bench.plan import TRACED
from tests.bench.policies import Policy
from tests.bench.replay import Replay, Unit, sizes

SHAPE = "135M"  # whose KV bytes are counted against the budget
SITTING = 3  # questions between two idle runs
IDLE = 1000  # tokens that an idle run may prefill, and so many for each source of a prompt: about five questions
BLOCK = 20  # questions in a row, where not all are asked: neighbours share documents
MEMORY = Path("/dev/shm")  # homes are there, if it exists: files are written at every question


@dataclass(frozen=True, slots=True)
class Work:
    """The steps of a model, aggregated: [kind, rows, number, sum of the tokens before them]; and KV loaded and stored.

    `plain` is [tokens generated, sum of the tokens before each] if none is guessed; `loads` [files, tokens] and
    `written` bytes.
    """

    steps: Sequence[Sequence[Any]]
    plain: Sequence[int]
    loads: Sequence[int]
    written: int


@dataclass(frozen=True, slots=True)
class Row:
    """One question under one policy; `idle` is the idle run before it, if there was one.

    `right` is None where the answer is not another question's; `stages` are pkb's own steps, `moved` the tokens and
    segments assembled in block mode.
    """

    corpus: str
    user: str
    number: int
    policy: str
    top: int
    tier: str
    right: bool | None
    predicted: bool
    prompt: int
    reused: int
    generated: int
    guessed: int
    chunks: int
    found: int
    moved: Sequence[int]
    stages: Sequence[str]
    work: Work
    idle: Work | None


def main() -> int:
    """Count one user's questions under all policies."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("user")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--questions", type=int, default=sys.maxsize, help="of a user, at most")
    parser.add_argument("--policies", nargs="+", default=sorted(TRACED), metavar="NAME")
    options = parser.parse_args()
    found = users(options.corpus, options.data, options.out / "scratch")
    user = next(one for one in found if one.name == options.user)
    print(trace(user, options.questions, [TRACED[name] for name in options.policies], options.out))
    return 0


def file_of(corpus: str, user: str, folder: Path) -> Path:
    """Return the file of a user's rows, which exists once it is complete."""
    return folder / "traces" / f"{corpus}.{user}.jsonl.gz"


def trace(user: User, most: int, policies: Sequence[Policy], folder: Path) -> Path:
    """Count a user's questions under each policy, in turn; returns the file."""
    file, memo = file_of(user.corpus, user.name, folder), Memo()
    if file.exists():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    with gzip.open(part, "wt", encoding="utf-8") as out:
        for policy in policies:
            for row in rows(replace(user, queries=sample(user.queries, most)), policy, folder, memo):
                out.write(json.dumps(asdict(row), separators=(",", ":")) + "\n")
            print(f"{user.corpus} {user.name}: {policy.name}", file=sys.stderr, flush=True)
    return part.rename(file)


def share(asked: Sequence[int], most: int) -> int:
    """Return how many questions of each user make about so many in all, of users with these numbers of questions."""
    longest = max(asked, default=0)
    part = min(longest, most // max(1, len(asked)))
    while part < longest and sum(min(part + 1, own) for own in asked) <= most:
        part += 1
    return part


def sample(queries: Sequence[Query], most: int) -> tuple[Query, ...]:
    """Return at most about so many questions: blocks of neighbours, evenly spread over the stream."""
    if len(queries) <= most:
        return tuple(queries)
    size = min(BLOCK, most)
    blocks = most // size
    starts = [round((number + 0.5) * (len(queries) - size) / blocks) for number in range(blocks)]
    chosen = sorted({at for start in starts for at in range(start, start + size)})
    return tuple(queries[at] for at in chosen)


def rows(
    user: User, policy: Policy, folder: Path, memo: Memo, model: Path | None = None, shape: str | None = SHAPE
) -> Iterator[Row]:
    """Yield what a policy does for each question, beginning with an empty cache.

    Without a shape the layers of the `model` compute.
    """
    model = model or folder_of(SHAPE, folder / "models", real=False)
    golds, tally = {normalise(one.text): one.answer for one in reversed(user.queries)}, Tally()
    settings = {**ALWAYS, **policy.settings, "model.name": str(model)}
    prepare = partial(count, golds=golds, tally=tally, shape=shape, memo=memo)
    before, place = os.environ.get("TMPDIR"), MEMORY if MEMORY.is_dir() else folder
    with TemporaryDirectory(dir=place) as made:
        copy = copytree(ingested(user, folder), Path(made) / "home")
        with home.opened(copy, settings, policy.order, prepare) as found:
            warm(found.session)
            replay = Replay(Unit(user, policy, shape or model.name, sys.maxsize), found)
            while not replay.done:
                yield asked(replay, tally, policy)[0]
            found.session.models.forget()
    os.environ.pop("TMPDIR", None)
    os.environ.update({"TMPDIR": before} if before else {})


def asked(replay: Replay, tally: Tally, policy: Policy) -> tuple[Row, AskResult]:
    """Do an idle run if it is time, and ask the next question; returns its row and the answer."""
    rests = policy.predict > 0 and len(replay.asked) % SITTING == 0
    tally.taken()
    held = sizes(replay.home.session).kv_written
    if rests:
        replay.idle(IDLE * (1 + policy.settings["ask.k"]), fill=policy.fills)
    held = sizes(replay.home.session).kv_written - held
    idle, query = tally.taken(), replay.unit.queries[len(replay.asked)]
    line, answered = replay.answered()
    unit, tokens, cached = replay.unit, line.tokens, line.cached
    found = Row(
        corpus=unit.user.corpus,
        user=unit.user.name,
        number=line.number,
        policy=policy.name,
        top=policy.settings["ask.k"],
        tier=line.tier,
        right=right(query, line.right, line.answer) if line.tier in ("exact", "semantic") else None,
        predicted=line.predicted,
        prompt=tokens.prompt if tokens else 0,
        reused=tokens.reused if tokens else 0,
        generated=tokens.generated if tokens else 0,
        guessed=tokens.guessed if tokens else 0,
        chunks=cached.chunks if cached else 0,
        found=cached.found if cached else 0,
        moved=moved(answered),
        stages=sorted({step.name for step in answered.trace.steps}),
        work=work(tally.taken(), line.written),
        idle=work(idle, held) if rests else None,
    )
    return found, answered


def right(query: Query, known: bool | None, answer: str | None) -> bool:
    """Whether a served answer says what the writer says to this question without a cache, which is the gold answer."""
    return bool(known) or agree(answer, query.answer)


def moved(answered: AskResult) -> tuple[int, int]:
    """Return the tokens and segments that block mode put together, (0, 0) in any other."""
    notes = [step.note for step in answered.trace.steps if step.name == "prefill" and step.note]
    if answered.reply.tier != "blocks" or not notes:
        return 0, 0
    parts = [part.split("/")[1] for note in notes for part in note.split() if "/" in part]
    return sum(map(int, parts)), len(parts)


def work(tally: Tally, written: int) -> Work:
    """Aggregate a tally."""
    sums = defaultdict[tuple[str, int], list[int]](lambda: [0, 0])
    for (kind, count_, before), number in tally.steps.items():
        sums[kind, count_][0] += number
        sums[kind, count_][1] += number * before
    plain = [sum(n for _, n in tally.written), sum(n * before + n * (n - 1) // 2 for before, n in tally.written)]
    loads = [sum(files for files, _ in tally.loads), sum(tokens for _, tokens in tally.loads)]
    return Work([[*key, *value] for key, value in sorted(sums.items())], plain, loads, written)


def read(file: Path) -> list[Row]:
    """Read a user's rows."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [row(json.loads(line)) for line in lines]


def row(value: Mapping[str, Any]) -> Row:
    """Return a row of its JSON."""
    parts = {name: Work(**value[name]) if value[name] else None for name in ("work", "idle")}
    return Row(**{**value, **parts})


if __name__ == "__main__":
    sys.exit(main())
