"""A language model with scripted output, whose tokens are words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from engine.models.types import Drafter, Frame


@dataclass
class ScriptedModel:
    """Outputs `pieces`; records the segments of its prompt, including the last."""

    pieces: Sequence[str]
    context: int = 1000
    name: str = "scripted"
    frame: Frame = field(default_factory=Frame)
    heard: list[list[int]] = field(default_factory=list)
    vocabulary: list[str] = field(default_factory=list)
    has_roles: bool = False
    sub_step: int = 1

    def tokens(self, text: str) -> list[int]:
        """Return one token a word."""
        for word in text.split():
            if word not in self.vocabulary:
                self.vocabulary.append(word)
        return [self.vocabulary.index(word) for word in text.split()]

    def begin(self) -> list[list[int]]:
        """Start an empty cache."""
        self.heard = []
        return self.heard

    def prefill(self, cache: list[list[int]], ids: Sequence[int]) -> None:
        """Record a segment."""
        cache.append(list(ids))

    def decode(
        self, cache: list[list[int]], ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Iterator[str]:
        """Record the last segment and output the pieces."""
        cache.append(list(ids))
        yield from self.pieces[:most]

    def text(self) -> list[str]:
        """Return the recorded segments in words; token ids of the frame in parentheses."""
        known = self.vocabulary
        return [" ".join(known[i] if 0 <= i < len(known) else f"({i})" for i in segment) for segment in self.heard]
