"""Text to words, the same for index and question: what two texts must share to meet.

Knows nothing of scores. Words are casefolded, unaccented and lightly stemmed; addresses, numbers and compounds are
kept whole and given in parts too; scripts without spaces become bigrams.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache, lru_cache

from prompts import word_groups

# Indic vowel signs are no letters to `re`, yet belong to their word.
_LETTER = r"(?:[^\W_]|[\u0900-\u0963\u0966-\u0dff])"
_WORD = re.compile(
    r"(?P<address>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
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
FUNCTION_WORDS = frozenset(_FUNCTION.split())  # in the form that words() gives


def words(text: str) -> list[str]:
    """Split a text into its words, in order; joined by spaces and split again they give the same set of words."""
    found: list[str] = []
    for match in _WORD.finditer(_plain(text)):
        found += _pieces(match.group(), match.lastgroup or "word")
    return found


def _plain(text: str) -> str:
    """Casefold and compose; outside ASCII also drop the common accents and unify apostrophes and hyphens."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold().translate(_SIGNS))
    return unicodedata.normalize("NFKC", "".join(c for c in apart if not "\u0300" <= c <= "\u036f"))


@lru_cache(maxsize=1 << 16)
def _pieces(token: str, kind: str) -> tuple[str, ...]:
    """Return the words one token is found by: itself, and its parts where it has some."""
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
    """Return a word of letters and digits; "5pm" and "3rd" are found by their number too."""
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
    """Return the overlapping pairs of each run of an unspaced script, and what stands between such runs as words."""
    found, end = [], 0
    for run in _UNSPACED.finditer(token):
        found += [piece for part in _PARTS.findall(token[end : run.start()]) for piece in _simple(part)]
        text, end = run.group(), run.end()
        found += [text[i : i + 2] for i in range(max(1, len(text) - 1))]
    return found + [piece for part in _PARTS.findall(token[end:]) for piece in _simple(part)]


def stem(word: str) -> str:
    """Take off the commonest English endings (plural, -ed, -ing, -ly, silent e); other scripts pass unchanged."""
    if not (word.isascii() and word.isalpha()):
        return word
    while (shorter := _shorten(word)) != word:  # to the end, so that a stem is its own stem
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
            return rest if ending == "ly" else _restore(rest)
    return word[:-1] if word.endswith("e") and word[-2] != "s" else word


def _restore(rest: str) -> str:
    """Undo what -ed and -ing did to a verb: a doubled letter, and the e of "-se", which would pass for a plural."""
    if rest[-1] == rest[-2] and rest[-1] not in "lsz":
        return rest[:-1]
    return rest + "e" if rest.endswith("s") and not rest.endswith(("ss", "ocus")) else rest


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
    """Return the form by which a lower-case word is compared: its verb, noun or number, spelled one way, stemmed."""
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
    """Return whether two base forms are a verb and its noun, or an adjective and its noun."""
    if not (one.isalpha() and other.isalpha()):
        return False
    pairs = zip(one, other, strict=False)
    shared = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
    rests = frozenset((one[shared:], other[shared:]))
    if rests in _BENT:
        return shared >= 4
    least = 6 if rests & _DOUBTFUL else 5
    return shared >= max(least, (len(one) + len(other)) / 4) and rests <= _FAMILY and bool(rests & _PLAIN)
