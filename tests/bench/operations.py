"""Time of each operation and size of each stored item on this machine: PerCache's Table 1, for pkb.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.operations --to FOLDER [--model 135M|nano] [--rounds N]`; it writes
FOLDER/operations.json. The operations take turns, the first round is not counted, and what is told are medians and
quartiles. The weights of 135M are random, for speed does not depend on them.
"""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from engine.ask.extract import write
from engine.ask.paraphrase import why_different
from engine.ask.semantic import why_not_entailed
from engine.text.question import understand
from engine.types import AskOptions, Trace
from store.answers import AnswerBank
from store.hits import Vectors
from store.kv_tree import root_of
from store.question_index import QuestionVectors
from store.tables import Tables
from tests.bench import bank
from tests.bench.corpora import users
from tests.bench.homes import pkb
from tests.bench.living import DATA, NOW, Life
from tests.bench.peers import loaded, prompts
from tests.bench.state import Desk, afresh, drop

ROUNDS, SIZES, MANNER = 15, (100, 1_000, 25_000), AskOptions()
TOKENS, FORESEEN, ASKED = 8, 4, 40  # decoded at a time, foreseen at a time, questions whose entries are weighed
FILTERS = ("date", "sender", "recipients", "collections")
TABLES = {
    "chunks": ("id", "document", "position", "header", "text", "words", "first", "last", "title", *FILTERS),
    "abstracts": ("id", "text", "chunks", "documents", "date", "made", "writer", "asked", "drawn"),
}
VECTOR = ("id", "document", "vector", *FILTERS)
Deed = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: what an operation takes, or what an item weighs."""

    operation: str
    median_ms: float | None = None
    low_ms: float | None = None  # the quartiles
    high_ms: float | None = None
    bytes: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """Something to be timed: `ready` prepares it for a round and gives the deed, which does it `times` times."""

    name: str
    ready: Callable[[int], Deed]
    note: str = ""
    times: int = 1


def main() -> None:
    """Measure, write, and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--model", choices=("135M", "nano"), default="135M")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    with TemporaryDirectory(prefix="pkb-operations-") as name:
        scratch = Path(name)
        user = users("synthetic", DATA, scratch / "corpus")[0]
        texts = list(dict.fromkeys(query.text for query in user.queries))
        rows = measured(options.model, user.folders, texts, scratch, options.rounds)
    options.to.mkdir(parents=True, exist_ok=True)
    (options.to / "operations.json").write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1), "utf-8")
    print(f"{f'{options.model}, {options.rounds} rounds':38}{'median':>11}{'quartiles':>22}{'bytes':>12}")
    print("\n".join(map(line, rows)))


def measured(
    model: str, folders: Sequence[Path], texts: Sequence[str], scratch: Path, rounds: int, sizes: Sequence[int] = SIZES
) -> list[Row]:
    """Measure everything: `texts` are asked of the documents in these folders, the banks hold so many entries."""
    done = pkb(scratch / "home", "ingest", *map(str, folders))
    assert done.returncode in (0, 3), done.stderr
    state = Desk(loaded(scratch, model), scratch / "desk", prompts()[0])
    with closing(state), Life(scratch / "home", {}) as life:
        for text in texts[:ASKED]:
            life.ask(text)
        operations = [*of_bank(sizes, rounds, scratch), *of_home(life, texts), *of_model(state)]
        rows = timed(operations, rounds)
        life.runner(("summarize",))
        return [*rows, *of_items(life, state, scratch)]


def of_bank(sizes: Sequence[int], rounds: int, scratch: Path) -> Iterator[Operation]:
    """Yield the operations on the bank of answers: random vectors around centres, in banks of some sizes."""
    chance = np.random.default_rng(2026)
    centres = bank.unit(chance.standard_normal((bank.CENTRES, bank.WIDTH)))

    def around(count: int, spread: float) -> Vectors:
        far = bank.unit(chance.standard_normal((count, bank.WIDTH)))
        return bank.unit(centres[chance.integers(0, len(centres), count)] + spread * far)

    asked = around(rounds + 1, 0.3)
    for size in sizes:
        ledger, folder = bank.made(scratch / f"bank-{size}", around(size, 0.6))
        held = QuestionVectors(ledger, bank.EMBEDDER, bank.WIDTH)
        nearest = partial(lambda held, number: partial(bank.looked, held, asked[number]), held)
        yield Operation(f"look in the bank, nearest of {size:,}", nearest, "above 0.85; the vector is there")
    for name, each in (("look in the bank, exact of", bank.exact), ("enter an answer among", bank.keep)):
        ready = partial(lambda fact, number: fact(ledger, folder, number, asked[number]), each)
        yield Operation(f"{name} {sizes[-1]:,}", ready)


def of_home(life: Life, texts: Sequence[str]) -> Iterator[Operation]:
    """Yield the operations on a home's documents; each round has another question."""
    session, least = life.session, life.session.settings.ask.decline_below
    asked = [understand(text, NOW) for text in texts]
    vectors = session.embedder.embed(texts)
    found = [session.backend.retrieve(*pair, MANNER, Trace()) for pair in zip(asked, vectors, strict=True)]
    said = [write(*pair, Trace(), least).reply.text for pair in zip(asked, found, strict=True)]

    def embed(number: int) -> Deed:
        return partial(session.embedder.embed_question, texts[number % len(texts)])

    def retrieve(number: int) -> Deed:
        at = number % len(texts)
        return partial(session.backend.retrieve, asked[at], vectors[at], MANNER, Trace())

    def check(number: int) -> Deed:
        at = number % len(texts)
        one, chunks, reads = asked[at], found[at].chunks, found[at].passages
        return lambda: (why_different(one, one), why_not_entailed(one, one, reads, chunks, chunks, said[at], least))

    def foresee(_: int) -> Deed:
        return lambda: (life.foresee(FORESEEN), life.runner(("populate",)))

    yield Operation("embed a question", embed)
    yield Operation("guard and verification", check, "a question against itself: no part is left out")
    yield Operation(
        "retrieve", retrieve, f"5 sources of {session.ledger.count('chunks'):,} chunks; the vector is there"
    )
    yield Operation(
        "predict one question (quote writer)", foresee, f"by forms of questions; {FORESEEN} at a time", FORESEEN
    )


def of_model(state: Desk) -> Iterator[Operation]:
    """Yield the operations on a prompt and its tensors; the chunk is the second, behind the system segment and one."""
    model, store, context, paths = state.model, state.store, state.context, state.paths
    behind = sum(map(len, context[:2]))
    where = f"{len(context[2])} tokens behind {behind}"

    def match(_: int) -> Deed:
        return lambda: store.match(state.root, context).release()

    def warm(_: int) -> Deed:
        return partial(model.restore, paths[2:3])

    def cold(_: int) -> Deed:
        drop(paths[2:3])
        return warm(0)

    def compute(_: int) -> Deed:
        return partial(model.prefill, model.restore(paths[:2]), context[2])

    def decode(_: int) -> Deed:
        pieces = model.decode(model.restore(paths), state.question, TOKENS + 2)
        next(pieces)
        return lambda: list(islice(pieces, TOKENS))

    def keep(number: int) -> Deed:
        new, cache = root_of({"round": str(number)}), model.restore(paths[:3])
        return lambda: store.keep(new, None, context[2], 1.0, model.cut(cache, behind, behind + len(context[2])))

    yield Operation("match in the tree", match, f"{len(context)} segments, all there")
    yield Operation("load a chunk's tensors, warm", warm, where)
    yield Operation("load a chunk's tensors, from disk", cold, "the system has forgotten the file")
    yield Operation("compute a chunk's tensors", compute, where)
    yield Operation("decode one token", decode, f"behind {sum(map(len, state.segments))}, {TOKENS} in a row", TOKENS)
    yield Operation("keep a chunk's tensors", keep, "cut, written, read back")


def timed(operations: Sequence[Operation], rounds: int) -> list[Row]:
    """Time the operations by turns."""
    times: list[list[float]] = [[] for _ in operations]
    for number in range(rounds + 1):
        for place, operation in enumerate(operations):
            fact = operation.ready(number)
            afresh()
            began = perf_counter()
            fact()
            times[place].append(1e3 * (perf_counter() - began) / operation.times)
    return [row_of(operation, own[1:]) for operation, own in zip(operations, times, strict=True)]


def row_of(operation: Operation, ms: Sequence[float]) -> Row:
    """Sum up the rounds of an operation, at least two."""
    low, middle, high = quantiles(ms, n=4, method="inclusive")
    return Row(operation.name, round(middle, 4), round(low, 4), round(high, 4), note=operation.note)


def of_items(life: Life, state: Desk, scratch: Path) -> Iterator[Row]:
    """Weigh what is kept."""
    session, args = life.session, state.model.model.args
    entries, size = AnswerBank(session.ledger).size()
    yield Row("a bank entry", bytes=size // entries, note=f"mean of {entries:,}; its vector, twice, and five sources")
    width = session.embedder.width
    yield Row("a question's vector", bytes=4 * width, note=f"{width} numbers of 4 bytes")
    kept, ratio = state.paths[2].stat().st_size, args.num_attention_heads / args.num_key_value_heads
    tokens, dtype = len(state.context[2]), state.model.dtype.removeprefix("mlx.core.")
    yield Row("a chunk's tensors, K and V", bytes=kept, note=f"{tokens} tokens in {dtype}, as kept")
    more = round(kept * (1 + ratio / 2))
    yield Row("a chunk's tensors, Q, K and V", bytes=more, note="as the paper keeps them; reckoned")
    table = session.ledger.get("vectors") or ""
    for name, item in (("abstracts", "an abstract"), ("chunks", "a chunk"), (table, "a chunk's vector")):
        size, rows = weighed(session.tables, name, width, scratch / f"{item}.tables")
        note = f"mean of {rows:,} rows, indexes among it"
        yield Row(f"{item} in LanceDB", bytes=size // max(1, rows), note=note)


def weighed(tables: Tables, name: str, width: int, folder: Path) -> tuple[int, int]:
    """Return the bytes and rows of a table alone: written once more, for it holds former versions for a while."""
    columns, fresh = TABLES.get(name, VECTOR), Tables(folder)
    rows = [{key: row[key] for key in columns} for row in tables.select(name, "true", columns)]
    fresh.put(name, rows, 0 if name in TABLES else width)
    fresh.compact()
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()), len(rows)


def line(row: Row) -> str:
    """Return it in a line."""
    times = (row.median_ms, row.low_ms, row.high_ms)
    time = "".join(f"{'' if each is None else f'{each:.3f}':>11}" for each in times)
    return f"{row.operation:38}{time}{'' if row.bytes is None else f'{row.bytes:,}':>12}  {row.note}"


if __name__ == "__main__":
    main()
