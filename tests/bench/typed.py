"""Values of JSON objects by key and type. What is not as agreed is an error that names where and which key.

Knows no schema. What stood there is not repeated in the error.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

MOST = 1e300


class Unreadable(Exception):
    """A file of measurements is not as agreed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One JSON object, and where it stands."""

    where: str
    values: Mapping[str, Any]

    def text(self, key: str) -> str:
        """Give a text."""
        return str(self._of(key, str))

    def text_or_none(self, key: str) -> str | None:
        """Give a text, or None for null."""
        return None if self._null(key) else self.text(key)

    def truth(self, key: str) -> bool:
        """Give true or false."""
        return bool(self._of(key, bool))

    def truth_or_none(self, key: str) -> bool | None:
        """Give true or false, or None for null."""
        return None if self._null(key) else self.truth(key)

    def number(self, key: str, least: float = 0.0) -> float:
        """Give a finite number, not below the least."""
        value = self._of(key, int, float)
        if isinstance(value, bool) or not least <= value <= MOST:
            self.refuse(key)
        return float(value)

    def number_or_none(self, key: str, least: float = 0.0) -> float | None:
        """Give a finite number, or None for null."""
        return None if self._null(key) else self.number(key, least)

    def whole(self, key: str) -> int:
        """Give a whole number from 0."""
        if isinstance(self._of(key, int), bool):
            self.refuse(key)
        return int(self.number(key))

    def row(self, key: str) -> "Row":
        """Give the object below a key."""
        return Row(f"{self.where}, {key}", self._of(key, dict))

    def row_or_none(self, key: str) -> "Row | None":
        """Give the object below a key, or None for null."""
        return None if self._null(key) else self.row(key)

    def rows(self, key: str) -> list["Row"]:
        """Give the objects of a list."""
        found = [Row(f"{self.where}, {key} {number}", each) for number, each in enumerate(self._of(key, list), 1)]
        if not all(isinstance(row.values, dict) for row in found):
            self.refuse(key)
        return found

    def numbers(self, key: str) -> tuple[float, ...]:
        """Give a list of finite numbers."""
        least = -MOST
        return tuple(Row(self.where, {key: value}).number(key, least) for value in self._of(key, list))

    def texts(self, key: str) -> tuple[str, ...]:
        """Give a list of texts."""
        return tuple(Row(self.where, {key: value}).text(key) for value in self._of(key, list))

    def refuse(self, key: str) -> NoReturn:
        """Say that a key is missing or is something else."""
        raise Unreadable(f"{self.where}: {key} is missing or is not what it should be")

    def _null(self, key: str) -> bool:
        if key not in self.values:
            self.refuse(key)
        return self.values[key] is None

    def _of(self, key: str, *kinds: type) -> Any:
        value = self.values.get(key)
        if not isinstance(value, kinds):
            self.refuse(key)
        return value


def parsed(where: str, text: bytes) -> Row:
    """Read one JSON object."""
    try:
        found = json.loads(text.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):  # of which bad UTF-8 is one
        raise Unreadable(f"{where}: no JSON") from None
    if not isinstance(found, dict):
        raise Unreadable(f"{where}: no JSON object")
    return Row(where, found)


def beside(folder: Path, name: str) -> Row | None:
    """Read a file of one object; None where it is not there."""
    file = folder / name
    return parsed(name, file.read_bytes()) if file.is_file() else None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)
