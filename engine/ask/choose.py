"""Which sentence answers: the one that most speaks for, or of nearly equal ones the newest where that is what holds.

Knows scores and dates of sources; neither how scores came about nor how an answer is written.
"""

import re
from collections.abc import Callable, Sequence

from engine.ask.candidates import Candidate, Read
from engine.ask.question import Question

_SAID = 0.3  # of the question, that a newer sentence must say
_SAME, _SOURCE = 0.9, 0.6  # of the best sentence's fit, and of its source's score, that a newer one must have
# Signs that a sentence says what holds from now on.
_CHANGED = re.compile(
    r"\b(?:now|instead(?! of)|no longer|any ?more|(?:starting|from) (?:now|today|on|\d|(?:the )?[A-Z]\w+day)|cheaper"
    r"|new (?:date|time|place|price|room)|(?:move|goe|change|come|put)s? (?:\w+ ){0,6}?(?:to|back|by|down)|moved to"
    r"|(?:is|are) (?:off|cancelled|postponed))\b",
    re.IGNORECASE,
)
# Signs that it says what no longer does, or never did.
_SUPERSEDED = re.compile(
    r"\b(?:used to|told you|had (?:planned|said)|would (?:be|cost|have|like)|(?:was|were) (?:going )?to"
    r"|in \w+ we (?:moved|said)|propose)\b",
    re.IGNORECASE,
)


def choose(
    question: Question, reads: Sequence[Read], found: Sequence[Candidate], near: float, sign: float
) -> Candidate:
    """Give the best sentence; where the question asks how things are, the newest of those less than `near` below it.

    `sign` is what a sign of change adds to a score, of a question about a day too where it does not ask for what was.
    What has no date, or rivals without one, is left as it is.
    """
    if not question.current:
        return max(found, key=_order(sign if question.dates and not question.past else 0.0))
    best = max(found, key=_order(sign))
    least = best.score + sign * _sign(best) - near
    rivals = [one for one in found if one.score + sign * _sign(one) >= least and _rival(one, best, reads)]
    dates = [reads[one.read].date for one in rivals]
    known = [date for date in dates if date is not None]
    if len(known) < len(dates):
        return best
    return max((one for one in rivals if reads[one.read].date == max(known)), key=_order(sign))


def _rival(one: Candidate, best: Candidate, reads: Sequence[Read]) -> bool:
    """Tell whether a sentence says something of the same matter."""
    close = one.fit >= _SAME * best.fit and reads[one.read].score >= _SOURCE * reads[best.read].score
    return one is best or (close and one.fit >= _SAID and bool(one.spans) >= bool(best.spans))


def _order(sign: float) -> Callable[[Candidate], tuple[float, int, int]]:
    return lambda one: (one.score + sign * _sign(one), -one.read, -one.place)


def _sign(one: Candidate) -> int:
    return (_CHANGED.search(one.text) is not None) - (_SUPERSEDED.search(one.text) is not None)
