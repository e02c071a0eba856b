"""Guesses how an answer goes on, for a model to check: several tokens in one step take little longer than one.

An answer repeats what was read, so that what came there after its last two tokens, or its last one, may come again
(Yang et al. 2023, Inference with Reference: arXiv 2304.04487). A wrong guess costs time and changes no word. Knows ids.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile

_TAILS = (2, 1)  # tokens to go by, the longer first
NO_ID = -1  # a text ends, or no token is known


class Drafts:
    """How an answer may go on, by texts that it may repeat, the likeliest last; mutable.

    `right` counts the guesses that were.
    """

    def __init__(self, texts: Iterable[Sequence[int]], most: int) -> None:
        """Guess at most so many tokens at a time."""
        self.right = 0
        self._most, self._width = most, max(1, most // 2)
        self._ids = list[int]()
        self._after = dict[tuple[int, ...], int]()  # where it went on after these tokens, the last time
        for text in texts:
            for id in (*text, NO_ID):
                self.add(id)

    def __bool__(self) -> bool:
        """Tell whether there is anything to guess by."""
        return bool(self._after)

    def end(self, id: int) -> None:
        """Let the last text end in the token that ends an answer; before any is added."""
        if self._ids:
            self._ids[-1:] = [id, NO_ID]

    def add(self, id: int) -> None:
        """Hear the next token of the answer."""
        if self._most:
            self._after |= dict.fromkeys(self._keys(), len(self._ids))
            self._ids.append(id)

    def next(self) -> list[int]:
        """Guess what comes next, which may be nothing."""
        at = next((self._after[key] for key in self._keys() if key in self._after), len(self._ids))
        return list(takewhile(lambda id: id != NO_ID, self._ids[at : at + self._width]))

    def judge(self, guess: Sequence[int], found: Sequence[int]) -> int:
        """Tell how much of a guess is what the model found in its place; the next one is as long as that suggests."""
        right = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(guess, found, strict=False)))
        self.right += right
        if right == len(guess) > 0:
            self._width = min(self._most, 2 * self._width)
        elif not right and guess:
            self._width = max(1, self._width // 2)
        return right

    def _keys(self) -> list[tuple[int, ...]]:
        return [tuple(self._ids[-tail:]) for tail in _TAILS]
