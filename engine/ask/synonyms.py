"""Everyday synonyms: words that a question may use for one another, as prompts/synonyms.txt has them.

Knows no question and no corpus. Two words that the file does not bring together are two.
"""

from functools import cache

from engine.ask.inflection import base, one_root
from prompts import word_groups

_NONE = frozenset[int]()


@cache
def _memberships() -> dict[str, frozenset[int]]:
    """Return the groups of each base form, by number."""
    found: dict[str, set[int]] = {}
    for number, group in enumerate(word_groups("synonyms")):
        for word in group:
            found.setdefault(base(word), set()).add(number)
    return {word: frozenset(groups) for word, groups in found.items()}


def akin(one: str, other: str) -> bool:
    """Whether two base forms ask for the same: equal, of one root, or synonyms."""
    return one == other or bool(_shared(one, other)) or one_root(one, other)


def _shared(one: str, other: str) -> frozenset[int]:
    groups = _memberships()
    return groups.get(one, _NONE) & groups.get(other, _NONE)
