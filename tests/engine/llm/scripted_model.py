"""A language model that says what it is told to, over tokens that are words: what is around it can be told apart."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.models.types import Drafter, Frame


@dataclass
class ScriptedModel:
    """Says `pieces`; remembers the segments that it was given, the last one among them."""

    pieces: Sequence[str]
    context: int = 1000
    name: str = "scripted"
    frame: Frame = field(default_factory=Frame)
    heard: list[list[int]] = field(default_factory=list)
    vocabulary: list[str] = field(default_factory=list)

    def tokens(self, text: str) -> list[int]:
        """Return one token a word."""
        for word in text.split():
            if word not in self.vocabulary:
                self.vocabulary.append(word)
        return [self.vocabulary.index(word) for word in text.split()]

    def begin(self) -> list[list[int]]:
        """Forget what was heard."""
        self.heard = []
        return self.heard

    def prefill(self, cache: list[list[int]], ids: Sequence[int]) -> None:
        """Hear a segment."""
        cache.append(list(ids))

    def decode(
        self, cache: list[list[int]], ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Iterator[str]:
        """Hear the last segment and speak."""
        cache.append(list(ids))
        yield from self.pieces[:most]

    def text(self) -> list[str]:
        """Return what was heard, in words; numbers of the frame, which are no words, in parentheses."""
        known = self.vocabulary
        return [" ".join(known[i] if 0 <= i < len(known) else f"({i})" for i in segment) for segment in self.heard]
