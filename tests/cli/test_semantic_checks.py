"""The checks before a semantic hit: each can be switched off, and a model is not asked."""

import pytest

from tests.cli.conftest import Pkb
from tests.cli.paraphrase_home import ANSWER, LIKE, QUESTION, TWIN, ask, bank, miss, put, shared
from tests.demo import NANO

__all__ = ["bank", "shared"]  # fixtures


def test_with_the_semantic_tier_off_nothing_is_searched(bank: Pkb) -> None:
    bank.experiment(semantic=False)
    ask(bank, QUESTION)
    row = ask(bank, LIKE)
    assert (row["tier"], "similar" in [step["name"] for step in row["explain"]]) == ("full", False)


PARTS = ("guard", "verify")


def test_with_all_checks_off_a_near_twin_is_served(bank: Pkb) -> None:
    put(bank, tau="0.5")
    bank.experiment(**dict.fromkeys(PARTS, False))
    ask(bank, QUESTION)
    assert (ask(bank, TWIN)["tier"], ask(bank, TWIN)["answer"]) == ("semantic", ANSWER)


def test_the_guard_alone_refuses_a_near_twin(bank: Pkb) -> None:
    put(bank, tau="0.5")
    bank.experiment(**dict.fromkeys(PARTS, False) | {"guard": True})
    ask(bank, QUESTION)
    row = ask(bank, TWIN)
    assert miss(row, "other words")
    assert "red" in row["answer"]


@pytest.fixture
def words(bank: Pkb) -> Pkb:
    """Return pkb that answers in words."""
    bank("config", "set", "model.name", str(NANO))
    return bank


PICNIC, LIKE_PICNIC = "When is the picnic?", "When's the picnic?"


def test_the_model_that_wrote_an_answer_is_not_asked_once_more(words: Pkb) -> None:
    made = ask(words, PICNIC)
    row = ask(words, LIKE_PICNIC)
    assert (row["tier"], row["answer"]) == ("semantic", made["answer"])
    assert (row["writer"], row["model"], row["tokens"]) == ("model", str(NANO), None)
