"""A question taken apart for comparison: which words it asks in, and what turns their meaning round.

English, by small tables; what they do not know makes two questions differ. Knows neither corpus nor other questions.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

from engine.text.question import POLITE, Question
from engine.text.words import base, one_root
from prompts import word_groups

_PHRASES = tuple(
    (re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE), word)
    for phrase, word in (
        (r"(?:takes?|taking|took|taken) place", "happen"),
        (r"(?:takes?|taking|took|taken) part", "participate"),
        (r"(?:comes?|coming|came) back", "return"),
        (r"sets?(?:ting)? up", "establish"),
        (r"going to (?=\w)(?!the\b|a\b|an\b|my\b|our\b)", "will "),
        (
            r"(?:(?:in|on) )?(?:what|which) (?:year|date)"
            r"(?= (?:is|are|was|were|do|does|did|has|have|had|will|can|could)\b)",
            "when",
        ),
        (r"(?:what|which) (?:person|people)", "who"),
        (r"in (?:what|which) (month|week|town|city|country)", r"what \1"),
        (r"(?:what|which) (?:kind|type|sort|form|category)s?(?: of)?(?: an?)?", "what"),
        (r"what is the name of|what's the name of|what was the name of", "what is"),
        (r"another", "other"),
        (r"e-(?=mail)", "e"),
    )
)
# "On Friday, where do we meet" asks what "where do we meet on Friday" asks.
_LED = re.compile(
    r"\A\s*((?:in|on|at|during|by|before|after|since|according to|as of|under)\b(?:(?!\b(?:wh|how))[^,?])+),\s+"
    r"((?:wh(?:at|en|ere|o|om|ose|ich|y)|how|is|are|was|were|do|does|did|has|have|had|will|can)\b[^?]+)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?(?![^\W\d_])|[^\W_]+(?:'[^\W_]+)*|[+&#%$€£]")
_DOTTED = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_SIGNS = str.maketrans("’‘ʼ`´‐‑‒–—", "'''''-----")
_SHORT = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "let's": "let us"}
_CLITICS = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(text: str) -> dict[str, str]:
    """Read "a b: c, d: e" as what each word stands for."""
    pairs = [group.split(":") for group in text.split(",")]
    return {word: meaning.strip() for members, meaning in pairs for word in members.split()}


_ASKING = _table("what which whatever: what, when: when, where: where, who whom whose: who, why: why, how: how")
_PERSONS = _table(
    "i me my mine myself: I, we us our ours: we, you your yours: you, he him his: he, she her hers: she,"
    "they them their theirs: they"
)
_TIMES = _table("will shall: future, should must ought: duty")
_VOICES = _table("is are was were am been being: be, do does did: do")
_WAYS = _set(
    "to for with about against before after since until till during between above below over under into onto "
    "off out up down behind besides inside outside than versus vs without except excluding"
)
_GIVERS = frozenset(("from", "by"))  # who is told from whom by these alone
_NEGATIONS = _set("not no never none nobody nothing nowhere neither nor without except excluding unable")
# Which of several is meant: never left over, and no other word does for them.
_PLACES = _set(
    "first last next previous latest final only other else more less most least best worst better worse "
    "before after since until than all each every both same highest lowest biggest largest smallest longest shortest "
    "oldest youngest newest earliest original initial former latter 1st 2nd 3rd half twice once old new"
)
_ENGLISH = _set("what when where who whom whose which why how is are does did the of")
_FREE = _set(
    "a an the this that these those there here be been being and or of in on at as so then also too just do "
    "does did is was were are am has have had having can could would may might let if whether any some ever "
    "such it its please through toward towards via within per near"
)
# Say little by themselves: a question means the same without them.
_LIGHT = _set(
    "exactly exact precisely precise actually actual really real truly very indeed particularly particular "
    "specifically specific basically essentially ultimately eventually finally simply quite generally commonly "
    "typically usually normally often mainly mostly primarily approximately roughly about name names called "
    "named known kind kinds type types sort sorts form own whole entire entirely various several certain "
    "different total overall"
)


@dataclass(frozen=True, slots=True)
class QuestionFeatures:
    """One question taken apart; each field is compared by itself."""

    content: tuple[str, ...]  # base forms, in order
    written: tuple[str, ...]  # the same words as written
    owned: frozenset[int]  # places of those that "of" stands behind
    joined: frozenset[int]  # the same for "and" and "or"
    asking: str
    english: bool
    names: frozenset[str]
    numbers: tuple[str, ...]
    places: tuple[str, ...]  # which of several
    times: frozenset[str]
    voices: frozenset[str]
    persons: frozenset[str]
    ways: frozenset[str]
    givers: frozenset[str]
    negations: int


@lru_cache(maxsize=64)
def question_features(question: Question) -> QuestionFeatures:
    """Take a question apart."""
    tokens = _tokens(POLITE.sub("", question.text))
    plain = ["" if _acronym(token, question.text) else token.casefold() for token in tokens]
    named = {word.casefold() for name in question.names for word in _tokens(name)}
    content = [(base(token.casefold()), token) for token, word in zip(tokens, plain, strict=True) if _tells(word)]
    return QuestionFeatures(
        content=tuple(form for form, _ in content),
        written=tuple(token for _, token in content),
        owned=frozenset(_followed(plain, ("of",))),
        joined=frozenset(_followed(plain, ("and", "or"))),
        asking=next((_ASKING[word] for word in plain if word in _ASKING), ""),
        english=not _ENGLISH.isdisjoint(plain),
        names=frozenset(
            form for form, token in content if token.casefold() in named or (token.isupper() and token.isalpha())
        ),
        numbers=tuple(sorted(form for form, _ in content if form[0].isdigit() and form not in _PLACES)),
        places=tuple(sorted(form for form, token in content if token.casefold() in _PLACES or form in _PLACES)),
        times=frozenset(_among(plain, _TIMES)),
        voices=frozenset(_among(plain, _VOICES)),
        persons=frozenset(_among(plain, _PERSONS)),
        ways=_WAYS.intersection(plain),
        givers=_GIVERS.intersection(plain),
        negations=sum(word in _NEGATIONS for word in plain),
    )


def _tells(word: str) -> bool:
    """Return whether a word is part of what is asked about; an acronym, given as "", is."""
    return (
        word not in _FREE
        and word not in _LIGHT
        and not any(word in table for table in (_ASKING, _PERSONS, _TIMES, _NEGATIONS))
        and (word in _PLACES or word not in _WAYS | _GIVERS)
    )


def _followed(plain: Sequence[str], links: Sequence[str]) -> Iterator[int]:
    """Yield the places of words with such a link behind them, counted over the words that tell."""
    count = 0
    for word in plain:
        if word in links and count:
            yield count - 1
        count += _tells(word)


def _among(plain: Iterable[str], table: dict[str, str]) -> list[str]:
    return [table[word] for word in plain if word in table]


def _acronym(token: str, text: str) -> bool:
    """Tell US from us."""
    return len(token) > 1 and token.isupper() and token.isalpha() and not text.isupper()


def _tokens(text: str) -> list[str]:
    """Split into words as written: contractions spelled out, no 's and no dots."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = unicodedata.normalize("NFKC", plain).translate(_SIGNS)
    text = _DOTTED.sub(lambda match: match.group().replace(".", "").upper() + " ", text)
    text = _LED.sub(r"\2 \1 ", text, count=1)
    for pattern, instead in _PHRASES:
        text = pattern.sub(instead, text)
    return [token for match in _TOKEN.finditer(text) for token in _spelled(match.group())]


def _spelled(token: str) -> list[str]:
    low = token.casefold()
    if low in _SHORT:
        return _SHORT[low].split()
    if low.endswith("n't"):
        return [token[:-3], "not"]
    for clitic, full in _CLITICS.items():
        if low.endswith(clitic):
            return [token[: -len(clitic)], full]
    if low.endswith("'s"):
        return (
            [token[:-2], "is"] if low[:-2] in _ASKING or low[:-2] in ("it", "there", "that", "here") else [token[:-2]]
        )
    return [token.replace("'", "")]


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
class UnmatchedWords:
    """The words of a new and a cached question without a partner in the other, as base forms."""

    new: tuple[str, ...]
    cached: tuple[str, ...]


def why_different(new: Question, cached: Question, off: frozenset[str] = frozenset()) -> str | None:
    """Return why two questions may not share an answer; None if they may, provided that the evidence agrees.

    `off` names parts to leave out, for measurements.
    """
    one, two = question_features(new), question_features(cached)
    pairs = _aligned(one.content, two.content)
    left = _left(one.content, two.content, pairs)
    doubts = {
        "language": not (one.english and two.english) and one.content != two.content,
        "kind": new.asked != cached.asked or (new.asked == "other" and one.asking != two.asking),
        "names": not one.names.isdisjoint(left.new) or not two.names.isdisjoint(left.cached),
        "numbers": one.numbers != two.numbers,
        "dates": new.dates != cached.dates,
        "negation": one.negations != two.negations,
        "person": _other_person(one.persons, two.persons),
        "time": one.times != two.times or new.current != cached.current,
        "voice": _other_voice(one, two, pairs),
        "way": bool(one.ways - two.ways and two.ways - one.ways),
        "place": one.places != two.places,
        "words": not _tolerable(left, one, two, broad=new.asked == "other"),
        "order": _crossed(pairs, one, two),
    }
    return next((_WHY[part] for part in PARTS if doubts[part] and part not in off), None)


def unmatched_words(new: Question, cached: Question) -> UnmatchedWords:
    """Return the words of each question that have no partner in the other."""
    one, two = question_features(new).content, question_features(cached).content
    return _left(one, two, _aligned(one, two))


def _aligned(one: Sequence[str], two: Sequence[str]) -> list[tuple[int, int]]:
    """Pair equal words, then words akin, each once, in order; returns places."""
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


def _tolerable(left: UnmatchedWords, one: QuestionFeatures, two: QuestionFeatures, *, broad: bool) -> bool:
    """One word more in one of the two may be borne by the evidence, unless all of a matter is asked for."""
    count = len(left.new) + len(left.cached)
    return count == 0 or (count == 1 and not (broad and _BROAD.intersection((*one.content, *two.content))))


def _other_person(one: frozenset[str], two: frozenset[str]) -> bool:
    """Somebody else's is another matter; that it is mine may go without saying."""
    asking = frozenset(("I", "we", "you"))
    return one - asking != two - asking or bool(one and two and one != two)


def _other_voice(one: QuestionFeatures, two: QuestionFeatures, pairs: Sequence[tuple[int, int]]) -> bool:
    """Tell who did from who was done to: "did Ann pay" from "was Ann paid", "from Ann" and "by Ann" from neither."""
    people = bool(one.names | two.names | one.persons | two.persons) or "who" in (one.asking, two.asking)
    if "from" in one.givers ^ two.givers or (people and one.givers != two.givers):
        return True
    bent = any(one.content[a] == two.content[b] and one.written[a] != two.written[b] for a, b in pairs)
    return one.voices ^ two.voices == {"be", "do"} and (bent or people)


def _crossed(pairs: Sequence[tuple[int, int]], one: QuestionFeatures, two: QuestionFeatures) -> bool:
    """Return whether the words that stand once in each stand in another order; "B's A" is "A of B"."""
    same = [(a, b) for a, b in pairs if one.content[a] == two.content[b]]
    once = [(a, b) for a, b in same if one.content.count(one.content[a]) == two.content.count(two.content[b]) == 1]
    places = [b for _, b in once]
    for i, ((a, b), (_, after)) in enumerate(pairwise(once)):
        turned = (a in one.owned) != (after in two.owned) or (a in one.joined and after in two.joined)
        if after == b - 1 and turned:
            places[i : i + 2] = after, b
    return places != sorted(places)
