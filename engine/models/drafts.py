"""Guesses how an answer goes on, for a model to check: several tokens in one step take little longer than one.

An answer repeats what was read, so that what came there after its last two tokens, or its last one, may come again
(Yang et al. 2023, Inference with Reference: arXiv 2304.04487). A wrong guess costs time; but for what rounding decides,
it changes no word. Knows ids.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, takewhile

_TAILS = (2, 1)  # tokens to go by, the longer first
_SEAM = -1  # no token: a text ends


class Drafts:
    """How an answer may go on, at most so many tokens at a time; mutable. `right` counts those that were guessed right.

    Whoever writes sets `end`, the tokens in which answers end, if guesses are wanted.
    """

    def __init__(self, texts: Callable[[], Iterable[Sequence[int]]], most: int) -> None:
        """Guess by texts that the answer may repeat, the likeliest last, once they are learnt."""
        self.right = 0
        self.end: tuple[int, ...] | None = None
        self._texts, self._most, self._width = texts, most, max(1, most // 2)
        self._ids = list[int]()
        self._after = dict[tuple[int, ...], int]()  # where it went on after these tokens, the last time

    def learn(self) -> None:
        """Take up the texts, of which the last ends as answers do; what was said already comes behind them."""
        known = [id for text in self._texts() for id in (_SEAM, *text)]
        self._ids = [*known, *(self.end or ()), _SEAM, *self._ids]
        self._after |= {(id,): at for at, id in enumerate(self._ids[:-1], 1)}
        self._after |= {pair: at for at, pair in enumerate(pairwise(self._ids[:-1]), 2)}

    def add(self, id: int) -> None:
        """Hear the next token of the answer."""
        self._after |= dict.fromkeys(self._keys(), len(self._ids))
        self._ids.append(id)

    def next(self) -> list[int]:
        """Guess what comes next, which may be nothing."""
        at = next((self._after[key] for key in self._keys() if key in self._after), len(self._ids))
        return list(takewhile(lambda id: id != _SEAM, self._ids[at : at + self._width]))

    def judge(self, guess: Sequence[int], found: Sequence[int]) -> int:
        """Tell how much of a guess is what the model found in its place; the next one is as long as that suggests."""
        right = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(guess, found, strict=False)))
        if right == len(guess):
            self._width = min(self._most, 2 * self._width)
        elif not right:
            self._width = max(1, self._width // 2)
        return right

    def _keys(self) -> list[tuple[int, ...]]:
        return [tuple(self._ids[-tail:]) for tail in _TAILS]
