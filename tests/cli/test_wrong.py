"""`pkb wrong`: the last answer is let go of, made anew when it is asked for, and given to no other question."""

from typing import Any

from store.answers import Verifications
from tests.cli.conftest import Pkb
from tests.cli.paraphrase_home import ANSWER, LIKE, QUESTION, ask, bank, ledger, miss, shared
from tests.cli.test_freshness import write

__all__ = ["bank", "shared"]  # fixtures
THIRD = "Please say which colour the tandem of the harbour museum has."


def wrong(pkb: Pkb, question: str, tier: str) -> dict[str, Any]:
    """Take back the last answer, which was this one's."""
    row: dict[str, Any] = pkb("wrong", "--json").row
    assert row == {"schema": 4, "question": question, "tier": tier}
    return row


def said(pkb: Pkb, question: str) -> str:
    """Return what a person is told beside an answer."""
    return pkb("ask", question).err


def test_an_answer_that_was_made_is_dropped_and_made_anew(bank: Pkb) -> None:
    ask(bank, QUESTION)
    wrong(bank, QUESTION, "full")
    assert bank.answers() == 0
    assert ask(bank, QUESTION)["tier"] == "full"


def test_an_answer_that_was_kept_is_dropped_and_made_anew(bank: Pkb) -> None:
    ask(bank, QUESTION)
    assert ask(bank, QUESTION)["tier"] == "exact"
    wrong(bank, QUESTION, "exact")
    assert ask(bank, QUESTION)["tier"] == "full"


def test_an_answer_that_was_lent_is_held_against_its_lender_and_not_lent_again(bank: Pkb) -> None:
    ask(bank, QUESTION)
    similarity = ask(bank, LIKE)["similarity"]
    wrong(bank, LIKE, "semantic")
    with ledger(bank) as opened:
        assert (len(Verifications(opened).all()), Verifications(opened).result_counts()) == (0, (1, 1))
        ((tau,),) = opened.rows.execute("SELECT tau FROM answers").fetchall()
    assert tau > similarity
    assert miss(ask(bank, LIKE), "an answer to it was marked wrong")
    assert ask(bank, QUESTION)["tier"] == "exact"  # it was right there


def test_a_lender_that_was_wrong_once_lends_to_nearer_questions_only(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ask(bank, LIKE)
    wrong(bank, LIKE, "semantic")
    row = ask(bank, THIRD)  # further away
    assert miss(row, "below its own threshold")


def test_what_was_said_twice_is_taken_once(bank: Pkb) -> None:
    ask(bank, QUESTION)
    assert bank("wrong").code == 0
    again = bank("wrong")
    assert (again.code, again.out) == (1, "")
    assert "the last question has no cached answer" in again.err


def test_where_nothing_was_asked_nothing_is_wrong(bank: Pkb) -> None:
    ran = bank("wrong")
    assert (ran.code, "the last question has no cached answer" in ran.err) == (1, True)


def test_where_nothing_was_ever_ingested_nothing_is_wrong(fresh: Pkb) -> None:
    ran = fresh("wrong")
    assert (ran.code, "Traceback" in ran.err) == (10, False)
    assert "pkb ingest" in ran.err


def test_an_answer_made_without_the_cache_is_not_kept_and_cannot_be_dropped(bank: Pkb) -> None:
    ask(bank, QUESTION, "--cache=off")
    assert bank("wrong").code == 1


def test_the_last_answer_is_the_one_that_is_wrong_not_the_one_before(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ask(bank, "When is the picnic?")
    wrong(bank, "When is the picnic?", "full")
    assert ask(bank, QUESTION)["tier"] == "exact"


def test_a_wrong_answer_is_lent_to_nobody_before_and_after_it_is_made_again(bank: Pkb) -> None:
    ask(bank, QUESTION)
    wrong(bank, QUESTION, "full")
    assert miss(ask(bank, LIKE, "--cache=off"), "")
    ask(bank, QUESTION)
    assert miss(ask(bank, LIKE), "its answer was marked wrong")


def test_a_question_whose_answer_was_wrong_is_not_lent_the_same_one_by_another(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ask(bank, LIKE, "--cache=refresh")  # its own, the same words
    wrong(bank, LIKE, "full")
    row = ask(bank, LIKE)
    assert miss(row, "an answer to it was marked wrong")
    assert ask(bank, LIKE)["tier"] == "exact"


def test_the_same_answer_again_comes_with_a_word_that_it_was_said_to_be_wrong(bank: Pkb) -> None:
    ask(bank, QUESTION)
    bank("wrong")
    for _ in range(2):  # made anew, then kept
        ran = bank("ask", QUESTION)
        assert (ANSWER in ran.out, "you marked this answer as wrong" in ran.err + ran.out) == (True, True)


def test_a_lent_answer_that_was_wrong_is_known_again_when_it_is_the_own_one(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ask(bank, LIKE)
    bank("wrong")
    ran = bank("ask", LIKE)
    assert "you marked this answer as wrong" in ran.err + ran.out


def test_another_answer_comes_without_that_word(bank: Pkb) -> None:
    ask(bank, QUESTION)
    bank("wrong")
    write(bank.folder / "mail", "9.eml", "The tandem", "The tandem of the harbour museum is blue.", 10)
    (bank.folder / "mail" / "1.eml").unlink()
    bank("ingest", str(bank.folder / "mail"), "--prune")
    ran = bank("ask", QUESTION)
    assert ("blue" in ran.out, "is wrong" in ran.err + ran.out) == (True, False)


def test_the_finding_that_there_is_no_answer_can_be_wrong_too(bank: Pkb) -> None:
    question = "When is the boathouse roof repaired?"
    ask(bank, question)
    wrong(bank, question, "full")
    assert ask(bank, question)["tier"] == "full"


def test_what_is_dropped_is_named_in_one_line_without_control_characters(bank: Pkb) -> None:
    ask(bank, QUESTION)
    ran = bank("wrong")
    assert (ran.code, ran.out) == (0, f"Dropped: {QUESTION}\n")
    assert "the next time you ask, it will be answered from scratch" in ran.err
