"""The checks before a semantic hit: each can be switched off, and a model confirms entailment in one word."""

import pytest

from tests.cli.conftest import Pkb
from tests.cli.paraphrase_home import ANSWER, LIKE, QUESTION, TWIN, ask, bank, miss, note, put, shared
from tests.demo import NANO

__all__ = ["bank", "shared"]  # fixtures


def test_with_the_semantic_tier_off_nothing_is_searched(bank: Pkb) -> None:
    bank.experiment(semantic=False)
    ask(bank, QUESTION)
    row = ask(bank, LIKE)
    assert (row["tier"], "similar" in [step["name"] for step in row["explain"]]) == ("full", False)


PARTS = ("guard", "verify", "check")


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


def test_the_model_checks_entailment_if_the_prompt_is_cached(words: Pkb) -> None:
    ask(words, PICNIC)
    row = ask(words, LIKE_PICNIC)
    said = note(row, "check")
    assert said in ("yes", "no")
    assert row["tier"] == ("semantic" if said == "yes" else "prefix")
    assert said == "yes" or "the model rejects it" in note(row)


def test_the_model_checks_nothing_if_the_prompt_is_not_cached(words: Pkb) -> None:
    words("config", "set", "kv.reuse", "off")
    ask(words, PICNIC)
    row = ask(words, LIKE_PICNIC)
    assert (row["tier"], row["matched_question"]) == ("full", None)
    assert note(row, "check") == "KV cache missing"


def test_with_the_entailment_check_off_the_model_is_not_asked(words: Pkb) -> None:
    words.experiment(check=False)
    made = ask(words, PICNIC)
    row = ask(words, LIKE_PICNIC)
    assert (row["tier"], row["answer"], note(row, "check")) == ("semantic", made["answer"], "")
    assert (row["writer"], row["model"], row["tokens"]) == ("model", str(NANO), None)
