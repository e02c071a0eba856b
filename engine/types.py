"""The values that the layers of the engine exchange: a question's options, evidence, answer and trace.

Light to import: an answer from the cache must not wait for numpy or LanceDB.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from enum import IntEnum
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, convert, field, to_builtins

from engine.text.terminal import in_json
from store.types import Chunk, Hit, Role, Scope, Vectors, replace

if TYPE_CHECKING:
    from engine.text.question import Question
    from engine.text.words import Span
    from store.search import QuestionVectors


json_values = to_builtins  # of a value, as `--json` shows it
SCHEMA = 4  # of every JSON object that a command prints; raised when a key changes its meaning or goes away
Tier = Literal["exact", "semantic", "prefix", "blocks", "full"]
Writer = Literal["model", "quote"]
Grade = Literal["answer", "closest"]  # how sure an answer is
LoopKind = Literal["task", "question"]
ItemKind = LoopKind | Literal["decision", "done", "mail", "date", "person", "answer"]
CheckState = Literal["ok", "note", "bad"]
FIRST_MAIL = "nobody wrote from this address before"  # what an answer says of a source that is new
STAGES = ("embed", "match", "retrieve", "load", "prefill", "first_token", "decode", "total")


def json_text(row: Any, *, ascii_alone: bool = True) -> str:
    """Return JSON of a value, or of rows that hold values, without control and bidirectional characters."""
    return in_json(json.dumps(row, ensure_ascii=ascii_alone, default=json_values))


class Trust(IntEnum):
    """How far a text counts where others say otherwise: by what is odd, quoted, of an address that is new, or known."""

    WARNED = 0
    QUOTED = 1
    NEW = 2
    KNOWN = 3


class Source(Struct, frozen=True):
    """One place of a passage; `lines` are 1-based, inclusive, of the file or of the text that `pkb show` prints."""

    path: str
    message_id: str | None
    title: str
    date: str | None  # ISO
    lines: tuple[int, int]
    score: float
    quote: str
    own_lines: bool = True  # the lines are the file's
    copy: bool = False  # of the source before it, in another place
    written: str | None = None  # ISO; when the quoted or forwarded message with `quote` was written
    sender: str = ""  # with address; empty for a meeting
    recipients: tuple[str, ...] = ()  # or who took part
    role: Role = "body"  # of the part of the document with `quote`
    author: str = ""  # of that part, where it is quoted or forwarded, as it says itself
    place: str = ""  # of that part, where it is from a file of an office program or an attached one: "a.pdf, page 3"
    speaker: str | None = None  # in a transcript, of what `quote` begins with
    at: str = ""  # when that is said in a recording: "4:07", "1:02:30"
    date_claimed: str | None = None  # ISO; `date` is not later than `first_seen`
    first_seen: str | None = None  # ISO
    warnings: tuple[str, ...] = ()  # why the sender or the date may not be what it says
    span: tuple[int, int] | None = None  # of the answer in `quote`, for the source that supports it
    rival: bool = False  # another sender says something else, here or in another source


class Correction(Struct, frozen=True):
    """What the earlier answer to a question was: since changed by a message, or wrong, as it was another question's."""

    kind: Literal["changed", "wrong"]
    before: str | None  # None: there was no answer
    cause: Source | None = None  # the message that changed it, if one is known


_KEYS = (
    "schema", "question", "answer", "answered", "grade", "synthesis", "correction", "highlight", "tier", "writer",
    "model", "adapter", "matched_question", "similarity", "age_s", "stale", "lead", "before", "context",
    "answer_source", "sources", "tokens", "ms",
)  # fmt: skip


class Answer(Struct, frozen=True, rename={"text": "answer"}):
    """An answer, or the finding that there is none, with its sources: the supporting one first, the others by rank.

    It is the same value in memory, in the answer cache, between processes and in `--json`.
    """

    question: str
    text: str | None
    tier: Tier
    writer: Writer
    model: str | None
    sources: tuple[Source, ...]
    ms: dict[str, float]  # by stage
    highlight: tuple[int, int] | None = None  # of the requested date, name or number in the text
    matched_question: str | None = None
    similarity: float | None = None
    age_s: float | None = None
    stale: bool = False
    tokens: dict[str, int] | None = None
    lead: int = 0  # the rank, from 0, of the first source
    synthesis: str | None = None  # what it asks for that no passage answers, where it was declined for that
    correction: Correction | None = None  # of the answer that its asker had before; told once, never cached
    adapter: str | None = None  # the user's adapter that the model had on
    grade: Grade | None = None  # None for no answer, or a model's that no reader judged
    before: str | None = None  # what it was until a newer message changed it, and by which message
    context: str | None = None  # the sentence that is quoted, and those beside it

    @property
    def answered(self) -> bool:
        """Return whether there is an answer."""
        return self.text is not None

    @property
    def span(self) -> str:
        """Return the highlighted part of the text, empty if there is none."""
        return self.text[slice(*self.highlight)] if self.text and self.highlight else ""

    def to_json(self) -> dict[str, Any]:
        """Return the answer as JSON values: all keys always there, in one order."""
        rests_on, ms = 0 if self.answered and self.sources else None, {stage: self.ms.get(stage) for stage in STAGES}
        own = {"schema": SCHEMA, "answered": self.answered, "answer_source": rests_on}
        row = json_values(self) | own | {"ms": ms}
        return {key: row[key] for key in _KEYS}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Answer":
        """Return the answer that `to_json` made these values of; ValueError, KeyError or TypeError for others."""
        if not 2 <= values["schema"] <= SCHEMA:  # what went away since was no part of answers
            raise ValueError(f"an answer of schema {values['schema']}")
        return convert({**values, "ms": {stage: ms for stage, ms in values["ms"].items() if ms is not None}}, cls)

    def served(self, question: str, ms: dict[str, float], age_s: float, *, stale: bool) -> "Answer":
        """Return a cached answer as the answer to a question that is asked now."""
        return replace(self, question=question, tier="exact", ms=ms, age_s=age_s, stale=stale, tokens=None)

    @property
    def scores(self) -> tuple[float, ...]:
        """Return the scores of the passages that it is from, by rank."""
        found = [source.score for source in self.sources if not source.copy]
        return (*found[1 : self.lead + 1], *found[:1], *found[self.lead + 1 :])

    def relocate(self, sources: Callable[[Sequence[str], int], tuple[Source, ...]]) -> "Answer":
        """Return the answer with other sources: `sources` takes quotes by rank, and the rank of the first."""
        if quotes := [source.quote for source in self.sources if not source.copy]:
            quotes.insert(self.lead, quotes.pop(0))
        span = self.sources[0].span if self.sources else None
        rivals, moved = iter([source.rival for source in self.sources if not source.copy]), sources(quotes, self.lead)
        flagged = tuple(one if one.copy else replace(one, rival=next(rivals, False)) for one in moved)
        return replace(self, sources=resting(flagged, span))


def grouped(sources: Sequence[Source]) -> list[list[Source]]:
    """Group each source with its copies: the number of a group, from 1, is that of the source."""
    groups: list[list[Source]] = []
    for source in sources:
        if source.copy and groups:
            groups[-1].append(source)
        else:
            groups.append([source])
    return groups


def resting(sources: tuple[Source, ...], span: tuple[int, int] | None) -> tuple[Source, ...]:
    """Return sources with the place of the answer in the quote of the first."""
    return (replace(sources[0], span=span), *sources[1:]) if sources else ()


class Step(Struct):
    """One step: its name, its milliseconds, and what it found, in words."""

    name: str
    ms: float = 0.0
    note: str = ""


class Trace(Struct):
    """The steps of one question so far, its notices, and the seconds that caches saved."""

    steps: list[Step] = []
    notices: list[str] = []
    saved_s: float = 0.0
    asked: bool = True  # else it is readied in case: nothing it uses counts as used, nothing that is kept goes for it
    goes_on: Callable[[], bool] | None = None  # while it is typed: as long as that, its sources are read
    keep: Callable[[], object] = lambda: None  # does the writer's work that can wait until the answer is shown
    first_ms: float | None = None  # until the first of the answer could be shown, where that was before its end
    started: float = field(default_factory=time.perf_counter)  # from when `total` runs

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step; what it found is written into it."""
        step, began = Step(name), time.perf_counter()
        try:
            yield step
        finally:
            step.ms = round((time.perf_counter() - began) * 1000, 3)
            self.steps.append(step)

    @property
    def evicts(self) -> bool:
        """Return whether what is kept may go for it."""
        return self.asked or self.goes_on is not None

    def ms(self) -> dict[str, float]:
        """Return the milliseconds of each stage, until something could be shown, and in all."""
        found: dict[str, float] = {}
        for step in self.steps:
            if step.name in STAGES:
                found[step.name] = round(found.get(step.name, 0.0) + step.ms, 3)
        total = round((time.perf_counter() - self.started) * 1000, 3)
        return found | {"first_token": self.first_ms or total, "total": total}


class Passage(Struct, frozen=True):
    """Neighbouring hits of one document, in order, and their places, those of copies last."""

    hits: tuple[Hit, ...]
    copies: tuple[Hit, ...] = ()  # in other documents whose text is the same
    sources: tuple[Source, ...] = ()
    trust: Trust = Trust.KNOWN
    note: str = ""  # said of it where it answers
    rival: str = ""  # where several senders answer a question differently: what this one says
    beside: str = ""  # the same, if who answers is not known
    outranked: frozenset[str] = frozenset()  # chunks of which no answer is made

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """Return the chunks of its hits."""
        return tuple(hit.chunk for hit in self.hits)

    def about(self, *, scored: bool) -> str:
        """Return the inputs of an answer besides chunk ids: people, dates, headers and, if `scored`, the score."""
        people = [self.sender, *self.recipients, str(self.date), *(hit.chunk.header for hit in self.hits)]
        score = f"{self.score:.3f}" if scored else ""
        return "\n".join([*people, self.rival, self.beside, *sorted(self.outranked), score])

    @property
    def all_hits(self) -> tuple[Hit, ...]:
        """Return its hits and their copies."""
        return (*self.hits, *self.copies)

    @property
    def score(self) -> float:
        """Return the best score of its hits."""
        return max(hit.score for hit in self.hits)

    @property
    def document(self) -> str:
        """Return the id of its document."""
        return self.hits[0].chunk.document

    @property
    def lines(self) -> tuple[int, int]:
        """Return the first and the last line in the decoded text, 1-based, inclusive."""
        return min(hit.chunk.first for hit in self.hits), max(hit.chunk.last for hit in self.hits)

    @property
    def sender(self) -> str:
        """Return who wrote it, empty for a meeting."""
        return self.hits[0].sender

    @property
    def is_meeting(self) -> bool:
        """Return whether it is of a transcript, where a name in front of a turn is its speaker's."""
        return self.hits[0].is_meeting

    def sentences(self) -> "list[Span]":
        """Return the sentences of `text`; where speakers are known none crosses a turn, and each has its speaker."""
        from engine.text.words import sentences, spoken_sentences  # an answer from the cache needs no patterns

        if not (self.is_meeting and self.recipients):
            return sentences(self.text)
        found, at, speakers = list["Span"](), 0, frozenset(self.recipients)
        for hit in self.hits:
            turn = found[-1].turn + 1 if found else 0
            spans = spoken_sentences(hit.chunk.text, speakers)
            found += [replace(one, start=at + one.start, end=at + one.end, turn=turn + one.turn) for one in spans]
            at += len(hit.chunk.text) + 1
        return found

    @property
    def recipients(self) -> tuple[str, ...]:
        """Return its recipients, or the participants."""
        return self.hits[0].recipients

    @property
    def date(self) -> datetime | None:
        """Return when it was sent or took place."""
        return self.hits[0].date

    def author_at(self, place: int) -> str:
        """Return the author of the text at an offset of `text`: the sender, or that of a quoted or forwarded part."""
        return self.hit_at(place).author

    def trust_of(self, hit: Hit) -> Trust:
        """Return how far one of its hits counts."""
        return min(self.trust, Trust.QUOTED) if hit.is_quoted else self.trust

    def is_outranked(self, place: int | None = None) -> bool:
        """Return whether no answer is made of the text at an offset of `text`, by default of any of it."""
        return all(one.chunk.id in self.outranked for one in (self.hits if place is None else [self.hit_at(place)]))

    def hit_at(self, place: int) -> Hit:
        """Return the hit at an offset of `text`."""
        ends = accumulate(len(hit.chunk.text) + 1 for hit in self.hits)
        return next((hit for hit, end in zip(self.hits, ends, strict=True) if place < end), self.hits[-1])

    def quoting(self, source: Source, quote: str) -> Source:
        """Return a source of this passage with a part of `text`, and with who wrote that part, and when."""
        hit = next((hit for hit in self.hits if quote in hit.chunk.text), self.hits[0])
        written = hit.chunk.written.isoformat() if hit.chunk.written else None
        source = replace(source, role=hit.chunk.role, place=hit.chunk.place, written=written, quote=quote)
        return replace(source, author=hit.chunk.author if hit.is_quoted else "", speaker=hit.speaker_of(quote))

    @property
    def header(self) -> str:
        """Return the line that says who, when and what."""
        return self.hits[0].chunk.header

    @property
    def text(self) -> str:
        """Return the text of its chunks, a line end between them."""
        return "\n".join(hit.chunk.text for hit in self.hits)


Passages = Sequence[Passage]  # what was read for a question


class Evidence(Struct, frozen=True):
    """The passages retrieved for a question, best first."""

    passages: tuple[Passage, ...]
    chunks: tuple[str, ...]  # the ids of all their chunks
    covered: float  # the share of the index that has vectors
    nearest: tuple[float, ...] = ()  # the cosines of the ranked chunks, best first
    leading: int = 0  # so many passages of a follow-up, the first, are of the answer before
    said: str = ""  # the quote of that answer
    typed: str = ""  # the follow-up before it was completed
    fact: str = ""  # the answer, where a header or the archive gives it
    told: int | None = None  # letters of it, the first, that are highlighted
    quotes: tuple[str, ...] = ()  # of the passages that give it
    scored: tuple[Any, ...] = ()  # the candidates for an answer
    shown: tuple[int, ...] = ()  # places of the passages that a model reads; empty: all

    def fingerprint(self, *, scored: bool) -> tuple[str, ...]:
        """Name all that an answer depends on: the chunks, best first, and a digest of what is said about them."""
        about = [*(one.about(scored=scored) for one in self.passages), *([] if self.told is None else [self.fact])]
        digest = blake2b("\0".join(about).encode("utf-8", "replace"), digest_size=8).hexdigest()
        return (*self.chunks, digest) if about else self.chunks

    def sources(self, quotes: Sequence[str], lead: int = 0) -> tuple[Source, ...]:
        """Return all places with the quote of their passage: those of the passage at index `lead`, then by rank."""
        pairs = list(zip(self.passages, quotes, strict=True))
        ordered = [*pairs[lead : lead + 1], *pairs[:lead], *pairs[lead + 1 :]]
        doubted = any(one.trust_of(one.hit_at(one.text.find(said))) < Trust.KNOWN for one, said in ordered[:1])
        found = list[Source]()
        for at, (passage, said) in enumerate(ordered):
            rival = passage.rival or (passage.beside if doubted else "")
            quote = (at and rival) or said or rival
            quoted = (one if one.copy else passage.quoting(one, quote) for one in passage.sources)
            found += (replace(one, quote=quote, rival=bool(rival) and not one.copy) for one in quoted)
        notes = [passage.note for passage, _ in ordered[:1] if passage.note and found]
        return (*(replace(found[0], warnings=(*found[0].warnings, one)) for one in notes), *found[len(notes) :])


class ListOptions(Struct, frozen=True):
    """Which documents: within what, with words in the title, how many (None: all), in which order, about what words."""

    scope: Scope = Scope()
    title: tuple[str, ...] = ()
    limit: int | None = 20
    oldest: bool = False  # first
    about: str = ""


class Listing(Struct, frozen=True):
    """Documents as JSON values, without their text, and how many there are in all."""

    total: int
    documents: list[dict[str, Any]]


class Filters(Struct, frozen=True):
    """What a question, search or list is limited to, as people type it: see `operations.scope_of`."""

    sender: str | None = None
    recipient: str | None = None
    since: str | None = None
    until: str | None = None
    collection: str | None = None
    document: str | None = None
    kind: LoopKind | None = None  # of open loops

    def __bool__(self) -> bool:
        return self != NO_FILTERS


NO_FILTERS = Filters()


class OpenLoop(Struct, frozen=True):
    """Something still to be done or answered: what a sentence says, who is to do it, and by which day, if it does."""

    kind: ItemKind
    text: str  # the sentence in one line
    who: str | None  # a name, or an address where no name is known
    due: date | None
    source: Source  # which quotes the sentence
    asked_by: str | None = None  # who wants it of them; None if they, or another, said that they will
    whose: Literal["mine", "theirs"] | None = None  # to do or to answer it; None where nobody said who the user is
    words: str | None = None  # of a language model, which the sentence and its source support


class Report(Struct, frozen=True):
    """Items found by their words, of `total`, in `read` of the `documents` in scope: by `kinds`, or open loops."""

    total: int
    items: tuple[OpenLoop, ...]
    read: int
    documents: int
    title: str = ""
    date: str | None = None  # ISO
    people: str = ""  # of a meeting
    kinds: tuple[ItemKind, ...] = ()
    writer: str = ""  # whose `words` there may be, or why there are none


class PersonFact(Struct, frozen=True):
    """A phone number, title, organisation or address of a person; `label` is the line of a phone, or home or work."""

    kind: str
    value: str
    label: str
    by: str  # who says so; empty for the person themselves
    older: bool  # than another value of this kind and label
    source: Source


class Person(Struct, frozen=True):
    """A person of the archive, with the documents that are from and to them; `facts` are in order, newest first."""

    name: str
    addresses: tuple[str, ...]
    spellings: tuple[str, ...]
    wrote: int
    received: int
    last: str | None  # ISO
    facts: tuple[PersonFact, ...]
    similar: tuple[str, ...]  # others who may be the same


class Check(Struct, frozen=True):
    """The result of one check of `pkb doctor`, with the command to type if there is a problem."""

    name: str
    state: CheckState
    found: str
    next_step: str | None = None


Checks = dict[str, Callable[[], Check]]  # by name; each may raise, which is a finding, too
OnText = Callable[[str], None]  # called with each new piece of an answer


class FollowedAnswer(Struct, frozen=True):
    """The file, message and sentence that a follow-up is about; `typed` is the follow-up before it was completed."""

    path: str
    quote: str
    message_id: str | None = None
    typed: str = ""


class AskOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """How to ask: within what, from how many sources, and whether the bank may answer and may learn."""

    scope: Scope = Scope()
    k: int = 5
    read_bank: bool = True
    write_bank: bool = True
    stale_ok: bool = False
    after: FollowedAnswer | None = None  # whose document comes first
    record: bool = True  # in the history


class AskResult(Struct, frozen=True):
    """A reply, how it came about, and the share of the knowledge bank that vectors cover (None if none was read)."""

    reply: Answer
    trace: Trace
    covered: float | None = None
    keep: Callable[[], object] = lambda: None  # to be called when it was shown: saves what was read, for the next one


class Backend(Protocol):
    """What answers questions: quotes or a language model, with the retrieval that both share."""

    @property
    def fingerprint(self) -> str:
        """Name all that an answer depends on beside the evidence."""

    def embed(self, text: str, trace: Trace) -> Vectors | None:
        """Return the unit vector of a question, None if there are no vectors to compare it with."""

    def count(self, question: "Question", options: AskOptions, trace: Trace) -> Evidence | None:
        """Return the answer to an exact question about the archive as evidence; None for any other question."""

    def retrieve(self, question: "Question", vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        """Retrieve the evidence for a question."""

    def reread(self, read: Sequence[str], scores: Sequence[float]) -> Evidence:
        """Return evidence once more by its fingerprint and the scores of its passages; empty if it is not all there."""

    def generate(self, question: "Question", evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        """Generate an answer; `on_text` is called with each new piece of its text."""

    def prefill(self, question: "Question", evidence: Evidence, trace: Trace) -> None:
        """Prefill the prompt of an answer without generating it."""

    def question_vectors(self) -> "QuestionVectors | None":
        """Return the vectors of cached questions; None without the embedder that made them."""

    def within(self, scope: Scope) -> "Backend":
        """Return the backend for a scope: this one, or a model with another adapter."""
