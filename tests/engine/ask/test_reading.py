"""Answers that the reader chooses: what it marks, who says it, what is left out, and how sure an answer is."""

from datetime import UTC, datetime

import pytest

from engine.ask.extract import Quote, QuoteSettings, quote, quote_after, write
from engine.models.minilm import SpanReader
from engine.text.question import understand
from engine.types import Evidence, Passage, Source, Trace
from store.types import replace
from tests.engine.ask.passages import changed, of_text
from tests.engine.models.test_minilm import find_weights_or_skip

NOW = datetime(2024, 6, 18, 8, tzinfo=UTC)
MAIL = of_text("From: Ann Lee, Rehearsal", "", datetime(2024, 5, 3, tzinfo=UTC), "Ann Lee <ann@example.org>", 1.0)
TALK = of_text("Meeting: talk, Friday 3 May 2024", "", datetime(2024, 5, 3, tzinfo=UTC), "", 1.0, ("Ann", "Ben"))


@pytest.fixture(scope="module")
def settings() -> QuoteSettings:
    return QuoteSettings(reader=SpanReader(find_weights_or_skip()))


def answered(settings: QuoteSettings, question: str, *reads: Passage) -> Quote:
    return quote(understand(question, NOW), reads, settings)


def test_a_sentence_in_other_words_than_the_question_answers(settings: QuoteSettings) -> None:
    text = "Mrs Cole will sing for us. She's the head of the town library. Thanks for the cake."
    found = answered(settings, "What is Mrs Cole's job?", changed(MAIL, text=text))
    assert found.answer == "She's the head of the town library."
    assert found.highlight
    assert "head of the town library" in found.answer[slice(*found.highlight)]


def test_a_date_is_read_by_rules_in_the_sentence_that_was_chosen(settings: QuoteSettings) -> None:
    found = answered(settings, "When is the supper?", changed(MAIL, text="The supper is tomorrow, 7 pm, in the hall."))
    assert (found.answer, found.grade) == ("4 May 2024, 7 pm", "answer")


def test_who_tells_of_himself_is_named(settings: QuoteSettings) -> None:
    talk = changed(TALK, text="Ann: The shed is full.\nBen: From today I keep the spare key to the shed.")
    found = answered(settings, "Who has the spare key to the shed?", talk)
    assert found.answer == "Ben: From today I keep the spare key to the shed."
    assert found.highlight == (0, 3)


def test_what_another_speaker_says_of_himself_does_not_answer(settings: QuoteSettings) -> None:
    talk = changed(TALK, text="Ann: Lovely weather.\nBen: I bought a silver trumpet in Oslo.")
    assert answered(settings, "What did Ann buy in Oslo?", talk).answer is None


@pytest.mark.parametrize("line", ["Subject: a trip to Bergen", "https://example.org/b", "bergen.pdf", "Hi Ben,"])
def test_a_heading_link_file_or_greeting_is_no_answer(settings: QuoteSettings, line: str) -> None:
    found = answered(settings, "Where does the choir go?", changed(MAIL, text=f"{line}\n\nIt rained."))
    assert line not in (found.answer or "")


def test_who_sent_it_is_whom_the_mail_names(settings: QuoteSettings) -> None:
    mail = changed(MAIL, text="Jim Oaks sent in some edits of the programme in the middle of the night.")
    assert answered(settings, "Who sent in some edits of the programme?", mail).answer == "Jim Oaks"
    mail = changed(MAIL, text="I have sent you my edits of the programme.")
    assert answered(settings, "Who sent edits of the programme?", mail).answer == "Ann Lee <ann@example.org>"


def test_by_how_much_may_be_a_share(settings: QuoteSettings) -> None:
    talk = changed(TALK, text="Ann: The number of singers dropped by 92% since May. It is sad.")
    other = changed(TALK, text="Ann: We spent $450 on the hall.", score=0.5)
    found = answered(settings, "By how much did the number of singers drop?", talk, other)
    assert "92%" in (found.answer or "")


def test_an_amount_of_another_source_than_the_best_is_less_likely(settings: QuoteSettings) -> None:
    mail = changed(MAIL, text="The rent of the shed on Mill Lane is due on Friday.")
    other = changed(MAIL, text="We paid $40 for cake.", score=0.5)
    assert answered(settings, "How much is the rent of the shed on Mill Lane?", mail, other).answer is None


def test_how_old_is_answered_by_a_number(settings: QuoteSettings) -> None:
    text = "Ann: The piano in the hall is very old, it is older than I am.\nBen: Yes.\nAnn: They say it is eighty."
    found = answered(settings, "How old is the piano in the hall?", changed(TALK, text=text))
    assert (found.answer, found.grade) == ("Ann: They say it is eighty.", "closest")


def test_what_no_source_tells_is_declined(settings: QuoteSettings) -> None:
    found = answered(settings, "What does the ferry to Bergen cost?", changed(MAIL, text="The rehearsal was fun."))
    assert (found.answer, found.grade) == (None, None)
    assert found.support < 0.5


def test_other_languages_are_answered_by_words(settings: QuoteSettings) -> None:
    mail = changed(MAIL, text="Die Probe ist am Montag um 20 Uhr im kleinen Saal.")
    assert answered(settings, "Wann ist die Probe?", mail).answer == mail.text


def test_a_sentence_without_a_number_is_the_closest_passage_where_one_is_asked_for(settings: QuoteSettings) -> None:
    mail = changed(MAIL, text="I present a petition that many people signed against the new road.")
    found = answered(settings, "How many people signed the petition against the new road?", mail)
    assert (found.answer and "petition" in found.answer, found.grade) == (True, "closest")
    mail = changed(MAIL, text="I present a petition that 212 people signed against the new road.")
    found = answered(settings, "How many people signed the petition against the new road?", mail)
    assert (found.answer and "212" in found.answer, found.grade) == (True, "answer")


FEES = changed(MAIL, text="Up to 100 copies cost $3 each. Up to 200 copies cost $4 each. Over 200 copies cost $5 each.")
DRAW = changed(MAIL, text="The coins are counted. The first prize of the raffle went to Ivo Castellan, who is five.")


def after(settings: QuoteSettings, typed: str, said: str, read: Passage, whole: str = "") -> Quote:
    evidence = Evidence((read,), (), 0.0, leading=1, said=said, typed=typed if whole else "")
    return quote_after(understand(whole or typed, NOW), evidence, settings)


def test_a_follow_up_is_read_with_what_was_said_before(settings: QuoteSettings) -> None:
    said = "Up to 100 copies cost $3 each."
    assert after(settings, "and over 200?", said, FEES).answer == "Over 200 copies cost $5 each."


def test_what_was_said_before_answers_again_where_nothing_else_does(settings: QuoteSettings) -> None:
    said = "The first prize of the raffle went to Ivo Castellan, who is five."
    whole = "Who won the first prize in the raffle?"
    assert after(settings, "and the first?", said, DRAW, whole).answer == "Ivo Castellan"


def test_a_completed_follow_up_that_the_last_source_does_not_answer_is_declined(settings: QuoteSettings) -> None:
    said = "Up to 100 copies cost $3 each."
    assert after(settings, "and the raffle?", said, FEES, "When is the raffle?").answer is None


@pytest.mark.parametrize(("typed", "answer"), [("who said that?", "Ann Lee"), ("why?", "The hall is taken.")])
def test_who_said_it_and_why_are_told_by_where_it_stands(settings: QuoteSettings, typed: str, answer: str) -> None:
    read = changed(MAIL, text="The hall is taken. So we meet in the chapel on Monday. Please bring your scores.")
    assert after(settings, typed, "So we meet in the chapel on Monday.", read).answer == answer


def test_without_the_reader_words_tell_whether_the_last_source_answers() -> None:
    said, words = "Up to 100 copies cost $3 each.", QuoteSettings()
    assert after(words, "and the raffle?", said, FEES, "When is the raffle?").answer is None
    assert after(words, "who said that?", said, FEES).answer == "Ann Lee"
    found = after(words, "and over 200?", said, FEES, "What do over 200 copies cost?")
    assert found.answer == "Over 200 copies cost $5 each."


def test_the_sentences_beside_a_quote_are_told_as_its_context() -> None:
    text = "We meet early. The ferry leaves at 8:15. Bring a coat. Ann has the tickets.\n\nBest wishes"
    read = replace(changed(MAIL, text=text), sources=(Source("/a", None, "a", None, (1, 1), 1.0, ""),))
    told = write(understand("What time does the ferry leave?", NOW), Evidence((read,), ("a0",), 0.0), Trace(), 0.0)
    assert (told.text, told.context) == ("8:15", "We meet early. The ferry leaves at 8:15. Bring a coat.")
