"""Past questions are asked again within the limits that they were asked in."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.ask.exact import key, scope_of
from store.records import Scope

NOW = datetime(2024, 6, 19, tzinfo=UTC)
texts, days = st.none() | st.text(), st.none() | st.datetimes(timezones=st.just(UTC))


@given(st.builds(Scope, texts, texts, days, days, texts))
def test_the_key_of_an_answer_gives_its_scope_back(scope: Scope) -> None:
    assert scope_of(key("when?", scope, "model", NOW, calendar=False).scope) == scope
