"""Text to token ids and back, incrementally: text never becomes a control token, and characters are never split.

Knows the tokenizer's file; no prompts.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from tokenizers import Tokenizer

TORN = "\ufffd"  # what an incomplete character decodes to
LONGEST_CHARACTER = 12  # tokens that may leave a character incomplete; beyond that the bytes are invalid


def open_tokenizer(path: Path) -> Tokenizer:
    """Read tokenizer.json; ValueError where it is damaged."""
    tokenizer = Tokenizer.from_buffer(path.read_bytes())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


class Tokens:
    """A model's tokenizer; `controls` are ids that text must not encode to, beside those that it reserves itself."""

    def __init__(self, tokenizer: Tokenizer, controls: Iterable[int] = ()) -> None:
        tokenizer.encode_special_tokens = True  # "<|im_end|>" in a mail is mail
        self._tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self._added = frozenset(added)
        # A run of blanks may be an added token too, but is no control token.
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
        """Return the ids of a chat template's text, control tokens and all."""
        self._tokenizer.encode_special_tokens = False
        try:
            return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)
        finally:
            self._tokenizer.encode_special_tokens = True

    def opening(self) -> tuple[int, ...]:
        """Return the ids that the tokenizer itself puts before any text."""
        found = self._tokenizer.encode("a", add_special_tokens=True)
        return tuple(found.ids[: found.special_tokens_mask.index(0)])

    def closing(self) -> tuple[int, ...]:
        """Return the ids that the tokenizer itself puts behind any text."""
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
    """Decodes ids incrementally; an incomplete character is held back, and left out at the end. Mutable."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._ids: list[int] = []  # the last few: a leading blank depends on the token before
        self._whole = 0  # of these ids, how many made complete characters
        self._shown = 0  # characters of their text that were returned

    def add(self, id: int) -> str:
        """Return the text that one more token completes, which may be empty."""
        self._ids.append(id)
        text = self._tokens.decode(self._ids)
        waiting = text.endswith(TORN) and len(self._ids) - self._whole < LONGEST_CHARACTER
        text = text.rstrip(TORN) if waiting else text
        shown, self._shown = self._shown, max(self._shown, len(text))
        if not waiting:
            self._drop_done()
        return text[shown:]

    def _drop_done(self) -> None:
        """Drop the ids that no longer affect how later ones are decoded."""
        last = self._ids[self._whole :]
        if text := self._tokens.decode(last):
            self._ids, self._shown = last, len(text)
        self._whole = len(self._ids)


def first_line(pieces: Generator[str, None, None]) -> Generator[str, None, None]:
    """Yield text up to the end of the first line that is not blank, a piece for each piece."""
    said = False
    with closing(pieces):
        for piece in pieces:
            if not said:
                blank = len(piece) - len(piece.lstrip())
                piece = piece[piece.rfind("\n", 0, blank) + 1 :]
            line, end, _ = piece.partition("\n")
            said = said or bool(line.strip())
            yield line
            if end and said:
                return
