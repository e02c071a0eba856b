"""The cost of 25,000 cached questions: semantic lookup, adding one more, and an exact hit, against an empty cache.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.bank [ENTRIES]`. The vectors are random ones around a thousand
centres; the two banks take turns. "fresh" reads all vectors for each question, as a process of its own would.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from store.answers import AnswerBank, CachedAnswer
from store.database import Ledger, open_ledger
from store.hits import Vectors
from store.question_index import Near, QuestionVectors

WIDTH, CENTRES, ROUNDS = 384, 1000, 60
EMBEDDER, SCOPE, WRITER, BUDGET = "bench", "{}", "quote-1/5", 1 << 31
REPLY = "x" * 1500  # characters, as replies with five sources have


def main(entries: int) -> None:
    """Print medians."""
    chance = np.random.default_rng(2026)
    centres = unit(chance.standard_normal((CENTRES, WIDTH)))
    vectors = unit(centres[chance.integers(0, CENTRES, entries)] + 0.6 * unit(chance.standard_normal((entries, WIDTH))))
    with tempfile.TemporaryDirectory() as name:
        banks = {"none": made(Path(name, "none"), vectors[:0]), f"{entries:,}": made(Path(name, "many"), vectors)}
        questions = unit(
            vectors[chance.integers(0, entries, ROUNDS)] + 0.3 * unit(chance.standard_normal((ROUNDS, WIDTH)))
        )
        for title, fact in DEEDS.items():
            times: dict[str, list[float]] = {each: [] for each in banks}
            for number, question in enumerate(questions):
                for each, (ledger, folder) in banks.items():
                    times[each].append(seconds(fact(ledger, folder, number, question)))
            show(title, times)


Deed = Callable[[Ledger, Path, int, Vectors], Callable[[], object]]


def near(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Look for a near question as a process does that has read no vectors yet."""
    return lambda: looked(QuestionVectors(ledger, EMBEDDER, WIDTH), question)


def looked(held: QuestionVectors, question: Vectors, least: float = 0.85) -> list[Near]:
    """Look for a near question."""
    return held.near(question, scope=SCOPE, writer=WRITER, day=None, least=least)


HELD: dict[Path, QuestionVectors] = {}


def near_again(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Look for a near question as a process does that has looked before."""
    held = HELD.setdefault(folder, QuestionVectors(ledger, EMBEDDER, WIDTH))
    return lambda: looked(held, question)


def near_low(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Look for a near question far below the usual threshold."""
    held = HELD.setdefault(folder, QuestionVectors(ledger, EMBEDDER, WIDTH))
    return lambda: looked(held, question, 0.6)


def exact(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Find an answer by its key."""
    return lambda: AnswerBank(ledger).find(number.to_bytes(16, "big"))


def keep(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Keep one more question with its vector."""
    key, kept, vector = b"new" + number.to_bytes(13, "big"), entry(number), question.tobytes()
    return lambda: AnswerBank(ledger).put(key, kept, BUDGET, vector, 0.5, EMBEDDER)


def keep_full(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Keep one more question in a bank that is full."""
    key, kept, vector = b"full" + number.to_bytes(12, "big"), entry(number), question.tobytes()
    size = AnswerBank(ledger).size()[1]
    return lambda: AnswerBank(ledger).put(key, kept, max(size, 10_000), vector, 0.5, EMBEDDER)


def near_grown(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Look for a near question just after another one was kept."""
    keep(ledger, folder, 1000 + number, question)()
    return near_again(ledger, folder, number, question)


def meeting(ledger: Ledger, folder: Path, number: int, question: Vectors) -> Callable[[], object]:
    """Find the questions that a batch of 32 new chunks may be of interest to."""
    held = HELD.setdefault(folder, QuestionVectors(ledger, EMBEDDER, WIDTH))
    chunks = unit(np.random.default_rng(number).standard_normal((32, WIDTH)))
    return lambda: held.affected_by(chunks)


DEEDS: dict[str, Deed] = {
    "near, fresh": near,
    "near": near_again,
    "near, 0.60": near_low,
    "exact": exact,
    "keep": keep,
    "near, one more": near_grown,
    "keep in a full bank": keep_full,
    "32 new chunks": meeting,
}


def made(folder: Path, vectors: Vectors) -> tuple[Ledger, Path]:
    """Make a bank of so many questions."""
    folder.mkdir()
    ledger = open_ledger(folder / "ledger.db", create=True)
    for number, vector in enumerate(vectors):
        AnswerBank(ledger).put(number.to_bytes(16, "big"), entry(number), BUDGET, vector.tobytes(), 0.5, EMBEDDER)
    return ledger, folder


def entry(number: int) -> CachedAnswer:
    """Return an answer to keep."""
    return CachedAnswer(
        f"question {number}?", SCOPE, WRITER, None, REPLY, ("c" * 32,) * 5, 1, "full", float(number), 12.5
    )


def unit(rows: "np.ndarray[tuple[int, ...], np.dtype[np.float64]] | Vectors") -> Vectors:
    """Return rows of length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def seconds(fact: Callable[[], object]) -> float:
    """Time one deed."""
    began = perf_counter()
    fact()
    return perf_counter() - began


def show(title: str, times: dict[str, list[float]]) -> None:
    """Print a line: medians in milliseconds, their ranges, and what the larger bank costs more."""
    middle = {each: 1000 * median(values) for each, values in times.items()}
    parts = [
        f"{each}: {middle[each]:6.2f} ms ({1000 * min(v):.2f} to {1000 * max(v):.2f})" for each, v in times.items()
    ]
    none, many = middle.values()
    print(f"{title:<20} {'   '.join(parts)}   {many - none:+.2f} ms", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25_000)
