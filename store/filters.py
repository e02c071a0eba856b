"""SQL conditions for LanceDB, from values that may contain anything a person can type. Loads no LanceDB."""

from collections.abc import Iterable
from datetime import date

from store.types import Scope

_LOCAL = "coalesce(local, CAST(date AS TIMESTAMP))"


def within(scope: Scope) -> str | None:
    """Return the condition for a scope, None where it limits nothing."""
    parts = []
    if scope.sender:
        parts.append(f"strpos(lower(sender), {_text(scope.sender.lower())}) > 0")
    if scope.recipient:
        parts.append(f"strpos(lower(recipients), {_text(scope.recipient.lower())}) > 0")
    if scope.since:
        parts.append(f"{_LOCAL} >= {_midnight(scope.since)}")
    if scope.until:
        parts.append(f"{_LOCAL} < {_midnight(scope.until)}")
    if scope.collection:
        parts.append(f"array_has(collections, {_text(scope.collection)})")
    return " AND ".join(parts) or None


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
