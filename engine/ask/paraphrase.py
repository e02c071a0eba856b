"""Whether two questions may share an answer, by their words: what differs between them, and what that turns round."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from engine.ask.question_features import QuestionFeatures, normal_question, question_features
from engine.text.question import Question
from engine.text.words import base, one_root
from prompts import word_groups

_NONE = frozenset[int]()


@cache
def _memberships() -> dict[str, frozenset[int]]:
    """Return the groups of each base form, by number."""
    found: dict[str, set[int]] = {}
    for number, group in enumerate(word_groups("synonyms")):
        for word in group:
            found.setdefault(base(word), set()).add(number)
    return {word: frozenset(groups) for word, groups in found.items()}


def synonymous(one: str, other: str) -> bool:
    """Whether two base forms ask for the same: equal, of one root, or synonyms."""
    return one == other or bool(_shared(one, other)) or one_root(one, other)


def _shared(one: str, other: str) -> frozenset[int]:
    groups = _memberships()
    return groups.get(one, _NONE) & groups.get(other, _NONE)


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
    "role": "who does it to whom may differ",
    "way": "another direction",
    "words": "other words",
}


@dataclass(frozen=True, slots=True)
class UnmatchedWords:
    """The words of a new and a cached question without a partner in the other, as base forms."""

    new: tuple[str, ...]
    cached: tuple[str, ...]


def why_different(new: Question, cached: Question) -> str | None:
    """Return why two questions may not share an answer; None if they may, provided that the evidence agrees."""
    one, two = question_features(new), question_features(cached)
    pairs = _aligned(one.content, two.content)
    left = _left(one.content, two.content, pairs)
    new, cached = normal_question(new), normal_question(cached)
    scheduled = new.asked in ("date", "time", "place")
    doubts = {
        "language": not (one.english and two.english) and one.content != two.content,
        "kind": new.asked != cached.asked
        or (new.asked == "other" and one.asking != two.asking)
        or one.unit != two.unit,
        "names": not one.names.isdisjoint(left.new) or not two.names.isdisjoint(left.cached),
        "numbers": one.numbers != two.numbers,
        "dates": new.dates != cached.dates,
        "negation": one.negations != two.negations,
        "person": bool(one.persons and two.persons) and one.persons.isdisjoint(two.persons),
        "time": _other_time(one, two, on_schedule=scheduled),
        "role": _other_role(one, two, pairs),
        "way": bool((one.ways ^ two.ways) - _VAGUE_WAYS),
        "place": one.places != two.places,
        "words": not _tolerable(left, one, two),
    }
    return next((_WHY[part] for part in _WHY if doubts[part]), None)


def asks_in_same_words(new: Question, cached: Question) -> bool:
    """Return whether two questions have the same words as written: synonyms and other forms are other words."""
    one, two = question_features(new), question_features(cached)
    same = one.literal == two.literal and sorted(one.content) == sorted(two.content)
    return same and (one.persons, one.ways) == (two.persons, two.ways)


def unmatched_words(new: Question, cached: Question) -> UnmatchedWords:
    """Return the words of each question that have no partner in the other."""
    one, two = question_features(new).content, question_features(cached).content
    return _left(one, two, _aligned(one, two))


def _aligned(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    """Pair equal words first, then related ones, each word at most once; returns pairs of positions in order."""
    pairs, free = dict[int, int](), list(range(len(two)))
    for same in (str.__eq__, synonymous):
        for place, word in enumerate(one):
            partner = None if place in pairs else next((other for other in free if same(word, two[other])), None)
            if partner is not None:
                pairs[place] = partner
                free.remove(partner)
    return sorted(pairs.items())


def _left(one: Sequence[str], two: Sequence[str], pairs: Sequence[tuple[int, int]]) -> UnmatchedWords:
    """Return what was not paired, but for a word that has a partner elsewhere in its question."""
    ours, theirs = {one[a] for a, _ in pairs}, {two[b] for _, b in pairs}
    first = tuple(word for word in one if word not in ours)
    return UnmatchedWords(first, tuple(word for word in two if word not in theirs))


# Say little beside a noun that says what is done: "make an edit".
_LIGHT_VERBS = frozenset(map(base, ("make", "give", "have", "take", "get", "do")))


def _tolerable(left: UnmatchedWords, one: QuestionFeatures, two: QuestionFeatures) -> bool:
    """One word more in one of the two may be borne by the evidence, but what is done, or whose it is, never."""
    more = [*_narrowing(left.new, one), *_narrowing(left.cached, two)]
    return more in ([], [False])


_LONG = 7  # words of a question that is hardly another one for one word more


def _narrowing(unmatched: Sequence[str], own: QuestionFeatures) -> list[bool]:
    """Return of each word that only one question has whether it asks for something else: a verb, or whose."""
    found, is_short = zip(own.content, own.heads, strict=True), len(own.content) < _LONG
    return [is_short and form not in _LIGHT_VERBS and is_head for form, is_head in found if form in unmatched]


_ALIKE_TENSES = frozenset(
    frozenset((one, two))
    for one, others in (("progressive", "present future"), ("perfect", "past present"), ("modal", "present future"))
    for two in others.split()
)


def _other_time(one: QuestionFeatures, two: QuestionFeatures, *, on_schedule: bool) -> bool:
    """Return whether one question is about the past and the other about the present or future.

    For a scheduled event, "is" and "will be" mean the same.
    """
    if "any" in one.tenses | two.tenses:
        return False
    alike = _ALIKE_TENSES | ({frozenset(("present", "future"))} if on_schedule else frozenset())
    return not any(a == b or frozenset((a, b)) in alike for a in one.tenses for b in two.tenses)


_VAGUE_WAYS = frozenset(("to", "for", "with", "about"))  # "of", "on" and no word at all may stand for them
_NEUTRAL = frozenset(("of", "owner", "in", "on", "at", "near", "within", "per", "through", "toward", "towards", ""))
# Roles of one name that do not turn a question round: "send Ann a mail" and "send a mail to Ann".
_ALIKE_ROLES = frozenset(
    frozenset((one, two))
    for one, others in (("object", "to with about by"), ("for", "to about"), ("to", "about"), ("agent", "by"))
    for two in others.split()
)


def _other_role(one: QuestionFeatures, two: QuestionFeatures, pairs: Sequence[tuple[int, int]]) -> bool:
    """Tell who did from who was done to, and where to from where from."""
    if one.asked_for and two.asked_for and one.asked_for != two.asked_for:
        return True
    if one.passive == two.passive and _unlike(one.subject, two.subject):
        return True
    named = [
        (one.roles[a], two.roles[b]) for a, b in pairs if one.content[a] in one.names or two.content[b] in two.names
    ]
    return any(_turned(*roles) or (roles[0] != roles[1] and roles[::-1] in named) for roles in named)


def _unlike(ours: frozenset[str], theirs: frozenset[str]) -> bool:
    """Return whether two subjects, both known, have no word in common."""
    return bool(ours and theirs) and not any(synonymous(one, other) for one in ours for other in theirs)


def _turned(one: str, two: str) -> bool:
    """Return whether two roles of a name contradict each other."""
    return one != two and frozenset((one, two)) not in _ALIKE_ROLES and _NEUTRAL.isdisjoint((one, two))
