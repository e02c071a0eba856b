"""The header of a chunk (who, when, what), the words that a chunk is indexed under, and the names in a document."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain, islice, pairwise

from engine.text.dates import DAY_NAMES, MONTH_NAMES, spell_date
from engine.text.people import name_and_address
from engine.text.question import ASKING_WORDS
from engine.text.terminal import shorten
from engine.text.time_sensitive import plain_words
from engine.text.words import FUNCTION_WORDS, stem, words
from prompts import word_groups, word_patterns
from store.types import Chunk, Document, Role

_PEOPLE = 200  # recipients indexed per message; longer lists say nothing about any one of them
_ROLES = {"quote": "quoted", "forward": "forwarded", "attachment": "attachment", "event": "event"}


def index_words(chunk: Chunk, sender: str, recipients: Sequence[str], date: datetime | None) -> list[str]:
    """Return the words that a chunk is indexed under, given the sender, recipients and date of its document.

    Only the first chunk of a document is indexed under its addresses.
    """
    parts = [chunk.header, chunk.text]
    if chunk.position == 0:
        parts += [sender, *recipients[:_PEOPLE]]
    if date is not None:
        parts.append(MONTH_NAMES[date.month - 1])
    return words("\n".join(parts))


@dataclass(frozen=True, slots=True)
class QuotedPart:
    """The role of a part of a document; for a quoted or forwarded one its date and author, as far as it says."""

    role: Role
    written: datetime | None = None
    author: str = ""


def chunk_header(document: Document, part: QuotedPart) -> str:
    """Return the header of a chunk: who, when and what. Speakers are left out: the turns name them.

    A quoted or forwarded text is marked with the day on which it was written, or as undated, and with its author: its
    "tomorrow" is not that of the document, and its "I" is not the sender.
    """
    return _header(document, part, shorten(document.title, 160))


def origin_line(document: Document, part: QuotedPart) -> str:
    """Return the header that a model is shown: with the addresses behind it, and why they or the date may be false."""
    header = _header(document, part, shorten(document.title, 160).translate(_BRACKETS))
    senders, recipients = _addresses([document.sender]), _addresses(document.recipients[:2])
    parts = [f"{senders} to {recipients}" if senders and recipients else senders or recipients]
    parts += [f"quoting {author}"] if (author := _addresses([part.author])) else []
    parts += [f"says it is of {_date(document.claimed)}"] if document.claimed else []
    about = "; ".join([*filter(None, parts), *document.warnings])
    return f"{header} <{about}>" if about else header


_BRACKETS = str.maketrans("<>", "()")


def _addresses(people: Sequence[str]) -> str:
    return ", ".join(shorten(address, 80) for _, address in map(name_and_address, people) if address)


def _header(document: Document, part: QuotedPart, title: str) -> str:
    date = [_date(document.date)] if document.date else []
    if document.kind == "mail":
        who = [f"From: {_name(document.sender)}"] if document.sender else []
        who += [f"To: {_names(document.recipients, 2)}"] if document.recipients else []
        parts = [*who, *date, *([title] if title else [])]
    else:
        parts = [f"Meeting: {title}", *date]
    mark = _mark(part)
    return ", ".join(parts) + (f" [{mark}]" if mark else "")


def _mark(part: QuotedPart) -> str:
    mark = _ROLES.get(part.role, "")
    if part.role not in ("quote", "forward"):
        return mark
    author = f" from {_name(part.author)}" if part.author else ""
    return f"{mark}{author}" + (f", written {_date(part.written)}" if part.written else ", undated")


def _date(date: datetime) -> str:
    """Write the date out as questions do, so that words match it and no model has to compute the weekday."""
    clock = f" {date:%H:%M}" if (date.hour, date.minute) != (0, 0) else ""  # midnight: only the day is known
    return spell_date(date, weekday=True) + clock


def _names(people: Sequence[str], most: int) -> str:
    more = f" (+{len(people) - most})" if len(people) > most else ""
    return ", ".join(_name(person) for person in people[:most]) + more


def _name(person: str) -> str:
    name, _, address = person.partition("<")
    return shorten(name.strip(' "') or address.rstrip("> "), 60)


_LETTERS = re.compile(r"[^\W\d_]{2,}")
_MAILBOXES = frozenset(word_patterns("mail_programs")["mailbox"].split("|"))


def name_forms(people: Iterable[str]) -> dict[str, str]:
    """Return the names of people ("Ann Vey <ann@example.org>") as questions may write them, each with its own form.

    Keys are single names and pairs of neighbours, folded. A name that is an everyday word ("Bill") stands as written,
    for only its capital tells it from the word.
    """
    found: dict[str, str] = {}
    for person in islice(dict.fromkeys(people), _PEOPLE):
        names = _spoken_names(person)
        folded = ["".join(plain_words(name)) for name in names]
        common = [is_everyday_word(word) for word in folded]
        found |= {name if usual else word: name for name, word, usual in zip(names, folded, common, strict=True)}
        for (one, two), usual, pair in zip(pairwise(names), pairwise(common), pairwise(folded), strict=True):
            if not all(usual):
                found[" ".join(pair)] = f"{one} {two}"
    return found


def _spoken_names(person: str) -> list[str]:
    """Return the names of a person, given names first; of one who is only an address, the parts before the @."""
    shown, _, address = person.partition("<")
    shown = shown.strip(" \"'")
    if not shown or "@" in shown:
        local = (shown or address).partition("@")[0]
        names = _LETTERS.findall(local)
        return [] if _MAILBOXES.intersection(map(str.lower, names)) else [name.capitalize() for name in names]
    last, _, first = shown.partition(",")
    names = _LETTERS.findall(f"{first} {last}")
    return [name.capitalize() if name.isupper() or name.islower() else name for name in names]


@cache
def _common_words() -> frozenset[str]:
    listed = chain.from_iterable((*word_groups("synonyms"), *word_groups("inflections")))
    return frozenset(
        chain(map(stem, listed), FUNCTION_WORDS, ASKING_WORDS, map(stem, map(str.lower, (*DAY_NAMES, *MONTH_NAMES))))
    )


def is_everyday_word(word: str) -> bool:
    """Return whether a folded word is an everyday word, as some names are, too."""
    return stem(word) in _common_words() or word in _common_words()


_REPLIED = re.compile(r"\s*(?:re|aw|antw|fwd?|wg|sv|tr|rv)\s*(?:[\[(]\d{1,3}[\])])?\s*[:：]\s*", re.IGNORECASE)


def without_replies(title: str) -> str:
    """Return a subject without "Re:" and the like in front."""
    while match := _REPLIED.match(title):
        title = title[match.end() :]
    return title
