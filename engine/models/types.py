"""The protocols of embedders and language models, tokenizers and speculative drafts.

Text never becomes a control token, and no character is split. Knows no prompts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from store.types import Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

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

    def embed_question(self, text: str) -> Vectors:
        """Return the unit row of a search query, which may differ from that of the same text: (width,)."""

    def knows(self, word: str) -> bool:
        """Return whether a word is one of its vocabulary, and not a chain of pieces that says little."""

    def __getstate__(self) -> object:
        """Return where it is loaded from, for a process with a core of its own, which loads it anew."""
        return {name: value for name, value in vars(self).items() if not hasattr(type(self), name)} | {"_workers": 1}


@dataclass(frozen=True, slots=True)
class Frame:
    """The tokens that a model's chat template adds around a prompt; empty if the model has no template."""

    opening: tuple[int, ...] = ()  # begins the system segment
    turning: tuple[int, ...] = ()  # ends it and opens the user's turn
    closing: tuple[int, ...] = ()  # ends the last segment


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


TORN = "\ufffd"  # what an incomplete character decodes to


def open_tokenizer(path: Path, most: int | None = None) -> "Tokenizer":
    """Read tokenizer.json, to cut texts after `most` tokens if that is given; ValueError if it is damaged."""
    from tokenizers import Tokenizer  # embeddings that are stored already need none

    tokenizer = Tokenizer.from_buffer(path.read_bytes())
    tokenizer.no_padding()
    tokenizer.no_truncation() if most is None else tokenizer.enable_truncation(most)
    tokenizer.encode_special_tokens = True  # "<|im_end|>" in a mail is mail
    return tokenizer


class Tokens:
    """A model's tokenizer; text must not encode to `controls`, nor to the ids that the tokenizer itself reserves."""

    def __init__(self, tokenizer: "Tokenizer", controls: Iterable[int] = ()) -> None:
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = frozenset(added)
        # A run of blanks may be an added token too, but is not a control token.
        named = {id for id, token in added.items() if token.special or token.content.strip(" \t\r\n\u2581")}
        self._reserved = named.union(controls)

    def text(self, text: str) -> list[int]:
        """Return the token ids of a text; control tokens in it are plain text."""
        found = self._tokenizer.encode(text, add_special_tokens=False)
        if self._reserved.isdisjoint(found.ids):
            return list(found.ids)
        places = [place for id, place in zip(found.ids, found.offsets, strict=True) if id in self._reserved]
        middles = [(a + b) // 2 for a, b in places if b - a > 1]
        if not middles:  # a single character
            return [id for id in found.ids if id not in self._reserved]
        # Each half of a control token is encoded alone, so that they cannot merge again.
        return [id for a, b in pairwise((0, *middles, len(text))) for id in self.text(text[a:b])]

    def control(self, text: str) -> tuple[int, ...]:
        """Return the ids of a chat template's text, control tokens included."""
        self._tokenizer.encode_special_tokens = False
        try:
            return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self._tokenizer.encode_special_tokens = True

    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the ids that the tokenizer puts before any text, and those that it appends."""
        found = self._tokenizer.encode("a", add_special_tokens=True)
        ids, mask = tuple(found.ids), found.special_tokens_mask
        return ids[: mask.index(0)], ids[len(ids) - mask[::-1].index(0) :]

    def first_control(self, text: str) -> int | None:
        """Return the control token that a chat template's text begins with, if it does."""
        first = self.control(text.lstrip())[:1]
        return first[0] if first and first[0] in self._added else None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without control tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


def spelled(tokens: Tokens, ids: Iterable[int]) -> Iterator[str]:
    """Yield the text that each id completes, which may be empty; half a character at the end is left out."""
    seen, shown = list[int](), 0
    for id in ids:
        seen.append(id)
        text = tokens.decode(seen).rstrip(TORN)  # all of them: a leading blank depends on the token before
        yield text[shown:]
        shown = max(shown, len(text))


def batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield the indices of texts of similar lengths, at most `budget` tokens or one text at a time."""
    group, total = list[int](), 0
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        if group and total + lengths[i] > budget:
            yield group
            group, total = [], 0
        group.append(i)
        total += lengths[i]
    if group:
        yield group
