"""Answer metrics against gold answers: exact match, F1, ROUGE-L.

All take words as `terms` returns them, and return 0 to 1.
"""

import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

Score = Callable[[Sequence[str], Sequence[str]], float]


@cache
def terms(text: str) -> tuple[str, ...]:
    """Split into words as SQuAD compares them."""
    kept = "".join(
        letter for letter in unicodedata.normalize("NFKC", text).casefold() if letter not in string.punctuation
    )
    return tuple(word for word in kept.split() if word not in ("a", "an", "the"))


def exact(given: Sequence[str], gold: Sequence[str]) -> float:
    """Compare all."""
    return float(given == gold)


def f1(given: Sequence[str], gold: Sequence[str]) -> float:
    """Take the harmonic mean of precision and recall over shared words."""
    return 2 * (Counter(given) & Counter(gold)).total() / max(1, len(given) + len(gold))


def rouge_l(given: Sequence[str], gold: Sequence[str]) -> float:
    """Take the same over the longest common subsequence (Lin 2004, section 3.1, with beta 1)."""
    row = [0] * (len(gold) + 1)
    for word in given:
        above, row = row, [0]
        for place, other in enumerate(gold):
            row.append(above[place] + 1 if word == other else max(row[place], above[place + 1]))
    return 2 * row[-1] / max(1, len(given) + len(gold))
