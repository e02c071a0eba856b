"""Kept questions are asked anew within the limits that they were asked in."""

from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import key, scope_of
from engine.idle.refresh import options_of, worth
from engine.types import AskOptions
from store.answers import CachedAnswer
from store.types import Scope
from tests.engine.idle.small_home import home

NOW = datetime(2024, 6, 19, tzinfo=UTC)
texts, days = st.none() | st.text(), st.none() | st.datetimes(timezones=st.just(UTC))
scopes = st.builds(Scope, texts, texts, days, days, texts)


@given(scopes)
def test_the_key_of_an_answer_gives_its_scope_back(scope: Scope) -> None:
    assert scope_of(key("when?", scope, "model", NOW, calendar=False).scope) == scope


@given(scopes, st.integers(1, 50))
def test_an_entry_gives_back_the_manner_it_was_asked_in(scope: Scope, k: int) -> None:
    made = key("when?", scope, f"model-1/some print/{k}", NOW, calendar=False)
    kept = CachedAnswer("when?", made.scope, made.writer, None, "{}", (), 1, "full", 0.0, 0.0)
    assert options_of(kept) == AskOptions(scope, k)


def test_what_a_person_asked_is_worth_more_than_what_was_foreseen_until_that_is_used(tmp_path: Path) -> None:
    choir = home(tmp_path)
    choir.add("first", "the choir sings")
    asked, predicted_counts = choir.ask("choir?"), choir.ask("the choir?", predicted=True)
    assert worth(choir.found(asked)) > worth(choir.found(predicted_counts))
    used = choir.ask("our choir?", predicted=True, uses=2)
    assert worth(choir.found(used)) > worth(choir.found(asked))
