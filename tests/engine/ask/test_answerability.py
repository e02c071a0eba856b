"""Answerability: whether the sources support any answer."""

from engine.ask.candidates import CandidateWeights, candidates, time_constraint
from engine.ask.support import support
from engine.text.question import understand
from engine.types import Passage
from tests.engine.ask.passages import changed
from tests.engine.ask.test_candidates import CHAT, NOW


def supported(question: str, *reads: Passage) -> float:
    asked = understand(question, NOW)
    when = time_constraint(asked, None)
    return support(asked, reads, candidates(asked, reads, None, when, CandidateWeights()), when).value


def test_no_sources_support_nothing() -> None:
    assert supported("When is the concert?") == 0.0


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
