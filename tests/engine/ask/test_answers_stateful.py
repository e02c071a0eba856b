"""The answer cache under any sequence of mail changes, questions, predictions, rejections and kills.

Held against what would be answered now: nothing that is served may differ from it.
"""

import shutil
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.ask.keys import answer_of, begin, gather_context, key, key_of, normalise, reword
from engine.ask.pipeline import Asker
from engine.ask.semantic import reject_answer
from engine.idle.refresh import Reasker
from engine.settings import BankSettings, Settings
from engine.types import Answer, AskOptions, AskResult
from store.answers import AnswerBank, RejectedAnswers
from store.errors import UsageError
from store.types import Scope
from tests.effort import examples
from tests.engine.ask.pausing import slow, stepping
from tests.engine.ask.small_home import RULES, SmallHome, anew, ingest
from tests.store.kit import Fuse, Killed

COLOURS = ("green", "blue")
THINGS = ("tandem", "canoe")
TEXTS = [f"The {thing} of the harbour museum is {colour}." for thing in THINGS for colour in COLOURS]
TEXTS.append("Plum jam wants two kilos of sugar.")
FORMS = (
    "Which colour has the {} of the harbour museum?",
    "which colour has the {} of the harbour museum",
    "Which colour does the {} of the harbour museum have?",
    "Which colour has the {} of the harbour museum today?",
)
QUESTIONS = [form.format(thing) for thing in THINGS for form in FORMS]
MANNERS = (AskOptions(), AskOptions(Scope(sender="ida")))
ROOM = 1_000_000

texts = st.none() | st.sampled_from(TEXTS)
names, questions, manners = st.sampled_from("abc"), st.sampled_from(QUESTIONS), st.sampled_from(MANNERS)


class Life:
    """One home, and what may happen to it; every step leaves it as a process does that ends there."""

    def __init__(self, folder: Path) -> None:
        self.home, self.now, self.bytes = SmallHome(folder), datetime(2024, 6, 19, 8, tzinfo=UTC), ROOM
        self.session = slow(self.home)
        self.served: list[str] = []
        self.doubted: set[bytes] = set()  # keys whose last answer was wrong and which were not answered since
        self.home.write("a", TEXTS[0])
        ingest(self.session, self.home.mail)

    def change(self, name: str, text: str | None, dies_after: int = 0) -> None:
        """Put, change or take out a mail, and ingest; maybe the process is killed at a step."""
        self.home.put(name, text, 3 + "abc".index(name))
        with suppress(Killed), stepping(Fuse(dies_after).tick):
            ingest(self.session, self.home.mail)
        if dies_after:
            self.reopen()

    def ask(self, text: str, options: AskOptions, dies_after: int = 0) -> None:
        """Ask; what is served must be what would be made now."""
        with suppress(Killed), stepping(Fuse(dies_after).tick):
            self._hold(self._asker().ask(text, options, self.now), options)
        if dies_after:
            self.reopen()
            self._forgive(text, options)

    def ready(self, text: str, options: AskOptions, *, decode: bool) -> None:
        """Have a question answered, or only read for, before anybody asks it."""
        reasker = Reasker(self.session.ledger, self.session.backend, self._settings, self.now)
        self.doubted.discard(reasker.prepare(text, options, "", decode=decode).key)

    def reject(self) -> None:
        """Say that the last answer is wrong: it must not be served again as it is."""
        last = reject_answer(self.session.ledger, self.now, None, None)
        if last and last.key:
            self.doubted.add(last.key)
            kept = AnswerBank(self.session.ledger).find(last.key)
            assert kept is None or kept.state != "answered"

    def sleep(self) -> None:
        """Have the next day come."""
        self.now += timedelta(days=1)

    def reopen(self) -> None:
        """Be another process."""
        self.session.ledger.close()
        self.session = slow(self.home)

    def sound(self) -> None:
        """Find nothing wrong with the bank."""
        rows = self.session.ledger.rows
        assert rows.execute("SELECT count(*) FROM answers WHERE (state = 'answered') != (reply != '')").fetchone() == (
            0,
        )
        assert rows.execute("SELECT count(*) FROM history WHERE stale").fetchone() == (0,)
        for table in ("question_vectors", "verifications", "refresh_candidates", "notices"):
            sql = f"SELECT count(*) FROM {table} WHERE key NOT IN (SELECT key FROM answers)"
            assert (table, *rows.execute(sql).fetchone()) == (table, 0)

    @property
    def _settings(self) -> Settings:
        return Settings(bank=BankSettings(bytes=self.bytes))

    def _asker(self) -> Asker:
        return Asker(self.session.ledger, self.session.backend, self._settings, lambda: RULES)

    def _hold(self, answered: AskResult, options: AskOptions) -> None:
        reply = answered.reply
        self.served.append(reply.tier)
        assert reply.text == anew(self.session, reply.question, options, self.now).reply.text
        own = self._key(reply.question, options)
        if reply.tier in ("exact", "semantic"):
            assert own not in self.doubted
            self._hold_kept(reply.matched_question or reply.question, reply, options)
        self.doubted.discard(own)

    def _forgive(self, text: str, options: AskOptions) -> None:
        """Let a question off that was killed when its new answer was kept and not yet shown."""
        kept = AnswerBank(self.session.ledger).find(own := self._key(text, options))
        if kept and kept.state == "answered":
            self.doubted.discard(own)

    def _hold_kept(self, question: str, reply: Answer, options: AskOptions) -> None:
        """Find what was served in the bank, made of the very evidence that is retrieved now."""
        found = self._key(question, options)
        kept = AnswerBank(self.session.ledger).find(found)
        if kept is None:
            assert self.bytes < ROOM
            return
        ask = begin(self.session.backend, self.session.ledger, question, options, self.now)
        assert (kept.state, answer_of(kept).text) == ("answered", reply.text)
        assert kept.evidence == gather_context(self.session.backend, ask).read
        assert kept.day in (None, self.now.date().isoformat())
        if reply.tier == "semantic":
            assert reply.text is not None
            assert (RejectedAnswers(self.session.ledger).find(found) or [None])[0] != reply.text

    def _key(self, question: str, options: AskOptions) -> bytes:
        return key_of(self.session.backend, self.session.ledger, question, options, self.now).digest


class BankLife(RuleBasedStateMachine):
    """All that may happen, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.life = Life(self.folder)

    @rule(name=names, text=texts)
    def change(self, name: str, text: str | None) -> None:
        self.life.change(name, text)

    @rule(name=names, text=texts, step=st.integers(1, 20))
    def die_of_a_change(self, name: str, text: str | None, step: int) -> None:
        self.life.change(name, text, step)

    @rule(asked=questions, options=manners)
    def ask(self, asked: str, options: AskOptions) -> None:
        self.life.ask(asked, options)

    @rule(thing=st.sampled_from(THINGS), options=manners)
    def ask_in_every_form(self, thing: str, options: AskOptions) -> None:
        for form in FORMS:
            self.life.ask(form.format(thing), options)

    @rule(asked=questions, options=manners, step=st.integers(1, 12))
    def die_of_a_question(self, asked: str, options: AskOptions, step: int) -> None:
        self.life.ask(asked, options, step)

    @rule(asked=questions, options=manners, decode=st.booleans())
    def ready(self, asked: str, options: AskOptions, decode: bool) -> None:
        self.life.ready(asked, options, decode=decode)

    @rule()
    def reject(self) -> None:
        self.life.reject()

    @rule()
    def sleep(self) -> None:
        self.life.sleep()

    @rule(size=st.sampled_from((0, 9_000, ROOM)))
    def shrink(self, size: int) -> None:
        self.life.bytes = size

    @invariant()
    def sound(self) -> None:
        self.life.sound()

    def teardown(self) -> None:
        self.life.session.ledger.close()
        shutil.rmtree(self.folder)


TestBankLife = BankLife.TestCase
TestBankLife.settings = examples(15, stateful_step_count=14, suppress_health_check=list(HealthCheck))


def test_the_quick_form_takes_fewer_steps_than_the_long_one() -> None:
    from tests.soak.test_answers_stateful import TestLongBankLife

    assert TestBankLife.settings.stateful_step_count < TestLongBankLife.settings.stateful_step_count


def test_in_ordinary_use_most_answers_come_from_the_cache(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for text in (*QUESTIONS, *QUESTIONS):
        life.ask(text, AskOptions())
    life.change("b", TEXTS[2])
    for text in QUESTIONS:
        life.ask(text, AskOptions())
    assert {"exact", "semantic", "full"} == set(life.served)


scopes = st.builds(Scope, sender=st.none() | st.sampled_from("ab"), collection=st.none() | st.sampled_from("ab"))
words = st.text(alphabet="aB1 ?.ｆﬁİß\t", min_size=1, max_size=12)


@given(words, scopes, scopes, st.sampled_from("vw"), st.sampled_from("vw"))
def test_a_question_and_its_wording_are_one_in_one_scope_and_two_in_two(
    text: str, scope: Scope, other: Scope, writer: str, rival: str
) -> None:
    assert normalise(normalise(text)) == normalise(text)
    with suppress(UsageError):
        wording = reword(text, lambda _: {}).text
        mine = key(wording, scope, writer, None)
        theirs = key(reword(wording, lambda _: {}).text, other, rival, None)
        assert (mine.digest == theirs.digest) == ((scope, writer) == (other, rival))
