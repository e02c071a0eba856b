"""Whether the sources hold an answer at all, by what their sentences say of what was asked.

Weighs signs into odds: knows no model and no corpus beyond the sources it is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from engine.ask.about import named
from engine.ask.candidates import WISH, Candidate, Read, content, is_of_day, speaking
from engine.ask.occasion import Occasion
from engine.ask.overlap import coverage, idf_of, share
from engine.ask.question import Question
from engine.ask.words import words

_EXACT = ("place", "person", "number", "amount")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each sign of an answer adds to the log odds that there is one; fitted on public sets, see docs/log.md."""

    start: float = -8.6
    source: float = 8.0  # share of the question's words in the source that holds most
    together: float = 1.0  # each of the question's words in the sentence that holds most, up to six
    names: float = 3.2  # share of the question's names in the source that holds most, 1 where it names none
    absent: float = -5.0  # share of the question's words that its source lacks, where a name or a number is asked for
    rival: float = -8.0  # that more of it is said about another person than about whom it names, in full from 0.3 more
    elsewhen: float = -4.0  # that the best sentence speaks of other days than the question


def support(
    question: Question, reads: Sequence[Read], found: Sequence[Candidate], when: Occasion, evidence: Evidence
) -> float:
    """Estimate, from 0 to 1, how likely the sources hold an answer."""
    if not found:
        return 0.0
    wanted, names = content(question), named(question)
    held = [
        _held(question, read, [one for one in found if one.read == index], when) for index, read in enumerate(reads)
    ]
    best = max(found, key=lambda one: one.score)
    signs = (
        (evidence.source, max(share(wanted, each) for each in held)),
        (evidence.together, min(6, max(sum(word in one.words for word in wanted) for one in found))),
        (evidence.names, max(share(tuple(names), each) for each in held) if names else 1.0),
        (evidence.absent, 1 - share(wanted, held[best.read]) if question.asked in _EXACT else 0.0),
        (evidence.rival, min(1.0, _rival(question, found) / 0.3)),
        (evidence.elsewhen, best.day is False and question.asked != "yes/no"),
    )
    return 1 / (1 + exp(-evidence.start - sum(weight * sign for weight, sign in signs)))


def _held(question: Question, read: Read, found: Sequence[Candidate], when: Occasion) -> frozenset[str]:
    """Give the words of a source; those that name the days of the question only where it is or speaks of them."""
    said = frozenset(words(f"{read.header} {read.sender} {' '.join(read.recipients)} {read.text}"))
    if not when.words or is_of_day(question, read):
        return said
    spoken = when.words if any(one.day for one in found) else frozenset[str]()
    return (said - when.words).union(spoken, *(one.words for one in found))


def _rival(question: Question, found: Sequence[Candidate]) -> float:
    """Tell how much more of the question is said about somebody else, where whom it names is one of the speakers."""
    if WISH.search(question.text):
        return 0.0  # "Could you bring" says what its speaker wants
    persons = speaking(named(question), found)
    wanted = [word for word in content(question) if word not in persons] if persons else []
    idf = idf_of(wanted, [one.words for one in found])
    own, other = (
        max((coverage(idf, one.words) for one in found if one.about is about), default=0.0) for about in (True, False)
    )
    return max(0.0, other - own)
