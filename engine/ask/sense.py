"""A question taken apart for comparison: which words it asks in, and what turns their meaning round.

English, by small tables; what they do not know makes two questions differ. Knows neither corpus nor other questions.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from engine.ask.inflection import base
from engine.ask.question import POLITE, Question

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
class Sense:
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
def sense(question: Question) -> Sense:
    """Take a question apart."""
    tokens = _tokens(POLITE.sub("", question.text))
    plain = ["" if _acronym(token, question.text) else token.casefold() for token in tokens]
    named = {word.casefold() for name in question.names for word in _tokens(name)}
    kept = [(base(token.casefold()), token) for token, word in zip(tokens, plain, strict=True) if _tells(word)]
    return Sense(
        content=tuple(form for form, _ in kept),
        written=tuple(token for _, token in kept),
        owned=frozenset(_followed(plain, ("of",))),
        joined=frozenset(_followed(plain, ("and", "or"))),
        asking=next((_ASKING[word] for word in plain if word in _ASKING), ""),
        english=not _ENGLISH.isdisjoint(plain),
        names=frozenset(
            form for form, token in kept if token.casefold() in named or (token.isupper() and token.isalpha())
        ),
        numbers=tuple(sorted(form for form, _ in kept if form[0].isdigit() and form not in _PLACES)),
        places=tuple(sorted(form for form, token in kept if token.casefold() in _PLACES or form in _PLACES)),
        times=frozenset(_among(plain, _TIMES)),
        voices=frozenset(_among(plain, _VOICES)),
        persons=frozenset(_among(plain, _PERSONS)),
        ways=_WAYS.intersection(plain),
        givers=_GIVERS.intersection(plain),
        negations=sum(word in _NEGATIONS for word in plain),
    )


def _tells(word: str) -> bool:
    """Tell whether a word is part of what is asked about; an acronym, given as "", is."""
    return (
        word not in _FREE
        and word not in _LIGHT
        and not any(word in table for table in (_ASKING, _PERSONS, _TIMES, _NEGATIONS))
        and (word in _PLACES or word not in _WAYS | _GIVERS)
    )


def _followed(plain: Sequence[str], links: Sequence[str]) -> Iterator[int]:
    """Give the places of words with such a link behind them, counted over the words that tell."""
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
