"""Converts text to token ids and back, incrementally: text never becomes a control token, and no character is split.

Groups texts into batches of similar length, too. Knows the tokenizer file; no prompts, no models.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TORN = "\ufffd"  # what an incomplete character decodes to
WINDOW = 256  # texts sorted by length together, so that the caller's order is roughly preserved
LONGEST_CHARACTER = 12  # tokens that may leave a character incomplete; beyond that the bytes are invalid


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

    def opening(self) -> tuple[int, ...]:
        """Return the ids that the tokenizer puts before any text."""
        found = self._tokenizer.encode("a", add_special_tokens=True)
        return tuple(found.ids[: found.special_tokens_mask.index(0)])

    def closing(self) -> tuple[int, ...]:
        """Return the ids that the tokenizer itself appends to any text."""
        found = self._tokenizer.encode("a", add_special_tokens=True)
        return tuple(found.ids[len(found.ids) - found.special_tokens_mask[::-1].index(0) :])

    def first_control(self, text: str) -> int | None:
        """Return the control token that a chat template's text begins with, if it does."""
        first = self.control(text.lstrip())[:1]
        return first[0] if first and first[0] in self._added else None

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without control tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text


class Spelling:
    """Decodes ids one by one. Holds back an incomplete character, and drops it at the end. Mutable."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._ids: list[int] = []  # the last ones: a leading blank depends on the previous token
        self._complete = 0  # number of these ids that made complete characters
        self._shown = 0  # characters of their text already returned

    def add(self, id: int) -> str:
        """Return the text that one more token completes, which may be empty."""
        self._ids.append(id)
        text = self._tokens.decode(self._ids)
        is_incomplete = text.endswith(TORN) and len(self._ids) - self._complete < LONGEST_CHARACTER
        text = text.rstrip(TORN) if is_incomplete else text
        shown, self._shown = self._shown, max(self._shown, len(text))
        if not is_incomplete:  # then the ids before no longer affect how later ones are decoded
            last = self._ids[self._complete :]
            if alone := self._tokens.decode(last):
                self._ids, self._shown = last, len(alone)
            self._complete = len(self._ids)
        return text[shown:]


def first_line(pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    """Yield text up to the end of the first line that is not blank, one piece per piece."""
    has_text = False
    with closing(pieces):
        for piece in pieces:
            if not has_text:
                blank = len(piece) - len(piece.lstrip())
                piece = piece[piece.rfind("\n", 0, blank) + 1 :]
            line, end, _ = piece.partition("\n")
            has_text = has_text or bool(line.strip())
            yield line
            if end and has_text:
                return


TokenIds = list[list[int]]  # of each text


def batches(
    texts: Sequence[str], tokens: Callable[[list[str]], TokenIds], budget: int
) -> Iterator[tuple[list[int], TokenIds]]:
    """Yield (indices into texts, their token ids), at most `budget` tokens or one text at a time."""
    for first in range(0, len(texts), WINDOW):
        found = tokens(list(texts[first : first + WINDOW]))
        group, total = list[int](), 0
        for i in sorted(range(len(found)), key=lambda i: len(found[i])):
            if group and total + len(found[i]) > budget:
                yield [first + i for i in group], [found[i] for i in group]
                group, total = [], 0
            group.append(i)
            total += len(found[i])
        yield [first + i for i in group], [found[i] for i in group]
