"""The choice between the model's answer and the quoted one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.roles import WEIGHTS, Claims, Side, Weights

BY_SUPPORT = Weights((0.0, 1.0, 0.0, 0.0), (-2.0, 1.0, 1.0), 0.5)  # then by the words of a long quote
chances = st.floats(0, 1)
claims = st.builds(Claims, st.none() | chances, chances, st.booleans(), st.integers(0, 300), st.booleans())


@pytest.mark.parametrize(
    ("found", "side"),
    [
        (Claims(0.4, 0.7, agree=True, quoted_words=20, is_open=False), "own"),
        (Claims(0.9, 0.7, agree=True, quoted_words=2, is_open=False), "quoted"),
        (Claims(0.9, 0.7, agree=False, quoted_words=20, is_open=False), "quoted"),
        (Claims(0.9, 0.7, agree=False, quoted_words=20, is_open=True), "own"),
        (Claims(None, 0.7, agree=False, quoted_words=20, is_open=True), "quoted"),
        (Claims(0.2, 0.7, agree=False, quoted_words=0, is_open=False), "own"),
        (Claims(None, 0.9, agree=False, quoted_words=0, is_open=False), None),
        (Claims(0.9, 0.4, agree=True, quoted_words=20, is_open=False), None),
    ],
)
def test_the_better_answer_is_given_if_there_is_likely_one(found: Claims, side: Side | None) -> None:
    assert BY_SUPPORT.choose(found).side == side


@given(claims)
def test_an_answer_that_is_not_there_is_never_chosen(found: Claims) -> None:
    choice = WEIGHTS.choose(found)
    assert choice.side != "own" or found.own_yes is not None
    assert choice.side != "quoted" or found.quoted_words
    assert 0 <= choice.likely <= 1
    assert choice.side is None or choice.likely >= choice.least


@given(claims, chances)
def test_more_support_never_turns_an_answer_into_a_decline(found: Claims, more: float) -> None:
    surer = replace(found, support=max(found.support, more))
    assert WEIGHTS.choose(surer).likely >= WEIGHTS.choose(found).likely - 1e-12
