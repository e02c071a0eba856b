"""How many chunks of a prompt were read before at their place, by the order of the chunks, over users' own questions.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.order DATA [--sets NAME...] [--vectors FOLDER]`, where DATA holds sets
of users as for tests.bench.retrieval. Each user asks every question of the file, those without an answer too, in its
order; all that is read is kept. Nothing is computed: what is kept is counted by keys, as pkb does it.
"""

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from engine.ask.prompt import Shown, in_document_order
from engine.ask.question import understand
from engine.ask.retrieve import Retrieval, retrieve
from engine.ask.segments import chunk_ids, system_ids
from engine.models.minilm import MiniLM
from engine.models.protocols import Embedder, Frame
from store.hits import Hit, Vectors
from store.kv_match import path_keys
from store.kv_tree import Key, root_of
from store.records import Scope
from tests.bench.orders import along_what_is_kept, by_relevance
from tests.bench.retrieval import User, load

KS = (2, 3, 5)
SETS = ("locomo", "qmsum")
PUBLISHED = {  # an earlier measurement of ours, BM25 alone, 12 of the users of qmsum
    "relevance": (0.34, 0.27, 0.19),
    "document": (0.38, 0.32, 0.25),
    "reuse": (0.41, 0.36, 0.30),
    "any place": (0.63, 0.70, 0.77),
}
ROOT = root_of({"model": "counted"})
IDLE_EVERY = 10  # questions, where the hottest chunks are read ahead
HOTTEST = 50  # chunks read ahead at most, each time
Embed = Callable[[str], Vectors]
Put = Callable[[Sequence[Shown]], list[Shown]]


@dataclass(slots=True)
class Texts:
    """A model whose every segment is one token."""

    name: str = "texts"
    context: int = 1 << 30
    frame: Frame = field(default_factory=Frame)
    known: dict[str, int] = field(default_factory=dict)

    def tokens(self, text: str) -> list[int]:
        """Give the number of a text."""
        return [self.known.setdefault(text, len(self.known))]


@dataclass(slots=True)
class Kept:
    """What was read by one user, and how much of it came back."""

    model: Any = field(default_factory=Texts)
    nodes: dict[Key, int] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)
    reused: int = 0
    anywhere: int = 0
    slots: int = 0

    def read(self, ordered: Sequence[Shown]) -> None:
        """Read a prompt: count what of it is there, and keep the rest."""
        keys = self._keys(ordered)
        self.slots += len(keys)
        self.reused += next((place for place, key in enumerate(keys) if key not in self.nodes), len(keys))
        self.anywhere += sum(one.chunk.id in self.seen for one in ordered)
        self.seen.update(one.chunk.id for one in ordered)
        for key in keys:
            self.nodes[key] = self.nodes.get(key, 0) + 1

    def ahead(self, chunks: dict[str, Shown]) -> None:
        """Read the chunks that were retrieved most often behind the system segment."""
        for name, _ in self.seen.most_common(HOTTEST):
            self.nodes.setdefault(self._keys([chunks[name]])[0], 0)

    def order(self, shown: Sequence[Shown]) -> list[Shown]:
        """Follow what is kept."""
        return along_what_is_kept(self.model, ROOT, self.nodes.get, shown)

    def _keys(self, ordered: Sequence[Shown]) -> list[Key]:
        ids = [chunk_ids(self.model, number, one.chunk) for number, one in enumerate(ordered, 1)]
        return path_keys(ROOT, [system_ids(self.model), *ids])[2:]


def main() -> None:
    """Print the table."""
    options = arguments()
    embedder = MiniLM(workers=1)
    embed = cache(embedder.embed_question)
    files = [file for name in options.sets for file in sorted((options.data / name).rglob("questions.jsonl"))]
    users = [everything(file, embedder, options.vectors) for file in files]
    print(f"{len(users)} users, {sum(len(user.questions) for user in users)} questions; share of chunks at k = {KS}")
    found = {how: [shares(users, k, how, embed) for k in KS] for how in ("bm25", "pkb")}
    for name in found["bm25"][0]:
        published = " ".join(f"{share:.2f}" for share in PUBLISHED.get(name, ())) or "-"
        ours = ["   ".join(f"{row[name]:.3f}" for row in rows) for rows in found.values()]
        print(f"{name:22} published {published:16} bm25 {ours[0]:24} pkb's sources {ours[1]}", flush=True)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--vectors", type=Path)
    return parser.parse_args()


def everything(file: Path, embedder: Embedder, vectors: Path | None) -> User:
    """Read one user's documents and all questions."""
    rows = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]
    return replace(load(file, embedder, vectors), questions=tuple(rows))


def shares(users: Sequence[User], k: int, how: str, embed: Embed) -> dict[str, float]:
    """Give the share of chunks that were there, by order, over all users."""
    names = ("relevance", "document", "document, read ahead", "reuse", "reuse, read ahead")
    kept: dict[str, list[Kept]] = {name: [] for name in names}
    for user in users:
        sets = list(by_pkb(user, k, embed) if how == "pkb" else by_words(user, k))
        for name in names:
            kept[name].append(replay(sets, name))
    found = {name: sum(one.reused for one in ones) / sum(one.slots for one in ones) for name, ones in kept.items()}
    ones = kept["document"]
    return found | {"any place": sum(one.anywhere for one in ones) / sum(one.slots for one in ones)}


def replay(sets: Sequence[list[Shown]], name: str) -> Kept:
    """Ask a user's questions in turn."""
    kept, chunks = Kept(), dict[str, Shown]()
    orders: dict[str, Put] = {"relevance": by_relevance, "document": in_document_order, "reuse": kept.order}
    order, _, ahead = name.partition(", ")
    for number, shown in enumerate(sets, 1):
        chunks |= {one.chunk.id: one for one in shown}
        kept.read(orders[order](shown))
        if ahead and number % IDLE_EVERY == 0:
            kept.ahead(chunks)
    return kept


def by_words(user: User, k: int) -> Iterator[list[Shown]]:
    """Retrieve by BM25 alone, as the published figures were: k chunks."""
    for row in user.questions:
        words = understand(row["question"], datetime.now(UTC)).words
        yield [_shown(hit, rank) for rank, hit in enumerate(user.bank.by_words(words, Scope(), k))]


def by_pkb(user: User, k: int, embed: Embed) -> Iterator[list[Shown]]:
    """Retrieve as pkb does: k sources, of one chunk or more."""
    for row in user.questions:
        question = understand(row["question"], datetime.now(UTC))
        found = retrieve(user.bank, embed(question.text), question, Scope(), k, Retrieval())
        sources = [(rank, chunk) for rank, source in enumerate(found.sources) for chunk in source.chunks]
        yield [_shown(found.hits[chunk.id], rank) for rank, chunk in sources]


def _shown(hit: Hit, rank: int) -> Shown:
    return Shown(hit.chunk, rank, hit.date)


if __name__ == "__main__":
    main()
