"""Whether the meaning of a question depends on the time of day or the date, by the words in `prompts/deictic.txt`.

Reads the wording alone, and compiles no patterns: every exact hit imports it.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from prompts import prompt

Sensitivity = Literal["clock", "day"]  # what the meaning of a question moves with

_GAP = 4  # words that ".." stands for, at most
_ASCII_SIGNS = {code: " " for code in range(128) if not chr(code).isalnum()}
_PARTS = ("day", "clock", "not")  # of two phrases for the same words the later part counts
Phrase = tuple[str, ...]


class _Match(NamedTuple):
    """A phrase found in a question: its words from `first` to before `end`, and its part of the list."""

    first: int
    end: int
    part: int

    def outweighs(self, other: "_Match") -> bool:
        """Return whether another match shares a word with this one, and says less."""
        meets = self.first < other.end and other.first < self.end
        return meets and (self.end - self.first, self.part) > (other.end - other.first, other.part)


@lru_cache(maxsize=1 << 12)
def time_sensitivity(question: str) -> Sensitivity | None:
    """Return what the meaning of a question moves with: the clock, the day, or nothing that its words show."""
    found = list(_matches(plain_words(question)))
    parts = {_PARTS[one.part] for one in found if not any(other.outweighs(one) for other in found)}
    if "clock" in parts:
        return "clock"
    within = any(phrase[0] in question for phrase in word_lists("deictic")["zh"]["within"])
    return "day" if within or "day" in parts else None


def is_time_sensitive(question: str) -> bool:
    """Return whether the answer to a question expires with the day it is given on, or sooner."""
    return time_sensitivity(question) is not None


def is_timeless(question: str) -> bool:
    """Return whether a question shows that its meaning is fixed: it asks about the past, and not from today."""
    tokens = plain_words(question)
    lists = word_lists("deictic")
    past = {phrase[0] for language in _languages(tokens) for phrase in lists[language]["past"]}
    return not past.isdisjoint(tokens) and not is_time_sensitive(question)


def moment(question: str, now: datetime, *, dated: bool) -> str | None:
    """Return the time at which a question is understood: the minute, the day, or None if its meaning is fixed.

    A writer that is told the date (`dated`) understands every question by it that is not shown to be timeless.
    """
    sensitivity = time_sensitivity(question)
    if sensitivity == "clock":
        return now.isoformat(timespec="minutes")
    return now.date().isoformat() if sensitivity or (dated and not is_timeless(question)) else None


def plain_words(text: str) -> list[str]:
    """Return the words of a text, casefolded and without accents; every sign ends a word: "what's" is two."""
    if text.isascii():
        return text.lower().translate(_ASCII_SIGNS).split()
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = (sign for sign in apart if not unicodedata.combining(sign))
    return "".join(sign if sign.isalnum() else " " for sign in kept).split()


@cache
def common_words(language: str) -> frozenset[str]:
    """Return words that stand in most questions of a language ("en")."""
    return frozenset(word for (word,) in word_lists("deictic")[language]["common"])


@cache
def word_lists(name: str) -> dict[str, dict[str, list[Phrase]]]:
    """Return the phrases of a list among the prompts, by language and part."""
    lines = (line for line in prompt(name).splitlines() if not line.startswith("#"))
    found: dict[str, dict[str, list[Phrase]]] = {}
    for section in " ".join(lines).split("[")[1:]:
        head, _, body = section.partition("]")
        language, part = head.split()
        found.setdefault(language, {})[part] = [tuple(phrase.split()) for phrase in body.split(",")]
    return found


def _languages(tokens: Sequence[str]) -> list[str]:
    """Return the languages that a question may be in: those of its common words, if one has two of them, else all."""
    spaced = [language for language, parts in word_lists("deictic").items() if "common" in parts]
    counts = {language: sum(token in common_words(language) for token in tokens) for language in spaced}
    return [language for language in spaced if counts[language]] if max(counts.values()) > 1 else spaced


def _matches(tokens: Sequence[str]) -> Iterator[_Match]:
    for language in _languages(tokens):
        for number, part in enumerate(_PARTS):
            for first, end in phrases("deictic", part, language).find(tokens):
                yield _Match(first, end, number)


class PhraseIndex:
    """A list of phrases, indexed by their longest whole word, so that few are tried on each question."""

    def __init__(self, listed: Iterable[Phrase]) -> None:
        self._by_word, self._others = dict[str, list[tuple[Phrase, frozenset[str]]]](), list[Phrase]()
        for phrase in listed:
            needed = [word for word in phrase if word not in ("_", "..", "$") and not word.endswith("*")]
            if needed:
                self._by_word.setdefault(max(needed, key=len), []).append((phrase, frozenset(needed)))
            else:
                self._others.append(phrase)

    def find(self, tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each phrase found among plain words, in no order."""
        there = frozenset(tokens)
        held = [phrase for word in there for phrase, needed in self._by_word.get(word, ()) if needed <= there]
        for phrase in (*held, *self._others):
            for first, token in enumerate(tokens):
                if _fits(phrase[0], token) and (end := _end(phrase, tokens, first)):
                    yield first, end


@cache
def phrases(name: str, part: str, language: str | None = None) -> PhraseIndex:
    """Return the index of one part of a phrase list, for one language or all."""
    lists = word_lists(name)
    chosen = lists.values() if language is None else (lists[language],)
    return PhraseIndex(phrase for parts in chosen for phrase in parts.get(part, ()))


def _end(phrase: Phrase, tokens: Sequence[str], first: int) -> int | None:
    """Return where a phrase that begins at `first` ends, None if it does not stand there."""
    if not phrase:
        return first
    if phrase[0] == "$":
        return first if first == len(tokens) else None
    if phrase[0] == "..":
        ends = (_end(phrase[1:], tokens, first + skipped) for skipped in range(_GAP + 1))
        return next((end for end in ends if end), None)
    if first < len(tokens) and _fits(phrase[0], tokens[first]):
        return _end(phrase[1:], tokens, first + 1)
    return None


def _fits(word: str, token: str) -> bool:
    if word.endswith("*"):
        return token.startswith(word[:-1])
    return word in (token, "_")
