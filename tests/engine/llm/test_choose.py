"""The choice between the model's answer and the quoted one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.roles import WEIGHTS, Claims, Side, Weights

BY_SUPPORT = Weights((0.0, 1.0, 0.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), 0.5)  # then by the own yes
chances = st.floats(0, 1)
claims = st.builds(Claims, st.none() | chances, st.none() | chances, chances, st.booleans(), st.integers(0, 300))


@pytest.mark.parametrize(
    ("own", "quoted", "support", "side"),
    [(0.9, 0.8, 0.7, "own"), (0.4, 0.9, 0.7, "quoted"), (None, 0.6, 0.7, "quoted"), (0.2, None, 0.7, "own"),
     (None, None, 0.9, None), (0.9, 0.9, 0.4, None)],
)  # fmt: skip
def test_the_better_answer_is_given_if_there_is_likely_one(
    own: float | None, quoted: float | None, support: float, side: Side | None
) -> None:
    assert BY_SUPPORT.choose(Claims(own, quoted, support, agree=False))[0] == side


@given(claims)
def test_an_answer_that_is_not_there_is_never_chosen(found: Claims) -> None:
    side, likely = WEIGHTS.choose(found)
    assert side != "own" or found.own_yes is not None
    assert side != "quoted" or found.quoted_yes is not None
    assert 0 <= likely <= 1


@given(claims, chances)
def test_more_support_never_turns_an_answer_into_a_decline(found: Claims, more: float) -> None:
    surer = replace(found, support=max(found.support, more))
    assert WEIGHTS.choose(surer)[1] >= WEIGHTS.choose(found)[1] - 1e-12
