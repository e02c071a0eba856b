"""Which of several candidate sentences is selected."""

from datetime import UTC, datetime

import pytest

from engine.ask.extract import quote
from engine.text.question import understand
from engine.types import Passage
from tests.engine.ask.passages import changed, of_text

NOW = datetime(2024, 5, 15, tzinfo=UTC)
OLD = of_text(
    "From: Ben, Picnic",
    "The picnic is on 3 June at the weir.",
    datetime(2024, 3, 1, tzinfo=UTC),
    "Ben <ben@example.org>",
    1.0,
)
NEW = changed(OLD, text="The picnic is on 9 June at the weir.", date=datetime(2024, 4, 1, tzinfo=UTC), score=0.9)


def answered(question: str, *reads: Passage) -> str | None:
    return quote(understand(question, NOW), reads).answer


@pytest.mark.parametrize("reads", [(OLD, NEW), (changed(NEW, score=1.0), changed(OLD, score=0.9))])
def test_of_two_equal_sentences_the_newer_holds(reads: tuple[Passage, ...]) -> None:
    assert answered("When is the picnic at the weir?", *reads) == "9 June 2024"


def test_without_a_date_the_better_source_is_taken() -> None:
    assert answered("When is the picnic at the weir?", OLD, changed(NEW, date=None)) == "3 June 2024"


def test_of_what_is_past_the_better_source_is_taken() -> None:
    assert answered("When was the picnic at the weir?", OLD, NEW) == "3 June 2024"


def test_what_is_now_holds_against_what_was_told() -> None:
    read = changed(
        OLD, text="I told you that a seat at the weir would cost 12 pounds. A seat at the weir is now 10 pounds."
    )
    assert answered("How much is a seat at the weir?", read) == "10 pounds"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("The fence costs 420 euros.", "420 euros"),
        ("The fence is 420 euros.", "420 euros"),
        ("The price of the fence is $420.", "$420"),
        ("We paid 420 euros for the fence.", "420 euros"),
    ],
)
@pytest.mark.parametrize("question", ["How much is the fence?", "how much was the fence", "How much for the fence?"])
def test_how_much_is_answered_by_an_amount_however_it_is_said(question: str, text: str, amount: str) -> None:
    read = changed(OLD, header="From: Ben, Garden", text=f"{text} The gate is green.")
    assert answered(question, read) == amount


@pytest.mark.parametrize("text", ["The gate costs 420 euros.", "Lunch is 12 euros."])
def test_the_amount_of_another_thing_is_no_answer(text: str) -> None:
    assert answered("How much is the fence?", changed(OLD, header="From: Ben, Garden", text=text)) is None
