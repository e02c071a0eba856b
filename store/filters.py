"""SQL conditions for LanceDB, from values that may hold anything a person can type. Loads no LanceDB."""

from collections.abc import Iterable
from datetime import UTC, datetime

from store.types import Scope


def within(scope: Scope) -> str | None:
    """Return the condition for a scope, None where it limits nothing."""
    parts = []
    if scope.sender:
        parts.append(f"strpos(lower(sender), {_text(scope.sender.lower())}) > 0")
    if scope.recipient:
        parts.append(f"strpos(lower(recipients), {_text(scope.recipient.lower())}) > 0")
    if scope.since:
        parts.append(f"date >= {_moment(scope.since)}")
    if scope.until:
        parts.append(f"date < {_moment(scope.until)}")
    if scope.collection:
        parts.append(f"array_has(collections, {_text(scope.collection)})")
    return " AND ".join(parts) or None


def among(column: str, values: Iterable[str]) -> str:
    """Return the condition that a column is one of these values."""
    return f"{column} IN ({', '.join(map(_text, values)) or _text('')})"


def holding(column: str, values: Iterable[str]) -> str:
    """Return the condition that a column, a list, holds any of these values."""
    return f"array_has_any({column}, [{', '.join(map(_text, values)) or _text('')}])"


def _text(value: str) -> str:
    text = value.encode("utf-8", "replace").decode()  # an argument that was no text holds half characters
    return "'" + text.replace("'", "''") + "'"


def _moment(value: datetime) -> str:
    return f"TIMESTAMP '{value.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%S.%f')}Z'"
