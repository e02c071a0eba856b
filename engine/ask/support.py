"""Whether the sources hold an answer at all: the log odds of it, as a sum of a few signs.

Knows the question, its sources and their sentences; no model.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import exp

from engine.ask.candidates import (
    ME,
    WISH,
    YOU,
    Candidate,
    TimeConstraint,
    content,
    coverage,
    idf_of,
    is_of_day,
    named,
    share,
    speaking,
)
from engine.text.question import Question
from engine.text.words import words
from engine.types import Passage

_EXACT = ("place", "person", "number", "amount")


@dataclass(frozen=True, slots=True)
class Signs:
    """What speaks for and against that the sources hold an answer."""

    source: float  # share of the question's words in the source that holds most
    together: float  # how many of the question's words are in the sentence that holds most, up to six
    names: float  # share of the question's names in the source that holds most, 1 where it names none
    absent: float  # share of the question's words that its source lacks, where a name or a number is asked for
    elsewhen: float  # 1 where the best sentence speaks of other days than the question
    rival: float  # how much more a sentence about somebody else says of it, 1 from 0.3 more
    best: float  # score of the best sentence, from 0 to 6
    speaks: float = 0.0  # 1 where the question names one of the speakers; 0 is what the next two then are, too
    others: float = 0.0  # share of what is said of the matter that is about other persons, less a half
    told: float = 0.0  # how much more of the matter a turn of somebody else says than one of whom it names


@dataclass(frozen=True, slots=True)
class SupportWeights:
    """What each sign adds to the log odds that there is an answer; fitted by tests/bench/declining.py."""

    start: float = -5.7
    source: float = 3.9
    together: float = 0.4
    names: float = 2.4
    absent: float = -2.0
    elsewhen: float = -4.0
    rival: float = -2.6
    best: float = 0.6
    speaks: float = -1.0
    others: float = -9.2
    told: float = -1.1


def support(
    question: Question,
    reads: Sequence[Passage],
    found: Sequence[Candidate],
    when: TimeConstraint,
    evidence: SupportWeights,
) -> float:
    """Estimate, from 0 to 1, how likely the sources hold an answer."""
    if not found:
        return 0.0
    each = signs(question, reads, found, when)
    odds = evidence.start + sum(getattr(evidence, one.name) * getattr(each, one.name) for one in fields(Signs))
    return 1 / (1 + exp(-odds))


def signs(question: Question, reads: Sequence[Passage], found: Sequence[Candidate], when: TimeConstraint) -> Signs:
    """Return the signs of an answer among the sentences that were found, at least one."""
    wanted, names = content(question), named(question)
    held = [
        _held(question, read, [one for one in found if one.read == index], when) for index, read in enumerate(reads)
    ]
    best = max(found, key=lambda one: one.score)
    speaks, others, told = _told_of(question, found)
    return Signs(
        source=max(share(wanted, each) for each in held),
        together=min(6, max(sum(word in one.words for word in wanted) for one in found)),
        names=max(share(tuple(names), each) for each in held) if names else 1.0,
        absent=1 - share(wanted, held[best.read]) if question.asked in _EXACT else 0.0,
        elsewhen=float(best.day is False and question.asked != "yes/no"),
        rival=min(1.0, _rival_answer(question, found) / 0.3),
        best=max(0.0, min(6.0, best.score)),
        speaks=speaks,
        others=others,
        told=told,
    )


def _held(question: Question, read: Passage, found: Sequence[Candidate], when: TimeConstraint) -> frozenset[str]:
    """Return the words of a source; those that name the days of the question only where it is or speaks of them."""
    said = frozenset(words(f"{read.header} {read.sender} {' '.join(read.recipients)} {read.text}"))
    if not when.words or any(is_of_day(question, hit.written) for hit in read.hits):
        return said
    spoken = when.words if any(one.day for one in found) else frozenset[str]()
    return (said - when.words).union(spoken, *(one.words for one in found))


def _rival_answer(question: Question, found: Sequence[Candidate]) -> float:
    """Return how much more of the question is said about somebody else, where whom it names is one of the speakers."""
    if WISH.search(question.text):
        return 0.0  # "Could you bring" says what its speaker wants
    persons = speaking(named(question), found)
    wanted = [word for word in content(question) if word not in persons] if persons else []
    idf = idf_of(wanted, [one.words for one in found])
    own, other = (
        max((coverage(idf, one.words) for one in found if one.about is about), default=0.0) for about in (True, False)
    )
    return max(0.0, other - own)


_SHARP = 4.0  # of the turns that say all that is asked, each counts as much as e^4 that say nothing of it


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn of a speaker or a paragraph: whether one of the persons asked about says it, and how much of the matter.

    `near` is the mean of what it says alone and what it says with the turn before.
    """

    is_own: bool
    about_own: float  # share of its words for persons that mean one of them
    said: float
    near: float


def _told_of(question: Question, found: Sequence[Candidate]) -> tuple[float, float, float]:
    """Return whether the question names a speaker, and how much of the matter others say, and is about others.

    Two who talk with each other have the same words for what only one of them did.
    """
    persons = speaking(named(question), found)
    topic = [word for word in content(question) if word not in persons] if persons else []
    if not topic or WISH.search(question.text):
        return 0.0, 0.0, 0.0
    told = list(_turns(persons, idf_of(topic, [one.words for one in found]), found))
    weights = [exp(_SHARP * turn.near) for turn in told]
    own = sum(weight * turn.about_own for weight, turn in zip(weights, told, strict=True)) / sum(weights)
    most = {is_own: max((turn.said for turn in told if turn.is_own is is_own), default=0.0) for is_own in (True, False)}
    return 1.0, 0.5 - own, most[False] - most[True]


def _turns(persons: frozenset[str], idf: Mapping[str, float], found: Sequence[Candidate]) -> Iterator[_Turn]:
    turns = defaultdict[tuple[int, int], list[Candidate]](list)
    for one in found:
        turns[one.read, one.span.turn].append(one)
    said = {key: frozenset[str]().union(*(one.words for one in turn)) for key, turn in turns.items()}
    for (read, number), turn in turns.items():
        is_own = not persons.isdisjoint(words(turn[0].speaker or ""))
        first = _first_person(" ".join(one.text for one in turn))
        alone = said[read, number]
        covered, wider = coverage(idf, alone), coverage(idf, alone | said.get((read, number - 1), frozenset()))
        yield _Turn(is_own, first if is_own else 1 - first, covered, (covered + wider) / 2)


def _first_person(text: str) -> float:
    """Return the share of "I" and "we" among the words of a text for its speaker and for whom it addresses."""
    said = text.lower().replace("’", "'").replace("'", " ").split()
    mine, yours = sum(word in ME for word in said), sum(word in YOU for word in said)
    return (mine + 0.5) / (mine + yours + 1)
