"""Whether two answers to one question say the same. Pure; any doubt is a no.

The same words; or the same asked-for date, name or number; or the same content words in order, where one may have a few
more. Likeness alone would not do: one word in five may be the day that was asked for.
"""

import re

from engine.ask.keys import normalise
from engine.text.words import FUNCTION_WORDS, words

NEARLY = 0.8  # F1 of content words from which an answer only says a little more than the other
_DENYING = re.compile(
    r"no|not|never|none|without|cannot|cant|dont|(?:did|does|is|was|were|are|could|would|should|wo)nt"
)


def same(one: str | None, other: str | None, span: str = "", other_span: str = "") -> bool:
    """Tell whether two answers say the same; None and "" are the finding that there is no answer.

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
    """Tell whether one list stands in the other in order, and is nearly as long."""
    left = iter(longer)
    in_order = all(word in left for word in shorter)
    return bool(shorter) and in_order and 2 * len(shorter) >= NEARLY * (len(shorter) + len(longer))


def _more(shorter: list[str], longer: list[str]) -> list[str]:
    """Give the words of the longer list that the shorter one lacks."""
    left = list(longer)
    for word in shorter:
        left.remove(word)
    return left


def _weighs(word: str) -> bool:
    """Tell whether a word more can turn an answer around."""
    return bool(_DENYING.fullmatch(word)) or any(sign.isdigit() for sign in word)


def _stands(wanted: list[str], found: list[str]) -> bool:
    """Tell whether words stand among others, one behind the other."""
    starts = range(len(found) - len(wanted) + 1) if wanted else range(0)
    return any(found[start : start + len(wanted)] == wanted for start in starts)
