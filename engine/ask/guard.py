"""Whether two questions may share an answer, by their words alone: any doubt is a reason to refuse.

Compares what is asked, names, numbers, dates, negation, order, time and person; knows neither answers nor evidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.ask.inflection import base
from engine.ask.question import Question
from engine.ask.sense import Sense, sense
from engine.ask.synonyms import akin

_ASKING_FOR_ALL = """
discuss discussion say tell talk mention think opinion view attitude summarize summary describe explain conclude
conclusion suggest recommend propose
"""
_BROAD = frozenset(map(base, _ASKING_FOR_ALL.split()))  # all of a matter is asked for: every word counts
_WHY = {
    "language": "not in English",
    "kind": "another kind of question",
    "names": "another name",
    "numbers": "other numbers",
    "dates": "other dates",
    "negation": "one of the two is negated",
    "person": "about another person",
    "time": "about another time",
    "place": "another of several",
    "voice": "who does it to whom may differ",
    "way": "another direction",
    "words": "other words",
    "order": "another order of words",
}
PARTS = tuple(_WHY)


@dataclass(frozen=True, slots=True)
class Loose:
    """The words of two questions that found no partner in the other, as base forms."""

    asked: tuple[str, ...]
    kept: tuple[str, ...]


def refuse(asked: Question, kept: Question, off: frozenset[str] = frozenset()) -> str | None:
    """Give the reason why two questions may not share an answer; None where they may, if the evidence agrees.

    `off` names parts that are left out, for measurement.
    """
    one, two = sense(asked), sense(kept)
    pairs = _aligned(one.content, two.content)
    left = _left(one.content, two.content, pairs)
    doubts = {
        "language": not (one.english and two.english) and one.content != two.content,
        "kind": asked.asked != kept.asked or (asked.asked == "other" and one.asking != two.asking),
        "names": not one.names.isdisjoint(left.asked) or not two.names.isdisjoint(left.kept),
        "numbers": one.numbers != two.numbers,
        "dates": asked.dates != kept.dates,
        "negation": one.negations != two.negations,
        "person": _other_person(one.persons, two.persons),
        "time": one.times != two.times or asked.current != kept.current,
        "voice": _other_voice(one, two, pairs),
        "way": bool(one.ways - two.ways and two.ways - one.ways),
        "place": one.places != two.places,
        "words": not _tolerable(left, one, two, broad=asked.asked == "other"),
        "order": _crossed(pairs, one, two),
    }
    return next((_WHY[part] for part in PARTS if doubts[part] and part not in off), None)


def loose(asked: Question, kept: Question) -> Loose:
    """Give the words of each question that have no partner in the other."""
    one, two = sense(asked).content, sense(kept).content
    return _left(one, two, _aligned(one, two))


def _aligned(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    """Pair equal words, then words akin, each once, in order; gives places."""
    pairs, free = dict[int, int](), list(range(len(two)))
    for same in (str.__eq__, akin):
        for place, word in enumerate(one):
            partner = None if place in pairs else next((other for other in free if same(word, two[other])), None)
            if partner is not None:
                pairs[place] = partner
                free.remove(partner)
    return sorted(pairs.items())


def _left(one: Sequence[str], two: Sequence[str], pairs: Sequence[tuple[int, int]]) -> Loose:
    """Give what was not paired, but for a word that has a partner elsewhere in its question."""
    ours, theirs = {one[a] for a, _ in pairs}, {two[b] for _, b in pairs}
    first = tuple(word for word in one if word not in ours)
    return Loose(first, tuple(word for word in two if word not in theirs))


def _tolerable(left: Loose, one: Sense, two: Sense, *, broad: bool) -> bool:
    """One word more in one of the two may be borne by the evidence, unless all of a matter is asked for."""
    count = len(left.asked) + len(left.kept)
    return count == 0 or (count == 1 and not (broad and _BROAD.intersection((*one.content, *two.content))))


def _other_person(one: frozenset[str], two: frozenset[str]) -> bool:
    """Somebody else's is another matter; that it is mine may go without saying."""
    asking = frozenset(("I", "we", "you"))
    return one - asking != two - asking or bool(one and two and one != two)


def _other_voice(one: Sense, two: Sense, pairs: Sequence[tuple[int, int]]) -> bool:
    """Tell who did from who was done to: "did Ann pay" from "was Ann paid", "from Ann" and "by Ann" from neither."""
    people = bool(one.names | two.names | one.persons | two.persons) or "who" in (one.asking, two.asking)
    if "from" in one.givers ^ two.givers or (people and one.givers != two.givers):
        return True
    bent = any(one.content[a] == two.content[b] and one.written[a] != two.written[b] for a, b in pairs)
    return one.voices ^ two.voices == {"be", "do"} and (bent or people)


def _crossed(pairs: Sequence[tuple[int, int]], one: Sense, two: Sense) -> bool:
    """Tell whether the words that stand once in each stand in another order; "B's A" is "A of B"."""
    same = [(a, b) for a, b in pairs if one.content[a] == two.content[b]]
    once = [(a, b) for a, b in same if one.content.count(one.content[a]) == two.content.count(two.content[b]) == 1]
    places = [b for _, b in once]
    for i, ((a, b), (_, after)) in enumerate(pairwise(once)):
        turned = (a in one.owned) != (after in two.owned) or (a in one.joined and after in two.joined)
        if after == b - 1 and turned:
            places[i : i + 2] = after, b
    return places != sorted(places)
