"""The ask path: what each question opens, what it leaves behind, and which of its tiers answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.ask.pipeline import Asker
from engine.settings import BankSettings, Settings
from engine.text.question import Question
from engine.types import Answer, AskOptions, AskResult, Correction, Evidence, OnText, Trace
from store.answers import AnswerBank, Notice, Notices, RejectedAnswers
from store.database import Ledger, open_ledger
from store.errors import UsageError
from store.history import History
from store.types import Scope, Vectors
from tests.engine.ask.backend import Unable

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
QUESTION = "When is the concert?"


@dataclass
class Recorded(Unable):
    """A backend that finds these chunks and says this, and what was called of it."""

    ledger: Ledger
    chunks: tuple[str, ...] = ("a", "b")
    answer: str | None = "Friday"
    called: list[str] = field(default_factory=list)
    bytes: int = 1_000_000
    meanwhile: Callable[[], None] = lambda: None  # what happens while it generates

    def ask(self, text: str = QUESTION, options: AskOptions | None = None, now: datetime = NOW) -> AskResult:
        self.called.clear()
        return Asker(self.ledger, self, Settings(bank=BankSettings(bytes=self.bytes)), lambda: None).ask(
            text, options or AskOptions(), now
        )

    def tier(self, text: str = QUESTION, options: AskOptions | None = None, now: datetime = NOW) -> str:
        return self.ask(text, options, now).reply.tier

    def embed(self, text: str, trace: Trace) -> Vectors | None:
        self.called.append("embed")
        return None

    def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
        self.called.append("retrieve")
        return Evidence((), self.chunks, 0.5)

    def generate(self, question: Question, evidence: Evidence, trace: Trace, on_text: OnText | None) -> Answer:
        self.called.append("generate")
        self.meanwhile()
        ms = trace.ms() | {"total": 20.0}
        trace.keep = lambda: self.called.append("keep")
        return Answer(question.text, self.answer, "full", "quote", None, (), ms)


@pytest.fixture
def state(tmp_path: Path) -> Recorded:
    return Recorded(open_ledger(tmp_path / "ledger.db", create=True))


def mail(state: Recorded, *chunks: str) -> None:
    """Have mail come, and these chunks be found from now on."""
    state.ledger.raise_generation()
    state.chunks = chunks or state.chunks


def test_a_new_question_is_embedded_retrieved_and_written_in_this_order(state: Recorded) -> None:
    answered = state.ask()
    assert (answered.reply.tier, answered.covered, state.called) == ("full", 0.5, ["embed", "retrieve", "generate"])
    answered.keep()
    assert state.called[-1] == "keep"


def test_an_exact_hit_of_the_same_generation_calls_nothing(state: Recorded) -> None:
    state.ask()
    answered = state.ask("when IS the concert")
    assert (answered.reply.tier, answered.covered, state.called) == ("exact", None, [])
    assert answered.reply.ms["first_token"] == answered.reply.ms["total"]
    answered.keep()
    assert state.called == []


def test_after_mail_an_answer_of_the_same_evidence_is_looked_at_once(state: Recorded) -> None:
    state.ask()
    mail(state)
    assert (state.tier(), state.called) == ("exact", ["embed", "retrieve"])
    assert (state.tier(), state.called) == ("exact", [])


@pytest.mark.parametrize("chunks", [("a",), ("a", "b", "c"), ("b", "a"), ("c", "b"), ("none",)])
def test_after_mail_that_changes_the_evidence_or_its_order_an_answer_is_made_anew(
    state: Recorded, chunks: tuple[str, ...]
) -> None:
    state.ask()
    mail(state, *chunks)
    state.answer = "Saturday"
    assert (state.ask().reply.text, state.called) == ("Saturday", ["embed", "retrieve", "generate"])
    assert state.tier() == "exact"


def test_a_stale_answer_is_shown_when_asked_for_and_not_stamped(state: Recorded) -> None:
    state.ask()
    mail(state, "c")
    for _ in range(2):
        reply = state.ask(options=AskOptions(stale_ok=True)).reply
        assert (reply.tier, reply.stale, reply.text) == ("exact", True, "Friday")
    assert state.tier() == "full"


def test_what_is_not_stale_is_not_called_so(state: Recorded) -> None:
    state.ask()
    mail(state)
    assert state.ask(options=AskOptions(stale_ok=True)).reply.stale is False


def test_the_finding_that_there_is_no_answer_follows_the_same_rule(state: Recorded) -> None:
    state.answer = None
    state.ask()
    assert (state.tier(), state.called) == ("exact", [])
    mail(state)
    assert state.tier() == "exact"
    mail(state, "c")
    assert state.tier() == "full"


def test_mail_that_comes_while_an_answer_is_written_makes_the_next_ask_look_again(state: Recorded) -> None:
    state.meanwhile = lambda: mail(state, "c")
    state.ask()
    state.meanwhile = lambda: None
    assert state.tier() == "full"


@pytest.mark.parametrize("options", [AskOptions(read_bank=False), AskOptions(read_bank=False, write_bank=False)])
def test_without_reading_the_bank_every_answer_is_made(state: Recorded, options: AskOptions) -> None:
    state.ask()
    assert (state.tier(options=options), state.called) == ("full", ["embed", "retrieve", "generate"])


def test_without_writing_the_bank_nothing_is_left_in_it(state: Recorded) -> None:
    state.ask(options=AskOptions(read_bank=False, write_bank=False))
    assert AnswerBank(state.ledger).size() == (0, 0)
    assert [count["questions"] for count in History(state.ledger).by_tier()] == [1]


def test_without_writing_the_bank_a_hit_is_not_counted(state: Recorded) -> None:
    state.ask()
    last = History(state.ledger).last()
    assert last
    state.ask(options=AskOptions(write_bank=False))
    kept = AnswerBank(state.ledger).find(last.key or b"")
    assert kept
    assert kept.uses == 0


@pytest.mark.parametrize(
    "options", [AskOptions(k=4), AskOptions(Scope(sender="ann")), AskOptions(Scope(until=NOW.date()))]
)
def test_another_manner_is_another_question(state: Recorded, options: AskOptions) -> None:
    state.ask()
    assert (state.tier(options=options), state.tier(options=options), state.tier()) == ("full", "exact", "exact")


def test_a_question_about_today_is_another_one_tomorrow_and_others_are_not(state: Recorded) -> None:
    for text in ("Who comes today?", QUESTION):
        state.ask(text)
    tomorrow = NOW + timedelta(days=1)
    assert (state.tier("Who comes today?", now=tomorrow), state.tier(now=tomorrow)) == ("full", "exact")
    assert state.tier("Who comes today?", now=NOW) == "exact"


def test_a_bank_without_room_keeps_nothing_and_answers_all_the_same(state: Recorded) -> None:
    state.bytes = 0
    assert [state.ask().reply.text for _ in range(2)] == ["Friday", "Friday"]
    assert AnswerBank(state.ledger).size() == (0, 0)


def test_the_history_says_which_answer_was_given_and_what_it_saved(state: Recorded) -> None:
    state.ask()
    made = History(state.ledger).last()
    state.ask()
    served = History(state.ledger).last()
    assert made
    assert served
    assert (made.tier, served.tier) == ("full", "exact")
    assert (served.key, served.stale) == (made.key, False)


def test_what_has_become_known_of_an_answer_is_told_once(state: Recorded) -> None:
    state.ask()
    last = History(state.ledger).last()
    assert last
    assert last.key
    Notices(state.ledger).add(Notice(last.key, "changed", "Thursday", "Friday", "", 0.0))
    told, again = state.ask().reply.correction, state.ask().reply.correction
    assert told == Correction("changed", "Thursday")
    assert again is None


def test_an_answer_that_new_mail_changes_comes_with_the_former_one_once(state: Recorded) -> None:
    state.ask()
    mail(state, "c")
    state.answer = "Saturday"
    said = list[str]()
    told = Asker(state.ledger, state, Settings(bank=BankSettings(bytes=state.bytes)), lambda: None).ask(
        QUESTION, AskOptions(), NOW, said.append
    )
    assert (told.reply.correction, told.reply.text) == (Correction("changed", "Friday"), "Saturday")
    assert state.ask().reply.correction is None


def test_nothing_is_corrected_where_the_answer_says_the_same(state: Recorded) -> None:
    state.ask()
    mail(state, "c")
    state.answer = "friday."
    assert state.ask().reply.correction is None


def test_an_answer_that_went_back_to_what_was_said_is_not_corrected(state: Recorded) -> None:
    state.ask()
    last = History(state.ledger).last()
    assert last
    assert last.key
    Notices(state.ledger).add(Notice(last.key, "changed", "Friday", "Saturday", "", 0.0))
    assert state.ask().reply.correction is None
    assert Notices(state.ledger).count() == 0


def test_an_answer_that_was_lost_is_told(state: Recorded) -> None:
    state.ask()
    mail(state, "c")
    state.answer = None
    assert state.ask().reply.correction == Correction("changed", "Friday")


def test_what_is_known_of_an_answer_is_not_told_to_one_who_asks_without_the_bank(state: Recorded) -> None:
    state.ask()
    last = History(state.ledger).last()
    assert last
    assert last.key
    Notices(state.ledger).add(Notice(last.key, "changed", "Thursday", "Friday", "", 0.0))
    assert state.ask(options=AskOptions(read_bank=False, write_bank=False)).reply.correction is None
    assert Notices(state.ledger).count() == 1


def test_an_answer_that_was_said_to_be_wrong_comes_with_that_word_each_time(state: Recorded) -> None:
    state.ask()
    last = History(state.ledger).last()
    assert last
    assert last.key
    RejectedAnswers(state.ledger).add(last.key, "Friday", 0.0)
    assert [state.ask().trace.notices for _ in range(2)] == [["you marked this answer as wrong"]] * 2
    mail(state, "c")
    state.answer = "Saturday"
    assert state.ask().trace.notices == []


@pytest.mark.parametrize("text", ["", "  ", "?", " . ? "])
def test_an_empty_question_is_refused_and_leaves_nothing(state: Recorded, text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        state.ask(text)
    assert (state.called, History(state.ledger).last()) == ([], None)
