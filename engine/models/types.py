"""The protocols of embedders and language models, speculative drafts and FLOP counts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from engine.models.kv_read import OpenFiles, RangeReader, ReadAt
from store.kv_files import Tensor
from store.types import Vectors

_TAILS = (2, 1)  # tokens to match, longest first
_SEPARATOR = -1  # between texts; not a token


class Drafter:
    """Speculative drafts: proposes the next tokens of an answer, copied from source texts and the answer; mutable.

    It proposes no span of the answer a third time in a row. `right` counts the accepted tokens. The model sets `end`,
    the tokens that end an answer, if it verifies drafts.
    """

    def __init__(self, texts: Callable[[], Iterable[Sequence[int]]], most: int) -> None:
        """Propose up to `most` tokens at a time; `learn` calls `texts`, which returns the likeliest last."""
        self.right = 0
        self.end: tuple[int, ...] | None = None
        self._texts, self._most, self._width = texts, most, max(1, most // 2)
        self._ids = list[int]()
        self._first = 0  # the index of the answer's first token
        self._after = dict[tuple[int, ...], int]()  # the index after the last occurrence of these tokens

    def learn(self) -> None:
        """Index the texts, the last one followed by the end tokens of an answer, before the tokens generated so far."""
        known = [id for text in self._texts() for id in (_SEPARATOR, *text)]
        before = [*known, *(self.end or ()), _SEPARATOR]
        self._ids, self._first = [*before, *self._ids], len(before)
        self._after |= {(id,): at for at, id in enumerate(self._ids[:-1], 1)}
        self._after |= {pair: at for at, pair in enumerate(pairwise(self._ids[:-1]), 2)}

    def add(self, id: int) -> None:
        """Append the next token of the answer."""
        self._after |= dict.fromkeys(self._keys(), len(self._ids))
        self._ids.append(id)

    def next(self) -> list[int]:
        """Return the proposed next tokens, possibly none."""
        at = next((self._after[key] for key in self._keys() if key in self._after), len(self._ids))
        start = 2 * at - len(self._ids)
        if self._first <= start < at and self._ids[start:at] == self._ids[at:]:
            return []  # it repeats the tokens directly before it
        return list(takewhile(lambda id: id != _SEPARATOR, self._ids[at : at + self._width]))

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


Ids = tuple[int, ...]  # of the tokens of a segment


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes that FLOPs are computed from: parameters of layers and head, number of layers, width of attention.

    `width` is that of all query heads together.
    """

    parameters: int
    head_parameters: int
    layers: int
    width: int


@dataclass(slots=True)
class Meter:
    """Counts of tokens prefilled and generated, of rejected drafts, and of pairs that attention compared; mutable.

    `pairs` counts, for each token, all tokens before its step and all of its step.
    """

    prefilled: int = 0
    generated: int = 0
    rejected: int = 0
    pairs: int = 0

    def count(self, tokens: int, before: int, *, decoding: bool) -> None:
        """Count the tokens of one step, after `before` others."""
        if decoding:
            self.generated += tokens
        else:
            self.prefilled += tokens
        self.pairs += tokens * (before + tokens)

    def reject(self, tokens: int) -> None:
        """Recount a number of generated tokens as rejected drafts."""
        self.generated -= tokens
        self.rejected += tokens


def flops(size: Size, meter: Meter) -> float:
    """Return the floating-point operations of the counted steps.

    2 for each parameter and token (a product and a sum), and 4 for each layer, unit of width and pair of tokens: 2 for
    queries with keys and 2 for weights with values (Hoffmann et al. 2022, appendix F, without softmax and norms). The
    head counts for decoded tokens only: prefill computes no logits.
    """
    decoded = meter.generated + meter.rejected
    products = size.parameters * (meter.prefilled + decoded) + size.head_parameters * decoded
    return 2.0 * products + 4.0 * size.layers * size.width * meter.pairs


class Embedder(Protocol):
    """Turns text into unit vectors; equal fingerprints mean interchangeable vectors."""

    @property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""

    @property
    def width(self) -> int:
        """Return the number of dimensions."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, in order: (len(texts), width) float32."""
        rows = np.empty((len(texts), self.width), np.float32)
        for indices, vectors in self.embed_batches(texts):
            rows[indices] = vectors
        return rows

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row of a search query, which may differ from that of the same text: (width,)."""
        row: Vectors = self.embed([text])[0]
        return row

    def knows(self, word: str) -> bool:
        """Return whether a word is one of its vocabulary, and not a chain of pieces that says little."""

    def embed_batches(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Vectors]]:
        """Yield (indices into texts, their rows) in batches of similar length, which a caller can save one by one."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The tokens that a model's chat template adds around a prompt; empty if the model has no template.

    `opening` begins the system segment, `turning` ends it and opens the user's turn, `closing` ends the last segment.
    """

    opening: tuple[int, ...] = ()
    turning: tuple[int, ...] = ()
    closing: tuple[int, ...] = ()


class LanguageModel(Protocol):
    """Prefills a prompt segment by segment into a KV cache, and decodes greedily."""

    @property
    def name(self) -> str:
        """Return the model's name for users."""

    @property
    def context(self) -> int:
        """Return the context length in tokens, prompt and answer together."""

    @property
    def frame(self) -> Frame:
        """Return the chat template's tokens around a prompt."""

    @property
    def has_roles(self) -> bool:
        """Return whether a role adapter acts on the last segment of prompts."""

    @property
    def sub_step(self) -> int:
        """Return the tokens of a prefill step, counted from a segment's start; 1 if each segment is passed on alone."""

    @property
    def meter(self) -> Meter:
        """Return what was computed so far."""

    @property
    def size(self) -> Size:
        """Return the sizes that its work is computed from."""

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of a text; special tokens in it are plain text."""

    def begin(self) -> Any:
        """Return an empty cache."""

    def prefill(self, cache: Any, ids: Sequence[int]) -> Any:
        """Prefill one whole segment, in sub-steps counted from its start.

        Returns the arrays to store that cannot be cut from the cache later; None if there are none.
        """

    def decode(self, cache: Any, ids: Sequence[int], most: int, drafts: Drafter | None = None) -> Iterator[str]:
        """Prefill the last segment and yield the text of each generated token, which may be empty, up to a stop.

        `drafts` may propose tokens for the model to verify, which saves steps and, but for rounding, changes nothing.
        """

    def preference(self, cache: Any, start: int, ids: Sequence[int], texts: tuple[str, str]) -> float | None:
        """Return the probability of the first of two texts against the second, after a last segment at `start`.

        What the cache holds behind that is removed; None if it cannot be. Texts are compared by their first tokens.
        """


class KvSliceable(LanguageModel, Protocol):
    """A language model whose KV cache can be stored and restored by segment."""

    @property
    def reads_ranges(self) -> bool:
        """Return whether parts of stored segments can be loaded beside computing others."""

    def ranges(self, opened: OpenFiles, shared: int | None, read_at: ReadAt) -> RangeReader:
        """Return a reader of open files, one per segment, of the last only `shared` tokens; UnreadableCache."""

    def append(self, cache: Any, parts: Sequence[Sequence[Tensor]]) -> Sequence[Any]:
        """Append segments as stored, returning what `prefill` returns of each; UnreadableCache."""

    def join(self, cache: Any, reader: RangeReader) -> None:
        """Append what was read to a cache of the tokens before it."""

    def cut(self, cache: Any, start: int, stop: int, captured: Any = None) -> list[Tensor]:
        """Copy the tensors of a segment to store: its slice of the cache, and the arrays that `prefill` returned."""

    def restore(self, paths: Sequence[Path], shared: int | None = None) -> Any:
        """Return a cache restored from files, one per segment, of the last only `shared` tokens; UnreadableCache."""

    def release(self, cache: Any) -> None:
        """Empty an unused cache; the next one may reuse its buffers."""
