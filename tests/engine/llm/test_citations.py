"""Citations: an answer is compared with the sources in the prompt."""

from datetime import UTC, datetime

import pytest

from engine.llm.generate import Cited, ParsedAnswer, cite
from engine.types import Passage
from store.types import Chunk
from tests.engine.ask.passages import passage

QUESTION = "When is the rehearsal?"


def read(text: str, header: str = "From: Ann, rehearsal") -> Passage:
    chunk = Chunk("c", "d", 0, header, text, 1, 1 + text.count("\n"))
    return passage((chunk,), "Ann", (), datetime(2024, 5, 3, tzinfo=UTC), 1.0, ())


READS = (
    read("Dear all,\nthe rehearsal is on Friday at 6pm. Bring your folders."),
    read("The rehearsal was nice. We sang for an hour."),
    read("The rehearsal moves to Saturday."),
)
SHOWN = (1, 0, 2)  # in the prompt the second source stands first


def test_a_number_means_the_chunk_that_stood_under_it() -> None:
    cited = cite(ParsedAnswer("Friday at 6pm", (2,)), QUESTION, READS, SHOWN)
    assert cited.quotes == ("the rehearsal is on Friday at 6pm.", "", "")


def test_a_source_that_holds_nothing_of_the_answer_is_not_cited() -> None:
    cited = cite(ParsedAnswer("Friday at 6pm", (1, 2)), QUESTION, READS, SHOWN)
    assert cited.quotes == ("the rehearsal is on Friday at 6pm.", "", "")


def test_where_the_number_is_wrong_the_source_that_holds_the_answer_is_cited() -> None:
    for numbers in ((), (1,), (9,), (0,)):
        cited = cite(ParsedAnswer("Saturday", numbers), QUESTION, READS, SHOWN)
        assert (cited.quotes, cited.stands) == (("", "", "The rehearsal moves to Saturday."), True)


def test_words_come_before_numbers_where_the_model_did_not_see_them() -> None:
    reads = (*READS, read("The party is on Friday."))
    for numbers, source in (((4,), 0), ((2,), 0), ((), 0), ((3,), 0)):
        cited = cite(ParsedAnswer("Friday at 6pm", numbers), QUESTION, reads, (*SHOWN, 3), words_first=True)
        assert [bool(quote) for quote in cited.quotes] == [at == source for at in range(4)]
    named = cite(ParsedAnswer("Friday at 6pm", (4,)), QUESTION, reads, (*SHOWN, 3))
    assert [bool(quote) for quote in named.quotes] == [False, False, False, True]
    assert not cite(ParsedAnswer("in Ahrenswalde", (2,)), QUESTION, reads, SHOWN, words_first=True).stands


def test_an_answer_found_in_no_source_is_rejected_whatever_it_cites() -> None:
    for numbers in ((), (2,)):
        cited = cite(ParsedAnswer("in Ahrenswalde", numbers), QUESTION, READS, SHOWN)
        assert (cited.quotes, cited.stands) == (("", "", ""), False)


CONTACT = read("Call Ann on (713) 555-0134 or +44 20 7946 0018; ann.lee@example.org; https://choir.example/plan.")


@pytest.mark.parametrize(
    ("answer", "stands"),
    [
        ("Ann's number is 713-555-0134.", True),
        ("Call Ann on +44 20 7946 0018", True),
        ("Call Ann on 713-555-0143", False),
        ("Ann: ann.lee@example.org.", True),
        ("Ann: ann.leigh@example.org", False),
        ("see https://choir.example/plan", True),
        ("see https://choir.example/plans for Ann", False),
        ("Ann, on 2024-05-03", True),  # a date is no telephone number
    ],
)
def test_an_address_link_or_telephone_number_that_no_source_has_does_not_stand(answer: str, *, stands: bool) -> None:
    assert cite(ParsedAnswer(answer, (1,)), "How do I reach her?", (CONTACT,), (0,)).stands is stands


def test_an_address_of_the_question_may_be_repeated() -> None:
    said = ParsedAnswer("ann@example.com is on 713-555-0134", (1,))
    assert cite(said, "Who has ann@example.com?", (CONTACT,), (0,)).stands
    assert not cite(said, "Who can be called?", (CONTACT,), (0,)).stands


def test_where_question_and_sources_share_no_word_the_model_is_believed_without_a_quote() -> None:
    cited = cite(ParsedAnswer("am Freitag", (2,)), "Wann ist die Probe?", READS, SHOWN)
    assert (cited.quotes, cited.stands) == (("", "", ""), True)
    assert not cite(ParsedAnswer("am Freitag", ()), "Wann ist die Probe?", READS, SHOWN).stands


@pytest.mark.parametrize(
    ("question", "answer", "text"),
    [
        ("Wann ist die Probe?", "Am Freitag um 18:30", "The rehearsal is on Friday at 18:30."),  # a number
        ("Wer leitet die Probe?", "Jürgen Vogelsang", "Jurgen Vogelsang leads it."),
        ("Who leads it?", "Vogelsang, Juergen", "Jürgen Vogelsang leads it."),
        ("Who leads it?", "ZOË MULLER", "Zoe Müller leads it."),
        ("Who leads it?", "the O'Brien sisters", "It is led by O’Brien."),
        ("What is the fee?", "12", "It costs £12.00."),
        ("What is the fee?", "1200", "It costs £1,200."),
        ("谁有钥匙？", "阿明", "钥匙在阿明那里。"),
        ("Is it on Friday?", "Yes, at six", "Yes, we start at six."),
    ],
)
def test_one_word_or_number_in_common_supports_an_answer_that_names_no_source(
    question: str, answer: str, text: str
) -> None:
    cited = cite(ParsedAnswer(answer, ()), question, (read(text, "From: Bea"),), (0,))
    assert (cited.quotes, cited.stands) == ((text,), True)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is the rehearsal?", "am Sonntag"),  # another language
        ("Wann ist die Probe?", "am Sonntag"),
        ("Wann ist die Probe?", "in three weeks"),
        ("How many come?", "42"),
        ("Is the rehearsal on Friday?", "Yes"),
        ("Is the rehearsal on Friday?", "No."),
        ("Who leads the rehearsal?", "阿明"),
        ("Who leads the rehearsal?", "…"),
    ],
)
def test_an_answer_that_names_no_source_and_shares_no_word_with_any_is_a_decline(question: str, answer: str) -> None:
    assert cite(ParsedAnswer(answer, ()), question, READS, SHOWN) == Cited(("", "", ""), stands=False)


def test_a_source_that_the_prompt_lacks_supports_nothing() -> None:
    cited = cite(ParsedAnswer("Saturday", ()), QUESTION, READS, SHOWN[:2])
    assert not cited.stands


def test_yes_is_quoted_from_the_source_it_names() -> None:
    cited = cite(ParsedAnswer("Yes", (2,)), "Is the rehearsal on Friday?", READS, SHOWN)
    assert cited.quotes == ("the rehearsal is on Friday at 6pm.", "", "")


def test_words_of_the_question_alone_support_no_answer() -> None:
    cited = cite(ParsedAnswer("The rehearsal is on Saturday", (1, 3)), QUESTION, READS, SHOWN)
    assert cited.quotes == ("", "", "The rehearsal moves to Saturday.")


def test_every_quote_occurs_in_its_source() -> None:
    cited = cite(ParsedAnswer("Friday, then Saturday, folders, an hour", (1, 2, 3)), QUESTION, READS, SHOWN)
    assert [bool(quote) and quote in one.text for one, quote in zip(READS, cited.quotes, strict=True)] == [True] * 3


def test_where_nothing_was_found_each_source_shown_is_quoted_with_what_is_nearest() -> None:
    cited = cite(ParsedAnswer(None, ()), QUESTION, READS, SHOWN[:2])
    assert (cited.quotes[0], cited.quotes[2], cited.stands) == ("the rehearsal is on Friday at 6pm.", "", False)
