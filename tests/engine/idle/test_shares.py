"""How a budget of predictions is split among predictors by their hits."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.predict import shares


def test_the_predictor_with_most_hits_gets_most() -> None:
    given = shares(["a", "b"], {"a": (30, 100), "b": (3, 100)}, 10)
    assert (given["a"] > 6, given["b"] >= 1, sum(given.values())) == (True, True, 10)


def test_an_untried_predictor_gets_more_than_one_with_hardly_a_hit() -> None:
    given = shares(["new", "b"], {"b": (1, 100)}, 10)
    assert given["new"] > given["b"] >= 1


def test_a_budget_too_small_for_all_goes_to_the_best() -> None:
    assert shares(["b", "a"], {"a": (30, 100), "b": (3, 100)}, 1) == {"b": 0, "a": 1}


@given(
    st.dictionaries(st.sampled_from("abcde"), st.tuples(st.integers(0, 200), st.floats(0, 1))), st.integers(0, 40)
)  # fmt: skip
def test_the_whole_budget_is_given_and_no_more(made: dict[str, tuple[int, float]], budget: int) -> None:
    parts = shares("abcde", {name: (int(count * part), count) for name, (count, part) in made.items()}, budget)
    assert sum(parts.values()) == budget
    assert min(parts.values()) >= min(1, budget // 5)
