"""Notices beside an answer: what other senders say, and how it differs from the previous answer.

A user who asks again first learns, once, that an answer has changed and which message changed it: at once after new
mail, or with the first hit after an idle run noticed. Knows answers alone, so that a cached one does not wait for the
rules that choose.
"""

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import convert

from engine.ask.keys import answer_of, normalise
from engine.text.commitments import instruction_end
from engine.text.terminal import shorten
from engine.text.words import FUNCTION_WORDS, words
from engine.types import FIRST_MAIL, Answer, Correction, Source
from store.answers import CachedAnswer, Notice

if TYPE_CHECKING:
    from engine.types import Evidence

_RIVALS = 2  # in notices


def sender_notices(reply: Answer) -> list[str]:
    """Return notices of senders who disagree, and of an only source that may be forged.

    A mail forged under the quoted sender's name and address is recognised by its warnings.
    """
    first, others = reply.sources[0], [one for one in reply.sources[1:] if not one.copy]
    orders = [one for one in (first, *others) if one.rival and instruction_end(one.quote)]
    left_out = [f"left out a sentence that dictates the answer, from {_sender(one)}" for one in orders[:_RIVALS]]
    if not reply.answered:
        return left_out
    rivals = [one for one in others if one.rival and one.quote != first.quote and one not in orders]
    strange = [one for one in rivals if one.sender != first.sender or set(one.warnings) ^ set(first.warnings)]
    strange = [one for one in strange if one.sender and not same_answer(first.quote, one.quote, reply.span)]
    told = [f"another mail, from {_sender(one)}, says: {shorten(one.quote, 160)}" for one in strange[:_RIVALS]]
    trusted = [first, *(one for one in others if one.quote and same_answer(first.quote, one.quote, reply.span))]
    alone = all(one.warnings and FIRST_MAIL not in one.warnings for one in trusted)
    return [*([f"the only source is a doubtful mail, from {_sender(first)}"] if alone else []), *told, *left_out]


def _sender(source: Source) -> str:
    return shorten(source.sender, 80) + "".join(f" ({shorten(one, 80)})" for one in source.warnings)


def change_of(cached: CachedAnswer, reply: Answer, evidence: "Evidence") -> Correction | None:
    """Return how a new answer differs from one cached with other evidence; None if it does not, or nobody saw that."""
    before, seen = answer_of(cached), cached.origin == "user" or cached.uses > 0
    if not seen or same_answer(before.text, reply.text, before.span, reply.span):
        return None
    return Correction("changed", before.text, _cause(cached, reply, evidence))


def _cause(cached: CachedAnswer, reply: Answer, evidence: "Evidence") -> Source | None:
    """Return the message that changed an answer: the new answer's source if it is new, else the best new message."""
    known = set(cached.evidence)
    new = [read for read in evidence.passages if not known.issuperset(chunk.id for chunk in read.chunks)]
    places = [read.sources[0] for read in new if read.sources]
    rests = reply.sources[0].path if reply.answered and reply.sources else None
    return next((one for one in places if one.path == rests), next(iter(places), None))


def correction_of(notice: Notice, reply: Answer) -> Correction | None:
    """Return the correction of a stored notice; None if the reply repeats the answer from before the change."""
    if same_answer(notice.before, reply.text, other_span=reply.span):
        return None
    cause = convert(json.loads(notice.cause), Source) if notice.cause else None
    return Correction(notice.kind, notice.before or None, reply.correction.cause if reply.correction else cause)


_SAME_F1 = 0.8  # of content words, from which one answer says only a little more than the other
_NEGATION = re.compile(
    r"no|not|never|none|without|cannot|cant|dont|(?:did|does|is|was|were|are|could|would|should|wo)nt"
)


def same_answer(one: str | None, other: str | None, span: str = "", other_span: str = "") -> bool:
    """Return whether two answers say the same; None and "" mean that there is no answer.

    `span` is the highlighted part of an answer, if any: the date, name or number that was asked for.
    """
    if not one or not other:
        return not one and not other
    if normalise(one) == normalise(other):
        return True
    if is_negated(one) == is_negated(other):  # "at the front desk" is no more so in "not at the front desk"
        if span and other_span:
            return normalise(span) == normalise(other_span)
        if words(span) and f" {' '.join(words(span))} " in f" {' '.join(words(other))} ":
            return True
    shorter, longer = sorted((_content(one), _content(other)), key=len)
    extra = Counter(longer) - Counter(shorter)  # a negation or a number more can change an answer
    says_else = (_NEGATION.fullmatch(word) or any(map(str.isdigit, word)) for word in extra)
    return _nearly_contains(longer, shorter) and not any(says_else)


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in FUNCTION_WORDS or _NEGATION.fullmatch(word)]


def is_negated(text: str) -> bool:
    """Return whether a text has a negation."""
    return any(map(_NEGATION.fullmatch, words(text)))


def _nearly_contains(longer: list[str], shorter: list[str]) -> bool:
    """Return whether a list holds another in order, and is not much longer."""
    left = iter(longer)
    in_order = all(word in left for word in shorter)
    return bool(shorter) and in_order and 2 * len(shorter) >= _SAME_F1 * (len(shorter) + len(longer))
