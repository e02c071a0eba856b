"""The first steps of every question, asked by a person or foreseen: its key, what it is asked with, its bank entry."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from engine.ask.exact import Key, key
from engine.ask.means import Manner, Means
from engine.ask.moving import moves
from engine.ask.reply import Reply, freeze
from engine.ask.trace import Trace
from store.answers import Bank, Kept, Origin, State
from store.database import Ledger

if TYPE_CHECKING:
    from engine.ask.evidence import Evidence
    from engine.ask.question import Question
    from store.hits import Vectors


@dataclass(frozen=True, slots=True)
class Ask:
    """One question on its way; `generation` is that of the knowledge bank when it was begun."""

    text: str
    manner: Manner
    key: Key
    generation: int
    now: datetime
    trace: Trace


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question is answered from, once the exact tier has nothing for it; `embedder` made its vector."""

    question: "Question"
    vector: "Vectors | None"
    embedder: str
    evidence: "Evidence"


@dataclass(frozen=True, slots=True)
class Room:
    """What the bank may hold: bytes; and how many of the nearest chunks a new one must be among to be of interest."""

    bytes: int
    refresh_k: int


def key_of(means: Means, text: str, manner: Manner, now: datetime) -> Key:
    """Give the key of a question; UsageError where it is empty."""
    return key(text, manner.scope, f"{means.writer}/{manner.k}", now, calendar=moves(text))


def begin(means: Means, ledger: Ledger, text: str, manner: Manner, now: datetime) -> Ask:
    """Start a question; UsageError where it is empty."""
    trace = Trace()
    with trace.step("key"):
        asked = key_of(means, text, manner, now)
        # The generation is read before all else: whatever changes from here on makes this answer look again.
        return Ask(text, manner, asked, ledger.generation, now, trace)


def look(means: Means, ask: Ask) -> Asked:
    """Understand, embed, retrieve."""
    with ask.trace.step("understand"):
        from engine.ask.question import understand  # more patterns than an exact hit has time to compile

        question = understand(ask.text, ask.now)
    vector = means.embed(question.text, ask.trace)
    questions = None if vector is None else means.questions()
    embedder = questions.embedder if questions else ""
    return Asked(question, vector, embedder, means.gather(question, vector, ask.manner, ask.trace))


def enter(
    bank: Bank, room: Room, ask: Ask, asked: Asked, reply: Reply | None, origin: Origin = "user", source: str = ""
) -> Kept:
    """Keep a reply under its question; None where it was only read ahead, which takes no answer's place that holds."""
    there = bank.find(ask.key.digest) if reply is None else None
    if there and there.state == "answered" and there.evidence == asked.evidence.chunks:
        return there
    state: State = "answered" if reply else "undecoded"
    frozen, tier = (freeze(reply), reply.tier) if reply else ("", "full")
    made = (ask.generation, tier, ask.now.timestamp(), ask.trace.ms()["total"])
    kept = Kept(*_about(ask), frozen, asked.evidence.chunks, *made, state=state, origin=origin, source=source)
    bank.keep(ask.key.digest, kept, room.bytes, vector_of(asked), floor_of(asked, room), asked.embedder)
    return kept


def owing(ask: Ask, asked: Asked) -> Kept:
    """Give the entry of a question that was given another one's answer."""
    made = (ask.generation, "semantic", ask.now.timestamp(), ask.trace.ms()["total"])
    return Kept(*_about(ask), "", asked.evidence.chunks, *made, state="owed")


def vector_of(asked: Asked) -> bytes | None:
    """Give a question's vector as the bank keeps it."""
    return None if asked.vector is None else asked.vector.astype("float32").tobytes()


def floor_of(asked: Asked, room: Room) -> float | None:
    """Give the cosine above which a new chunk is among the nearest; None without vectors."""
    if asked.vector is None:
        return None
    nearest = asked.evidence.nearest[: room.refresh_k]
    return nearest[-1] if len(nearest) == room.refresh_k else 0.0


def _about(ask: Ask) -> tuple[str, str, str, str | None]:
    return ask.text, ask.key.scope, ask.key.writer, ask.key.day
