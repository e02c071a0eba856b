"""SQL conditions for LanceDB, from values that may contain anything a person can type. Loads no LanceDB.

Also which person a name stands for, for all who filter by people: each decides by `PersonFilter` alone.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from msgspec import Struct

from store.types import Scope, replace

_ADDRESS = re.compile(r"[^\s<>@]+@[^\s<>@]+")
_OWN_ADDRESS = re.compile(r"(?:\A|<)([^\s<>@]+@([^\s<>@]+))>?\Z")  # of a person as shown, and its domain
_DOMAIN = re.compile(r"@[^\s<>@]+")
_UNSPACED = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"  # each sign is a word
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")
_LOCAL = "coalesce(local, CAST(date AS TIMESTAMP))"


class PersonFilter(Struct, frozen=True):
    """Whom a scope wants, folded: an address or a domain as a whole, or words of a name or a local part."""

    address: str
    domain: str
    words: frozenset[str]
    needle: str  # that whoever is wanted holds; empty if nobody can be

    @classmethod
    def of(cls, wanted: str) -> "PersonFilter":
        """Return the filter for what a person typed."""
        text = fold(wanted.strip())
        if own := _OWN_ADDRESS.search(text):
            return cls(own[1], "", frozenset(), own[1])
        domain = text.removeprefix("@") if "." in text or text.startswith("@") else ""
        needle = max(_WORD.findall(text), key=len, default="")
        return cls("", domain, frozenset(_WORD.findall(_DOMAIN.sub(" ", text))), needle)

    def accepts(self, shown: str) -> bool:
        """Return whether it is the person shown, folded."""
        own = _OWN_ADDRESS.search(shown)
        if self.address:
            return own is not None and own[1] == self.address
        if self.domain and own and f".{own[2]}".endswith(f".{self.domain}"):
            return True
        return bool(self.words) and self.words.issubset(_WORD.findall(_DOMAIN.sub(" ", shown)))


def fold(text: str) -> str:
    """Return a text without case and accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFD", text.casefold())
    return unicodedata.normalize("NFC", "".join(sign for sign in apart if not unicodedata.combining(sign)))


def within(scope: Scope, people: Iterable[str] = ()) -> str | None:
    """Return the condition for a scope, None if it limits nothing.

    `people` are all who are named in the tables, as they stand there: one that is not among them is nobody's.
    """
    parts = []
    if scope.sender:
        parts.append(_person("sender", scope.sender, people))
    if scope.recipient:
        parts.append(_person("recipients", scope.recipient, people))
    if scope.since:
        parts.append(f"{_LOCAL} >= {_midnight(scope.since)}")
    if scope.until:
        parts.append(f"{_LOCAL} < {_midnight(scope.until)}")
    if scope.collection:
        parts.append(f"array_has(collections, {_text(scope.collection)})")
    if scope.document:
        parts.append(f"document = {_text(scope.document)}")
    return " AND ".join(parts) or None


def documents_within(scope: Scope, people: Iterable[str] = ()) -> str | None:
    """Return the condition of documents for a scope: a meeting, which has no sender, is from whoever took part."""
    own = f"id = {_text(scope.document)}" if scope.document else ""
    rest = " AND ".join(filter(None, [within(replace(scope, sender=None, document=None), people), own])) or None
    if not scope.sender:
        return rest
    spoke = f"(kind = 'transcript' AND {_person('recipients', scope.sender, people)})"
    return " AND ".join(filter(None, [f"({_person('sender', scope.sender, people)} OR {spoke})", rest]))


def titled(words: Iterable[str]) -> list[str]:
    """Return the conditions that a title has these words, in any case; long ones may be inflected."""
    patterns = (rf"(?i)(^|\W){re.escape(word)}\w{{0,{3 * (len(word) > 3)}}}(\W|$)" for word in words)
    return [f"regexp_like(title, {_text(pattern)})" for pattern in patterns]


def batches(ids: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    """Yield ids in batches of at most `most`."""
    return (ids[start : start + most] for start in range(0, len(ids), most))


def is_address(text: str) -> bool:
    """Return whether a text is an address, which is compared as a whole."""
    return _ADDRESS.fullmatch(text.strip()) is not None


def _person(column: str, wanted: str, people: Iterable[str]) -> str:
    """Return the condition that one of the wanted people stands in a column of people, one a line."""
    person = PersonFilter.of(wanted)
    named = ", ".join(_text(one) for one in people if person.accepts(fold(one)))
    return f"array_has_any(string_to_array({column}, '\n'), [{named}])" if named else "false"


def names_person(shown: str, wanted: str) -> bool:
    """Return whether a person is the one that a scope wants."""
    return PersonFilter.of(wanted).accepts(fold(shown))


def among(column: str, values: Iterable[str]) -> str:
    """Return the condition that a column is one of these values."""
    return f"{column} IN ({', '.join(map(_text, values)) or _text('')})"


def holding(column: str, values: Iterable[str]) -> str:
    """Return the condition that a list column contains any of these values."""
    return f"array_has_any({column}, [{', '.join(map(_text, values)) or _text('')}])"


def _text(value: str) -> str:
    text = value.encode("utf-8", "replace").decode()  # an argument may contain surrogates
    return "'" + text.replace("'", "''") + "'"


def _midnight(day: date) -> str:
    return f"TIMESTAMP '{day.isoformat()}T00:00:00'"
