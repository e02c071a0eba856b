"""What pkb asks of a model; nothing here knows how one computes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Protocol

from store.hits import Vectors
from store.kv_files import Tensor

_TAILS = (2, 1)  # tokens to go by, the longer first
_SEAM = -1  # no token: a text ends


class Drafter:
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
        """Return how much of a guess is what the model found in its place; the next one is as long as that suggests."""
        right = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(guess, found, strict=False)))
        if right == len(guess):
            self._width = min(self._most, 2 * self._width)
        elif not right:
            self._width = max(1, self._width // 2)
        return right

    def _keys(self) -> list[tuple[int, ...]]:
        return [tuple(self._ids[-tail:]) for tail in _TAILS]


@dataclass(frozen=True, slots=True)
class Size:
    """What a model's work is reckoned by: numbers in its layers and in its head, layers, and width of attention.

    The width is that of all query heads together.
    """

    parameters: int
    head_parameters: int
    layers: int
    width: int


@dataclass(slots=True)
class Meter:
    """What was done so far: tokens read in segments, tokens written, tokens guessed wrongly, and whom they attended to.

    `pairs` are of tokens and those that attention compares them with: all in front, and of their own step.
    """

    read: int = 0
    written: int = 0
    wrong: int = 0
    pairs: int = 0

    def count(self, tokens: int, before: int, *, written: bool) -> None:
        """Count tokens that are read at a time behind others, in a segment or to find what follows them."""
        if written:
            self.written += tokens
        else:
            self.read += tokens
        self.pairs += tokens * (before + tokens)

    def take_back(self, tokens: int) -> None:
        """Count so many of those that were written as guessed wrongly."""
        self.written -= tokens
        self.wrong += tokens


def flops(size: Size, meter: Meter) -> float:
    """Return the floating-point operations of what was counted.

    2 for each parameter and token (a product and a sum), and 4 for each layer, unit of width and pair of tokens: 2 for
    queries with keys and 2 for weights with values (Hoffmann et al. 2022, appendix F, without softmax and norms). The
    head is reckoned for tokens that were written or guessed; of what is only read nobody asks for the next token.
    """
    written = meter.written + meter.wrong
    products = size.parameters * (meter.read + written) + size.head_parameters * written
    return 2.0 * products + 4.0 * size.layers * size.width * meter.pairs


class Embedder(Protocol):
    """Turns text into unit vectors; equal fingerprints mean interchangeable vectors."""

    @property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        ...

    @property
    def width(self) -> int:
        """Return the number of dimensions."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order: (len(texts), width) float32."""
        ...

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row that a question is searched with, which may differ from the same text's: (width,)."""
        ...

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        """Yield (indices into texts, their rows) in batches of similar length, so that a caller can save as it goes."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """What a model's chat template puts around a prompt, as token ids; all empty where it has no template.

    `opening` begins the system segment, `turning` ends it and opens the user's turn, `closing` ends the last segment.
    """

    opening: tuple[int, ...] = ()
    turning: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()


class UnreadableCache(Exception):
    """Kept tensors that cannot be read back: gone, damaged, or another model's."""


class LanguageModel(Protocol):
    """Reads a prompt segment by segment into a cache of keys and values, and continues it greedily."""

    @property
    def name(self) -> str:
        """Return the name that people know it by."""
        ...

    @property
    def context(self) -> int:
        """Return how many tokens of prompt and answer it can hold."""
        ...

    @property
    def frame(self) -> Frame:
        """Return what stands around a prompt."""
        ...

    def tokens(self, text: str) -> list[int]:
        """Return the ids of a text; what looks like a special token in it is text like any other."""
        ...

    def begin(self) -> Any:
        """Return an empty cache."""
        ...

    def prefill(self, cache: Any, ids: Sequence[int]) -> Any:
        """Read one whole segment into the cache, in sub-steps counted from the segment's start.

        Gives what is to be kept of it and that the cache does not hold on to; None where it holds on to all.
        """
        ...

    def decode(self, cache: Any, ids: Sequence[int], most: int, drafts: Drafter | None = None) -> Iterator[str]:
        """Read the last segment and yield the text of each further token, which may be empty, up to a stop.

        `drafts` may guess tokens for it to check, which saves time and, but for rounding, changes nothing.
        """
        ...


class KvSliceable(Protocol):
    """A language model whose cache can be kept and put back in pieces."""

    def cut(self, cache: Any, start: int, stop: int, transient: Any = None) -> list[Tensor]:
        """Copy what is kept of a segment: what the cache holds of its tokens, and what `prefill` gave besides."""
        ...

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> Any:
        """Return a cache that has read these files in turn, of the last one only `shared` tokens; UnreadableCache."""
        ...

    def expect(self, cache: Any, tokens: int) -> None:
        """Have memory ready for so many tokens of what a cache holds, before they are to be restored."""
        ...

    def release(self, cache: Any) -> None:
        """Empty a cache that nobody reads any more: the next one may be read into its memory."""
        ...
