"""A question that is readied before anybody asks it: as if it had been asked, but by nobody."""

from pathlib import Path

import pytest

from engine.ask.keys import answer_of
from engine.idle.refresh import Prepared, Reasker
from engine.session import Session
from engine.text.question import Question
from engine.types import Answer, AskOptions, Backend, Evidence, OnText, Trace
from store.answers import AnswerBank, Origin, Verifications
from store.errors import UsageError
from store.history import History
from tests.engine.ask.backend import Wrapped
from tests.engine.ask.small_home import NOW, SmallHome, apart, ask, ingest

QUESTION, LIKE = "Which colour has the tandem of the museum?", "Which colour does the tandem of the museum have?"
GREEN = "The tandem of the museum is green."


@pytest.fixture
def session(tmp_path: Path) -> Session:
    home = SmallHome(tmp_path)
    home.write("a", GREEN)
    opened = home.open()
    ingest(opened, home.mail)
    return opened


def ready(
    session: Session, text: str = QUESTION, *, decode: bool = True, origin: Origin = "predicted", source: str = ""
) -> Prepared:
    reasker = Reasker(session.ledger, session.backend, session.settings, NOW)
    return reasker.prepare(text, AskOptions(), source, origin, decode=decode)


def asked(session: Session) -> int:
    return int(session.ledger.rows.execute("SELECT count(*) FROM history").fetchone()[0])


def test_what_was_readied_is_answered_exactly(session: Session) -> None:
    made = ready(session)
    reply = ask(session, QUESTION).reply
    assert made.reply
    assert (reply.tier, reply.text, made.reply.text) == ("exact", GREEN, GREEN)


def test_what_was_readied_is_lent(session: Session) -> None:
    ready(session)
    assert ask(session, LIKE).reply.tier == "semantic"


def test_nobody_has_asked_what_was_readied(session: Session) -> None:
    made = ready(session)
    assert (asked(session), History(session.ledger).by_tier(), History(session.ledger).last()) == (0, [], None)
    assert (made.kept.uses, made.kept.last_used) == (0, 0.0)
    found = AnswerBank(session.ledger).find(made.key)
    assert found
    assert found.uses == 0


def test_what_was_only_read_ahead_matches_nothing(session: Session) -> None:
    made = ready(session, decode=False)
    assert (made.reply, made.kept.state, made.kept.reply) == (None, "prefilled", "")
    assert (ask(session, LIKE).reply.tier, ask(session, QUESTION).reply.tier) == ("full", "semantic")
    other = ready(session, QUESTION + " Now?", decode=False)
    assert other.kept.state == "prefilled"
    assert ask(session, QUESTION + " Now?").reply.tier != "exact"


def test_an_entry_knows_who_foresaw_it(session: Session) -> None:
    made = ready(session, source="history")
    found = AnswerBank(session.ledger).find(made.key)
    assert found
    assert (found.origin, found.source, found.question) == ("predicted", "history", QUESTION)


def test_neither_the_exact_nor_the_semantic_tier_answers_what_is_readied(session: Session) -> None:
    ask(session, QUESTION)
    again, other = ready(session), ready(session, LIKE)
    assert [made.reply and made.reply.tier for made in (again, other)] == ["full", "full"]
    assert "similar" not in [step.name for made in (again, other) for step in made.trace.steps]


def test_readying_what_is_owed_answers_it_and_leaves_the_debt_to_be_judged(session: Session) -> None:
    ask(session, QUESTION)
    ask(session, LIKE)
    made = ready(session, LIKE, origin="user")
    assert (made.kept.state, answer_of(made.kept).text) == ("answered", GREEN)
    assert Verifications(session.ledger).find(made.key) is not None
    assert ask(session, LIKE).reply.tier == "exact"


def test_what_was_readied_before_new_mail_is_not_served_after_it(session: Session, tmp_path: Path) -> None:
    ready(session)
    home = SmallHome(tmp_path)
    home.write("b", "The tandem of the museum is blue.", 10)
    ingest(session, home.mail)
    assert ask(session, QUESTION).reply.tier == "full"


def test_it_is_readied_in_the_manner_in_which_it_will_be_asked(session: Session) -> None:
    ready(session)
    assert ask(session, QUESTION, apart(0)).reply.tier == "full"


class Recorded(Wrapped):
    """Notes what was kept and what was only prefilled."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.done = list[str]()

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        made = super().generate(question, evidence, trace, on_text)
        trace.keep = lambda: self.done.append("kept")
        return made

    def prefill(self, question: Question, evidence: Evidence, trace: Trace) -> None:
        self.done.append("prefilled")


@pytest.mark.parametrize("decode", [True, False])
def test_what_was_read_is_kept_and_the_prompt_only_prefilled_where_no_answer_is_wanted(
    session: Session, decode: bool
) -> None:
    backend = Recorded(session.backend)
    Reasker(session.ledger, backend, session.settings, NOW).prepare(QUESTION, AskOptions(), "", decode=decode)
    assert backend.done == (["kept"] if decode else ["prefilled"])


def test_nothing_can_be_readied_for_no_question(session: Session) -> None:
    with pytest.raises(UsageError):
        ready(session, " ? ")
