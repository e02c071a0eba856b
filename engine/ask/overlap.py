"""How much of some words was said, and what each of them tells. Knows neither questions nor sources."""

from collections.abc import Mapping, Sequence
from math import log


def share(wanted: Sequence[str], held: frozenset[str]) -> float:
    """Give the share of the wanted words that are among those held."""
    return sum(word in held for word in wanted) / len(wanted) if wanted else 0.0


def idf_of(wanted: Sequence[str], said: Sequence[frozenset[str]]) -> dict[str, float]:
    """Give the inverse frequency of each wanted word over sentences."""
    counts = {word: sum(word in each for each in said) for word in wanted}
    return {word: log(1 + (len(said) - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def coverage(idf: Mapping[str, float], said: frozenset[str]) -> float:
    """Give the share of the wanted words, by idf, that were said."""
    total = sum(idf.values())
    return sum(value for word, value in idf.items() if word in said) / total if total > 0 else 0.0
