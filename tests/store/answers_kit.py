"""Shared by tests of the question index: unit vectors, entries, and a search without `QuestionVectors`."""

import numpy as np

from store.answers import AnswerBank, CachedAnswer, State
from store.database import Ledger
from store.search import QuestionVectors
from store.types import Vectors

WIDTH, EMBEDDER, BUDGET, LEAST = 8, "embedder-1", 1 << 20, 0.85


def direction(seed: int, turn: float = 0.0) -> Vectors:
    """Return a unit row; `turn` leads away from it, and 0.5 to a cosine of about 0.9."""
    base, other = np.random.default_rng(seed).standard_normal((2, WIDTH))
    row = base / np.linalg.norm(base) + turn * other / np.linalg.norm(other)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def entry(
    name: str, state: State = "answered", scope: str = "{}", writer: str = "w", day: str | None = None
) -> CachedAnswer:
    """Return an entry whose question is its name."""
    reply = f"answer to {name}" if state == "answered" else ""
    return CachedAnswer(name, scope, writer, day, reply, (), 1, "full", 1.0, 1.0, state)


def keep(
    ledger: Ledger, name: str, vector: Vectors, state: State = "answered", embedder: str = EMBEDDER, floor: float = 0.5
) -> None:
    """Store an entry under its name."""
    AnswerBank(ledger).put(name.encode(), entry(name, state), BUDGET, vector.tobytes(), floor, embedder)


def vectors(ledger: Ledger) -> QuestionVectors:
    """Return the vectors as another process would see them."""
    return QuestionVectors(ledger, EMBEDDER, WIDTH)


def names(found: QuestionVectors, vector: Vectors, least: float = LEAST, most: int = 8) -> list[str]:
    """Return the names of near entries."""
    return [one.answer.question for one in found.near(vector, scope="{}", writer="w", day=None, least=least, most=most)]


def by_hand(ledger: Ledger, vector: Vectors, least: float = LEAST) -> list[str]:
    """Return the names that SQLite's own vectors give, the nearest first."""
    sql = """SELECT question, vector FROM question_vectors JOIN answers USING (key) WHERE state = 'answered'
             AND scope = '{}' AND writer = 'w' AND day IS NULL"""
    found = [(float(np.frombuffer(row, np.float32) @ vector), name) for name, row in ledger.rows.execute(sql)]
    return [name for cosine, name in sorted(found, key=lambda one: (-one[0], one[1])) if cosine >= least]
