"""SQL conditions for LanceDB, from values that may contain anything a person can type. Loads no LanceDB."""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from store.types import Scope

_ADDRESS = re.compile(r"[^\s<>@]+@[^\s<>@]+")
_LOCAL = "coalesce(local, CAST(date AS TIMESTAMP))"


def within(scope: Scope) -> str | None:
    """Return the condition for a scope, None if it limits nothing."""
    parts = []
    if scope.sender:
        parts.append(_person("sender", scope.sender))
    if scope.recipient:
        parts.append(_person("recipients", scope.recipient))
    if scope.since:
        parts.append(f"{_LOCAL} >= {_midnight(scope.since)}")
    if scope.until:
        parts.append(f"{_LOCAL} < {_midnight(scope.until)}")
    if scope.collection:
        parts.append(f"array_has(collections, {_text(scope.collection)})")
    if scope.document:
        parts.append(f"document = {_text(scope.document)}")
    return " AND ".join(parts) or None


def documents_within(scope: Scope) -> str | None:
    """Return the condition of documents for a scope: a meeting, which has no sender, is from whoever took part."""
    own = f"id = {_text(scope.document)}" if scope.document else ""
    rest = " AND ".join(filter(None, [within(replace(scope, sender=None, document=None)), own])) or None
    if not scope.sender:
        return rest
    spoke = f"(kind = 'transcript' AND {_person('recipients', scope.sender)})"
    return " AND ".join(filter(None, [f"({_person('sender', scope.sender)} OR {spoke})", rest]))


def titled(words: Iterable[str]) -> list[str]:
    """Return the conditions that a title has these words, in any case."""
    return [f"strpos(lower(title), {_text(word.lower())}) > 0" for word in words]


def is_address(text: str) -> bool:
    """Return whether a text is an address, which is compared as a whole."""
    return _ADDRESS.fullmatch(text.strip()) is not None


def _person(column: str, wanted: str) -> str:
    """Return the condition that a column of people, one a line, has an address, or a part of a name or address."""
    if not is_address(wanted):
        return f"strpos(lower({column}), {_text(wanted.lower())}) > 0"
    wanted = wanted.strip().lower()
    people = f"concat('\n', lower({column}), '\n')"
    alone, named = _text(f"\n{wanted}\n"), _text(f"<{wanted}>\n")
    return f"(strpos({people}, {alone}) > 0 OR strpos({people}, {named}) > 0)"


def names_person(shown: str, wanted: str) -> bool:
    """Return whether a person is the one that a scope wants: in any case, an address as a whole, a name in part."""
    shown, alone = shown.lower(), wanted.strip().lower()
    return shown == alone or shown.endswith(f"<{alone}>") if is_address(wanted) else wanted.lower() in shown


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
