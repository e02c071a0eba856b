"""One question put in every way in which it can be answered, by the path that all questions go: what each tier takes.

made, nothing reused -> again, all reused -> exactly the same -> in other words. Knows a bank and a place for tensors,
which are changed, and must be ones to try things in.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from engine.ask.answer import Asker
from engine.ask.begin import Room, key_of
from engine.ask.means import Manner, Means, Written

if TYPE_CHECKING:
    from engine.ask.prefill import Reading
    from engine.ask.reply import Reply
    from engine.ask.similar import Rules
    from store.kv_store import KvStore
    from store.ledger import Ledger

_HITS = 3  # times that an exact hit is made: it takes so little that one says nothing


@dataclass(frozen=True, slots=True)
class Model:
    """What writes in words: its name, and how it reads.

    What it reads is kept, in so many bytes, until the next question, if it can be.
    """

    name: str
    reading: "Reading"
    room: int
    most: int  # tokens of an answer
    drafts: int  # tokens guessed at a time

    @property
    def kept(self) -> "KvStore | None":
        """Give where it is kept."""
        return self.reading.kept.store if self.reading.kept else None


@dataclass(frozen=True, slots=True)
class Box:
    """A home to try things in: its bank, how it answers, from so many sources, at a time."""

    ledger: "Ledger"
    means: Means
    room: Room
    rules: "Callable[[], Rules | None]"
    k: int
    now: datetime
    model: Model | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes kept of one question: its entry in the bank, its vector, and tensors, None where no model read."""

    answer: int
    vector: int
    tensors: int | None


@dataclass(frozen=True, slots=True)
class Looked:
    """What looking for a like question took, in milliseconds by step, and whether its answer was given."""

    found: bool
    ms: dict[str, float]


@dataclass(frozen=True, slots=True)
class Tried:
    """One question in each tier.

    `again` is None where nothing that was read can be reused, `similar` where no like question is looked for.
    """

    made: "Reply"
    again: "Reply | None"
    exact: "tuple[Reply, ...]"
    similar: Looked | None
    kept: Kept

    @property
    def same(self) -> bool | None:
        """Tell whether the answer is the same with all reused; None where nothing was."""
        return None if self.again is None else _said(self.again) == _said(self.made)


def try_tiers(box: Box, question: str) -> Tried:
    """Answer a question in every way; PkbError where its evidence does not fit the model."""
    means = _by(box.means, box.model, box.now) if box.model else box.means
    asker, fresh = Asker(box.ledger, means, box.room, box.rules), Manner(k=box.k, read_bank=False)
    store = box.model.kept if box.model else None
    if store and box.model:
        store.shrink(0)  # of the last question
        store.shrink(box.model.room)
    written = asker.ask(question, fresh, box.now)
    written.keep()
    made, tensors = written.reply, store.stats().bytes if store else None
    again = asker.ask(question, replace(fresh, write_bank=False), box.now).reply if store and made.tokens else None
    hits = [asker.ask(question, Manner(k=box.k), box.now).reply for _ in range(_HITS)]
    exact = tuple(hit for hit in hits if hit.tier == "exact")
    return Tried(made, again, exact, _similar(box, means, question, made), _kept(box, question, tensors))


def in_other_words(question: str) -> str:
    """Put a question as somebody else might who means the same."""
    asked = question.rstrip()
    words = asked.rstrip(" ?!.…？")
    return f"{words}, please{asked[len(words) :]}"


def _by(means: Means, model: Model, now: datetime) -> Means:
    """Have a model write the answers, and keep what it reads where it is told to."""
    from engine.ask.bears import bears  # and with it the model's library, which quotes can do without
    from engine.ask.generate import generate

    parts = (now, model.most)

    def load() -> "Reading":
        return model.reading

    return replace(
        means,
        write=lambda question, evidence, trace, say: generate(
            model.name, load, question, evidence, trace, *parts, say, drafts=model.drafts
        ),
        bears=lambda question, evidence, answer, trace: bears(load, question, evidence, answer, trace, *parts),
    )


def _similar(box: Box, means: Means, question: str, made: "Reply") -> Looked | None:
    """Ask the same in other words; where the bank has no answer to it, none is written once more."""
    if box.rules() is None or means.questions() is None:
        return None
    means = replace(means, write=lambda asked, *_: Written(replace(made, question=asked.text)))
    asker = Asker(box.ledger, means, box.room, box.rules)
    answered = asker.ask(in_other_words(question), Manner(k=box.k), box.now)
    return Looked(answered.reply.tier == "semantic", answered.trace.ms())


def _kept(box: Box, question: str, tensors: int | None) -> Kept:
    sql = "SELECT bytes, coalesce(length(vector), 0) FROM answers LEFT JOIN bank_vectors USING (key) WHERE key = ?"
    digest = key_of(box.means, question, Manner(k=box.k), box.now).digest
    row = box.ledger.rows.execute(sql, (digest,)).fetchone()
    size, vector = row or (0, 0)
    return Kept(size - vector, vector, tensors)


def _said(reply: "Reply") -> tuple[str | None, int]:
    return reply.answer, (reply.tokens or {}).get("generated", 0)
