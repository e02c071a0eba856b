"""Answers that are no longer what they were: whether two answers say the same, and which message changed one.

Whoever asks again is told first, and once: at once when new mail has changed the answer, or with the first hit after an
idle run found out.
"""

import json
import re
from typing import TYPE_CHECKING

from engine.ask.keys import normalise
from engine.ask.prepare import answer_of
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Answer, Correction, Source
from store.answers import CachedAnswer, Notice

if TYPE_CHECKING:
    from engine.types import Evidence


def change_of(cached: CachedAnswer, reply: Answer, evidence: "Evidence") -> Correction | None:
    """Return how a new answer differs from a cached one, of other evidence; None if it does not, or nobody saw that."""
    before, seen = answer_of(cached), cached.origin == "user" or cached.uses > 0
    if not seen or same_answer(before.text, reply.text, before.span, reply.span):
        return None
    return Correction("changed", before.text or "", _cause(cached, reply, evidence))


def _cause(cached: CachedAnswer, reply: Answer, evidence: "Evidence") -> Source | None:
    """Return the message that changed an answer: of the new ones that which the new answer rests on, else the best."""
    known = set(cached.evidence)
    new = [read for read in evidence.passages if not known.issuperset(chunk.id for chunk in read.chunks)]
    places = [read.sources[0] for read in new if read.sources]
    rests = reply.sources[0].path if reply.answered and reply.sources else None
    return next((one for one in places if one.path == rests), next(iter(places), None))


def correction_of(notice: Notice, reply: Answer) -> Correction | None:
    """Return what a stored notice tells beside a reply; None if that says again what was said before the change."""
    if same_answer(notice.before, reply.text, other_span=reply.span):
        return None
    cause = Source.from_json(json.loads(notice.cause)) if notice.cause else None
    return Correction(notice.kind, notice.before, reply.correction.cause if reply.correction else cause)


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
    if _is_negated(one) == _is_negated(other):  # "at the front desk" is no more so in "not at the front desk"
        if span and other_span:
            return normalise(span) == normalise(other_span)
        if span and _contains(words(other), words(span)):
            return True
    shorter, longer = sorted((_content(one), _content(other)), key=len)
    return _nearly_contains(longer, shorter) and not any(map(_changes_meaning, _extra_words(longer, shorter)))


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in FUNCTION_WORDS or _NEGATION.fullmatch(word)]


def _is_negated(text: str) -> bool:
    return any(map(_NEGATION.fullmatch, words(text)))


def _nearly_contains(longer: list[str], shorter: list[str]) -> bool:
    """Return whether a list holds another in order, and is not much longer."""
    left = iter(longer)
    in_order = all(word in left for word in shorter)
    return bool(shorter) and in_order and 2 * len(shorter) >= _SAME_F1 * (len(shorter) + len(longer))


def _extra_words(longer: list[str], shorter: list[str]) -> list[str]:
    """Return the words of the longer list that the shorter one lacks."""
    left = list(longer)
    for word in shorter:
        left.remove(word)
    return left


def _changes_meaning(word: str) -> bool:
    """Return whether one more such word can change an answer: a negation or a number."""
    return bool(_NEGATION.fullmatch(word)) or any(sign.isdigit() for sign in word)


def _contains(text: list[str], phrase: list[str]) -> bool:
    """Return whether a list of words holds a phrase."""
    starts = range(len(text) - len(phrase) + 1) if phrase else range(0)
    return any(text[start : start + len(phrase)] == phrase for start in starts)
