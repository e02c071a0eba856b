"""Draws words and names: from lists, or made up; what is kept for evaluation is never drawn for training."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from zlib import crc32

from tests.nano import common, names

KEPT = 6  # one in so many is kept for evaluation
_LISTED = frozenset(name.lower() for name in names.FIRST + names.LAST)


def held(word: str) -> bool:
    """Return whether a made-up word is kept for evaluation."""
    return crc32(word.lower().encode()) % KEPT == KEPT - 1


@dataclass(slots=True)
class Pool:
    """Draws for one context; mutable, since nothing is drawn twice. `unseen` draws only what is kept for evaluation."""

    rng: Random
    unseen: bool = False
    invented: float = 0.5  # share of made-up words
    taken: set[str] = field(default_factory=set)

    def listed(self, entries: Sequence[str]) -> str:
        """Draw an entry of a list."""
        mine = entries[KEPT - 1 :: KEPT] if self.unseen else _rest(entries)
        return self.rng.choice(mine)

    def word(self) -> str:
        """Make up a word, or draw a plain one."""
        while True:
            kind = self.rng.random()
            if kind < 0.65:
                word = "".join(self._syllable() for _ in range(self.rng.choice((1, 2, 2, 2, 3))))
            elif kind < 0.93:
                word = self.rng.choice(common.WORDS)
            else:
                word = "".join(self.rng.choices("abcdefghijklmnopqrstuvwxyz", k=self.rng.randint(3, 7)))
            if len(word) > 2 and held(word) == self.unseen and word not in _LISTED:
                return word

    def either(self, entries: Sequence[str]) -> str:
        """Draw from a list or make up a word."""
        return self.word() if self.rng.random() < self.invented else self.listed(entries)

    def fresh(self, entries: Sequence[str], capital: bool = False) -> str:
        """Draw what this context has not seen."""
        while True:
            word = self.either(entries)
            word = word.capitalize() if capital and word.islower() else word
            if word.lower() not in self.taken:
                self.taken.add(word.lower())
                return word

    def _syllable(self) -> str:
        rng = self.rng
        return rng.choice(common.ONSETS) + rng.choice(common.VOWELS) + rng.choice(common.CODAS)


def _rest(entries: Sequence[str]) -> list[str]:
    return [entry for at, entry in enumerate(entries) if at % KEPT != KEPT - 1]


def first_name(pool: Pool) -> str:
    """Draw a first name that no one else in this context has."""
    return pool.fresh(names.FIRST, capital=True)


def last_name(pool: Pool) -> str:
    """Draw a surname."""
    return pool.fresh(names.LAST, capital=True)
