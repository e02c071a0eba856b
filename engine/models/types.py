"""The protocols of embedders and language models, speculative drafts and FLOP counts. Knows no library."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Protocol

from store.hits import Vectors
from store.kv_files import Tensor

_TAILS = (2, 1)  # tokens to match, the longer first
_SEAM = -1  # no token: the end of a text


class Drafter:
    """Speculative drafts: proposes the next tokens of an answer from texts it may repeat; mutable.

    `right` counts the accepted tokens. The model sets `end`, the tokens that end an answer, if it verifies drafts.
    """

    def __init__(self, texts: Callable[[], Iterable[Sequence[int]]], most: int) -> None:
        """Propose up to `most` tokens at a time; `texts` are called for by `learn`, the likeliest last."""
        self.right = 0
        self.end: tuple[int, ...] | None = None
        self._texts, self._most, self._width = texts, most, max(1, most // 2)
        self._ids = list[int]()
        self._after = dict[tuple[int, ...], int]()  # the index after the last occurrence of these tokens

    def learn(self) -> None:
        """Index the texts, the last of which ends as answers do, in front of the tokens generated so far."""
        known = [id for text in self._texts() for id in (_SEAM, *text)]
        self._ids = [*known, *(self.end or ()), _SEAM, *self._ids]
        self._after |= {(id,): at for at, id in enumerate(self._ids[:-1], 1)}
        self._after |= {pair: at for at, pair in enumerate(pairwise(self._ids[:-1]), 2)}

    def add(self, id: int) -> None:
        """Append the next token of the answer."""
        self._after |= dict.fromkeys(self._keys(), len(self._ids))
        self._ids.append(id)

    def next(self) -> list[int]:
        """Return the proposed next tokens, which may be none."""
        at = next((self._after[key] for key in self._keys() if key in self._after), len(self._ids))
        return list(takewhile(lambda id: id != _SEAM, self._ids[at : at + self._width]))

    def judge(self, guess: Sequence[int], found: Sequence[int]) -> int:
        """Return how many proposed tokens the model accepts; the next proposal grows or shrinks with that."""
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
    """What a model's FLOPs are computed from: parameters of its layers and of its head, layers, width of attention.

    The width is that of all query heads together.
    """

    parameters: int
    head_parameters: int
    layers: int
    width: int


@dataclass(slots=True)
class Meter:
    """Tokens prefilled, generated, and rejected drafts so far, and the pairs that attention compared; mutable.

    `pairs` counts, for each token, all tokens in front of it and those of its own step.
    """

    read: int = 0
    written: int = 0
    wrong: int = 0
    pairs: int = 0

    def count(self, tokens: int, before: int, *, written: bool) -> None:
        """Count the tokens of one step after `before` others, of prefill or of decoding."""
        if written:
            self.written += tokens
        else:
            self.read += tokens
        self.pairs += tokens * (before + tokens)

    def take_back(self, tokens: int) -> None:
        """Count so many of the generated tokens as rejected drafts."""
        self.written -= tokens
        self.wrong += tokens


def flops(size: Size, meter: Meter) -> float:
    """Return the floating-point operations of what was counted.

    2 for each parameter and token (a product and a sum), and 4 for each layer, unit of width and pair of tokens: 2 for
    queries with keys and 2 for weights with values (Hoffmann et al. 2022, appendix F, without softmax and norms). The
    head counts for generated and drafted tokens alone: prefill computes no logits.
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
    """Stored tensors that cannot be restored: gone, damaged, or another model's."""


class LanguageModel(Protocol):
    """Prefills a prompt segment by segment into a KV cache, and decodes greedily."""

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
        """Return the chat template's tokens around a prompt."""
        ...

    def tokens(self, text: str) -> list[int]:
        """Return the ids of a text; what looks like a special token in it is text like any other."""
        ...

    def begin(self) -> Any:
        """Return an empty cache."""
        ...

    def prefill(self, cache: Any, ids: Sequence[int]) -> Any:
        """Prefill one whole segment, in sub-steps counted from its start.

        Returns the arrays to store of it that cannot be cut from the cache later; None where there are none.
        """
        ...

    def decode(self, cache: Any, ids: Sequence[int], most: int, drafts: Drafter | None = None) -> Iterator[str]:
        """Prefill the last segment and yield the text of each generated token, which may be empty, up to a stop.

        `drafts` may propose tokens for the model to verify, which saves steps and, but for rounding, changes nothing.
        """
        ...


class KvSliceable(Protocol):
    """A language model whose KV cache can be stored and restored by segment."""

    def cut(self, cache: Any, start: int, stop: int, captured: Any = None) -> list[Tensor]:
        """Copy the tensors to store of a segment: what the cache holds of its tokens, and what `prefill` returned."""
        ...

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> Any:
        """Return a cache restored from files, one a segment, of the last one only `shared` tokens; UnreadableCache."""
        ...

    def preallocate(self, cache: Any, tokens: int) -> None:
        """Allocate buffers for a cache of so many tokens before a question waits for them."""
        ...

    def release(self, cache: Any) -> None:
        """Empty a cache that is no longer used; the next one may reuse its buffers."""
        ...
