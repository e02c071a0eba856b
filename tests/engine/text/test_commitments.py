"""Which sentences leave something open, for whom and until when; sentences of mail and of meetings."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.open_loops import (
    Commitment,
    Surroundings,
    addressed,
    commitment,
    due_day,
    is_marked,
    is_mass_mail,
    says_done,
)

MAIL = Surroundings(names=("Gus", "Barb", "Samir"))
LONG = Surroundings(short=False, names=MAIL.names)
MEETING = Surroundings(spoken=True, short=False, names=MAIL.names)
MONDAY = datetime(2024, 5, 6, 10, tzinfo=UTC)
WORDS = "I will send please let me know if you can call Gus by Friday the minutes ? . , not done Action : [ ] \n you"


@pytest.mark.parametrize(
    ("text", "doer"),
    [
        ("I'll send the minutes by Friday.", "writer"),
        ("I will try to get copies of the orders.", "writer"),
        ("Will call you after one.", "writer"),
        ("Barb, will be in touch later today.", "writer"),
        ("I just landed and will email you the list.", "writer"),
        ("We need to pay the caretaker.", "writer"),
        ("I can bring it tomorrow before nine.", "writer"),
        ("Gus will ask the caretaker.", "named"),
        ("Gus Tindall is going to book the hall.", "named"),
        ("Someone will fax it now.", "unknown"),
        ("Please send me the list of singers.", "reader"),
        ("Pls print for the meeting.", "reader"),
        ("Can you bring the white gazebo?", "reader"),
        ("Could one of you check the invoice?", "reader"),
        ("Let me know whether you are coming.", "reader"),
        ("Call me when you have landed.", "reader"),
    ],
)
def test_a_promise_or_a_request_is_a_task(text: str, doer: str) -> None:
    found = commitment(text, MAIL)
    assert (found and (found.kind, found.doer)) == ("task", doer)


@pytest.mark.parametrize(
    "text",
    [
        "If you have any questions, please call me.",
        "Please let me know if you have any questions.",
        "Please note that the hall is closed.",
        "Please feel free to contact us.",
        "I hope that I will get the job.",
        "He said I will pay for it.",
        "I can send it.",
        "Here is the memo that I promised to send.",
        "I will be in Paris.",
        "I'll never forget it.",
        '"I will call the police," she said.',
        "The department will provide a list.",
        "We met on Friday.",
        "Let me know.",
        "Thanks!",
        "",
    ],
)
def test_courtesy_reports_and_conditions_are_none(text: str) -> None:
    assert commitment(text, MAIL) is None


@pytest.mark.parametrize(
    ("text", "around", "open_"),
    [
        ("Where do we leave our cars?", MAIL, True),
        ("When will the hall be free?", MAIL, True),
        ("Have you heard from Ann?", LONG, True),
        ("Why do the rates rise?", LONG, False),  # an article
        ("How are you?", MAIL, False),
        ("Pretty wild, huh?", MAIL, False),
        ("When is the next call?", MEETING, False),  # answered at once
    ],
)
def test_a_question_to_the_reader_is_open(text: str, around: Surroundings, open_: bool) -> None:
    assert commitment(text, around) == (Commitment("question", "reader", replies=True) if open_ else None)


@pytest.mark.parametrize(
    ("text", "doer"),
    [
        ("I'll send you the summary.", "writer"),
        ("Yeah, I will I will follow up on the thread.", "writer"),
        ("Then please book it, Samir.", "reader"),
        ("I'll share my screen.", None),
        ("I will post the link in the chat.", None),
        ("We need to look at the budget.", None),
        ("I'd like to look at this.", None),
        ("Can you send it?", None),
    ],
)
def test_in_speech_less_counts(text: str, doer: str | None) -> None:
    found = commitment(text, MEETING)
    assert (found and found.doer) == doer


@pytest.mark.parametrize("text", ["Action: book the hall", "TODO: call Ann", "- [ ] order cups", "Next steps: a draft"])
def test_a_mark_makes_a_line_a_task(text: str) -> None:
    assert is_marked(text)


@pytest.mark.parametrize(
    "text",
    [
        "Ann: book the hall",
        "- [x] order cups",
        "Actions speak louder",
        "Action items - the hall",
        "Action items:",
        "Re: action",
    ],
)
def test_other_beginnings_do_not(text: str) -> None:
    assert not is_marked(text)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("I'll send the minutes by Friday.", date(2024, 5, 10)),
        ("Please tell Lucy by 24 May which stall you want.", date(2024, 5, 24)),
        ("We met yesterday; I will send it tomorrow.", date(2024, 5, 7)),
        ("For the fair on 22 June, please answer by 20 May.", date(2024, 5, 20)),
        ("Please send the accounts of 2023.", None),
        ("As I said last week, I will send it.", None),
        ("I will send it.", None),
    ],
)
def test_the_day_that_something_is_due_is_the_nearest_to_come_or_the_one_after_by(text: str, due: date | None) -> None:
    assert due_day(text, MONDAY) == due


def test_without_a_date_of_its_own_nothing_is_due() -> None:
    assert due_day("I'll send it by Friday.", None) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Gus, could you look at it?", "Gus"),
        ("Then please book it, Samir, but see what it costs.", "Samir"),
        ("Gus could you print it?", "Gus"),
        ("Please ask Gus.", None),
        ("Gus and Samir are here.", None),
    ],
)
def test_who_is_called_is_told_by_commas(text: str, name: str | None) -> None:
    assert addressed(text, MAIL.names) == name


def test_done_is_what_says_so_and_not_what_denies_it() -> None:
    said = ("Here is the list.", "I have sent it.", "Done!", "Not done yet.", "I will send it.", "It should be sent.")
    assert [says_done(one) for one in said] == [True, True, True, False, False, False]


def test_mass_mail_is_told_by_its_sender_or_its_text() -> None:
    assert is_mass_mail("News <newsletter@x.org>", "Hello")
    assert is_mass_mail("Ann <ann@x.org>", "To unsubscribe, click here.")
    assert not is_mass_mail("Ann <ann@x.org>", "Here is the news.")


TEXTS = st.text() | st.lists(st.sampled_from(WORDS.split(" ")), max_size=12).map(" ".join)


@given(TEXTS, st.sampled_from([MAIL, LONG, MEETING]), st.none() | st.datetimes(timezones=st.just(UTC)))
def test_any_text_can_be_judged(text: str, around: Surroundings, written: datetime | None) -> None:
    found, due = commitment(text, around), due_day(text, written)
    assert found is None or found.kind in ("task", "question")
    assert due is None or (written is not None and due >= written.date())
    assert addressed(text, around.names) in (None, *around.names)
    assert {type(one) for one in (is_marked(text), says_done(text), is_mass_mail(text, text))} == {bool}
