"""Which questions ask about a document as a whole, and the words in them that name it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.question import synthesis
from engine.text.time_sensitive import (
    ASPECTS,
    Aspect,
    WholeDocumentQuestion,
    title_words,
    whole_document_question,
)
from prompts import word_patterns

WORDS = "what who when was is were the meeting there decided in at of about summarize sent it budget call 3 may . ?"


@pytest.mark.parametrize(
    ("question", "aspect"),
    [
        ("Summarize the whole meeting.", "summary"),
        ("What was the general discussion of the meeting?", "summary"),
        ("Please give me a short summary of this call", "summary"),
        ("What were the final decisions made by the team?", "decisions"),
        ("who does what by when?", "tasks"),
        ("What are the action items?", "tasks"),
        ("What's still open?", "open"),
        ("Could you tell me who was there?", "people"),
        ("Who was at the meeting?", "people"),
        ("Who sent the email?", "sender"),
        ("To whom was the message sent?", "recipients"),
        ("What is the subject of the email?", "subject"),
        ("When did the meeting take place?", "date"),
        ("Wer war dabei?", "people"),
        ("Fasse die Besprechung zusammen", "summary"),
    ],
)
def test_a_question_about_a_whole_document_is_told_by_its_words(question: str, aspect: Aspect) -> None:
    assert whole_document_question(question) == WholeDocumentQuestion(aspect)


@pytest.mark.parametrize(
    ("question", "aspect", "name"),
    [
        ("What was decided in the budget meeting of 3 May?", "decisions", "the budget meeting of 3 May?"),
        ("Who was at the standup on 3 May?", "people", "the standup on 3 May?"),
        ("Summarize the budget meeting", "summary", "the budget meeting"),
        ("What was the kickoff call about?", "summary", "the kickoff call"),
    ],
)
def test_it_may_name_the_document(question: str, aspect: Aspect, name: str) -> None:
    assert whole_document_question(question) == WholeDocumentQuestion(aspect, name)


@pytest.mark.parametrize(
    "question",
    [
        "What was decided about the budget?",
        "What did Ann decide?",
        "Summarize what was said about the loan",
        "Who was it?",
        "Who was there with Ann?",
        "When is the meeting?",
        "Who is the email about?",
        "What was agreed on the budget?",
        "Who sent the picture in the email?",
        "",
    ],
)
def test_other_questions_are_none(question: str) -> None:
    assert whole_document_question(question) is None


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_wording_of_an_aspect_asks_for_it_and_only_what_needs_a_synthesis_is_declined_by_quotes(
    aspect: Aspect,
) -> None:
    assert whole_document_question(word_patterns("wordings")[aspect]) == WholeDocumentQuestion(aspect)
    assert (synthesis(word_patterns("wordings")[aspect]) is not None) == (
        aspect in ("summary", "decisions", "tasks", "open", "minutes")
    )


def test_the_words_of_a_title_are_those_of_a_name_without_articles_and_meeting() -> None:
    assert title_words("the Budget meeting of 3 May") == ["budget", "3", "may"]


@given(st.text() | st.lists(st.sampled_from(WORDS.split())).map(" ".join))
def test_any_text_has_an_answer_and_a_name_is_part_of_it(text: str) -> None:
    found = whole_document_question(text)
    assert found is None or found.name in " ".join(text.split())
