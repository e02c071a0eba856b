"""Figures of `pkb stats` that cannot be true: savings below nothing, more answers than questions, shares above all."""

from typing import Any

import pytest

from store.history import History, HistoryEntry
from tests.attack.lab import NOW, Lab, mail

QUESTIONS = ("What is the code of the gate?", "Who is the wedding photographer?", "What is the rent in Number3 Street?")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the figures of a home that was asked the same again, that grew, and that an older pkb counted in."""
    lab = Lab(tmp_path_factory.mktemp("stats"))
    lab.read(
        {"a.eml": mail("The code of the gate is 4711."), "b.eml": mail("The rent in Number3 Street is 900 euros.")}
    )
    for _ in range(2):
        for question in QUESTIONS:
            lab.ask(question)
            lab.ask(question, sender="ann")
    lab.read({"c.eml": mail("The boiler was repaired on Monday.", title="Boiler")})
    for question in QUESTIONS:  # whose evidence is looked up again
        lab.ask(question)
    with lab.open() as pkb:
        slow = HistoryEntry(NOW.timestamp(), QUESTIONS[1], "exact", answered=False, total_ms=3000.0, saved_ms=-2800.0)
        History(pkb.session.ledger).add(slow)
        return pkb.stats()


@pytest.mark.parametrize("of", ["tiers", "weeks", "all"])
def test_nothing_saved_less_than_nothing(asked: dict[str, Any], of: str) -> None:
    rows = {"tiers": asked["tiers"], "all": [asked]}.get(of) or asked["history"][of]
    assert [row["saved_s"] >= 0 for row in rows] == [True] * len(rows)


def test_no_tier_has_more_answers_than_questions(asked: dict[str, Any]) -> None:
    assert all(0 <= one["answered"] <= one["questions"] for one in asked["tiers"])
    assert sum(one["questions"] for one in asked["tiers"]) == sum(one["questions"] for one in asked["history"]["weeks"])


def test_the_slowest_twentieth_is_no_faster_than_the_half(asked: dict[str, Any]) -> None:
    assert all(0 < one["p50_ms"] <= one["p95_ms"] for one in asked["tiers"])


def test_the_sum_of_the_tiers_is_what_all_saved(asked: dict[str, Any]) -> None:
    assert asked["saved_s"] == pytest.approx(sum(one["saved_s"] for one in asked["tiers"]), abs=0.01)
