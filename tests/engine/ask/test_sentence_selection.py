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


PRICED = {
    "en": ("The fence costs 420 euros.", "The fence is green. Lunch costs 12 euros.", "The fence is 420 cm long."),
    "fr": ("La clôture coûte 420 €.", "La clôture est verte. Le repas coûte 12 €.", "La clôture fait 420 cm."),
    "de": ("Der Zaun kostet 420 Euro.", "Der Zaun ist grün. Das Essen kostet 12 Euro.", "Der Zaun ist 420 cm lang."),
    "es": ("La valla cuesta 420 euros.", "La valla es verde. El almuerzo cuesta 12 euros.", "La valla mide 420 cm."),
    "it": ("Il recinto costa 420 euro.", "Il recinto è verde. Il pranzo costa 12 euro.", "Il recinto è lungo 420 cm."),
    "nl": ("Het hek kost 420 euro.", "Het hek is groen. De lunch kost 12 euro.", "Het hek is 420 cm lang."),
}
PRICE_QUESTIONS = [
    ("en", "How much is the fence?"),
    ("en", "What is the price of the fence?"),
    ("en", "What does the fence cost?"),
    ("en", "What's the price of the fence?"),
    ("fr", "Quel est le prix de la clôture ?"),
    ("fr", "Combien coûte la clôture ?"),
    ("fr", "C'est combien, la clôture ?"),
    ("de", "Was kostet der Zaun?"),
    ("de", "Wie teuer ist der Zaun?"),
    ("de", "Was ist der Preis des Zauns?"),
    ("es", "¿Cuánto cuesta la valla?"),
    ("es", "¿Cuánto es la valla?"),
    ("es", "¿Cuál es el precio de la valla?"),
    ("it", "Quanto costa il recinto?"),
    ("it", "Qual è il prezzo del recinto?"),
    ("nl", "Hoeveel kost het hek?"),
    ("nl", "Wat is de prijs van het hek?"),
]


@pytest.mark.parametrize(("language", "question"), PRICE_QUESTIONS)
def test_a_price_is_an_amount_of_money_of_the_thing_that_is_asked_for(language: str, question: str) -> None:
    said, *others = (changed(OLD, header="From: Ben, Garden", text=text) for text in PRICED[language])
    assert (answered(question, said) or "none").startswith("420 ")
    assert [answered(question, other) for other in others] == [None, None]


@pytest.mark.parametrize("question", ["How much is left of the fence?", "How much does Ann weigh?", "How far is it?"])
def test_a_question_for_another_amount_asks_for_no_price(question: str) -> None:
    assert not understand(question, NOW).priced
