"""The quote writer and days: those of a quoted mail, a weekday and its time, from one day to another."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from engine.ask.extract import Quote, quote
from engine.text.question import understand
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


def test_the_newest_of_several_is_by_when_it_was_written() -> None:
    old = quoting("The skiff race starts at Mill Bridge.", WRITTEN)
    new = changed(OLD, text="The skiff race starts at Oak Weir.", date=WRITTEN + timedelta(days=2), sender=old.sender)
    assert answered("Where does the skiff race start?", old, new).source == 1


@pytest.mark.parametrize("verb", ["moves", "moved", "has been moved", "is postponed", "was rescheduled", "is put back"])
def test_what_moves_from_one_day_to_another_is_on_the_other(verb: str) -> None:
    text = f"The general meeting {verb} from Monday 24 June to Thursday 27 June, 18:00, in the workshop."
    assert told("When is the general meeting?", text) == "Thursday 27 June 2024, 18:00"


@pytest.mark.parametrize("state", ["is open", "is closed now", "is cancelled", "is cheaper", "runs"])
def test_what_is_so_from_one_day_to_another_is_so_on_all(state: str) -> None:
    answer = told("When is the exhibition?", f"The exhibition {state} from Monday 24 June to Thursday 27 June.")
    assert answer == "from Monday 24 June 2024 to Thursday 27 June 2024"
