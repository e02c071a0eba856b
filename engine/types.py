"""What was retrieved for a question, tied to the files it stands in. Knows retrieval and the catalogue, no writer."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from store.types import Chunk, Scope

if TYPE_CHECKING:
    from engine.text.question import Question
    from store.hits import Vectors
    from store.question_index import QuestionVectors


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
        """Return the contract's object."""
        return {name: value for name, value in asdict(self).items() if name not in ("own_lines", "copy")}


@dataclass(frozen=True, slots=True)
class Answer:
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
        """Return the contract's object."""
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


def freeze(reply: Answer) -> str:
    """Return what the bank keeps of a reply: what does not depend on when and how it is served."""
    kept = {name: value for name, value in asdict(reply).items() if name not in _OF_THE_SERVING}
    return json.dumps(kept)  # escaped: file names need not be text


def relocate(frozen: str, sources: Callable[[Sequence[str], int], Sequence[Source]]) -> str:
    """Return a kept reply with other sources; `sources` takes the quotes by rank, and the rank of the first source."""
    kept = json.loads(frozen)
    quotes, lead = [source["quote"] for source in kept["sources"] if not source["copy"]], kept.get("lead", 0)
    if quotes:
        quotes.insert(lead, quotes.pop(0))
    return json.dumps(kept | {"sources": [asdict(source) for source in sources(quotes, lead)]})


def thaw(frozen: str, question: str, ms: dict[str, float], age_s: float, *, stale: bool) -> Answer:
    """Return a kept reply as the answer to the same question asked now."""
    kept = json.loads(frozen)
    kept["sources"] = tuple(Source(**{**source, "lines": tuple(source["lines"])}) for source in kept["sources"])
    kept["highlight"] = tuple(kept["highlight"]) if kept["highlight"] else None
    return Answer(question=question, tier="exact", ms=ms, age_s=age_s, stale=stale, **kept)


def answer_of(frozen: str) -> str | None:
    """Return the answer alone of what is kept of a reply."""
    answer: str | None = json.loads(frozen)["answer"]
    return answer


def is_quote(frozen: str) -> bool:
    """Return whether what is kept of a reply was quoted, not written by a model."""
    return bool(json.loads(frozen)["writer"] == "quote")


@dataclass(slots=True)
class Step:
    """One step: its name, its milliseconds, and what it found, in words."""

    name: str
    ms: float = 0.0
    note: str = ""


@dataclass(slots=True)
class Trace:
    """The steps of one question so far, what the asker should be told, and the seconds that what was kept saved.

    `total` runs from its making. Where nobody `asked` but it is readied in case, nothing it uses counts as used, and
    nothing that is kept goes for it.
    """

    steps: list[Step] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    saved_s: float = 0.0
    asked: bool = True
    started: float = field(default_factory=time.perf_counter)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step; what it found is written into it."""
        step, began = Step(name), time.perf_counter()
        try:
            yield step
        finally:
            step.ms = (time.perf_counter() - began) * 1000
            self.steps.append(step)

    def ms(self) -> dict[str, float]:
        """Return the milliseconds of each step and of the whole."""
        found: dict[str, float] = {}
        for step in self.steps:
            found[step.name] = round(found.get(step.name, 0.0) + step.ms, 3)
        return found | {"total": round((time.perf_counter() - self.started) * 1000, 3)}

    def to_json(self) -> list[dict[str, Any]]:
        """Return the steps as plain values."""
        return [{**asdict(step), "ms": round(step.ms, 3)} for step in self.steps]


@dataclass(frozen=True, slots=True)
class Passage:
    """One source as it is read: its chunks, how well it fits, and where it stands, copies behind it."""

    chunks: tuple[Chunk, ...]  # neighbours, in order
    sender: str
    recipients: tuple[str, ...]
    date: datetime | None
    score: float
    sources: tuple[Source, ...]

    @property
    def header(self) -> str:
        """Return the line that says who, when and what."""
        return self.chunks[0].header

    @property
    def text(self) -> str:
        """Return the text of its chunks, a line end between them."""
        return "\n".join(chunk.text for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sources of one question, best first; `chunks` names all that an answer from them depends on."""

    reads: tuple[Passage, ...]
    chunks: tuple[str, ...]
    covered: float
    nearest: tuple[float, ...] = ()  # cosines of the chunks looked at, nearest first

    def sources(self, quotes: Sequence[str], lead: int = 0) -> tuple[Source, ...]:
        """Return all places, each with its quote (one a read): those of the read at index `lead`, then by rank."""
        pairs = list(zip(self.reads, quotes, strict=True))
        ordered = [*pairs[lead : lead + 1], *pairs[:lead], *pairs[lead + 1 :]]
        return tuple(replace(source, quote=quote) for read, quote in ordered for source in read.sources)


OnText = Callable[[str], None]  # is given more of an answer while it is written


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How to ask: within what, from how many sources, and whether the bank may answer and may learn."""

    scope: Scope = field(default_factory=Scope)
    k: int = 5
    read_bank: bool = True
    write_bank: bool = True
    stale_ok: bool = False


def _nothing() -> None:
    """Keep nothing."""


@dataclass(frozen=True, slots=True)
class GeneratedAnswer:
    """A reply as its writer gives it; `keep` does what the writer wants to do when nobody waits any more."""

    reply: Answer
    keep: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class AskResult:
    """A reply, how it came about, and the share of the knowledge bank that vectors cover (None where none was read).

    `keep` is to be called when the reply has been shown: it saves what was read, for the next question.
    """

    reply: Answer
    trace: Trace
    covered: float | None = None
    keep: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Backend:
    """By what means questions are answered.

    `embed` gives a question's unit vector (None without an embedder), `gather` retrieves its evidence, `write` makes a
    reply of that, `read` only reads it ahead, and `entails` has a model, where one writes, say in a word whether the
    evidence bears an answer. `questions` are the vectors of the bank. `writer` names all that the
    words of an answer depend on beside the evidence.
    """

    embed: "Callable[[str, Trace], Vectors | None]"
    gather: "Callable[[Question, Vectors | None, AskOptions, Trace], Evidence]"
    write: "Callable[[Question, Evidence, Trace, OnText | None], GeneratedAnswer]"
    read: "Callable[[Question, Evidence, Trace], None]"
    entails: "Callable[[Question, Evidence, str, Trace], bool]"
    questions: "Callable[[], QuestionVectors | None]"
    writer: str
