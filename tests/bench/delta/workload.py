"""Requests to several adapters: the real prompts of users' questions, an adapter for each, and when its client leaves.

Prompts are those of pkb's own retrieval, as SmolLM2's tokens. Which adapter a question goes to is drawn (a few adapters
get most, Pareto) or given by its user, as where each collection has an adapter of its own. Knows no cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

from engine.llm.prompt import PromptChunk, chunk_segment, in_document_order
from engine.models.types import open_tokenizer
from engine.retrieval.retrieve import RankWeights, join, retrieve
from engine.text.question import understand
from prompts import prompt
from store.types import Scope
from tests.bench.indexed import IndexedUser, load
from tests.bench.quoting import NOW

Ids = tuple[int, ...]
SITTING = 6  # questions of a client, on average, before it leaves and another comes
PAUSE_S, AWAY_S = 60.0, 3 * 3600.0  # between two questions of a sitting, and between two sittings
PARETO = 1.16  # the exponent of "a fifth of the adapters gets four fifths"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the segments before its question, its adapter, its client, and when it comes (seconds)."""

    segments: tuple[Ids, ...]
    adapter: int
    client: int
    at: float
    last: bool = False  # of its client, which then leaves


def prompts(data: Path, corpus: str, tokenizer: Path, sources: int) -> list[list[tuple[Ids, ...]]]:
    """Return the prompts of each user's questions in order, without the last segment."""
    text = open_tokenizer(tokenizer)

    def ids(segment: str) -> Ids:
        return tuple(text.encode(segment, add_special_tokens=False).ids)

    return [[tuple(map(ids, prompt)) for prompt in _prompts(user, sources)] for user in load(data, corpus)]


def _prompts(user: IndexedUser, sources: int) -> Iterator[tuple[str, ...]]:
    for row in user.rows:
        question = understand(" ".join(row["question"].split()), NOW)
        found = join(retrieve(user.bank, None, question, Scope(), RankWeights()), sources)
        shown = [PromptChunk(chunk, rank, one.date) for rank, one in enumerate(found) for chunk in one.chunks]
        chunks = enumerate(in_document_order(shown), 1)
        yield prompt("answer") + "\n", *(chunk_segment(number, one.chunk) for number, one in chunks)


def requests(users: Sequence[Sequence[tuple[Ids, ...]]], adapters: int, *, by_user: bool, seed: int = 0) -> list[Asked]:
    """Return the questions of all users in sittings that take turns."""
    rng, now, found, client = Random(seed), 0.0, list[Asked](), 0
    shares = list(accumulate(1 / rank**PARETO for rank in range(1, adapters + 1)))
    left = [list(reversed(user)) for user in users]
    while any(left):
        number = rng.choice([number for number, user in enumerate(left) if user])
        count = min(len(left[number]), 1 + int(rng.expovariate(1 / SITTING)))
        for place in range(count):
            drawn = rng.choices(range(adapters), cum_weights=shares)[0]
            adapter = number % adapters if by_user else drawn
            found.append(Asked(left[number].pop(), adapter, client, now, place == count - 1))
            now += PAUSE_S * rng.expovariate(1)
        now, client = now + AWAY_S * rng.expovariate(1), client + 1
    return found
