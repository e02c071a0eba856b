"""The quote writer and days: those of an old mail, the next of several, a weekday and its time, what is taken back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from engine.ask.candidates import candidates
from engine.ask.extract import Quote, quote
from engine.text.question import understand
from engine.text.relative_dates import NONE
from engine.types import Passage
from store.types import Chunk
from tests.engine.ask.passages import changed, of_text, passage

NOW = datetime(2024, 6, 18, 8, tzinfo=UTC)  # a Tuesday
OLD = of_text("From: Ben, Boats", "", datetime(2024, 5, 20, tzinfo=UTC), "Ben <ben@example.org>", 1.0)
NEW = changed(OLD, date=datetime(2024, 6, 17, tzinfo=UTC), score=0.9)


def answered(question: str, *reads: Passage) -> Quote:
    return quote(understand(question, NOW), reads)


def told(question: str, *texts: str) -> str | None:
    """Answer from an older mail, then a newer."""
    reads = [changed(read, text=text) for read, text in zip((OLD, NEW), texts, strict=False)]
    return answered(question, *reads).answer


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("What is on tomorrow?", "I can bring the skiff tomorrow before nine."),
        ("Who comes tomorrow?", "Ann Vey comes tomorrow before nine."),
    ],
)
def test_tomorrow_in_an_old_mail_is_no_evidence(question: str, text: str) -> None:
    assert told(question, text) is None


def test_tomorrow_in_a_mail_of_today_is_evidence() -> None:
    mail = changed(NEW, text="I can bring the skiff tomorrow before nine.", date=NOW)
    assert answered("What is on tomorrow?", mail).answer == "I can bring the skiff tomorrow before nine."


def test_a_weekday_of_another_week_is_not_the_one_asked_about() -> None:
    text = "The next race is on Saturday the fourteenth of September."
    assert told("What is on this Saturday?", text) is None


def test_the_day_that_is_asked_about_may_stand_there_as_a_date() -> None:
    texts = "The regatta is on Saturday 14 September at the weir.", "The picnic is on 22 June at the weir."
    assert told("What is on this Saturday?", *texts) == "The picnic is on 22 June at the weir."


def test_a_time_of_another_day_is_not_told_for_the_day_asked_about() -> None:
    assert told("What time is rowing practice tomorrow?", "Rowing practice is on 23 May at 19:30.") is None


def test_days_of_every_week_are_evidence_for_each_of_them() -> None:
    assert told("What time is rowing practice this Thursday?", "Rowing practice is on Thursdays at 19:30.") == "19:30"


def test_the_next_is_not_before_what_is_known_since() -> None:
    texts = "The next club meeting is on 3 June at 18:00.", "The club meeting is on 8 July at 19:45."
    assert told("When is the next club meeting?", *texts) == "8 July 2024, 19:45"


def test_the_next_is_not_before_the_day_that_asks() -> None:
    texts = "The club meeting is on 8 July at 19:45.", "The club meeting is on 17 June at 18:00."
    assert told("When is the next club meeting?", *texts) == "8 July 2024, 19:45"
    assert told("When is the next club meeting?", *reversed(texts)) == "8 July 2024, 19:45"


def test_where_nothing_is_to_come_any_more_the_next_was_that_after_the_newest_mail() -> None:
    later = understand("When is the next club meeting?", datetime(2031, 1, 1, tzinfo=UTC))
    old, new = changed(OLD, text="The club meeting is on 3 June."), changed(NEW, text="The club meeting is on 8 July.")
    assert quote(later, (old, new)).answer == "8 July 2024"


def test_a_weekday_gets_no_time_from_another_clause() -> None:
    text = "because so many of us row on Tuesdays, the paper boat club now meets at 19:45."
    assert told("When do so many of us row?", text) == "Tuesdays"


@pytest.mark.parametrize(
    "question", ["How many mails did Ben send?", "How many mails are there from Ben?", "How many mails did Ben get?"]
)
def test_mails_are_not_counted_from_mails(question: str) -> None:
    assert told(question, "There were many who did send or get mails, and of 12 mails Ben read none.") is None


def test_other_things_that_were_sent_are_counted() -> None:
    assert told("How many oars did Ben send?", "Ben did send 12 oars.") == "Ben did send 12 oars."


def test_a_day_that_is_taken_back_does_not_confirm_a_question() -> None:
    text = "In March we moved the boat fair to 22 June. So now the boat fair goes back to 15 June."
    assert told("Is the boat fair on 22 June?", text) == "So now the boat fair goes back to 15 June."


WRITTEN = datetime(2024, 6, 5, 23, 30, tzinfo=timezone(timedelta(hours=-7)))
OWN = Chunk("a0", "a", 0, "From: Ben, Boats", "Cleo wrote to me of this.", 1, 1)


def quoting(text: str, written: datetime | None) -> Passage:
    """Make a mail of today that quotes a text."""
    quoted = Chunk("a1", "a", 1, "From: Ben, Boats [quoted]", text, 3, 3, "quote", written)
    return passage((OWN, quoted), "Ben <ben@example.org>", date=NOW)


@pytest.mark.parametrize(
    ("written", "answer"), [(WRITTEN, "6 June 2024"), (None, "The skiff race is tomorrow at the weir.")]
)
def test_tomorrow_in_a_quote_is_that_of_the_quote_or_is_not_resolved(written: datetime | None, answer: str) -> None:
    said = answered("When is the skiff race?", quoting("The skiff race is tomorrow at the weir.", written))
    assert said.answer == answer


def test_a_quote_of_an_earlier_day_is_no_evidence_for_tomorrow() -> None:
    mails = [quoting("I can bring the skiff tomorrow before nine.", written) for written in (WRITTEN, NOW)]
    assert [answered("What is on tomorrow?", mail).answer is None for mail in mails] == [True, False]


def test_what_a_mail_quotes_is_of_the_day_on_which_it_was_written() -> None:
    question = "What did Cleo say of the race on 5 June?"
    reads = [quoting("Cleo said the race is off.", written) for written in (WRITTEN, NOW, None)]
    found = [candidates(understand(question, NOW), [read], None, NONE)[1] for read in reads]
    assert found[0].score > found[1].score == found[2].score


def test_the_newest_of_several_is_by_when_it_was_written() -> None:
    old = quoting("The skiff race starts at Mill Bridge.", WRITTEN)
    new = changed(OLD, text="The skiff race starts at Oak Weir.", date=WRITTEN + timedelta(days=2), sender=old.sender)
    assert answered("Where does the skiff race start?", old, new).source == 1


MEETINGS = (
    changed(OLD, text="The budget meeting is on Tuesday 18 June at 9:30 in room 4.", score=0.6),
    changed(OLD, text="The garden meeting is on 18 June 2024 at 14:00 in the shed.", score=0.8),
    changed(NEW, text="The roof meeting is on 24 June at 10 am at the town hall.", score=1.0),
)


@pytest.mark.parametrize(
    ("clock", "answer"),
    [
        ("08:00", "Tuesday 18 June 2024, 9:30"),
        ("09:30", "Tuesday 18 June 2024, 9:30"),
        ("09:31", "18 June 2024, 14:00"),
        ("14:01", "24 June 2024, 10 am"),
    ],
)
def test_the_next_is_the_soonest_that_has_not_begun_not_that_of_the_newest_mail(clock: str, answer: str) -> None:
    now = datetime.fromisoformat(f"2024-06-18T{clock}:00+00:00")
    for reads in (MEETINGS, MEETINGS[::-1]):
        assert quote(understand("When is my next meeting?", now), reads).answer == answer


def test_what_was_moved_or_called_off_is_not_the_next() -> None:
    moved = changed(NEW, text="The club meeting is now on 9 July at 20:00.")
    early = changed(OLD, text="The club meeting is on 20 June at 19:00.")
    assert answered("When is the next club meeting?", early, moved).answer == "9 July 2024, 20:00"
    off = changed(NEW, text="The meeting on 19 June is cancelled.")
    assert answered("When is my next meeting?", MEETINGS[2], off).answer == "24 June 2024, 10 am"


def test_of_several_days_in_one_sentence_the_soonest_to_come_is_the_next() -> None:
    text = "The club meeting is on 17 June at 9:00, on 24 June at 11:00 and on 1 July at 10:00."
    assert told("When is the next club meeting?", text) == "24 June 2024, 11:00"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What time is my next meeting?", "15:00"),
        ("At what time does our next meeting start?", "15:00"),
        ("When does my next meeting start?", "19 June 2024, 15:00"),
    ],
)
def test_the_next_meeting_is_told_by_its_time_too(question: str, answer: str) -> None:
    reads = [
        changed(NEW, text="The meeting of the board is on 20 June at 10:00.", score=1.0),
        changed(NEW, text="The budget meeting is on 19 June at 15:00.", score=0.9),
        changed(NEW, text="The team meeting was on 17 June at 9:00.", score=0.8),
    ]
    assert answered(question, *reads).answer == answer


@pytest.mark.parametrize("verb", ["moves", "moved", "has been moved", "is postponed", "was rescheduled", "is put back"])
def test_what_moves_from_one_day_to_another_is_on_the_other(verb: str) -> None:
    text = f"The general meeting {verb} from Monday 24 June to Thursday 27 June, 18:00, in the workshop."
    assert told("When is the general meeting?", text) == "Thursday 27 June 2024, 18:00"


@pytest.mark.parametrize("state", ["is open", "is closed now", "is cancelled", "is cheaper", "runs"])
def test_what_is_so_from_one_day_to_another_is_so_on_all(state: str) -> None:
    answer = told("When is the exhibition?", f"The exhibition {state} from Monday 24 June to Thursday 27 June.")
    assert answer == "from Monday 24 June 2024 to Thursday 27 June 2024"
