"""Answerability: whether the sources support any answer."""

from datetime import UTC, datetime

import pytest

from engine.ask.candidates import CandidateWeights, candidates
from engine.ask.support import Signs, Support, signs, support
from engine.ask.time_constraints import time_constraint
from engine.text.question import understand
from engine.types import Passage
from tests.engine.ask.passages import changed
from tests.engine.ask.test_candidates import CHAT, NOW

TRUMPET = "Ben: I bought a silver trumpet in Oslo."
TALK = f"{TRUMPET}\nAnn: Where did you buy it?\nBen: My trumpet is from Oslo.\nAnn: I saw the trumpet that you bought."
MAIL = changed(CHAT, header="From: Ben", sender="Ben Ray <b@example.org>", text="I bought a silver trumpet in Oslo.")


def judged(question: str, *reads: Passage) -> tuple[Signs, Support]:
    asked = understand(question, NOW)
    when = time_constraint(asked, None)
    found = candidates(asked, reads, None, when, CandidateWeights())
    return signs(asked, reads, found, when), support(asked, reads, found, when)


def supported(question: str, *reads: Passage) -> float:
    return judged(question, *reads)[1].value


def others(question: str, text: str) -> float | None:
    return judged(question, changed(CHAT, text=text))[0].others


def test_no_sources_support_nothing() -> None:
    asked = understand("When is the concert?", NOW)
    assert support(asked, (), (), time_constraint(asked, None)) == Support(0.0)


def test_sources_without_a_word_of_the_question_support_little() -> None:
    assert supported("When does the ferry to Bergen leave?", CHAT) < 0.1


def test_a_sentence_with_all_words_of_the_question_supports_much() -> None:
    assert supported("Where did Ben buy the trumpet he bought?", CHAT) > 0.8


def test_support_is_less_where_somebody_else_tells_it_of_himself() -> None:
    assert supported("Did Ann buy a trumpet in Oslo?", CHAT) < 0.5 < supported("Did Ben buy a trumpet in Oslo?", CHAT)


def test_a_price_of_another_trade_is_no_support() -> None:
    mail = changed(CHAT, text="We paid the roof painter 90 pounds.")
    assert supported("How much does the boat painter charge?", mail) < 0.5


def test_a_request_supports_what_its_sender_wants() -> None:
    mail = changed(
        CHAT, text="The van is mine. Could you please bring two ropes?", sender="Martha Lopez <m@example.org>"
    )
    assert supported("What does Martha Lopez want me to bring?", mail) > 0.5


@pytest.mark.parametrize(
    ("person", "text", "is_other"),
    [
        ("Ann", f"Ann: Nice.\n{TRUMPET}", True),
        ("Ben", f"Ann: Nice.\n{TRUMPET}", False),
        ("Ann", "Ann: You bought a silver trumpet!\nBen: In Oslo.", True),
        ("Ben", "Ann: You bought a silver trumpet!\nBen: In Oslo.", False),
        ("Ann", f"Ann: I bought my silver trumpet in Oslo.\n{TRUMPET}\nBen: I ate.", False),
    ],
)
def test_the_turns_that_tell_of_the_matter_are_about_their_speaker_or_whom_they_address(
    person: str, text: str, is_other: bool
) -> None:
    value = others(f"Where did {person} buy the silver trumpet?", text)
    assert value is not None
    assert (value > 0) is is_other


def test_a_turn_without_a_person_is_about_nobody() -> None:
    assert others("Where did Ann buy the trumpet?", "Ann: Nice.\nBen: The silver trumpet is here.") == 0.0


@pytest.mark.parametrize(
    "question",
    ["Where is the silver trumpet?", "What did Ann say about the silver trumpet?", "What does Ann want me to buy?"],
)
def test_whom_turns_are_about_counts_only_in_questions_about_a_speaker(question: str) -> None:
    assert others(question, f"Ann: Nice.\n{TRUMPET}") is None


def test_whom_turns_are_about_counts_only_in_conversations() -> None:
    assert judged("Where did Ben buy the silver trumpet?", MAIL)[0].others is None


def test_the_score_of_the_best_sentence_counts_from_nothing_to_six() -> None:
    none, much = (judged(question, CHAT)[0].best for question in ("When is Bergen?", "Did Ben buy a trumpet in Oslo?"))
    assert 0.0 <= none < much <= 6.0


@pytest.mark.parametrize(
    ("question", "read", "con"),
    [
        ("When does the ferry to Bergen leave?", CHAT, "no source has most words of the question"),
        ("Where did Ann buy the trumpet?", changed(CHAT, text=f"Ann: Nice.\n{TRUMPET}"), "it is said of somebody else"),
        ("Where did Ann buy the trumpet?", changed(CHAT, text=TALK), "nobody asked about says it"),
        ("Is the silver trumpet that I bought in Oslo in Kiel?", MAIL, "no source has all names of the question"),
        (
            "What did Ben buy in Oslo on 3 May 2021?",
            changed(MAIL, text="On 4 May 2021 I bought a trumpet in Oslo.", date=datetime(2023, 5, 8, tzinfo=UTC)),
            "the best sentence is about another day",
        ),
    ],
)
def test_what_speaks_most_against_an_answer_is_told(question: str, read: Passage, con: str) -> None:
    assert judged(question, read)[1].con == con


@pytest.mark.parametrize(
    ("question", "read", "pro"),
    [
        ("Where did Ben buy the trumpet?", changed(CHAT, text=f"Ann: Nice.\n{TRUMPET}"), "those asked about say it"),
        ("Where was the silver trumpet bought?", MAIL, "one source has most words of the question"),
    ],
)
def test_what_speaks_most_for_an_answer_is_told(question: str, read: Passage, pro: str) -> None:
    assert judged(question, read)[1].pro == pro
