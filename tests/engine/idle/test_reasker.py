"""Stored questions are asked again with the options that they were asked with."""

from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import key, scope_of
from engine.idle.refresh import demand, options_of
from engine.types import AskOptions
from store.answers import CachedAnswer
from store.types import Scope
from tests.engine.idle.small_home import home

NOW = datetime(2024, 6, 19, tzinfo=UTC)
texts, days = st.none() | st.text(), st.none() | st.dates()
scopes = st.builds(Scope, texts, texts, days, days, texts)


@given(scopes)
def test_the_key_of_an_answer_gives_its_scope_back(scope: Scope) -> None:
    assert scope_of(key("when?", scope, "model", None).scope) == scope


@given(scopes, st.integers(1, 50))
def test_an_entry_gives_its_options_back(scope: Scope, k: int) -> None:
    made = key("when?", scope, f"model-1/some print/{k}", None)
    kept = CachedAnswer("when?", made.scope, made.writer, None, "{}", (), 1, "full", 0.0, 0.0)
    assert options_of(kept) == AskOptions(scope, k)


def test_an_asked_question_is_in_more_demand_than_a_predicted_one_until_that_is_used(tmp_path: Path) -> None:
    choir = home(tmp_path)
    choir.add("first", "the choir sings")
    asked, predicted = choir.ask("choir?"), choir.ask("the choir?", predicted=True)
    assert demand(choir.found(asked)) > demand(choir.found(predicted))
    used = choir.ask("our choir?", predicted=True, uses=2)
    assert demand(choir.found(used)) > demand(choir.found(asked))
