"""Tells a speaker's name in front of a text from a word with a colon; judges one document at a time."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from engine.ingest.subtitles import CLOCK, seconds

_PLAIN = re.compile(
    rf"(?:[-*•]\s+)?(?:>>\s*)?(?P<name>[^\s:：*\[(#][^:：\n*\[]{{0,99}}?)\s*(?:[\[(](?P<at>{CLOCK})[\])]\s*)?"
    r"(?::(?=\s|$)|：)\s*"
)
_BOLD = re.compile(
    rf"(?:[-*•]\s+)?(?P<mark>\*\*|__)(?P<name>[^\s:：*_\[][^:：\n*\[]{{0,99}}?)\s*(?:[\[(](?P<at>{CLOCK})[\])]\s*)?"
    rf"(?:(?P=mark)\s*(?:[\[(](?P<at2>{CLOCK})[\])]\s*)?[:：]|[:：]\s*(?P=mark))\s*"
)
_BRACKETS = re.compile(r"\([^()]*\)")
_SENTENCE = re.compile(r"[?!;\"“”…]|\w{5,}\.\s|\.$(?<!\w\w\w\w\.)")
_PROPER = re.compile(r"[^\W\d_a-z]")  # begins with a capital, or a letter of a script that has none
_LABEL = re.compile(
    r"actions?(?: items?)?|agenda|attachments?|attendees|author|b?cc|content-type|date|decisions?|duration|example|from"
    r"|location|meeting|message-id|next(?: steps)?|notes?|organizer|owner|participants|place|present|ps|re|reply-to"
    r"|sent(?: from)?|status|subject|summary|time|title|to|todo|topics?|update|warning|when|where|with"
)
_FRONT = 200  # characters that hold a name, if there is one
ALWAYS, OFTEN = 0.5, 3  # share of the texts with a name in front that makes a dialogue; uses of one name elsewhere


Head = tuple[str, float | None, str]  # name, seconds, what follows


def split_head(text: str) -> Head | None:
    """Part a text that begins with what may be a speaker's name and a colon."""
    front = text[:_FRONT]
    match = _BOLD.match(front) or _PLAIN.match(front)
    if match is None or not _may_be_name(match["name"]):
        return None
    clock = match["at"] or match.groupdict().get("at2")
    return " ".join(match["name"].split()), seconds(clock) if clock else None, text[match.end() :].lstrip()


def speakers_of(heads: Iterable[Head | None]) -> frozenset[str]:
    """Give the names that are speakers; None is a text without a name in front.

    All are if most texts have one, all proper ones if two come back often; else only those that come back often.
    """
    names, total = Counter[str](), 0
    for head in heads:
        total += 1
        if head:
            names[head[0]] += 1
    if names.total() >= max(min(2, total), ALWAYS * total):
        return frozenset(names)
    proper = frozenset(name for name in names if is_proper(name))
    often = frozenset(name for name in proper if names[name] >= OFTEN)
    return proper if len(often) > 1 else often


@lru_cache(maxsize=1024)
def is_proper(name: str) -> bool:
    """Tell whether a text of at most five words has a capital at the start of each."""
    words = [word for word in _BRACKETS.sub(" ", name).split() if word[0].isalpha() and len(word) > 3]
    return (
        _may_be_name(name) and len(name.split()) <= 5 and all(_PROPER.match(word) for word in words or name.split()[:1])
    )


@lru_cache(maxsize=1024)
def _may_be_name(name: str) -> bool:
    bare = _BRACKETS.sub(" ", _BRACKETS.sub(" ", name))
    label = _LABEL.fullmatch(name.casefold().strip(" *_-"))
    return not label and len(bare.split()) <= 6 and any(map(str.isalpha, name)) and not _SENTENCE.search(bare)
