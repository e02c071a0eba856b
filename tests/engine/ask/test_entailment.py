"""Whether the evidence of a new question entails a cached answer."""

from datetime import UTC, datetime

from engine.ask.extract import QuoteSettings, quote
from engine.ask.semantic import why_unlike
from engine.text.question import Question, understand
from engine.types import Evidence, Passage
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


def evidence(reads: list[Passage]) -> Evidence:
    return Evidence(tuple(reads), (), 1.0)


def unlike(
    asked: Question, reads: list[Passage], answer: str | None, before: list[Passage] | None = None
) -> str | None:
    """Return why the answer to KEPT, from what was read before, is not that of a question, for which this is found."""
    seen = evidence(reads if before is None else before)
    return why_unlike(asked, KEPT, evidence(reads), seen, answer, QuoteSettings(least=0.5))


def test_the_same_answer_from_what_is_found_for_the_question_is_entailed() -> None:
    assert unlike(ASKED, REHEARSAL, answer_of(KEPT, REHEARSAL)) is None


def test_an_answer_that_the_new_question_would_not_get_is_not_entailed() -> None:
    assert unlike(ASKED, REHEARSAL, "in the church") == "another answer"


def test_an_answer_from_what_is_not_found_for_the_new_question_is_not_entailed() -> None:
    later = [read("The choir rehearsal is on Sunday at 18:00 in the church.")]
    assert unlike(ASKED, later, answer_of(KEPT, REHEARSAL), REHEARSAL) == "another answer"
    assert unlike(ASKED, later, None, REHEARSAL) == "another answer"


def test_without_a_quote_nothing_is_entailed() -> None:
    assert unlike(ASKED, [read("The printer is out of paper.")], "Friday") == "another answer"
    assert unlike(ASKED, [], None) == "another answer"


def test_a_model_s_answer_is_entailed_if_both_questions_get_the_same_quote() -> None:
    assert unlike(ASKED, REHEARSAL, None) is None
    assert unlike(question("Where is the choir rehearsal?"), REHEARSAL, None) == "another answer"


def test_an_additional_word_is_entailed_if_the_source_has_it() -> None:
    longer = question("When is the choir rehearsal in the town hall?")
    assert unlike(longer, REHEARSAL, answer_of(longer, REHEARSAL)) is None


def test_an_additional_word_of_a_short_question_is_not_entailed_if_the_source_lacks_it() -> None:
    longer = question("When is the choir rehearsal for schoolchildren?")
    assert unlike(longer, REHEARSAL, answer_of(longer, REHEARSAL)) == "a word that the evidence does not support"
