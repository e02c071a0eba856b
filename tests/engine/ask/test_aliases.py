"""A refused paraphrase is judged at idle; as an alias it is answered by the question that asks the same."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.ask.prepare import key_of
from engine.ask.semantic import reject_answer
from engine.idle.refresh import Reasker, judge, plan_judgements, plan_refreshes, refresh
from engine.session import Session
from engine.text.question import Question
from engine.types import AskOptions, AskResult, Evidence, GeneratedAnswer, OnText, Trace
from store.answers import Aliases, AnswerBank
from tests.engine.ask.backend import Wrapped
from tests.engine.ask.small_home import NOW, RULES, SmallHome, asker, ingest

ASKED, OTHERWISE = "Which colour has the tandem of the museum?", "Which paint has the tandem of the museum?"


class Judging(Wrapped):
    """Quotes in the name of a model, which finds every answer borne but those it rejects, and declines if told to."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.backend)
        self.rejects, self.declines, self.can_say = set[str](), set[str](), True
        self.checked: list[tuple[str, str]] = []

    @property
    def fingerprint(self) -> str:
        return f"model-3 {self.backend.fingerprint}"

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> GeneratedAnswer:
        written = super().generate(question, evidence, trace, on_text)
        if question.text not in self.declines:
            return written
        return replace(written, reply=replace(written.reply, text=None, highlight=None))

    def entails(self, question: Question, evidence: Evidence, answer: str, trace: Trace) -> bool | None:
        self.checked.append((question.text, answer))
        return question.text not in self.rejects if self.can_say else None


@dataclass(slots=True)
class Museum:
    """A home with one mail about a tandem."""

    home: SmallHome
    session: Session
    backend: Judging = field(init=False)

    def __post_init__(self) -> None:
        self.backend = Judging(self.session)

    def ask(self, text: str) -> AskResult:
        return asker(self.session, self.backend).ask(text, AskOptions(), NOW)

    @property
    def reasker(self) -> Reasker:
        return Reasker(self.session.ledger, self.backend, self.session.room, NOW)

    def judge(self) -> list[str]:
        """Run all judgements that are due; return their questions."""
        jobs = plan_judgements(self.reasker)
        states = {judge(self.reasker, job).state for job in jobs}
        assert states <= {"done" if self.backend.can_say else "cached"}
        return [job.what for job in jobs]

    def renew(self, question: str) -> None:
        """Have new mail come in, and one question's answer refreshed."""
        self.home.write("b", "The canoe of the pond is red.")
        ingest(self.session, self.home.mail)
        for job in plan_refreshes(self.reasker):
            if job.what == question:
                refresh(self.reasker, job)


@pytest.fixture
def museum(tmp_path: Path) -> Museum:
    home = SmallHome(tmp_path)
    home.write("a", "The tandem of the museum has green paint, a colour that all like.")
    session = home.open()
    ingest(session, home.mail)
    return Museum(home, session)


def both(museum: Museum) -> None:
    """Ask a question, and with another word; the second is refused the answer of the first."""
    assert museum.ask(ASKED).reply.answered
    found = museum.ask(OTHERWISE)
    assert found.reply.tier == "full", [step.note for step in found.trace.steps]


def test_an_alias_is_answered_at_once_where_its_own_answer_is_stale(museum: Museum) -> None:
    both(museum)
    assert museum.judge() == [OTHERWISE]
    museum.renew(ASKED)
    found = museum.ask(OTHERWISE)
    assert (found.reply.tier, found.reply.matched_question, found.reply.stale) == ("semantic", ASKED, False)
    assert not {"embed", "retrieve"} & {step.name for step in found.trace.steps}
    assert found.reply.text == museum.ask(ASKED).reply.text


def test_without_a_verdict_the_own_answer_is_looked_at_again(museum: Museum) -> None:
    both(museum)
    museum.renew(ASKED)
    assert museum.ask(OTHERWISE).reply.tier != "semantic"


def test_an_alias_whose_own_answer_holds_keeps_it(museum: Museum) -> None:
    both(museum)
    museum.judge()
    assert museum.ask(OTHERWISE).reply.matched_question is None


def test_a_declined_question_gets_the_answer_of_the_one_that_asks_the_same(museum: Museum) -> None:
    museum.backend.declines.add(OTHERWISE)
    both(museum)
    assert not museum.ask(OTHERWISE).reply.answered
    assert museum.judge() == [OTHERWISE]
    found = museum.ask(OTHERWISE)
    assert (found.reply.answered, found.reply.tier, found.reply.matched_question) == (True, "semantic", ASKED)
    assert [question for question, _ in museum.backend.checked] == [OTHERWISE]


def test_a_no_of_the_model_raises_the_threshold_and_is_not_asked_for_again(museum: Museum) -> None:
    museum.backend.declines.add(OTHERWISE)
    both(museum)
    museum.backend.rejects.add(OTHERWISE)
    museum.judge()
    assert Aliases(museum.session.ledger).counts() == (1, 0)
    assert museum.judge() == []
    assert not museum.ask(OTHERWISE).reply.answered
    kept = AnswerBank(museum.session.ledger).find(
        key_of(museum.backend, museum.session.ledger, ASKED, AskOptions(), NOW).digest
    )
    assert kept
    assert kept.tau is not None


def test_an_alias_is_not_used_while_the_other_answer_is_stale(museum: Museum) -> None:
    both(museum)
    assert museum.judge() == [OTHERWISE]
    museum.renew("none")
    assert museum.ask(OTHERWISE).reply.tier != "semantic"


def test_without_paraphrase_hits_there_are_no_aliases(museum: Museum) -> None:
    both(museum)
    assert museum.judge() == [OTHERWISE]
    museum.renew(ASKED)
    never = replace(RULES, tau=1.0)
    assert asker(museum.session, museum.backend, never).ask(OTHERWISE, AskOptions(), NOW).reply.tier != "semantic"


def test_a_decline_gets_no_answer_that_it_was_not_judged_with(museum: Museum) -> None:
    museum.backend.declines.add(OTHERWISE)
    both(museum)
    assert museum.judge() == [OTHERWISE]
    museum.home.write("a", "The tandem of the museum has blue paint, a colour that all like.")
    museum.home.write("c", "The tandem of the museum has blue paint since June.")
    museum.renew(ASKED)
    museum.ask(ASKED)
    museum.ask(OTHERWISE)  # declined anew
    assert not museum.ask(OTHERWISE).reply.answered


def test_where_the_model_cannot_say_nothing_is_stored(museum: Museum) -> None:
    both(museum)
    museum.backend.can_say = False
    assert museum.judge() == museum.judge() == [OTHERWISE]
    assert Aliases(museum.session.ledger).counts() == (0, 0)


@pytest.mark.parametrize(
    "other", ["Which colour has the tandem of Mira Holt?", "Which colour had the tandem of the museum in 2019?",
              "Which colour has the tandem of the museum not?"],
)  # fmt: skip
def test_another_name_number_or_negation_is_never_judged(museum: Museum, other: str) -> None:
    museum.ask(ASKED)
    museum.ask(other)
    assert museum.judge() == []


def test_marking_an_aliased_answer_as_wrong_ends_the_alias(museum: Museum) -> None:
    both(museum)
    museum.judge()
    museum.renew(ASKED)
    assert museum.ask(OTHERWISE).reply.tier == "semantic"
    reject_answer(museum.session.ledger, NOW)
    again = museum.ask(OTHERWISE)
    assert again.reply.tier == "full"
    assert museum.judge() == []
    assert museum.ask(ASKED).reply.tier == "exact"


def test_quotes_note_no_near_misses(museum: Museum) -> None:
    for text in (ASKED, OTHERWISE):
        asker(museum.session).ask(text, AskOptions(), NOW)
    assert Aliases(museum.session.ledger).unjudged() == []
