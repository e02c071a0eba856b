"""What a language model wrote, read leniently: the answer, the numbers it names, or that it found nothing.

Knows how models are given to write; neither the sources nor who wrote. What is shown while it writes only ever grows.
"""

import re
from dataclasses import dataclass

_THOUGHT = re.compile(r"<think>.*?(?:</think>\s*|\Z)", re.DOTALL)
_LEAD = re.compile(r"\A\W*answer\s*:[\s*]*", re.IGNORECASE)
_NOUN = r"(?:source|message|note|chunk|document|number|reference)s?"
_LIST = r"\d{1,3}(?:\s*(?:[,;&–-]|and)\s*\d{1,3})*"
# Brackets alone make a number a citation, parentheses only with a word: "(42)" may be the answer.
_MARK = re.compile(
    rf"\s*(?:\[+\s*(?:{_NOUN}\s*)?#?({_LIST})\s*\]+|\(\s*(?:see )?{_NOUN}\s*#?({_LIST})\s*\))", re.IGNORECASE
)
_LAST = re.compile(rf"\s*\n\s*\W{{0,2}}{_NOUN}\W{{0,3}}\s*({_LIST})\W*\Z", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)\s*[–-]\s*(\d+)")
_OPEN = re.compile(r"[\[(][^\])\n]{0,40}\Z|<[a-z]{0,5}\Z")
_LAST_OPEN = re.compile(r"\n\W{0,2}[a-z]*[\s\d\W]*\Z", re.IGNORECASE)
_NOTHING = re.compile(r"(?:\A|[.!?]\s+)\W*not[ -]found\W*(?:\Z|(?<=[.:,;–—-])\s)", re.IGNORECASE)
_MOST = 1000  # a list such as 1-999999 is no list of sources


@dataclass(frozen=True, slots=True)
class Said:
    """An answer, None where the model found none, and the numbers of what it is from, in the order they are named."""

    answer: str | None
    cited: tuple[int, ...]


def parse(written: str) -> Said:
    """Read all that a model wrote."""
    text = _THOUGHT.sub("", written)
    answer = visible(written, done=True)
    if not answer or _NOTHING.search(answer):
        return Said(None, ())
    return Said(answer, tuple(dict.fromkeys(n for found in _lists(text) for n in _numbers(found))))


def visible(written: str, *, done: bool = False) -> str:
    """Give what may be shown of an unfinished text: each is the beginning of all later ones."""
    text = _THOUGHT.sub("", written).lstrip()
    if not done:
        text = _OPEN.sub("", text)
        text = _LAST_OPEN.sub("", text)
        if _undecided(text):
            return ""
    text = _MARK.sub("", _LAST.sub("", _LEAD.sub("", text)))
    return text.strip()


def _undecided(text: str) -> bool:
    """Tell whether a beginning may still become "Answer:" or "not found"."""
    letters = re.sub(r"[\W_]+", " ", _LEAD.sub("", text).casefold()).strip()
    return any(whole.startswith(letters) for whole in ("answer", "not found"))


def _lists(text: str) -> list[str]:
    found = [mark[1] or mark[2] for mark in _MARK.finditer(text)]
    last = _LAST.search(_MARK.sub("", text))
    return found + ([last[1]] if last else [])


def _numbers(found: str) -> list[int]:
    """Give the numbers of a list, those inside a range too."""
    numbers: list[int] = []
    for part in re.split(r"\s*(?:[,;&]|and)\s*", found):
        span = _RANGE.fullmatch(part)
        numbers += range(int(span[1]), min(int(span[2]), _MOST) + 1) if span else [int(part)]
    return numbers
