"""Which sentences commit somebody to something, ask somebody to do something, or ask a question; and until when.

Matches the phrases in `prompts/open_loops.txt`. Knows one sentence and its surroundings, no documents.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from itertools import chain
from typing import Literal

from engine.text.relative_dates import resolve
from engine.text.spans import find
from engine.text.time_sensitive import phrases, plain_words, word_lists

_LIST = "open_loops"
_FEWEST, _MOST = 3, 60  # words of a sentence
_SKIPPED = 3  # phrases of "between"
_OPENING = 4  # words in which a question begins to ask
_LONGEST_DUE = 10  # days of a time by which something is due, at most
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"[\s(]*[\"“”«„`'?]")  # or of a line with letters that were lost
_BY = re.compile(r"\b(?:by|before|until|till|due|than|deadline|on)\s+(?:the\s+)?(?:end\s+of\s+|\w+\s+of\s+)?\Z", re.I)
_MARKER = re.compile(r"\W{0,6}(?P<marker>[A-Za-z][A-Za-z \-]{2,16}?)[ \t]*:[ \t]*(?=\S)")
_CALLED = re.compile(r"\s*[^\W\d_]+,")
_CHECKBOX = re.compile(r"\s*(?:[-*+]\s+)?\[ ?\]\s+\S")

Doer = Literal["writer", "reader", "named", "unknown"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The context of a sentence: speech, short mail or other mail; and names of people, as written."""

    spoken: bool = False
    short: bool = True
    names: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Commitment:
    """An open item of a sentence: for whom, by name if it has one; `replies` if any answer closes it."""

    kind: Literal["task", "question", "decision", "done", "mail", "date", "person"]
    doer: Doer
    name: str | None = None
    replies: bool = False


def commitment(text: str, around: Surroundings) -> Commitment | None:
    """Return the task or question that a sentence leaves open; None if there is none, or in doubt."""
    tokens = plain_words(text)
    if not _FEWEST <= len(tokens) <= _MOST or _QUOTED.match(text):
        return None
    for language in word_lists(_LIST):
        found = _in_language(language, text, tokens, around)
        if found and not _has(language, "cancel", tokens) and not (around.spoken and _has(language, "once", tokens)):
            return found
    return None


def is_marked(text: str) -> bool:
    """Return whether a line begins as an item of a list of tasks: "Action: ...", "TODO: ...", "[ ] ..."."""
    return _CHECKBOX.match(text) is not None or is_headed(text, _LIST, "marker")


def is_headed(text: str, name: str, part: str) -> bool:
    """Return whether a line begins with a phrase of a part of a list, and a colon."""
    match = _MARKER.match(text)
    return match is not None and any(
        tuple(plain_words(match["marker"])) in lists[part] for lists in word_lists(name).values()
    )


def says_done(text: str) -> bool:
    """Return whether a sentence says that something is done."""
    tokens = plain_words(text)
    return any(
        _has(language, "done", tokens) and not _has(language, "undone", tokens) for language in word_lists(_LIST)
    )


def is_mass_mail(sender: str, text: str) -> bool:
    """Return whether mail was written to nobody in particular, by its sender and its whole text."""
    lists = word_lists(_LIST)
    local, tokens = plain_words(sender.rpartition("<")[2].partition("@")[0]), plain_words(text)
    return any(_has(language, "sender", local) or _has(language, "mass", tokens) for language in lists)


def due_day(text: str, written: datetime | None) -> date | None:
    """Return the due day that a sentence names; None if it names no coming one."""
    if written is None:
        return None
    found = list[tuple[bool, date]]()
    for span in find(text, "date"):
        days = resolve(" ".join(text[span.start : span.end].split()), written)
        if days and days.last >= written.date() and (days.last - days.first).days <= _LONGEST_DUE:
            found.append((_BY.search(text[: span.start]) is None, days.last))
    return min(found)[1] if found else None


def addressed(text: str, names: Collection[str]) -> str | None:
    """Return the one of these names that a sentence calls: at its beginning, or between a comma and its end."""
    words = list(_WORD.finditer(text))
    for number, word in enumerate(words):
        if word.group() not in names:
            continue
        before, after = text[: word.start()].rstrip(), text[word.end() :].lstrip()
        follows = plain_words(after)
        asks = any(start == 0 for start, _ in phrases(_LIST, "request").find(follows))
        first = number == 0 and (after[:1] in (",", "-", "–", "—", ":") or asks)
        if first or (before.endswith(",") and (not after or after[0] in ",.;!?")):
            return word.group()
    return None


def _in_language(language: str, text: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    asks = text.rstrip(" \t\n\"')”*_").endswith("?")
    if asks and around.spoken:  # whoever is asked answers at once
        return None
    if asks:
        return _request(language, tokens, around, asks=True) or _question(language, tokens, around)
    if _triggers(language).isdisjoint(tokens):
        return None
    if (found := _request(language, tokens, around, asks=False)) or says_done(
        text
    ):  # "Here is what I promised to send"
        return found
    return _promise(language, text, tokens, around) or _named(language, text, tokens, around)


def _request(language: str, tokens: Sequence[str], around: Surroundings, *, asks: bool) -> Commitment | None:
    asked = phrases(_LIST, "reply", language).find(tokens)
    says_what = not around.spoken and len(tokens) > _FEWEST  # "Let me know." alone has no task
    if says_what and not all(_has(language, "unless", tokens[:first]) for first, _ in asked):
        return Commitment("task", "reader", replies=True)
    parts = ["request"] + ["must"] * around.short
    if any(_is_said(language, part, tokens, around) for part in parts):
        return Commitment("task", "reader")
    begins = around.short and not asks and _length_at(language, "imperative", tokens, 0)
    return Commitment("task", "reader") if begins else None


def _promise(language: str, text: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    parts = ["promise"] + ["wish"] * (not around.spoken) + ["need"] * around.short
    if any(_is_said(language, part, tokens, around) for part in parts):
        return Commitment("task", "writer")
    if _is_said(language, "offer", tokens, around) and (around.spoken or find(text, "date")):
        return Commitment("task", "writer")
    bare = around.short and _promises_without_subject(language, text, tokens)
    return Commitment("task", "writer") if bare else None


def _promises_without_subject(language: str, text: str, tokens: Sequence[str]) -> bool:
    """Return whether a sentence leaves out "I": "Will call you", "Jan, will call you", "We arrived and will call"."""
    lists = word_lists(_LIST)[language]
    for at, token in enumerate(tokens):
        if (token,) not in lists["will"] or not _acts(language, tokens, at + 1, spoken=False):
            continue
        goes_on = (tokens[at - 1],) in lists["and"] and (tokens[0],) in lists["self"]
        return at == 0 or goes_on or (at == 1 and _CALLED.match(text) is not None)
    return False


def _named(language: str, text: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    written = _WORD.findall(text)
    if len(written) != len(tokens):
        return None
    for first, end in sorted(phrases(_LIST, "will", language).find(tokens)):
        near = ([*written[max(0, first - length) : first]] for length in (1, 2))  # "Reagan", or "Gus" of "Gus Tindall"
        called = (one for one in near if one and one[0] in around.names and all(word[:1].isupper() for word in one))
        name = next((" ".join(one) for one in called), None)
        anyone = first > 0 and (tokens[first - 1],) in word_lists(_LIST)[language]["subject"]
        acts = (name or anyone) and _acts(language, tokens, end, spoken=around.spoken)
        if acts and not _has(language, "unless", tokens[:first]):
            return Commitment("task", "named" if name else "unknown", name)
    return None


def _question(language: str, tokens: Sequence[str], around: Surroundings) -> Commitment | None:
    lists = word_lists(_LIST)[language]
    ends = any(tuple(tokens[-len(phrase) :]) == phrase for phrase in lists["tag"])
    if ends or _has(language, "chat", tokens):
        return None
    personal = _has(language, "person", tokens)
    asking = any((token,) in lists["asking"] for token in tokens[:_OPENING])
    asks = personal or asking if around.short else asking and _has(language, "reader", tokens)
    return Commitment("question", "reader", replies=True) if asks else None


def _is_said(language: str, part: str, tokens: Sequence[str], around: Surroundings) -> bool:
    """Return whether a phrase of a part is there, with a verb of action behind it and nothing that takes it back."""
    found = phrases(_LIST, part, language).find(tokens)
    return any(
        _acts(language, tokens, end, spoken=around.spoken) and not _has(language, "unless", tokens[:first])
        for first, end in found
    )


def _acts(language: str, tokens: Sequence[str], at: int, *, spoken: bool) -> bool:
    """Return whether a verb of action is at a place, after optional words."""
    for _ in range(_SKIPPED + 1):
        if _length_at(language, "spoken" if spoken else "verb", tokens, at):
            return True
        at += (skipped := _length_at(language, "between", tokens, at))
        if not skipped:
            return False
    return False


def _length_at(language: str, part: str, tokens: Sequence[str], at: int) -> int:
    """Return the number of words of the longest phrase of a part at a place; 0 for none."""
    there = phrases(_LIST, part, language).find(tokens) if at < len(tokens) else ()
    return max((end - first for first, end in there if first == at), default=0)


def _has(language: str, part: str, tokens: Sequence[str]) -> bool:
    return any(phrases(_LIST, part, language).find(tokens))


@cache
def _triggers(language: str) -> frozenset[str]:
    """Return a word of each phrase that may make a sentence a task: most sentences have none of them."""
    parts = ("reply", "request", "must", "imperative", "promise", "wish", "offer", "need", "will")
    listed = chain.from_iterable(word_lists(_LIST)[language][part] for part in parts)
    return frozenset(max(phrase, key=len) for phrase in listed)
