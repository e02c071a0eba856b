"""Whether the sources hold an answer at all: the log odds of it, as a sum of a few signs.

Knows the question, its sources and their sentences; no model.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp

from engine.ask.candidates import ME, WISH, YOU, Candidate, content, coverage, idf_of, named, share, speaking
from engine.ask.time_constraints import TimeConstraint, is_of_day
from engine.text.question import Question, whose_words
from engine.text.words import words
from engine.types import Passage

_EXACT = ("place", "person", "number", "amount")
_SHARP = 4.0  # a turn that says all that is asked counts as much as e^4 turns that say nothing of it


@dataclass(frozen=True, slots=True)
class Signs:
    """What speaks for and against that the sources hold an answer."""

    source: float  # share of the question's words in the source that holds most
    together: float  # how many of the question's words are in the sentence that holds most, up to six
    names: float  # share of the question's names in the source that holds most, 1 where it names none
    absent: float  # share of the question's words that its source lacks, where a name or a number is asked for
    best: float  # score of the best sentence, from 0 to 6
    elsewhen: float  # 1 where the best sentence speaks of other days than the question
    rival: float  # how much more a sentence about somebody else says of it, 1 from 0.3 more
    others: float | None  # share of what a talk says of it that is about others, less a half; None if of no speaker


Weights = Mapping[str, float]  # by sign: what one of it adds to the log odds that there is an answer
# Fitted by tests/bench/declining.py on public sets, and rounded; `elsewhen` is too rare in them, and set by hand.
MATTER: Weights = {
    "start": -8.5,
    "source": 7.0,
    "together": 1.3,
    "names": 2.5,
    "absent": -3.1,
    "elsewhen": -4.0,
    "rival": -4.4,
}
# Two who talk with each other have the same words for what only one of them did: who says them tells more.
SPEAKER: Weights = {"start": -1.5, "best": 0.7, "elsewhen": -4.0, "rival": -2.0, "others": -9.5}
# The means of the signs over the questions that those sets answer; 0 for the others.
_USUAL = {"source": 0.8, "together": 3.0, "names": 1.0, "best": 3.6}
# What much and little of each sign means, in the words of `pkb ask --explain`.
_MEANINGS = {
    "source": ("one source has most words of the question", "no source has most words of the question"),
    "together": ("one sentence has many words of the question", "no sentence has many words of the question"),
    "names": ("one source has all names of the question", "no source has all names of the question"),
    "absent": ("the best source lacks words of the question", "the best source has all words of the question"),
    "best": ("one sentence fits the question well", "no sentence fits the question well"),
    "elsewhen": ("the best sentence is about another day", "the best sentence is about no other day"),
    "rival": ("it is said of somebody else", "it is said of nobody else"),
    "others": ("nobody asked about says it", "those asked about say it"),
}


@dataclass(frozen=True, slots=True)
class Support:
    """How likely the sources hold an answer, from 0 to 1, with the strongest reason for that and against it."""

    value: float = 0.0
    pro: str = ""
    con: str = ""


def support(question: Question, reads: Sequence[Passage], found: Sequence[Candidate], when: TimeConstraint) -> Support:
    """Estimate how likely the sources hold an answer."""
    if not found:
        return Support()
    each = signs(question, reads, found, when)
    weights = MATTER if each.others is None else SPEAKER
    added = {name: weights[name] * getattr(each, name) for name in _MEANINGS if name in weights}
    return Support(1 / (1 + exp(-weights["start"] - sum(added.values()))), *_reasons(added, weights))


def _reasons(added: Mapping[str, float], weights: Weights) -> tuple[str, str]:
    """Return what speaks most for an answer, and most against one, beside what is usual."""
    gained = {name: value - weights[name] * _USUAL.get(name, 0.0) for name, value in added.items()}
    most, least = max(gained, key=gained.__getitem__), min(gained, key=gained.__getitem__)
    return _MEANINGS[most][weights[most] < 0], _MEANINGS[least][weights[least] > 0]


def signs(question: Question, reads: Sequence[Passage], found: Sequence[Candidate], when: TimeConstraint) -> Signs:
    """Return the signs of an answer among the sentences that were found, at least one."""
    wanted, names = content(question), named(question)
    held = [
        _held(question, read, [one for one in found if one.read == index], when) for index, read in enumerate(reads)
    ]
    best = max(found, key=lambda one: one.score)
    talk = [one for one in found if reads[one.read].is_meeting] if reads[best.read].is_meeting else []
    return Signs(
        source=max(share(wanted, each) for each in held),
        together=min(6, max(sum(word in one.words for word in wanted) for one in found)),
        names=max(share(tuple(names), each) for each in held) if names else 1.0,
        absent=1 - share(wanted, held[best.read]) if question.asked in _EXACT else 0.0,
        best=max(0.0, min(6.0, best.score)),
        elsewhen=float(best.day is False and question.asked != "yes/no"),
        rival=min(1.0, _rival_answer(question, found) / 0.3),
        others=_about_others(question, talk),
    )


def _held(question: Question, read: Passage, found: Sequence[Candidate], when: TimeConstraint) -> frozenset[str]:
    """Return the words of a source; those that name the days of the question only where it is or speaks of them."""
    said = frozenset(words(f"{read.header} {read.sender} {' '.join(read.recipients)} {read.text}"))
    if not when.words or any(is_of_day(question, hit.written) for hit in read.hits):
        return said
    spoken = when.words if any(one.day for one in found) else frozenset[str]()
    return (said - when.words).union(spoken, *(one.words for one in found))


def _asked_of(question: Question, found: Sequence[Candidate]) -> tuple[frozenset[str], dict[str, float]]:
    """Return the names of speakers in a question, and the idf of its other words; none of a wish.

    "Could you bring" says what its speaker wants.
    """
    persons = frozenset[str]() if WISH.search(question.text) else speaking(named(question), found)
    topic = [word for word in content(question) if word not in persons] if persons else []
    return persons, idf_of(topic, [one.words for one in found])


def _rival_answer(question: Question, found: Sequence[Candidate]) -> float:
    """Return how much more of the question is said about somebody else, where whom it names is one of the speakers."""
    _, idf = _asked_of(question, found)
    own, other = (
        max((coverage(idf, one.words) for one in found if one.about is about), default=0.0) for about in (True, False)
    )
    return max(0.0, other - own)


def _about_others(question: Question, talk: Sequence[Candidate]) -> float | None:
    """Return the share of what is said of the matter that is about other persons, less a half.

    None where a question names no speaker, or asks for the words of one, so that those of others do not matter.
    """
    persons, idf = _asked_of(question, talk)
    if not idf or whose_words(question.text):
        return None
    turns = defaultdict[tuple[int, int], list[Candidate]](list)
    for one in talk:
        turns[one.read, one.span.turn].append(one)
    weights = [exp(_SHARP * coverage(idf, frozenset().union(*(one.words for one in turn)))) for turn in turns.values()]
    own = (weight * _about(persons, turn) for weight, turn in zip(weights, turns.values(), strict=True))
    return 0.5 - sum(own) / sum(weights)


def _about(persons: frozenset[str], turn: Sequence[Candidate]) -> float:
    """Return the share of "I" and "you" in a turn that refer to one of these people; 0.5 if there are none."""
    said = " ".join(one.text for one in turn).lower().replace("’", "'").replace("'", " ").split()
    mine, yours = sum(word in ME for word in said), sum(word in YOU for word in said)
    first = (mine + 0.5) / (mine + yours + 1)
    return 1 - first if persons.isdisjoint(words(turn[0].speaker or "")) else first
