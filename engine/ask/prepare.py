"""The first steps of every question, asked by a person or foreseen: its key, what it is asked with, its bank entry."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from engine.ask.keys import Key, key
from engine.text.time_sensitive import is_time_sensitive
from engine.types import Answer, AskOptions, Backend, Trace
from store.answers import AnswerBank, CachedAnswer, Origin, State
from store.database import Ledger

if TYPE_CHECKING:
    from engine.text.question import Question
    from engine.types import Evidence
    from store.hits import Vectors


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """One question on its way; `generation` is that of the knowledge bank when it was begun."""

    text: str
    options: AskOptions
    key: Key
    generation: int
    now: datetime
    trace: Trace


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What a question is answered from, once the exact tier has nothing for it; `embedder` made its vector."""

    question: "Question"
    vector: "Vectors | None"
    embedder: str
    evidence: "Evidence"


@dataclass(frozen=True, slots=True)
class BankBudget:
    """What the bank may hold: bytes; and how many of the nearest chunks a new one must be among to be of interest."""

    bytes: int
    refresh_k: int


def key_of(backend: Backend, text: str, options: AskOptions, now: datetime) -> Key:
    """Return the key of a question; UsageError where it is empty."""
    return key(text, options.scope, f"{backend.fingerprint}/{options.k}", now, calendar=is_time_sensitive(text))


def begin(backend: Backend, ledger: Ledger, text: str, options: AskOptions, now: datetime) -> PendingQuestion:
    """Start a question; UsageError where it is empty."""
    trace = Trace()
    with trace.step("key"):
        asked = key_of(backend, text, options, now)
        # The generation is read before all else: whatever changes from here on makes this answer look again.
        return PendingQuestion(text, options, asked, ledger.generation, now, trace)


def gather_context(backend: Backend, ask: PendingQuestion) -> QueryContext:
    """Understand, embed, retrieve."""
    with ask.trace.step("understand"):
        from engine.text.question import understand  # more patterns than an exact hit has time to compile

        question = understand(ask.text, ask.now)
    vector = backend.embed(question.text, ask.trace)
    questions = None if vector is None else backend.question_vectors()
    embedder = questions.embedder if questions else ""
    return QueryContext(question, vector, embedder, backend.retrieve(question, vector, ask.options, ask.trace))


def store_answer(
    bank: AnswerBank,
    room: BankBudget,
    ask: PendingQuestion,
    asked: QueryContext,
    reply: Answer | None,
    origin: Origin = "user",
    source: str = "",
) -> CachedAnswer:
    """Keep a reply under its question; None where it was only read ahead, which takes no answer's place that holds."""
    there = bank.find(ask.key.digest) if reply is None else None
    if there and there.state == "answered" and there.evidence == asked.evidence.chunks:
        return there
    state: State = "answered" if reply else "prefilled"
    text, tier = (json.dumps(reply.to_json()), reply.tier) if reply else ("", "full")
    made = (ask.generation, tier, ask.now.timestamp(), ask.trace.ms()["total"])
    kept = CachedAnswer(*_about(ask), text, asked.evidence.chunks, *made, state=state, origin=origin, source=source)
    bank.put(ask.key.digest, kept, room.bytes, vector_of(asked), floor_of(asked, room), asked.embedder)
    return kept


def answer_of(kept: CachedAnswer) -> Answer:
    """Return the answer of an entry that has one."""
    return Answer.from_json(json.loads(kept.reply))


def relocate(kept: CachedAnswer, evidence: "Evidence") -> CachedAnswer:
    """Return an entry with its sources where they are now, since files are moved."""
    return replace(kept, reply=json.dumps(answer_of(kept).relocate(evidence.sources).to_json()))


def pending_entry(ask: PendingQuestion, asked: QueryContext) -> CachedAnswer:
    """Return the entry of a question that was given another one's answer."""
    made = (ask.generation, "semantic", ask.now.timestamp(), ask.trace.ms()["total"])
    return CachedAnswer(*_about(ask), "", asked.evidence.chunks, *made, state="pending")


def vector_of(asked: QueryContext) -> bytes | None:
    """Return a question's vector as the bank keeps it."""
    return None if asked.vector is None else asked.vector.astype("float32").tobytes()


def floor_of(asked: QueryContext, room: BankBudget) -> float | None:
    """Return the cosine above which a new chunk is among the nearest; None without vectors."""
    if asked.vector is None:
        return None
    nearest = asked.evidence.nearest[: room.refresh_k]
    return nearest[-1] if len(nearest) == room.refresh_k else 0.0


def _about(ask: PendingQuestion) -> tuple[str, str, str, str | None]:
    return ask.text, ask.key.scope, ask.key.writer, ask.key.day


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is now kept for a question, its reply where one was made, and the steps that took."""

    key: bytes
    kept: CachedAnswer
    reply: Answer | None
    trace: Trace


def prepare(
    ledger: Ledger,
    backend: Backend,
    room: BankBudget,
    text: str,
    options: AskOptions,
    now: datetime,
    *,
    decode: bool,
    origin: Origin = "predicted",
    source: str = "",
) -> Prepared:
    """Ready one question: with `decode` its answer is made, else only what it reads is; UsageError where it is empty.

    `source` says what foresaw it.
    """
    ask = begin(backend, ledger, text, options, now)
    ask.trace.asked = False
    asked = gather_context(backend, ask)
    reply = None
    if decode:
        written = backend.generate(asked.question, asked.evidence, ask.trace, None)
        reply = written.reply
        written.keep()
    else:
        backend.prefill(asked.question, asked.evidence, ask.trace)
    return Prepared(
        ask.key.digest, store_answer(AnswerBank(ledger), room, ask, asked, reply, origin, source), reply, ask.trace
    )
