"""A rephrased question is given the answer that is kept, and a question that only looks like one is not."""

from datetime import datetime
from pathlib import Path

import pytest

from engine.ask.semantic import why_different
from engine.text.question import understand
from store.answers import AnswerBank, Verifications
from tests.cli.conftest import Pkb
from tests.cli.paraphrase_home import ANSWER, LIKE, QUESTION, TWIN, ask, bank, ledger, miss, note, put, shared
from tests.cli.test_freshness import write
from tests.demo import NANO, NOW

__all__ = ["bank", "shared"]  # fixtures


def test_a_rephrased_question_is_served_at_once_and_says_whose_answer_it_is(bank: Pkb) -> None:
    made = ask(bank, QUESTION)
    row = ask(bank, LIKE)
    assert (row["tier"], row["matched_question"], row["answer"]) == ("semantic", QUESTION, made["answer"])
    assert (row["question"], row["sources"], row["stale"]) == (LIKE, made["sources"], False)
    assert 0.83 <= row["similarity"] <= 1
    assert row["age_s"] == 0  # the clock of these tests stands still
    assert row["tokens"] is None
    assert row["ms"]["first_token"] == row["ms"]["total"] > 0
    assert "write" not in [step["name"] for step in row["explain"]]


def test_an_answer_that_is_lent_has_the_age_of_the_one_that_was_made(bank: Pkb) -> None:
    ask(bank, QUESTION)
    bank("config", "show", env={"PKB_NOW": "2024-06-19T09:00"})
    assert ask(bank, LIKE)["age_s"] == 3600


def test_a_person_is_told_that_another_question_was_answered(bank: Pkb) -> None:
    bank("ask", QUESTION)
    ran = bank("ask", LIKE)
    assert (ran.code, ANSWER in ran.out) == (0, True)
    assert QUESTION in ran.out + ran.err


def test_the_own_answer_of_a_rephrased_question_is_owed(bank: Pkb) -> None:
    ask(bank, QUESTION)
    row = ask(bank, LIKE)
    with ledger(bank) as opened:
        (pending,) = Verifications(opened).all()
        own, other = AnswerBank(opened).find(pending.key), AnswerBank(opened).find(pending.matched)
    assert own
    assert other
    assert (own.question, own.state, own.reply) == (LIKE, "pending", "")
    assert (other.question, other.uses, pending.served) == (QUESTION, 1, ANSWER)
    assert pending.similarity == row["similarity"]


def test_what_is_owed_is_served_by_the_same_answer_again_and_owed_once(bank: Pkb) -> None:
    ask(bank, QUESTION)
    first, second = ask(bank, LIKE), ask(bank, LIKE)
    assert (second["tier"], second["answer"]) == ("semantic", first["answer"])
    with ledger(bank) as opened:
        assert len(Verifications(opened).all()) == 1


def test_an_owed_answer_is_lent_to_nobody(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ask(bank, LIKE)
    with ledger(bank) as opened:
        (pending,) = Verifications(opened).all()
        AnswerBank(opened).drop(pending.matched)
    assert ask(bank, QUESTION)["tier"] == "full"


@pytest.mark.parametrize("flag", ["--cache=refresh", "--cache=off"])
def test_neither_fresh_nor_no_cache_is_given_another_questions_answer(bank: Pkb, flag: str) -> None:
    ask(bank, QUESTION)
    row = ask(bank, LIKE, flag)
    assert (row["tier"], row["matched_question"], row["similarity"], note(row)) == ("full", None, None, "")


def test_an_answer_made_without_the_cache_is_lent_to_nobody(bank: Pkb) -> None:
    ask(bank, QUESTION, "--cache=off")
    assert miss(ask(bank, LIKE), "none above 0.83")


def test_a_question_that_the_guard_refuses_says_why(bank: Pkb) -> None:
    put(bank, tau="0.5")
    ask(bank, QUESTION)
    now = datetime.fromisoformat(NOW)
    why = why_different(understand(TWIN, now), understand(QUESTION, now))
    assert why
    row = ask(bank, TWIN)
    assert miss(row, why)
    assert "red" in row["answer"]


def test_a_question_that_is_not_near_enough_says_so(bank: Pkb) -> None:
    put(bank, tau="1")
    ask(bank, QUESTION)
    assert miss(ask(bank, LIKE), "none above 1")


def test_an_entry_that_has_learnt_to_ask_for_more_says_so(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ask(bank, LIKE)
    assert bank("wrong").code == 0
    with ledger(bank) as opened:
        opened.rows.execute("DELETE FROM rejected_answers")
    assert miss(ask(bank, LIKE), "below its own threshold")


def test_an_answer_that_was_said_to_be_wrong_is_lent_to_nobody(bank: Pkb) -> None:
    ask(bank, QUESTION)
    bank("wrong")
    ask(bank, QUESTION)  # the same again
    assert miss(ask(bank, LIKE), "its answer was marked wrong")


def test_the_finding_that_there_is_no_answer_is_lent_to_nobody(bank: Pkb) -> None:
    assert ask(bank, "When is the boathouse roof repaired?")["answered"] is False
    row = ask(bank, "When is the roof of the boathouse repaired?")
    assert miss(row, "has no answer")
    assert row["answered"] is False


def test_an_answer_whose_evidence_has_changed_is_lent_to_nobody(bank: Pkb) -> None:
    ask(bank, QUESTION)
    write(bank.folder / "mail", "9.eml", "The tandem", "The tandem of the harbour museum is blue since Saturday.", 10)
    bank("ingest", str(bank.folder / "mail"))
    row = ask(bank, LIKE)
    assert miss(row, "its evidence has changed")
    assert any("blue" in source["quote"] for source in row["sources"])


def test_an_answer_is_lent_after_mail_that_does_not_concern_it(bank: Pkb) -> None:
    for number in range(10, 16):
        write(bank.folder / "mail", f"{number}.eml", "Tandem", f"{ANSWER[:-1]}, said number {number}.")
    bank("ingest", str(bank.folder / "mail"))
    ask(bank, QUESTION)
    write(bank.folder / "mail", "20.eml", "Jam", "Plum jam wants two kilos of sugar.", 10)
    bank("ingest")
    shared, again = ask(bank, LIKE), ask(bank, QUESTION)
    assert (shared["tier"], again["tier"]) == ("semantic", "exact")
    assert "retrieve" not in [step["name"] for step in again["explain"]]  # the loan has shown that it still holds


def test_an_answer_that_was_lent_names_its_source_where_it_was_moved_to(bank: Pkb) -> None:
    write(bank.folder / "own", "1.eml", "The ferry", "The ferry of the harbour office is white.")
    bank("ingest", str(bank.folder / "own"))
    question = "Which colour has the ferry of the harbour office?"
    like = "Which colour does the ferry of the harbour office have?"
    ask(bank, question)
    (bank.folder / "own" / "1.eml").rename(bank.folder / "own" / "moved.eml")
    bank("ingest", str(bank.folder / "own"))
    shared, own = ask(bank, like), ask(bank, question)
    assert (shared["tier"], own["tier"]) == ("semantic", "exact")
    assert [Path(row["sources"][0]["path"]).name for row in (shared, own)] == ["moved.eml", "moved.eml"]


@pytest.mark.parametrize(
    "words", [("--since", "2024-01-01"), ("--from", "ida"), ("--in", "mail"), ("-k", "3"), ("--model", str(NANO))]
)
def test_an_answer_is_not_lent_to_another_scope_number_of_sources_or_writer(bank: Pkb, words: tuple[str, ...]) -> None:
    ask(bank, QUESTION)
    assert miss(ask(bank, LIKE, *words), "none above 0.83")
    assert ask(bank, LIKE)["tier"] == "semantic"


def test_what_is_asked_of_today_is_lent_on_the_same_day_only(bank: Pkb) -> None:
    today, like = QUESTION.replace("?", " today?"), LIKE.replace("?", " today?")
    ask(bank, today)
    assert ask(bank, like)["tier"] == "semantic"
    bank("config", "show", env={"PKB_NOW": "2024-06-20T08:00"})
    row = ask(bank, like)
    assert miss(row, "none above 0.83")
    assert note(row, "match") == "not cached on 2024-06-20"
    assert ask(bank, today)["tier"] != "exact"


def test_what_is_not_asked_in_english_is_lent_nothing(bank: Pkb) -> None:
    put(bank, tau="0.5")
    german = "Welche Farbe hat das Tretboot des Hafenmuseums?"
    like = "Welche Farbe hat eigentlich das Tretboot des Hafenmuseums?"
    ask(bank, german)
    now = datetime.fromisoformat(NOW)
    why = why_different(understand(like, now), understand(german, now))
    assert why
    assert miss(ask(bank, like), why)


def test_what_stands_in_somebodys_mail_is_not_the_address(bank: Pkb) -> None:
    assert ask(bank, "What's Ida Quist's email?")["answer"] == "ida@example.org: Ida Quist"
    assert ask(bank, "What's in Ida Quist's email?")["tier"] != "semantic"
