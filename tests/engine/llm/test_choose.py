"""The choice between the model's answer and the quoted one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.roles import Claims, Side, choose_side, pick_side

OWN, QUOTED = (0.0, 1.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0, 0.0)  # by the model's yes alone
chances = st.floats(0, 1)
claims = st.builds(Claims, st.none() | chances, st.none() | chances, chances, st.booleans())


@pytest.mark.parametrize(
    ("own", "quoted", "side"),
    [(0.9, 0.8, "own"), (0.8, 0.9, "quoted"), (None, 0.6, "quoted"), (0.6, None, "own"), (None, None, None),
     (0.2, 0.4, None), (0.2, None, None)],
)  # fmt: skip
def test_the_likelier_answer_is_given_if_it_is_likely_enough(
    own: float | None, quoted: float | None, side: Side | None
) -> None:
    assert pick_side(Claims(own, quoted, 0.5, agree=False), OWN, QUOTED, 0.5)[0] == side


@given(claims)
def test_an_answer_that_is_not_there_is_never_chosen(found: Claims) -> None:
    side, likely = choose_side(found)
    assert side != "own" or found.own_yes is not None
    assert side != "quoted" or found.quoted_yes is not None
    assert 0 <= likely <= 1


@given(chances, chances, chances)
def test_a_surer_yes_never_makes_an_answer_less_likely(one: float, other: float, support: float) -> None:
    low, high = sorted((one, other))
    own, surer = (choose_side(Claims(yes, None, support, agree=False))[1] for yes in (low, high))
    assert own <= surer + 1e-12
    quoted, surer = (choose_side(Claims(None, yes, support, agree=False))[1] for yes in (low, high))
    assert quoted <= surer + 1e-12
