"""What a model is likely to say: what it has read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from engine.kv.restore import PromptReader
from engine.llm.generate import GenerateOptions, generate
from engine.models.types import Drafter
from engine.text.question import understand
from engine.types import Evidence, Passage, Trace
from store.types import Chunk
from tests.engine.ask.passages import passage
from tests.engine.llm.scripted_model import ScriptedModel

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
WHAT = understand("When is the rehearsal?", NOW)


def read(name: str, day: int, text: str) -> Passage:
    chunk = Chunk(name, name, 0, f"From: {name}", text, 1, 1)
    return passage((chunk,), name, (), datetime(2024, 6, day, tzinfo=UTC), 1.0, ())


EVIDENCE = Evidence(
    (read("Ben", 12, "The rehearsal is on 24 June or ask Cem."), read("Ann", 3, "Sing well.")),
    ("Ben", "Ann"),
    1.0,
)


@dataclass
class Guessing(ScriptedModel):
    """A scripted model that keeps what proposes its next tokens."""

    drafts: Drafter | None = None

    def decode(
        self, cache: list[list[int]], ids: Sequence[int], most: int, drafts: Drafter | None = None
    ) -> Iterator[str]:
        """Keep the drafter."""
        self.drafts = drafts
        yield from super().decode(cache, ids, most)


@pytest.mark.parametrize(
    ("said", "guess"),
    [
        ("The rehearsal", "is on 24 June"),
        ("Sing", "well. [2] From: Ben"),
        ("Tuesday", ""),
    ],
)
def test_what_was_read_is_guessed(said: str, guess: str) -> None:
    model = Guessing(["Friday"])
    options = GenerateOptions(lambda: PromptReader(model), "scripted", NOW, 50, drafts=8)
    generate(WHAT, EVIDENCE, Trace(), options)
    assert model.drafts
    model.drafts.learn()
    for id in model.tokens(said):
        model.drafts.add(id)
    assert " ".join(model.vocabulary[id] for id in model.drafts.next()) == guess
