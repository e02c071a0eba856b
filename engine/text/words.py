"""Tokenization and stemming, the same for the index and for questions.

Words are casefolded, unaccented and lightly stemmed; addresses, numbers and compounds are indexed whole and in parts;
scripts without spaces become bigrams. Knows nothing of scores.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache

from prompts import word_groups

# `re` does not count Indic vowel signs as letters, but they are part of the word.
_LETTER = r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0dff])"
_WORD = re.compile(
    r"(?P<address>(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)++)"  # only at its start: runs stay linear
    r"|(?P<number>\d+(?:[.,:/-]\d+)+)"
    rf"|(?P<word>{_LETTER}+(?:['-]{_LETTER}+)*)"
)
_PARTS = re.compile(rf"{_LETTER}+")
_CLITIC = re.compile(r"'(?:s|re|ve|ll|d|m)$")
_TIMED = re.compile(r"(\d+)([a-z]+)$")
_ORDINALS = frozenset(("st", "nd", "rd", "th"))
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+$")
_SIGNS = str.maketrans("’‘ʼ‐‑‒", "'''---")
# Thai, Lao, Khmer, Myanmar, kana and Han are written without spaces; Hangul glues endings on.
_UNSPACED = re.compile(
    r"[\u0e01-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
    r"\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_VOWEL = re.compile(r"[aeiouy]")

_FUNCTION = (
    "a about all also am an and any ar are as at be been being but by can cant could did didnt do doe does doesnt "
    "don done dont for from had has hav have he her hers him his how i if in into is isnt it its just me min mine "
    "my no not of on or our ours she should so som some than that the their them then ther there these they this "
    "tho those to too up us wa was wasnt we wer were what when wher where which who whom whose why will with "
    "would you your "
)
FUNCTION_WORDS = frozenset(_FUNCTION.split())  # as stemmed by words()


def words(text: str) -> list[str]:
    """Return the words of a text in order; joining them by spaces and splitting again gives the same set."""
    found: list[str] = []
    for match in _WORD.finditer(_normalise(text)):
        found += _index_forms(match.group(), match.lastgroup or "word")
    return found


def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that say something."""
    return frozenset(words(text)) - FUNCTION_WORDS


def _normalise(text: str) -> str:
    """Return the text casefolded and composed, without common accents, with one kind of apostrophe and hyphen."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold().translate(_SIGNS))
    return unicodedata.normalize("NFKC", "".join(c for c in apart if not "\u0300" <= c <= "\u036f"))


@lru_cache(maxsize=1 << 16)
def _index_forms(token: str, kind: str) -> tuple[str, ...]:
    """Return the index terms of a token: the token itself and its parts."""
    if kind == "number":
        if _GROUPED.fullmatch(token):
            return (_number(token.replace(",", "")),)
        return (token, *(_number(part) for part in re.findall(r"\d+", token)))
    if kind == "address":
        return (token, *(word for part in _PARTS.findall(token) for word in _compound(part)))
    return _compound(_CLITIC.sub("", token))


def _compound(token: str) -> tuple[str, ...]:
    """Return a word, or the parts of a compound and, of two parts, the compound written as one."""
    if _UNSPACED.search(token):
        return tuple(_bigrams(token))
    parts = _PARTS.findall(token)
    if len(parts) == 1:
        return _simple(parts[0])
    joined = _simple("".join(parts)) if len(parts) == 2 else ()
    return joined if token.endswith("n't") else (*(word for part in parts for word in _simple(part)), *joined)


def _simple(word: str) -> tuple[str, ...]:
    """Return the stem of a word; "5pm" and "3rd" are indexed under their number too."""
    timed = _TIMED.fullmatch(word)
    if timed is None:
        return (_part(word),)
    number, unit = _number(timed[1]), timed[2]
    return (number,) if unit in _ORDINALS else (word, number, _part(unit))


def _part(word: str) -> str:
    return _number(word) if word.isdigit() else stem(word)


def _number(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _bigrams(token: str) -> list[str]:
    """Return the bigrams of each run of an unspaced script, and the words between such runs."""
    found, end = [], 0
    for run in _UNSPACED.finditer(token):
        found += [piece for part in _PARTS.findall(token[end : run.start()]) for piece in _simple(part)]
        text, end = run.group(), run.end()
        found += [text[i : i + 2] for i in range(max(1, len(text) - 1))]
    return found + [piece for part in _PARTS.findall(token[end:]) for piece in _simple(part)]


def stem(word: str) -> str:
    """Return a word without the commonest English endings (plural, -ed, -ing, -ly, silent e)."""
    if not (word.isascii() and word.isalpha()):
        return word
    while (shorter := _shorten(word)) != word:  # until nothing changes, so that stemming is idempotent
        word = shorter
    return word


def _shorten(word: str) -> str:
    if len(word) < 4:
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zzes", "oes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    for ending in ("ing", "ed", "ly"):
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) > 2 and _VOWEL.search(rest):
            return rest if ending == "ly" else _restore_verb(rest)
    return word[:-1] if word.endswith("e") and word[-2] != "s" else word


def _restore_verb(rest: str) -> str:
    """Undo a doubled letter before -ed and -ing, and restore the e of "-se", which would look like a plural."""
    if rest[-1] == rest[-2] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if rest.endswith("s") and not rest.endswith(("ss", "ocus")) else rest


# Stemmed endings by which words of one root differ. -er is left out: the agent is not the action.
_INFLECTED = frozenset(("", "e", "y", "at", "ate", "se"))
_DERIVED = """
ion ation ition ment ement ance ence anc enc ancy ency ant ent nes ness iness iv ativ ical abl ibl ur ication al ial ic
ity ou
"""
_FAMILY = _INFLECTED.union(_DERIVED.split())
_DOUBTFUL = frozenset(("y", "al", "ial", "ity", "ic", "ant", "ent"))  # "office" and "official" are unrelated
_ALTERNATIONS = frozenset(map(frozenset, (("d", "sion"), ("l", "ility"), ("t", "c"), ("t", "cy"))))  # decide, able
_SPELLED = re.compile(r"(?:is|ys)(?=e$|ation)|(?<=[^t])our(?!n|c)")  # organise, analyse, neighbourhood


@cache
def _forms() -> dict[str, str]:
    """Return the base form of each irregular form."""
    forms = dict[str, str]()
    for *others, plain in word_groups("inflections"):
        forms |= dict.fromkeys(others, _base_of(plain, {}))
    return forms


@cache
def irregular_verbs() -> frozenset[str]:
    """Return the irregular pasts and participles of verbs."""
    return frozenset(word for *forms, _ in word_groups("inflections") for word in forms if not word.endswith("ing"))


@lru_cache(maxsize=1 << 14)
def base(word: str) -> str:
    """Return the base form of a lower-case word: irregular forms resolved, one spelling, stemmed."""
    return _forms().get(word) or _base_of(word, _forms())


def _base_of(word: str, forms: Mapping[str, str]) -> str:
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
    """Return whether two base forms share a root, as a verb and its noun or an adjective and its noun do."""
    if not (one.isalpha() and other.isalpha()):
        return False
    pairs = zip(one, other, strict=False)
    shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    rests = frozenset((one[shared:], other[shared:]))
    if rests in _ALTERNATIONS:
        return shared >= 4
    least = 6 if rests & _DOUBTFUL else 5
    return shared >= max(least, (len(one) + len(other)) / 4) and rests <= _FAMILY and bool(rests & _INFLECTED)


_DIGITS = re.compile(r"\d+")


def terms(text: str) -> frozenset[str]:
    """Return the words of a text, and of its numbers the groups of digits: "$189,148.34" is 189, 148 and 34."""
    return frozenset(word for word in words(text) if not _DIGITS.search(word)).union(_DIGITS.findall(text))
