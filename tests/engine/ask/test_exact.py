"""The exact tier: which questions are the same, and which are not."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import key, normalise
from store.errors import UsageError
from store.types import Scope

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "same",
    [
        "When is rehearsal?",
        "when is rehearsal",
        "  WHEN  is\nrehearsal ??",
        "Ｗｈｅｎ is rehearsal？",
        "when is rehearsal...",
    ],
)
def test_case_space_form_and_final_marks_do_not_count(same: str) -> None:
    assert normalise(same) == "when is rehearsal"


@pytest.mark.parametrize(
    ("one", "other"), [("what is C?", "what is C#?"), ("is it 5%?", "is it 5?"), ("who's in", "whos in")]
)
def test_marks_that_mean_something_count(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


@given(st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


def test_every_part_of_a_scope_makes_another_key() -> None:
    scopes = [
        Scope(),
        Scope(sender="a"),
        Scope(recipient="a"),
        Scope(collection="a"),
        Scope(since=NOW.date()),
        Scope(until=NOW.date()),
    ]
    keys = {key("when?", scope, "quote", NOW, calendar=False).digest for scope in scopes}
    assert len(keys) == len(scopes)


def test_another_writer_is_another_key() -> None:
    digests = {key("when?", Scope(), writer, NOW, calendar=False).digest for writer in ("quote-1", "quote-2")}
    assert len(digests) == 2


@pytest.mark.parametrize(("calendar", "keys"), [(True, 2), (False, 1)])
def test_only_a_question_that_moves_with_the_calendar_expires_with_its_day(calendar: bool, keys: int) -> None:
    days = (NOW, NOW + timedelta(days=1))
    assert len({key("what is on tomorrow?", Scope(), "q", day, calendar=calendar).digest for day in days}) == keys


@pytest.mark.parametrize("empty", ["", "  ", "?!", "\n"])
def test_a_question_of_nothing_is_refused(empty: str) -> None:
    with pytest.raises(UsageError):
        key(empty, Scope(), "q", NOW, calendar=False)
