"""Time of each operation and size of each stored item on this machine: PerCache's Table 1, for pkb.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.operations --to FOLDER [--model 135M|nano] [--rounds N]`; it writes
FOLDER/operations.json. The operations take turns, the first round is dropped; times are medians and quartiles. The
weights of 135M are random, since speed does not depend on them.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from engine.ask.extract import QuoteSettings, write
from engine.ask.semantic import why_different, why_unlike
from engine.models import kv_cache
from engine.text.question import understand
from engine.types import AskOptions, Trace
from store.answers import AnswerBank, CachedAnswer
from store.database import open_ledger
from store.kv_files import root_of
from store.search import QuestionVectors
from store.types import Vectors
from tests.bench.corpus import DATA, users
from tests.bench.home import NOW, Home, ingest, opened
from tests.bench.kv_reuse import CachedPrompt, cached_prompt, drop, free_memory, loaded, prompt
from tests.bench.records import Operation, write_file

ROUNDS, SIZES, OPTIONS = 15, (100, 1_000, 25_000), AskOptions()
TOKENS, PREDICTED, ASKED = 8, 4, 40  # decoded and predicted at a time; questions whose cached answers are weighed
PROMPT = 610  # tokens before the question
WIDTH, CENTRES, BUDGET = 384, 1000, 1 << 31  # of random question vectors
EMBEDDER, SCOPE, WRITER = "bench", "{}", "quote-1/5"
REPLY = "x" * 1500  # characters, as replies with five sources have
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timed:
    """An operation: `ready` prepares a round and returns the work, which does it `times` times."""

    name: str
    ready: Callable[[int], Work]
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
    write_file(options.to / "operations.json", rows)
    print(f"{f'{options.model}, {options.rounds} rounds':38}{'median':>11}{'quartiles':>22}{'bytes':>12}")
    print("\n".join(map(line, rows)))


def measured(
    model: str, folders: Sequence[Path], texts: Sequence[str], scratch: Path, rounds: int, sizes: Sequence[int] = SIZES
) -> list[Operation]:
    """Measure everything: `texts` are asked about these documents; answer caches have so many entries."""
    ingest(scratch / "home", folders)
    with (
        cached_prompt(loaded(scratch, model), scratch / "prompt", prompt(PROMPT)) as cached,
        opened(scratch / "home", {}) as home,
    ):
        for text in texts[:ASKED]:
            home.ask(text)
        rows = timed([*of_bank(sizes, rounds, scratch), *of_home(home, texts), *of_model(cached)], rounds)
        return [*rows, *of_items(home, cached)]


def of_bank(sizes: Sequence[int], rounds: int, scratch: Path) -> Iterator[Timed]:
    """Yield the operations on answer caches of some sizes, with random question vectors around centres."""
    chance = np.random.default_rng(2026)
    centres = unit(chance.standard_normal((CENTRES, WIDTH)))

    def around(count: int, spread: float) -> Vectors:
        far = unit(chance.standard_normal((count, WIDTH)))
        return unit(centres[chance.integers(0, len(centres), count)] + spread * far)

    asked = around(rounds + 1, 0.3)
    for size in sizes:
        ledger = open_ledger(scratch / f"bank-{size}.db", create=True)
        bank, held = AnswerBank(ledger), QuestionVectors(ledger, EMBEDDER, WIDTH)
        for number, vector in enumerate(around(size, 0.6)):
            put(bank, number.to_bytes(16, "big"), vector)

        def nearest(number: int, held: QuestionVectors = held) -> Work:
            return lambda: held.near(asked[number], scope=SCOPE, writer=WRITER, day=None, least=0.85)

        yield Timed(f"look up the nearest of {size:,} answers", nearest, "above 0.85; the vector is there")

    def exact(number: int) -> Work:
        return partial(bank.find, number.to_bytes(16, "big"))

    def store(number: int) -> Work:
        return partial(put, bank, b"new" + number.to_bytes(13, "big"), asked[number])

    yield Timed(f"look up one of {size:,} answers", exact, "by its key")
    yield Timed(f"store an answer beside {size:,}", store)


def put(bank: AnswerBank, key: bytes, vector: Vectors) -> None:
    """Store an answer."""
    entry = CachedAnswer("question?", SCOPE, WRITER, None, REPLY, ("c" * 32,) * 5, 1, "full", 0.0, 12.5)
    bank.put(key, entry, BUDGET, vector.tobytes(), 0.5, EMBEDDER)


def unit(rows: "np.ndarray[tuple[int, ...], np.dtype[np.float64]] | Vectors") -> Vectors:
    """Return rows of length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def of_home(home: Home, texts: Sequence[str]) -> Iterator[Timed]:
    """Yield the operations on a home's documents; each round has another question."""
    session, least = home.session, home.session.settings.ask.decline_below
    asked = [understand(text, NOW) for text in texts]
    vectors = session.embedder.embed(texts)
    found = [session.backend.retrieve(*pair, OPTIONS, Trace()) for pair in zip(asked, vectors, strict=True)]
    said = [write(*pair, Trace(), least).text for pair in zip(asked, found, strict=True)]

    def embed(number: int) -> Work:
        return partial(session.embedder.embed_question, texts[number % len(texts)])

    def retrieve(number: int) -> Work:
        at = number % len(texts)
        return partial(session.backend.retrieve, asked[at], vectors[at], OPTIONS, Trace())

    def check(number: int) -> Work:
        at = number % len(texts)
        one, evidence, settings = asked[at], found[at], QuoteSettings(least=least)
        return lambda: (why_different(one, one), why_unlike(one, one, evidence, evidence, said[at], settings))

    def predict(_: int) -> Work:
        return lambda: (home.predict(PREDICTED), home.idle(("populate",)))

    yield Timed("embed a question", embed)
    yield Timed("guard and verification", check, "a question against itself: no part is left out")
    yield Timed("retrieve", retrieve, f"5 sources of {session.ledger.count('chunks'):,} chunks; the vector is there")
    yield Timed(
        "predict one question (quote writer)", predict, f"by forms of questions; {PREDICTED} at a time", PREDICTED
    )


def of_model(cached: CachedPrompt) -> Iterator[Timed]:
    """Yield the operations on a prompt and its KV; the chunk is the second, behind the system segment and another."""
    model, store, context, paths = cached.model, cached.store, cached.context, cached.paths
    behind = sum(map(len, context[:2]))
    where = f"{len(context[2])} tokens behind {behind}"

    def load(_: int) -> Work:
        return partial(model.restore, paths[2:3])

    def load_cold(_: int) -> Work:
        drop(paths[2:3])
        return load(0)

    def compute(_: int) -> Work:
        return partial(model.prefill, model.restore(paths[:2]), context[2])

    def decode(_: int) -> Work:
        pieces = model.decode(model.restore(paths), cached.segments[-1], TOKENS + 2)
        next(pieces)
        return lambda: list(islice(pieces, TOKENS))

    def keep(number: int) -> Work:
        new, cache = root_of({"round": str(number)}), model.restore(paths[:3])
        return lambda: store.keep(new, None, context[2], 1.0, kv_cache.cut(cache, behind, behind + len(context[2])))

    matched = f"{len(context)} segments, all there"
    yield Timed("match a prompt in the KV tree", lambda _: lambda: store.match(cached.root, context), matched)
    yield Timed("load a chunk's KV, warm", load, where)
    yield Timed("load a chunk's KV, from disk", load_cold, "not in the system's file cache")
    yield Timed("compute a chunk's KV", compute, where)
    yield Timed("decode one token", decode, f"behind {sum(map(len, cached.segments))}, {TOKENS} in a row", TOKENS)
    yield Timed("store a chunk's KV", keep, "cut, written, read back")


def timed(operations: Sequence[Timed], rounds: int) -> list[Operation]:
    """Time the operations by turns, in at least two rounds."""
    times: list[list[float]] = [[] for _ in operations]
    for number in range(rounds + 1):
        for place, operation in enumerate(operations):
            work = operation.ready(number)
            free_memory()
            began = perf_counter()
            work()
            times[place].append(1e3 * (perf_counter() - began) / operation.times)
    return [summed(operation, own[1:]) for operation, own in zip(operations, times, strict=True)]


def summed(operation: Timed, ms: Sequence[float]) -> Operation:
    """Sum up the rounds of an operation."""
    low, middle, high = quantiles(ms, n=4, method="inclusive")
    return Operation(operation.name, round(middle, 4), round(low, 4), round(high, 4), note=operation.note)


def of_items(home: Home, cached: CachedPrompt) -> Iterator[Operation]:
    """Yield the bytes of stored items."""
    session, args = home.session, cached.model.model.args
    entries, size = AnswerBank(session.ledger).size()
    yield Operation(
        "a cached answer", bytes=size // entries, note=f"mean of {entries:,}; vector and five sources included"
    )
    width = session.embedder.width
    yield Operation("a question's vector", bytes=4 * width, note=f"{width} numbers of 4 bytes")
    kept, ratio = cached.paths[2].stat().st_size, args.num_attention_heads / args.num_key_value_heads
    tokens, dtype = len(cached.context[2]), cached.model.dtype.removeprefix("mlx.core.")
    yield Operation("a chunk's tensors, K and V", bytes=kept, note=f"{tokens} tokens in {dtype}, as stored")
    more = round(kept * (1 + ratio / 2))
    yield Operation("a chunk's tensors, Q, K and V", bytes=more, note="as the paper stores them; computed")


def line(row: Operation) -> str:
    """Return an operation as a line of text."""
    times = (row.median_ms, row.low_ms, row.high_ms)
    time = "".join(f"{'' if each is None else f'{each:.3f}':>11}" for each in times)
    return f"{row.name:38}{time}{'' if row.bytes is None else f'{row.bytes:,}':>12}  {row.note}"


if __name__ == "__main__":
    main()
