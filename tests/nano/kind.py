"""What a kind of fact is: how people say it, and what can be asked about it; knows nothing of how values are drawn."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fact; templates name its values in braces.

    `says` are sentences of anyone, `own` those of the author about themselves (whose name is then `w`). `asks` has
    question templates by the value they ask for, `word` the question word by that value.
    """

    name: str
    draw: str
    says: tuple[str, ...]
    asks: Mapping[str, tuple[str, ...]]
    word: Mapping[str, str]
    own: tuple[str, ...] = ()
    share: float = 1.0  # how often it is drawn, against the others


def lines(text: str) -> tuple[str, ...]:
    """Return the templates of a text, one a line."""
    return tuple(line.strip() for line in text.strip().splitlines())
