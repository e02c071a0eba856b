"""How a budget of predictions is split among predictors by their hits, and which predictors are paused."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.predict import WEEK_S, is_paused, paused_predictors, shares
from store.jobs import PredictorCounts

NOW = 20 * WEEK_S


def source(
    name: str, predicted: int, paid: float, last_paid: float | None = None, last: float = NOW
) -> PredictorCounts:
    return PredictorCounts(name, predicted, paid, 0.0, last, last_paid)


def test_the_predictor_with_most_hits_gets_most() -> None:
    yields = {"a": source("a", 100, 30, NOW), "b": source("b", 100, 3, NOW)}
    given = shares(["a", "b"], yields, 10, NOW, 3)
    assert (given["a"] > 6, given["b"] >= 1, sum(given.values())) == (True, True, 10)


def test_an_untried_predictor_gets_more_than_one_with_hardly_a_hit() -> None:
    given = shares(["new", "b"], {"b": source("b", 100, 1, NOW)}, 10, NOW, 3)
    assert given["new"] > given["b"] >= 1


def test_a_budget_too_small_for_all_goes_to_the_best() -> None:
    yields = {"a": source("a", 100, 30, NOW), "b": source("b", 100, 3, NOW)}
    assert shares(["b", "a"], yields, 1, NOW, 3) == {"b": 0, "a": 1}


def test_a_predictor_without_a_hit_for_weeks_is_paused() -> None:
    assert shares(["a", "b"], {"a": source("a", 100, 0)}, 10, NOW, 3) == {"a": 0, "b": 10}


def test_a_predictor_with_a_recent_hit_or_few_predictions_is_not_paused() -> None:
    assert [is_paused(one, NOW, 3) for one in (source("a", 100, 5, NOW - WEEK_S), source("b", 9, 0), None)] == [
        False
    ] * 3


def test_a_predictor_whose_last_hit_was_weeks_ago_is_paused() -> None:
    assert is_paused(source("a", 100, 5, NOW - 4 * WEEK_S), NOW, 3)


def test_a_predictor_that_was_paused_for_weeks_is_tried_again() -> None:
    assert not is_paused(source("a", 100, 0, last=NOW - 4 * WEEK_S), NOW, 3)


def test_where_all_are_paused_nothing_is_given() -> None:
    assert shares(["a"], {"a": source("a", 100, 0)}, 10, NOW, 3) == {"a": 0}


@given(
    st.dictionaries(st.sampled_from("abcde"), st.tuples(st.integers(0, 200), st.floats(0, 1), st.floats(0, 20))),
    st.integers(0, 40),
)  # fmt: skip
def test_the_whole_budget_is_given_and_no_more(counts: dict[str, tuple[int, float, float]], budget: int) -> None:
    yields = {n: source(n, count, count * part, week * WEEK_S) for n, (count, part, week) in counts.items()}
    parts = shares(list("abcde"), yields, budget, NOW, 3)
    awake = [name for name in "abcde" if not is_paused(yields.get(name), NOW, 3)]
    assert sum(parts.values()) == (budget if awake else 0)
    assert min(parts.values()) >= 0
    assert all(parts[name] >= 1 for name in awake) or budget < len(awake)


def test_a_sentence_names_the_paused_predictors() -> None:
    said = paused_predictors([source("history/form", 80, 0), source("chunks/model", 5, 0)], NOW, 3)
    assert said == "paused predictors (none of their questions asked in 3 weeks): history/form"


def test_a_sentence_names_all_but_standing_questions() -> None:
    said = paused_predictors([source(name, 100, 0) for name in ("b", "a", "standing/who was there")], NOW, 2.5)
    assert said is not None
    assert said.endswith("in 2.5 weeks): a, b")


def test_without_paused_predictors_there_is_no_sentence() -> None:
    assert paused_predictors([source("a", 100, 50, NOW)], NOW, 3) is None
