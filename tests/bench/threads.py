"""What whole threads are worth: gold among what a model is shown, and what reading that costs, with and without reuse.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.threads DATA [--sets NAME...] [--vectors FOLDER]`, where DATA holds
sets of users as for tests.bench.retrieval. Each user asks every question once, in the order of the file, and all that
is read is kept. Tokens are taken for four bytes; nothing is computed.
"""

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from engine.ask.prompt import Shown, chunk_segment, in_document_order, system_segment
from engine.ask.question import understand
from engine.ask.retrieve import Retrieval, retrieve
from engine.ask.whole import Whole, bring, widened
from engine.ingest.files import read
from engine.ingest.limits import Limits
from engine.models.minilm import MiniLM
from store.hits import Vectors
from store.ledger import open_ledger
from store.records import Chunk, Document, Scope
from store.threads import thread_of
from tests.bench.retrieval import User, load

SETS = ("locomo", "qmsum", "enron-annotated")
LIMIT = 600  # the default of ask.whole_tokens
WAYS = (
    (2, Whole()),
    (3, Whole()),
    (5, Whole()),
    (8, Whole()),
    (15, Whole()),
    (2, Whole("neighbours", LIMIT)),
    (5, Whole("neighbours", LIMIT)),
    (2, Whole("thread", LIMIT)),
    (5, Whole("thread", LIMIT)),
    (5, Whole("thread", 2 * LIMIT)),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: whether gold was shown, the chunks of its prompt in order, and the tokens of it."""

    found: bool
    tokens: int
    computed: int
    chunks: int


def main() -> None:
    """Print a table for each set."""
    options = arguments()
    embedder = MiniLM(workers=1)
    embed = cache(embedder.embed_question)
    for name in options.sets:
        files = sorted((options.data / name).rglob("questions.jsonl"))
        users = [(with_threads(load(file, embedder, options.vectors), file)) for file in files]
        print(f"{name}: {len(users)} users")
        for k, whole in WAYS:
            rows = [row for user in users for row in asked(user, k, whole, embed)]
            show(f"k {k}, {whole.how}" + (f" of {whole.tokens}" if whole.tokens else ""), rows)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--vectors", type=Path)
    return parser.parse_args()


def with_threads(user: User, file: Path) -> User:
    """Tell a user's bank which documents belong together, as ingest finds it."""
    paths = [path for name in ("docs", "mail") for path in (file.parent / name).rglob("*") if path.is_file()]
    readings = (reading.document for path in sorted(paths) for reading in read(path, None, Limits()))
    documents = {one.id: one for one in readings if one is not None}
    user.bank.threads = dict(_threads(sorted(documents.values(), key=_date)))
    return user


def asked(user: User, k: int, whole: Whole, embed: Callable[[str], Vectors]) -> Iterator[Asked]:
    """Ask a user's questions in turn."""
    kept = set[tuple[str, ...]]()
    system = size(system_segment())
    for row in user.questions:
        question = understand(row["question"], datetime.now(UTC))
        found = retrieve(user.bank, embed(question.text), question, Scope(), k, Retrieval())
        brought = bring(user.bank, whole, found.sources, Scope()) if whole.how != "none" else {}
        sources, hits = widened(found.sources, brought), found.hits | brought
        shown = [Shown(c, rank, hits[c.id].date) for rank, source in enumerate(sources) for c in source.chunks]
        ids = tuple(one.chunk.id for one in in_document_order(shown))
        sizes = [size(chunk_segment(99, one.chunk)) for one in in_document_order(shown)]
        there = next((n for n in range(len(ids)) if ids[: n + 1] not in kept), len(ids))
        kept |= {ids[: n + 1] for n in range(len(ids))}
        gold = holds(user, row, [one.chunk for one in shown])
        if gold is not None:
            yield Asked(gold, system + sum(sizes), sum(sizes[there:]), len(ids))


def holds(user: User, row: dict[str, Any], chunks: Sequence[Chunk]) -> bool | None:
    """Tell whether chunks hold a gold line, or where no lines are known the answer's text; None where neither is."""
    if spans := [(gold["doc_id"], *gold["lines"]) for gold in row.get("evidence", ())]:
        placed = [(path, c.first, c.last) for c in chunks for path in user.paths[c.document]]
        return any(path == doc and a <= last and z >= first for doc, a, z in spans for path, first, last in placed)
    if row["source"].startswith("semantic-systems"):
        right = [c for c in chunks if set(user.paths[c.document]) & set(row["doc_ids"])]
        return any(flat(row["answer"]) in flat(f"{c.header}\n{c.text}") for c in right)
    return None


def flat(text: str) -> str:
    """Give a text without its line ends and cases."""
    return " ".join(text.casefold().split())


def size(text: str) -> int:
    """Give the tokens of a text, four bytes each."""
    return len(text.encode()) // 4


def show(label: str, rows: Sequence[Asked]) -> None:
    """Print the means of one way."""
    tokens, computed = fmean(row.tokens for row in rows), fmean(row.computed for row in rows)
    print(
        f"  {label:24} n={len(rows):4}  gold shown {fmean(row.found for row in rows):.3f}  "
        f"chunks {fmean(row.chunks for row in rows):5.1f}  tokens {tokens:6.0f}, computed with reuse {computed:6.0f}",
        flush=True,
    )


def _threads(documents: Sequence[Document]) -> Iterator[tuple[str, list[str]]]:
    with tempfile.TemporaryDirectory() as folder:
        ledger = open_ledger(Path(folder) / "ledger.db", create=True)
        with ledger.transaction():
            for one in documents:
                thread = thread_of(ledger, one)
                row = (one.id, one.date.isoformat() if one.date else None, thread)
                ledger.rows.execute(
                    "INSERT OR IGNORE INTO documents (id, date, thread, chunks) VALUES (?, ?, ?, 0)", row
                )
        threads = dict[str, list[str]]()
        for document, thread in ledger.rows.execute("SELECT id, thread FROM documents ORDER BY date, id"):
            threads.setdefault(thread, []).append(document)
        ledger.close()
    yield from ((document, thread) for thread in threads.values() for document in thread)


def _date(document: Document) -> float:
    return document.date.timestamp() if document.date else 0.0


if __name__ == "__main__":
    main()
