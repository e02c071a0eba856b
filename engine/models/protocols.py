"""What pkb asks of a model; nothing here knows how one computes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engine.models.drafts import Drafts
from store.hits import Vectors
from store.kv_files import Tensor


class Embedder(Protocol):
    """Turns text into unit vectors; equal fingerprints mean interchangeable vectors."""

    @property
    def fingerprint(self) -> str:
        """Name the weights, tokenizer and pooling by digest."""
        ...

    @property
    def width(self) -> int:
        """Give the number of dimensions."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Give one unit row per text, in order: (len(texts), width) float32."""
        ...

    def embed_question(self, text: str) -> Vectors:
        """Give the unit row that a question is searched with, which may differ from the same text's: (width,)."""
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


class Unreadable(Exception):
    """Kept tensors that cannot be read back: gone, damaged, or another model's."""


class LanguageModel(Protocol):
    """Reads a prompt segment by segment into a cache of keys and values, and continues it greedily."""

    @property
    def name(self) -> str:
        """Give the name that people know it by."""
        ...

    @property
    def context(self) -> int:
        """Give how many tokens of prompt and answer it can hold."""
        ...

    @property
    def frame(self) -> Frame:
        """Give what stands around a prompt."""
        ...

    def tokens(self, text: str) -> list[int]:
        """Give the ids of a text; what looks like a special token in it is text like any other."""
        ...

    def begin(self) -> Any:
        """Give an empty cache."""
        ...

    def prefill(self, cache: Any, ids: Sequence[int]) -> Any:
        """Read one whole segment into the cache, in sub-steps counted from the segment's start.

        Gives what is to be kept of it and that the cache does not hold on to; None where it holds on to all.
        """
        ...

    def decode(self, cache: Any, ids: Sequence[int], most: int, drafts: Drafts | None = None) -> Iterator[str]:
        """Read the last segment and yield the text of each further token, which may be empty, up to a stop.

        `drafts` may guess tokens for it to check, which saves time and, but for rounding, changes nothing.
        """
        ...


class Sliceable(Protocol):
    """A language model whose cache can be kept and put back in pieces."""

    def cut(self, cache: Any, start: int, stop: int, fleeting: Any = None) -> list[Tensor]:
        """Copy what is kept of a segment: what the cache holds of its tokens, and what `prefill` gave besides."""
        ...

    def restore(self, paths: Sequence[Path], lent: int | None = None) -> Any:
        """Give a cache that has read what these files hold in turn, of the last one only `lent` tokens; Unreadable."""
        ...

    def expect(self, cache: Any, tokens: int) -> None:
        """Have memory ready for so many tokens of what a cache holds, before they are to be restored."""
        ...

    def release(self, cache: Any) -> None:
        """Empty a cache that nobody reads any more: the next one may be read into its memory."""
        ...
