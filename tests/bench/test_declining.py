"""The fit of the weights of support, on made-up signs."""

from dataclasses import replace

from engine.ask.support import MATTER, Signs
from engine.text.question import understand
from tests.bench.declining import Case, fit, odds, swapped
from tests.bench.quoting import NOW
from tests.engine.ask.passages import changed
from tests.engine.ask.test_candidates import CHAT

NONE = Signs(source=0.0, together=0, names=1.0, absent=0.0, best=0.0, elsewhen=0.0, rival=0.0, others=None)


def test_a_fit_weighs_a_sign_by_what_it_tells() -> None:
    good = [Case("a", 0, "answerable", replace(NONE, source=0.9 + place % 2 / 10)) for place in range(20)]
    poor = [Case("a", 0, "other", replace(NONE, source=place % 2 / 10)) for place in range(20)]
    weights = fit([(case, case.signs) for case in (*good, *poor) if case.signs], MATTER)
    assert weights["elsewhen"] == MATTER["elsewhen"]  # is not fitted
    assert (weights["source"] > 1, weights["absent"]) == (True, 0.0)
    assert min(odds(case, weights, {}) for case in good) > 0 > max(odds(case, weights, {}) for case in poor)


def test_a_question_is_asked_about_another_of_two_speakers() -> None:
    chat = changed(CHAT, recipients=("Ann", "Ben"))
    texts = [
        other and other.text
        for other in (swapped(understand(text, NOW), [chat]) for text in ("Did Ann sing?", "Did Ann or Ben sing?"))
    ]
    assert texts == ["Did Ben sing?", None]
