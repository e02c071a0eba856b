"""What a model is likely to say: the quote writer's answer, and what was read."""

from datetime import UTC, datetime

import pytest

from engine.ask.extract import draft_answers
from engine.llm.prompt import fit
from engine.models.types import Drafter
from engine.text.question import understand
from engine.types import Evidence, Passage
from store.types import Chunk
from tests.engine.ask.passages import passage
from tests.engine.llm.scripted_model import ScriptedModel

WHAT = "When is the rehearsal?"
NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)


def read(name: str, day: int, text: str) -> Passage:
    chunk = Chunk(name, name, 0, f"From: {name}", text, 1, 1)
    return passage((chunk,), name, (), datetime(2024, 6, day, tzinfo=UTC), 1.0, ())


EVIDENCE = Evidence(
    (read("Ben", 12, "The rehearsal is on 24 June or ask Cem."), read("Ann", 3, "Sing well.")),
    ("Ben", "Ann"),
    1.0,
)


def guessed(question: str, said: str) -> str:
    """Return what is guessed, in words, behind the words that were said."""
    model = ScriptedModel([])
    asked = understand(question, NOW)
    segments = fit(model, asked.text, NOW, EVIDENCE, 50)
    guesses = Drafter(lambda: draft_answers(model, asked, EVIDENCE, segments), 8)
    guesses.learn()
    for id in model.tokens(said):
        guesses.add(id)
    return " ".join(model.vocabulary[id] for id in guesses.next())


@pytest.mark.parametrize(
    ("question", "said", "guess"),
    [
        (WHAT, "24 June", "2024 [2]"),  # what was asked for, spelled out, and the number of its chunk
        (WHAT, "The rehearsal", "is on 24 June"),  # the sentence
        (WHAT, "Sing", "well. [2] From: Ben"),  # something else that was read
        (WHAT, "Tuesday", ""),
    ],
)
def test_what_was_asked_for_is_guessed_before_what_else_was_read(question: str, said: str, guess: str) -> None:
    assert guessed(question, said) == guess


def test_where_no_quote_answers_what_was_read_is_left() -> None:
    assert guessed("How much is the piano?", "Sing").startswith("well.")
