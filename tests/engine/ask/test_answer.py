"""The ask path: what each question opens, what it leaves behind, and which of its tiers answers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine.ask.pipeline import Asker
from engine.ask.prepare import BankBudget
from engine.text.question import Question
from engine.types import Answer, AskOptions, AskResult, Backend, Evidence, GeneratedAnswer, OnText, Trace
from store.answers import AnswerBank, Notice, Notices, RejectedAnswers
from store.database import Ledger, open_ledger
from store.errors import UsageError
from store.history import History
from store.hits import Vectors
from store.types import Scope

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
QUESTION = "When is the concert?"


@dataclass
class Desk:
    """What answers, and which of its means were called: it finds these chunks and says this."""

    ledger: Ledger
    chunks: tuple[str, ...] = ("a", "b")
    answer: str | None = "Friday"
    called: list[str] = field(default_factory=list)
    bytes: int = 1_000_000
    meanwhile: Callable[[], None] = lambda: None  # what happens while it writes

    def ask(self, text: str = QUESTION, manner: AskOptions | None = None, now: datetime = NOW) -> AskResult:
        self.called.clear()
        means = Backend(self._embed, self._gather, self._write, self._read, self._bears, lambda: None, "desk")
        return Asker(self.ledger, means, BankBudget(self.bytes, 5)).ask(text, manner or AskOptions(), now)

    def tier(self, text: str = QUESTION, manner: AskOptions | None = None, now: datetime = NOW) -> str:
        return self.ask(text, manner, now).reply.tier

    def _embed(self, text: str, trace: Trace) -> Vectors | None:
        self.called.append("embed")
        return None

    def _gather(self, question: Question, vector: Vectors | None, manner: AskOptions, trace: Trace) -> Evidence:
        self.called.append("gather")
        return Evidence((), self.chunks, 0.5)

    def _write(self, question: Question, evidence: Evidence, trace: Trace, say: OnText | None) -> GeneratedAnswer:
        self.called.append("write")
        self.meanwhile()
        ms = trace.ms() | {"total": 20.0}
        reply = Answer(question.text, self.answer, "full", "quote", None, (), ms)
        return GeneratedAnswer(reply, lambda: self.called.append("keep"))

    def _read(self, question: Question, evidence: Evidence, trace: Trace) -> None:
        raise AssertionError("nobody reads ahead while somebody asks")

    def _bears(self, question: Question, evidence: Evidence, answer: str, trace: Trace) -> bool:
        raise AssertionError("there is nothing to lend")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(open_ledger(tmp_path / "ledger.db", create=True))


def mail(desk: Desk, *chunks: str) -> None:
    """Have mail come, and these chunks be found from now on."""
    desk.ledger.raise_generation()
    desk.chunks = chunks or desk.chunks


def test_a_new_question_is_embedded_retrieved_and_written_in_this_order(desk: Desk) -> None:
    answered = desk.ask()
    assert (answered.reply.tier, answered.covered, desk.called) == ("full", 0.5, ["embed", "gather", "write"])
    answered.keep()
    assert desk.called[-1] == "keep"


def test_an_exact_hit_of_the_same_generation_calls_nothing(desk: Desk) -> None:
    desk.ask()
    answered = desk.ask("when IS the concert")
    assert (answered.reply.tier, answered.covered, desk.called) == ("exact", None, [])
    assert answered.reply.ms["first_token"] == answered.reply.ms["total"]
    answered.keep()
    assert desk.called == []


def test_after_mail_an_answer_of_the_same_evidence_is_looked_at_once(desk: Desk) -> None:
    desk.ask()
    mail(desk)
    assert (desk.tier(), desk.called) == ("exact", ["embed", "gather"])
    assert (desk.tier(), desk.called) == ("exact", [])


@pytest.mark.parametrize("chunks", [("a",), ("a", "b", "c"), ("b", "a"), ("c", "b"), ("none",)])
def test_after_mail_that_changes_the_evidence_or_its_order_an_answer_is_made_anew(
    desk: Desk, chunks: tuple[str, ...]
) -> None:
    desk.ask()
    mail(desk, *chunks)
    desk.answer = "Saturday"
    assert (desk.ask().reply.answer, desk.called) == ("Saturday", ["embed", "gather", "write"])
    assert desk.tier() == "exact"


def test_a_stale_answer_is_shown_when_asked_for_and_not_stamped(desk: Desk) -> None:
    desk.ask()
    mail(desk, "c")
    for _ in range(2):
        reply = desk.ask(manner=AskOptions(stale_ok=True)).reply
        assert (reply.tier, reply.stale, reply.answer) == ("exact", True, "Friday")
    assert desk.tier() == "full"


def test_what_is_not_stale_is_not_called_so(desk: Desk) -> None:
    desk.ask()
    mail(desk)
    assert desk.ask(manner=AskOptions(stale_ok=True)).reply.stale is False


def test_the_finding_that_there_is_no_answer_follows_the_same_rule(desk: Desk) -> None:
    desk.answer = None
    desk.ask()
    assert (desk.tier(), desk.called) == ("exact", [])
    mail(desk)
    assert desk.tier() == "exact"
    mail(desk, "c")
    assert desk.tier() == "full"


def test_mail_that_comes_while_an_answer_is_written_makes_the_next_ask_look_again(desk: Desk) -> None:
    desk.meanwhile = lambda: mail(desk, "c")
    desk.ask()
    desk.meanwhile = lambda: None
    assert desk.tier() == "full"


@pytest.mark.parametrize("manner", [AskOptions(read_bank=False), AskOptions(read_bank=False, write_bank=False)])
def test_without_reading_the_bank_every_answer_is_made(desk: Desk, manner: AskOptions) -> None:
    desk.ask()
    assert (desk.tier(manner=manner), desk.called) == ("full", ["embed", "gather", "write"])


def test_without_writing_the_bank_nothing_is_left_in_it(desk: Desk) -> None:
    desk.ask(manner=AskOptions(read_bank=False, write_bank=False))
    assert AnswerBank(desk.ledger).size() == (0, 0)
    assert [count.questions for count in History(desk.ledger).by_tier()] == [1]


def test_without_writing_the_bank_a_hit_is_not_counted(desk: Desk) -> None:
    desk.ask()
    last = History(desk.ledger).last()
    assert last
    desk.ask(manner=AskOptions(write_bank=False))
    kept = AnswerBank(desk.ledger).find(last.key or b"")
    assert kept
    assert kept.uses == 0


@pytest.mark.parametrize("manner", [AskOptions(k=4), AskOptions(Scope(sender="ann")), AskOptions(Scope(until=NOW))])
def test_another_manner_is_another_question(desk: Desk, manner: AskOptions) -> None:
    desk.ask()
    assert (desk.tier(manner=manner), desk.tier(manner=manner), desk.tier()) == ("full", "exact", "exact")


def test_a_question_about_today_is_another_one_tomorrow_and_others_are_not(desk: Desk) -> None:
    for text in ("Who comes today?", QUESTION):
        desk.ask(text)
    tomorrow = NOW + timedelta(days=1)
    assert (desk.tier("Who comes today?", now=tomorrow), desk.tier(now=tomorrow)) == ("full", "exact")
    assert desk.tier("Who comes today?", now=NOW) == "exact"


def test_a_bank_without_room_keeps_nothing_and_answers_all_the_same(desk: Desk) -> None:
    desk.bytes = 0
    assert [desk.ask().reply.answer for _ in range(2)] == ["Friday", "Friday"]
    assert AnswerBank(desk.ledger).size() == (0, 0)


def test_the_history_says_which_answer_was_given_and_what_it_saved(desk: Desk) -> None:
    desk.ask()
    made = History(desk.ledger).last()
    desk.ask()
    served = History(desk.ledger).last()
    assert made
    assert served
    assert (made.tier, made.matched, served.tier, served.matched) == ("full", None, "exact", made.key)
    assert (served.key, served.stale) == (made.key, False)


def test_what_has_become_known_of_an_answer_is_told_once(desk: Desk) -> None:
    desk.ask()
    last = History(desk.ledger).last()
    assert last
    assert last.key
    Notices(desk.ledger).put(Notice(last.key, "changed", "Thursday", "Friday", "", 0.0))
    told, again = desk.ask().trace.notices, desk.ask().trace.notices
    assert told == ["the answer was “Thursday”, now it is “Friday”"]
    assert again == []


def test_what_is_known_of_an_answer_is_not_told_to_one_who_asks_without_the_bank(desk: Desk) -> None:
    desk.ask()
    last = History(desk.ledger).last()
    assert last
    assert last.key
    Notices(desk.ledger).put(Notice(last.key, "changed", "Thursday", "Friday", "", 0.0))
    assert desk.ask(manner=AskOptions(read_bank=False, write_bank=False)).trace.notices == []
    assert Notices(desk.ledger).count() == 1


def test_an_answer_that_was_said_to_be_wrong_comes_with_that_word_each_time(desk: Desk) -> None:
    desk.ask()
    last = History(desk.ledger).last()
    assert last
    assert last.key
    RejectedAnswers(desk.ledger).add(last.key, "Friday", 0.0)
    assert [desk.ask().trace.notices for _ in range(2)] == [["you marked this answer as wrong"]] * 2
    mail(desk, "c")
    desk.answer = "Saturday"
    assert desk.ask().trace.notices == []


@pytest.mark.parametrize("text", ["", "  ", "?", " . ? "])
def test_an_empty_question_is_refused_and_leaves_nothing(desk: Desk, text: str) -> None:
    with pytest.raises(UsageError, match="empty"):
        desk.ask(text)
    assert (desk.called, History(desk.ledger).last()) == ([], None)
