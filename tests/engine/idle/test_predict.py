"""Which of all predictions are taken."""

from engine.idle.predict import Prediction, pick


def about(question: str, source: str = "history/form", promise: float = 0.5) -> Prediction:
    return Prediction(question, source, promise)


def test_the_best_are_taken() -> None:
    found = [about("When is a?", promise=0.1), about("When is b?", promise=0.9), about("Who is c?")]
    assert [one.question for one in pick(found, 2, [])] == ["When is b?", "Who is c?"]


def test_what_is_known_or_near_or_the_same_is_left_out() -> None:
    found = [about(one) for one in ("When is a?", "when is A", "When is b?", "When is c?", "When is d?")]
    taken = pick(found, 9, ["when is b ?"], is_similar=lambda question: "c" in question)
    assert [one.question for one in taken] == ["When is a?", "When is d?"]


def test_nothing_is_compared_once_there_are_enough() -> None:
    compared = list[str]()

    def near(question: str) -> bool:
        compared.append(question)
        return False

    pick([about(f"When is {name}?") for name in range(50)], 2, [], near)
    assert len(compared) == 2
