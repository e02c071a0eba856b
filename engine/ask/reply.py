"""A reply as every caller sees it, and its JSON: one schema, all keys always there, in one order. Light to import."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

SCHEMA = 1
Tier = Literal["exact", "semantic", "prefix", "blocks", "full"]
Writer = Literal["model", "quote"]
_OF_THE_SERVING = ("question", "tier", "ms", "age_s", "stale", "tokens")
STAGES = ("embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total")


@dataclass(frozen=True, slots=True)
class Source:
    """One passage that was read for an answer; `lines` are 1-based, inclusive, of the file or of `pkb show`'s text."""

    path: str
    message_id: str | None
    title: str
    date: str | None  # ISO
    lines: tuple[int, int]
    score: float
    quote: str
    own_lines: bool = True  # the lines are the file's
    copy: bool = False  # of the source before it, in another place

    def to_json(self) -> dict[str, Any]:
        """Give the contract's object."""
        return {name: value for name, value in asdict(self).items() if name not in ("own_lines", "copy")}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, or the finding that there is none, with the sources: the one it rests on first, the others by rank."""

    question: str
    answer: str | None
    tier: Tier
    writer: Writer
    model: str | None
    sources: tuple[Source, ...]
    ms: dict[str, float]
    highlight: tuple[int, int] | None = None  # where in the answer the asked-for date, name or number stands
    matched_question: str | None = None
    similarity: float | None = None
    age_s: float | None = None
    stale: bool = False
    tokens: dict[str, int] | None = None
    lead: int = 0  # the rank, from 0, of the first source

    def to_json(self) -> dict[str, Any]:
        """Give the contract's object."""
        return {
            "schema": SCHEMA,
            "question": self.question,
            "answer": self.answer,
            "answered": self.answer is not None,
            "tier": self.tier,
            "writer": self.writer,
            "model": self.model,
            "matched_question": self.matched_question,
            "similarity": self.similarity,
            "age_s": self.age_s,
            "stale": self.stale,
            "sources": [source.to_json() for source in self.sources],
            "tokens": self.tokens,
            "ms": {stage: self.ms.get(stage) for stage in STAGES},
        }


def freeze(reply: Reply) -> str:
    """Give what the bank keeps of a reply: what does not depend on when and how it is served."""
    kept = {name: value for name, value in asdict(reply).items() if name not in _OF_THE_SERVING}
    return json.dumps(kept)  # escaped: file names need not be text


def relocate(frozen: str, sources: Callable[[Sequence[str], int], Sequence[Source]]) -> str:
    """Return a kept reply with other sources; `sources` takes the quotes by rank, and the rank of the first source."""
    kept = json.loads(frozen)
    quotes, lead = [source["quote"] for source in kept["sources"] if not source["copy"]], kept.get("lead", 0)
    if quotes:
        quotes.insert(lead, quotes.pop(0))
    return json.dumps(kept | {"sources": [asdict(source) for source in sources(quotes, lead)]})


def thaw(frozen: str, question: str, ms: dict[str, float], age_s: float, *, stale: bool) -> Reply:
    """Give a kept reply as the answer to the same question asked now."""
    kept = json.loads(frozen)
    kept["sources"] = tuple(Source(**{**source, "lines": tuple(source["lines"])}) for source in kept["sources"])
    kept["highlight"] = tuple(kept["highlight"]) if kept["highlight"] else None
    return Reply(question=question, tier="exact", ms=ms, age_s=age_s, stale=stale, **kept)


def answer_of(frozen: str) -> str | None:
    """Give the answer alone of what is kept of a reply."""
    answer: str | None = json.loads(frozen)["answer"]
    return answer


def is_quote(frozen: str) -> bool:
    """Tell whether what is kept of a reply was quoted, not written by a model."""
    return bool(json.loads(frozen)["writer"] == "quote")
