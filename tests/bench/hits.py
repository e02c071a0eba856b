"""Semantic hits and false hits on paraphrases and near twins, by threshold and by rule.

Run `python -m tests.bench.hits DATA [--sets NAME...] [--vectors FOLDER]` with OPENBLAS_NUM_THREADS=1, where DATA holds
sets of users: questions.jsonl beside docs/ or mail/. First of each pair is asked, then the second: a hit is wrong where
it rests on a question that shares no gold answer. Banks are in memory; chunk vectors are kept in FOLDER between runs.
"""

import json
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from engine.ask import paraphrase, semantic
from engine.ask.extract import Quote, QuoteSettings, quote
from engine.ask.keys import normalise
from engine.ask.paraphrase import why_different
from engine.ask.semantic import why_not_entailed
from engine.models.minilm import MiniLM
from engine.retrieval.retrieve import RetrievalLimits, retrieve
from engine.text.question import Question, understand
from engine.types import Passage
from store.hits import Vectors
from store.types import Scope
from tests.bench.metrics import terms
from tests.bench.retrieval import User, load

SETS = ("paraphrase", "locomo", "qmsum", "clinton-foia")
NOW = datetime(2024, 5, 15, tzinfo=UTC)
LEAST, K, NEAREST, NEAR = 0.5, 5, 8, 0.6
TAUS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
ALL = frozenset((*paraphrase.PARTS, *semantic.PARTS))
Terms = frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Case:
    """One question, what was read for it, and what the quote writer says."""

    row: dict[str, Any]
    golds: Terms
    question: Question
    vector: Vectors
    passages: tuple[Passage, ...]
    chunks: tuple[str, ...]
    said: Quote


Pair = tuple[Case, Case]


def main() -> None:
    """Print hits by tau with everything on, then with each part off, and everything off."""
    options = arguments()
    embedder = MiniLM(workers=1)
    pairs: dict[str, list[list[Pair]]] = {}
    for name in options.sets:
        files = sorted((options.data / name).rglob("questions.jsonl"))
        pairs[name] = [paired(cases(load(file, embedder, options.vectors), rows(file), embedder)) for file in files]
    print(f"{'':24}" + "".join(f"{name:>26}" for name in pairs))
    for tau in TAUS:
        show(f"tau {tau:.2f}", pairs, tau, frozenset())
    for part in (*paraphrase.PARTS, *semantic.PARTS):
        show(f"without {part}", pairs, options.tau, frozenset((part,)))
    show("without all of guard", pairs, options.tau, frozenset(paraphrase.PARTS))
    show("without verification", pairs, options.tau, frozenset(semantic.PARTS))
    for tau in TAUS:
        show(f"cosine alone, tau {tau:.2f}", pairs, tau, ALL)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--tau", type=float, default=0.85)
    parser.add_argument("--vectors", type=Path)
    return parser.parse_args()


def rows(file: Path) -> list[dict[str, Any]]:
    """Read questions; left out is what has no meaning without the document in view, and what an audit found wrong."""
    found = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line.strip()]
    return [row for row in found if row.get("standalone", True) and "gold_error" not in row]


def cases(user: User, asked: Sequence[dict[str, Any]], embedder: MiniLM) -> Iterator[Case]:
    """Ask every question of a user as if nothing were kept."""
    texts = [" ".join(row["question"].split()) for row in asked]
    for row, text, vector in zip(asked, texts, embedder.embed(texts), strict=True):
        question = understand(text, NOW)
        found = retrieve(user.bank, vector, question, Scope(), K, RetrievalLimits())
        passages = found.passages
        chunks = tuple(chunk.id for passage in passages for chunk in passage.chunks)
        given = (row["answer"], *row.get("answers", ()), *row.get("aliases", ()))
        golds = frozenset(terms(gold) for gold in given) - {()}
        yield Case(
            row, golds, question, vector, passages, chunks, quote(question, passages, QuoteSettings(least=LEAST))
        )


def paired(asked: Iterator[Case]) -> list[Pair]:
    """Return the paraphrases; in a set without, near twins with another gold, the nearest first, each question once."""
    known = list(asked)
    by_id = {case.row["id"]: case for case in known}
    same = [(by_id[of], case) for case in known if (of := case.row.get("paraphrase_of")) in by_id]
    return same or list(_twins(known))


def _twins(known: Sequence[Case]) -> Iterator[Pair]:
    bags = [(case, set(terms(case.question.text))) for case in known]
    near = [(len(x & y) / len(x | y), a, b) for a, x in bags if not a.row.get("unanswerable") for b, y in bags if x & y]
    taken = set[str]()
    for share, a, b in sorted(near, key=lambda one: -one[0]):
        other = normalise(a.question.text) != normalise(b.question.text) and not a.golds & b.golds
        if share >= NEAR and other and taken.isdisjoint((a.row["id"], b.row["id"])):
            taken |= {a.row["id"], b.row["id"]}
            yield a, b


def show(label: str, pairs: dict[str, list[list[Pair]]], tau: float, off: frozenset[str]) -> None:
    """Print the share of second questions that hit rightly, and the count of those that hit wrongly."""
    cells = ""
    for users in pairs.values():
        found = Counter(end for writer_key in users for end in ends(writer_key, tau, off))
        cells += f"{found['right'] / max(1, found.total()):10.3f} ({found['wrong']:3} of {found.total():3})"
    print(f"{label:24}{cells}", flush=True)


def ends(pairs: Sequence[Pair], tau: float, off: frozenset[str]) -> Iterator[str]:
    """Ask the first of each pair, then the second of each, and judge the latter."""
    bank = list[Case]()
    for first, _ in pairs:
        if shared(first, bank, tau, off) is None:
            bank.append(first)
    for _, second in pairs:
        found = shared(second, bank, tau, off)
        yield "miss" if found is None else "right" if found.golds & second.golds else "wrong"
        if found is None:
            bank.append(second)


def shared(asked: Case, bank: Sequence[Case], tau: float, off: frozenset[str]) -> Case | None:
    """Return the nearest kept question whose answer may be lent."""
    if not bank:
        return None
    near = np.array([case.vector for case in bank]) @ asked.vector
    for place in map(int, np.argsort(-near, kind="stable")[:NEAREST]):
        if near[place] >= tau and bank[place].said.answer is not None and fits(asked, bank[place], off):
            return bank[place]
    return None


def fits(asked: Case, kept: Case, off: frozenset[str]) -> bool:
    """Return whether words and evidence agree."""
    if why_different(asked.question, kept.question, off) is not None:
        return False
    told = (asked.passages, asked.chunks, kept.chunks, kept.said.answer)
    return why_not_entailed(asked.question, kept.question, *told, LEAST, off) is None


if __name__ == "__main__":
    main()
