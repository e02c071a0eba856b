"""Whether the evidence of a new question entails a cached answer."""

from datetime import UTC, datetime

from engine.ask.extract import quote
from engine.ask.semantic import bearing
from engine.text.question import Question, understand
from engine.types import Passage
from tests.engine.ask.passages import of_text

NOW = datetime(2024, 5, 15, tzinfo=UTC)


def question(text: str) -> Question:
    return understand(text, NOW)


def read(text: str, number: int = 0) -> Passage:
    return of_text("Ann to Ben, 3 May 2024: rehearsal", text, NOW, "Ann", 1.0 - 0.1 * number)


REHEARSAL = [read("The choir rehearsal is on Friday at 19:30 in the old town hall.")]
ASKED, KEPT = question("When is the choir rehearsal?"), question("When's choir rehearsal?")


def answer_of(asked: Question, reads: list[Passage]) -> str:
    said = quote(asked, reads).answer
    assert said is not None
    return said


def test_the_same_answer_from_the_same_evidence_is_entailed() -> None:
    answer = answer_of(KEPT, REHEARSAL)
    assert bearing(ASKED, KEPT, REHEARSAL, answer, 0.5) == 0


def test_an_answer_that_the_new_question_would_not_get_is_not_entailed() -> None:
    assert bearing(ASKED, KEPT, REHEARSAL, "in the church", 0.5) == "another answer"


def test_without_a_quote_nothing_is_entailed() -> None:
    reads = [read("The printer is out of paper.")]
    assert bearing(ASKED, KEPT, reads, "Friday", 0.5) == "another answer"
    assert bearing(ASKED, KEPT, [], None, 0.5) == "another answer"


def test_a_model_s_answer_is_entailed_if_both_questions_get_the_same_quote() -> None:
    assert bearing(ASKED, KEPT, REHEARSAL, None, 0.5) == 0
    other = question("Where is the choir rehearsal?")
    assert bearing(other, KEPT, REHEARSAL, None, 0.5) == "another answer"


def test_an_additional_word_is_entailed_if_the_source_has_it() -> None:
    longer = question("When is the choir rehearsal in the town hall?")
    answer = answer_of(longer, REHEARSAL)
    assert bearing(longer, KEPT, REHEARSAL, answer, 0.5) == 0


def test_an_additional_word_of_a_short_question_is_not_entailed_if_the_source_lacks_it() -> None:
    longer = question("When is the choir rehearsal for schoolchildren?")
    answer = answer_of(longer, REHEARSAL)
    assert bearing(longer, KEPT, REHEARSAL, answer, 0.5) == "a word that the evidence does not support"
