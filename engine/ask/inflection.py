"""The form by which two words of a question are compared: irregular verbs and plurals, spellings, numbers, one root.

Small tables of English beside the light stemming of `words`, irregular forms from prompts/inflections.txt; knows no
question.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache

from engine.ask.words import stem
from prompts import word_groups

# What is left of two words of one root, as the stemming leaves it. None is -er: who does is not what is done.
_PLAIN = frozenset(("", "e", "y", "at", "ate", "se"))
_DERIVED = """
ion ation ition ment ement ance ence anc enc ancy ency ant ent nes ness iness iv ativ ical abl ibl ur ication al ial ic
ity ou
"""
_FAMILY = _PLAIN.union(_DERIVED.split())
_DOUBTFUL = frozenset(("y", "al", "ial", "ity", "ic", "ant", "ent"))  # office and official are two things
_BENT = frozenset(map(frozenset, (("d", "sion"), ("l", "ility"), ("t", "c"), ("t", "cy"))))  # decide, able
_SPELLED = re.compile(r"(?:is|ys)(?=e$|ation)|(?<=[^t])our(?!n|c)")  # organise, analyse, neighbourhood


@cache
def _forms() -> dict[str, str]:
    """Return the base form of each irregular form."""
    forms = dict[str, str]()
    for *others, plain in word_groups("inflections"):
        forms |= dict.fromkeys(others, _bare(plain, {}))
    return forms


@lru_cache(maxsize=1 << 14)
def base(word: str) -> str:
    """Give the form by which a lower-case word is compared: its verb, noun or number, spelled one way, stemmed."""
    return _forms().get(word) or _bare(word, _forms())


def _bare(word: str, forms: Mapping[str, str]) -> str:
    if word[:1].isdigit():
        return word.replace(",", "").lstrip("0") or "0"
    if len(word) > 4 and word.endswith("ied"):
        word = word[:-3] + "y"
    short = stem(word)
    if len(short) > 5:
        short = stem(_SPELLED.sub(lambda match: match[0].replace("s", "z").replace("our", "or"), short))
    return forms.get(short, short)


@lru_cache(maxsize=1 << 14)
def one_root(one: str, other: str) -> bool:
    """Tell whether two base forms are a verb and its noun, or an adjective and its noun."""
    if not (one.isalpha() and other.isalpha()):
        return False
    pairs = zip(one, other, strict=False)
    shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    rests = frozenset((one[shared:], other[shared:]))
    if rests in _BENT:
        return shared >= 4
    least = 6 if rests & _DOUBTFUL else 5
    return shared >= max(least, (len(one) + len(other)) / 4) and rests <= _FAMILY and bool(rests & _PLAIN)
