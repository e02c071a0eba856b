"""Early stops of generation: where the text begins to repeat itself, or at the limit of tokens.

Small models fall into loops, and greedy decoding never leaves one. Works on text, not tokens, with constant work for
each token. Knows no model.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile

REPEATED = "the answer was cut where it began to repeat itself"

_UNIT = re.compile(
    r"(?P<thought></think>)|</?[a-z]{0,5}\Z"
    r"|\[[\d ,;&–-]{0,40}(?:\]|\Z)"  # numbers of sources belong to the sentence before them
    # the mark or number of a list's item, without which items are compared
    r"|^[^\S\n]*+(?P<item>[^\w\s<\[]{1,3}[^\S\n]*+(?=\w|\Z)(?:\d{1,3}(?:[.)](?:\s|\Z)|\Z))?|\d{1,3}(?:[.)](?:\s|\Z)|\Z))"
    r"|(?P<word>\w{1,8}|[^\w\s]|\s{40})",  # scripts without spaces are cut, so that their loops are found too
    re.MULTILINE,
)
# "Dr." and "p.m." end no sentence.
_STOP = re.compile(r"(?:(?:\w{3}|\d|[^\w\s.])\.|[!?…]|(?P<wide>[。！？｡]))[\"'”’»」』）)*_]{0,3}\Z")
_STOP_WIDTH = 8
_FURTHEST = 256  # words between a text and its repetition
_LINE = 12  # bytes of a sentence or line that is not written twice in a row
_REFRAIN = 48  # of one that is not written a third time, even with other text in between
_ROW = 100  # of shorter spans that may repeat in a row: cells of a table, digits, dashes
_TAIL = 4  # in the last quarter of the tokens a sentence is shown when it has ended


@dataclass(slots=True)
class Repetition:
    """Finds where a growing text begins to repeat itself; mutable.

    `end` is the offset to cut it at once it does. No repetition begins before the offset `held`. `sentences` are the
    offsets of its sentences and lines.
    """

    end: int | None = None
    held: int = 0
    sentences: list[int] = field(default_factory=lambda: [0])
    _text: str = ""
    _read: int = 0  # offset behind the last unit
    _after: int = 0  # offset behind the last word
    _tail: re.Match[str] | None = None  # a unit that may go on
    _item: int | None = None  # offset of a list's mark or number before the next word
    _words: list[str] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)
    _runs: list[int] = field(default_factory=list)  # by distance, from 1: how many last words occur that far back too
    _first: int = 0  # the number of the last sentence's first word

    def read(self, text: str) -> None:
        """Read on in a text, which begins with all that was read before."""
        self._text, self._tail = text, None
        for unit in _UNIT.finditer(text, self._read):
            if unit["word"] and self._first < len(self._words) and self._is_first(unit):
                count = len(self._words) - self._first
                if sum(run >= count for run in self._runs) > 1 and self._bytes(count) >= _REFRAIN:
                    self.end = self.sentence_from(self._starts[-max(self._runs)])
                self._first = len(self._words)
                self.sentences.append(unit.start() if self._item is None else self._item)
            if unit.end() == len(text):
                self._tail = unit
            if self._tail or self.end is not None:
                break
            self._add(unit)
        self.held = self._first_open()

    def finish(self) -> bool:
        """Read the last word as a whole one; return whether the last sentence or line is whole."""
        text = self._text
        if self.end is None:
            self.read(text + "\n\n")  # ends every unit
        if self._item:
            self.sentences.append(self._item)
        return "\n" in text[self._after :] or self._stop() is not None

    def sentence_from(self, start: int, before: int | None = None) -> int | None:
        """Return the offset of the first sentence at or after an offset, and before another."""
        later = (offset for offset in self.sentences if offset >= start)
        return next((offset for offset in later if before is None or offset < before), None)

    def _stop(self) -> re.Match[str] | None:
        return _STOP.search(self._text[max(0, self._after - _STOP_WIDTH) : self._after])

    def _is_first(self, unit: re.Match[str]) -> bool:
        gap, stop = self._text[self._after : unit.start()], self._stop()
        return "\n" in gap or (stop is not None and bool(gap or stop["wide"]) and not unit["word"].islower())

    def _add(self, unit: re.Match[str]) -> None:
        self._read = unit.end()
        if unit["thought"]:  # the answer may say what was thought
            self._words, self._starts, self._runs, self._first = [], [], [], 0
        elif unit["item"]:
            self._item = unit.start("item")
        if not unit["word"]:
            return
        word, start = unit["word"].casefold(), unit.start() if self._item is None else self._item
        before = reversed(self._words[-_FURTHEST:])
        self._runs = [run + 1 if word == other else 0 for run, other in zip([*self._runs, 0], before, strict=False)]
        self._words.append(word)
        self._starts.append(start)
        self._after, self._item = self._read, None
        again = [(run, far) for far, run in enumerate(self._runs, 1) if run >= far]
        if any(self._is_loop(far, run) for run, far in again):
            run, far = max(again)
            # Cut at the start of the loop's first full sentence: the end of the sentence before may match by chance.
            start, second = self._starts[-run], self._starts[far - run] if far < run else None
            self.end = start if (sentence := self.sentence_from(start, second)) is None else sentence

    def _is_loop(self, far: int, run: int) -> bool:
        """Whether words repeated from `far` back are a loop: whole sentences or lines twice, other spans thrice."""
        if run >= 2 * far and self._bytes(run + far) >= _ROW:
            return True
        before = self._first - far  # where the last sentence begins, in the words before
        begins = before == 0 or (before > 0 and self._starts[before] in self.sentences)
        return begins and len(self._words) <= self._first + far and self._bytes(far) >= _LINE

    def _bytes(self, count: int) -> int:
        """Return the length of the last words in bytes, because a letter of some scripts is a syllable or a word."""
        return len(self._text[self._starts[-count] : self._after].encode(errors="replace"))

    def _first_open(self) -> int:
        if run := max(self._runs, default=0):
            return self._starts[-run]
        text, tail = max(self._read, len(self._text.rstrip())), self._tail  # blanks may have been read as words
        word = tail["word"].casefold() if tail and tail["word"] else None
        if word is not None and not any(known.startswith(word) for known in self._words[-_FURTHEST:]):
            return text
        start = tail.start(tail.lastgroup or 0) if tail else text
        return start if self._item is None else self._item


@dataclass(slots=True)
class Output:
    """The text that a model has generated, in at most `most` tokens, and why it was `ended`, if not by it; mutable."""

    most: int
    text: str = ""
    tokens: int = 0
    ended: str = ""
    _repetition: Repetition = field(default_factory=Repetition)
    _near: int | None = None  # the offset where the last tokens begin

    def add(self, piece: str) -> bool:
        """Add the text of a token; return whether another may follow."""
        if self._near is None and self.tokens >= self.most - self.most // _TAIL:
            self._near = len(self.text)
        self.text, self.tokens = self.text + piece, self.tokens + 1
        self._repetition.read(self.text)
        return self._repetition.end is None and self.tokens < self.most

    @property
    def settled(self) -> str:
        """Return the beginning of the text that no later token can change."""
        end, sentence = self._repetition.held, self._repetition.sentences[-1]
        return self.text[: min(end, sentence) if self._is_near(sentence) else end]

    def close(self) -> str:
        """End the text, where it repeats itself or with a sentence at the limit, and return it."""
        is_whole = self._repetition.finish()
        if self._repetition.end is not None:
            self.text, self.ended = self.text[: self._repetition.end], REPEATED
        elif self.tokens >= self.most:
            last, again = self._repetition.sentences[-1], self._repetition.sentence_from(max(1, self._repetition.held))
            end = last if again is None and self._is_near(last) and not is_whole else again
            if is_whole or end is not None:
                self.text, self.ended = self.text[:end], f"the answer was cut at {self.most} tokens, after a sentence"
            else:
                self.text, self.ended = self.settled, f"the answer was cut at {self.most} tokens"
        return self.text

    def _is_near(self, offset: int) -> bool:
        return self._near is not None and offset > self._near


def complete(pieces: Iterable[str], most: int, check_time: Callable[[], None] = lambda: None) -> Output:
    """Return up to `most` tokens of text, ended where it repeats itself or with a sentence; `check_time` may raise."""
    output = Output(most)
    for _ in takewhile(output.add, pieces):
        check_time()
    output.close()
    return output
