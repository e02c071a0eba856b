"""The job `refresh`: answers that new mail may have changed, looked at again before anybody asks (PerCache 4.1.3).

hinted or of an older generation -> same evidence? its generation is stamped : the answer is made anew -> where a person
has seen another one, the next one who asks is told. Freshness itself is decided when serving: this saves the waiting.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from engine.ask.keys import normalise, scope_of
from engine.ask.prepare import BankBudget, Prepared, answer_of, begin, gather_context, key_of, prepare, relocate
from engine.ask.semantic import learned_tau
from engine.idle.types import DONE, IdleJob, Outcome, by_rate
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Answer, AskOptions, Backend
from store.answers import (
    AnswerBank,
    CachedAnswer,
    Notice,
    Notices,
    PendingVerification,
    RefreshCandidates,
    Verifications,
    WriterKey,
    older,
    stamp,
    typical_s,
    undecoded,
)
from store.database import Ledger

if TYPE_CHECKING:
    from engine.types import Evidence


@dataclass(frozen=True, slots=True)
class Reasker:
    """By what means questions are asked anew, at what time."""

    ledger: Ledger
    backend: Backend
    room: BankBudget
    now: datetime

    @property
    def writer_key(self) -> WriterKey:
        """Return what the entries have in common that would be made the same way today."""
        return WriterKey(f"{self.backend.writer}/", self.now.date().isoformat())

    def makes(self, kept: CachedAnswer) -> bool:
        """Return whether an entry would be made the same way today: by this writer, for this day."""
        same_writer = kept.writer.startswith(f"{self.backend.writer}/")
        return same_writer and key_of(self.backend, kept.question, options_of(kept), self.now).day == kept.day

    def evidence(self, kept: CachedAnswer) -> "Evidence":
        """Retrieve for a kept question as things are now."""
        return gather_context(
            self.backend, begin(self.backend, self.ledger, kept.question, options_of(kept), self.now)
        ).evidence

    def anew(self, kept: CachedAnswer, *, decode: bool = True) -> Prepared:
        """Make a kept entry anew; with `decode` its answer too."""
        parts = (self.ledger, self.backend, self.room, kept.question, options_of(kept), self.now)
        return prepare(*parts, decode=decode, origin=kept.origin, source=kept.source)


def options_of(kept: CachedAnswer) -> AskOptions:
    """Return the manner in which an entry was asked for: the last part of its writer is the number of sources."""
    return AskOptions(scope_of(kept.scope), int(kept.writer.rpartition("/")[2]))


def worth(kept: CachedAnswer) -> float:
    """Return how often an entry was wanted: it was asked for when a person had it made, and at each use since."""
    return kept.uses + (1.0 if kept.origin == "user" else 0.1)


MOST_CONVERSIONS = 500  # entries looked at in a night
_CONVERSION_S = 1.0  # an answer, until one was made


def plan_conversions(reasker: Reasker, *, decode: bool) -> list[IdleJob]:
    """Return a unit for each entry that was read and not answered, where answers are wanted."""
    if not decode:
        return []
    bank, seconds = AnswerBank(reasker.ledger), typical_s(reasker.ledger, reasker.backend.writer) or _CONVERSION_S
    found = ((key, bank.find(key)) for key in undecoded(reasker.ledger, reasker.writer_key, MOST_CONVERSIONS))
    return by_rate(
        IdleJob(
            kind="convert",
            subject=key.hex(),
            what=kept.question,
            why="prefilled, not answered yet",
            expected=worth(kept),
            saves=seconds,
            seconds=seconds,
            do=partial(_convert, reasker, key, kept),
            source=kept.source,
        )
        for key, kept in found
        if kept and reasker.makes(kept)
    )


def _convert(reasker: Reasker, key: bytes, kept: CachedAnswer) -> Outcome:
    now = AnswerBank(reasker.ledger).find(key)
    if now is None or now.state != "undecoded":
        return Outcome("there")
    return Outcome("done", (reasker.anew(kept).key,))


NEARLY = 0.8  # F1 of content words from which an answer only says a little more than the other
_DENYING = re.compile(
    r"no|not|never|none|without|cannot|cant|dont|(?:did|does|is|was|were|are|could|would|should|wo)nt"
)


def same_answer(one: str | None, other: str | None, span: str = "", other_span: str = "") -> bool:
    """Return whether two answers say the same; None and "" are the finding that there is no answer.

    `span` is what an answer highlights, where it highlights anything: the date, name or number that was asked for.
    """
    if not one or not other:
        return not one and not other
    if normalise(one) == normalise(other):
        return True
    if span and other_span:
        return normalise(span) == normalise(other_span)
    if span and _stands(words(span), words(other)):
        return True
    shorter, longer = sorted((_content(one), _content(other)), key=len)
    return _within(shorter, longer) and not any(_weighs(word) for word in _more(shorter, longer))


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in FUNCTION_WORDS or _DENYING.fullmatch(word)]


def _within(shorter: list[str], longer: list[str]) -> bool:
    """Return whether one list stands in the other in order, and is nearly as long."""
    left = iter(longer)
    in_order = all(word in left for word in shorter)
    return bool(shorter) and in_order and 2 * len(shorter) >= NEARLY * (len(shorter) + len(longer))


def _more(shorter: list[str], longer: list[str]) -> list[str]:
    """Return the words of the longer list that the shorter one lacks."""
    left = list(longer)
    for word in shorter:
        left.remove(word)
    return left


def _weighs(word: str) -> bool:
    """Return whether a word more can turn an answer around."""
    return bool(_DENYING.fullmatch(word)) or any(sign.isdigit() for sign in word)


def _stands(wanted: list[str], found: list[str]) -> bool:
    """Return whether words stand among others, one behind the other."""
    starts = range(len(found) - len(wanted) + 1) if wanted else range(0)
    return any(found[start : start + len(wanted)] == wanted for start in starts)


MOST_VERIFICATIONS = 500  # debts paid in a night
TAU = "tau"  # the small value of the ledger that holds the learnt threshold
_VERIFICATION_S = 1.0  # an answer, until one was made


def plan_verifications(reasker: Reasker, tau: float, max_error: float) -> list[IdleJob]:
    """Return a unit for each question that is owed its answer."""
    seconds = typical_s(reasker.ledger, reasker.backend.writer) or _VERIFICATION_S
    return by_rate(
        IdleJob(
            kind="owed",
            subject=pending.key.hex(),
            what=kept.question,
            why=f"semantic hit to verify, similarity {pending.similarity:.2f}",
            expected=kept.uses + 1.0,
            saves=seconds,
            seconds=seconds,
            do=partial(_verify, reasker, pending, kept, tau, max_error),
        )
        for pending, kept in islice(_open(reasker), MOST_VERIFICATIONS)
    )


def _open(reasker: Reasker) -> Iterator[tuple[PendingVerification, CachedAnswer]]:
    """Yield the debts that can be paid now, oldest first; nothing is learnt where a question had its answer since."""
    bank, verifications = AnswerBank(reasker.ledger), Verifications(reasker.ledger)
    for pending in verifications.all():
        kept = bank.find(pending.key)
        if kept and kept.state != "owed":
            verifications.drop(pending.key)
        elif kept and reasker.makes(kept):
            yield pending, kept


def _verify(
    reasker: Reasker, pending: PendingVerification, kept: CachedAnswer, tau: float, max_error: float
) -> Outcome:
    prepared = reasker.anew(kept)
    reply = prepared.reply
    assert reply, "it was to be answered"
    right = same_answer(reply.text, pending.served, reply.span)
    judged = right or prepared.kept.evidence == kept.evidence  # else mail came since, and says nothing of likeness
    _settle(reasker, pending, right=right, judged=judged)
    if not right:
        about = (pending.served, reply.text, "", reasker.now.timestamp())
        Notices(reasker.ledger).put(Notice(pending.key, "wrong" if judged else "changed", *about))
    if judged:
        tau = learned_tau(Verifications(reasker.ledger).labels(None), max_error, tau)
        reasker.ledger.set(TAU, str(tau))
    return Outcome("done", (prepared.key,))


def _settle(reasker: Reasker, pending: PendingVerification, *, right: bool, judged: bool) -> None:
    verifications, at = Verifications(reasker.ledger), reasker.now.timestamp()
    if not judged:
        verifications.drop(pending.key)
        return
    verifications.settle(pending.key, right, at)
    if not right:
        AnswerBank(reasker.ledger).raise_tau(pending.matched, math.nextafter(pending.similarity, math.inf))


MOST_REFRESHES = 500  # answers looked at in a night
_LEAST_S = 0.01  # that looking takes, whatever the answer took


def plan_refreshes(reasker: Reasker) -> list[IdleJob]:
    """Return a unit for each entry that may be out of date: those first that new chunks came near to."""
    hinted = {key: None for key, *_ in RefreshCandidates(reasker.ledger).all()}
    old = older(reasker.ledger, reasker.writer_key, reasker.ledger.generation, MOST_REFRESHES)
    near = _units(reasker, list(hinted), "new mail is close to it")
    return [
        *near[:MOST_REFRESHES],
        *_units(reasker, [key for key in old if key not in hinted], "new mail since it was answered"),
    ]


def _units(reasker: Reasker, keys: Sequence[bytes], why: str) -> list[IdleJob]:
    found = ((key, AnswerBank(reasker.ledger).find(key)) for key in keys)
    return by_rate(_unit(reasker, key, kept, why) for key, kept in found if kept and _fits(reasker, kept))


def _fits(reasker: Reasker, kept: CachedAnswer) -> bool:
    return kept.state != "owed" and reasker.makes(kept)


def _unit(reasker: Reasker, key: bytes, kept: CachedAnswer, why: str) -> IdleJob:
    seconds = max(_LEAST_S, kept.made_ms / 1000)
    return IdleJob(
        "refresh", key.hex(), kept.question, why, worth(kept), seconds, seconds, partial(_refresh, reasker, key)
    )


def _refresh(reasker: Reasker, key: bytes) -> Outcome:
    """Look at an entry again, as it is now."""
    kept, generation = AnswerBank(reasker.ledger).find(key), reasker.ledger.generation
    if kept is None or not _fits(reasker, kept):
        return Outcome("there")
    evidence = reasker.evidence(kept)
    if evidence.chunks == kept.evidence:
        _still_right(reasker, key, kept, evidence, generation)
        return DONE
    prepared = reasker.anew(kept, decode=kept.state == "answered")
    if prepared.reply and (kept.origin == "user" or kept.uses):
        _tell(reasker, key, kept, prepared.reply, evidence)
    RefreshCandidates(reasker.ledger).done(key)
    return Outcome("done", (prepared.key,))


def _still_right(reasker: Reasker, key: bytes, kept: CachedAnswer, evidence: "Evidence", generation: int) -> None:
    """Stamp an entry whose evidence is what it was, with its sources where they stand now."""
    moved = relocate(kept, evidence) if kept.reply else kept
    if moved != kept:
        AnswerBank(reasker.ledger).keep(key, moved, reasker.room.bytes)
    stamp(reasker.ledger, key, generation, kept.evidence)
    RefreshCandidates(reasker.ledger).done(key)


def _tell(reasker: Reasker, key: bytes, kept: CachedAnswer, reply: Answer, evidence: "Evidence") -> None:
    """Note that an answer has changed, with the first source that it did not have before."""
    before = answer_of(kept)
    if same_answer(before.text, reply.text, before.span, reply.span):
        return
    known = set(kept.evidence)
    new = next((read for read in evidence.passages if not known.issuperset(c.id for c in read.chunks)), None)
    because = json.dumps(new.sources[0].to_json()) if new and new.sources else ""
    notice = Notice(key, "changed", before.text or "", reply.text, because, reasker.now.timestamp())
    Notices(reasker.ledger).put(notice)
