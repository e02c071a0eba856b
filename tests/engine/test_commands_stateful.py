"""Commands in any order against a model of them: what is indexed, cached, rejected and set, and what each then says."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.app import Pkb
from engine.settings import save
from store.errors import PkbError, UsageError
from tests.demo import NOW
from tests.effort import examples

PLACES = ("boat house", "old library", "town hall", "north barn")
THINGS = ("tent", "piano", "ladder", "kettle", "banner")
things, places = st.sampled_from(THINGS), st.sampled_from(PLACES)
_SETTINGS = {"ask.k": st.integers(3, 9), "bank.tau": st.sampled_from((0.85, 0.9, 0.95))}
changes = st.one_of(*(st.tuples(st.just(key), values) for key, values in _SETTINGS.items()))


def question(thing: str) -> str:
    """Return the question that one mail answers."""
    return f"Where is the {thing} kept?"


class Model:
    """What commands should leave: mail in the folder and in the index, cached answers and those rejected, settings."""

    def __init__(self) -> None:
        self.mail, self.indexed = dict[str, str](), dict[str, str]()
        self.exact = set[str]()  # questions that are exact hits
        self.asked = 0
        self.last: str | None = None  # the last question, if its answer is cached
        self.settings: dict[str, object] = {}


class Commands(RuleBasedStateMachine):
    """The commands; each may come from a process of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder, self.model = Path(tempfile.mkdtemp()), Model()
        (self.folder / "mail").mkdir()
        self.pkb = self._open()

    def _open(self) -> Pkb:
        return Pkb(self.folder / "home", environ={"PKB_NOW": NOW, "PKB_DAEMON": "off"})

    @initialize(thing=things, place=places)
    def begin(self, thing: str, place: str) -> None:
        self.put(thing, place)
        self.ingest()

    @rule(thing=things, place=places)
    def put(self, thing: str, place: str) -> None:
        """Deliver a mail, or another version of it."""
        text = (
            f"From: Ann Lee <ann@example.org>\nSubject: The {thing}\nMessage-ID: <{thing}@commands>\n"
            f"Date: {THINGS.index(thing) + 1} May 2024 10:00:00 +0000\n\nThe {thing} is kept in the {place}.\n"
        )
        (self.folder / "mail" / f"{thing}.eml").write_text(text, "utf-8")
        self.model.mail[thing] = place

    @rule(thing=things)
    def remove(self, thing: str) -> None:
        """Delete a mail."""
        (self.folder / "mail" / f"{thing}.eml").unlink(missing_ok=True)
        self.model.mail.pop(thing, None)

    @rule()
    def ingest(self) -> None:
        """Index what changed, and count it as the model does."""
        summary = self.pkb.ingest([self.folder / "mail"])
        before, now = self.model.indexed, self.model.mail
        assert (summary.kept, summary.removed) == (
            sum(before.get(thing) != place for thing, place in now.items()),
            sum(now.get(thing) != place for thing, place in before.items()),
        )
        if before != now:
            self.model.exact.clear()  # they may be: that their evidence is the same is found when they are asked
        self.model.indexed = dict(now)

    @rule(thing=things)
    def ask(self, thing: str) -> None:
        """Ask: the answer is the one that would be made anew, and an exact hit where nothing changed."""
        text = question(thing)
        anew = self.pkb.ask(text, cache="off")
        answer = self.pkb.ask(text)
        assert (answer.text, [one.path for one in answer.sources]) == (anew.text, [one.path for one in anew.sources])
        if place := self.model.indexed.get(thing):
            assert place in str(answer.text)
        elif answer.answered:
            assert any(place in str(answer.text) for place in self.model.indexed.values())
        if text in self.model.exact:
            assert answer.tier == "exact"
        self.model.exact.add(text)
        self.model.asked, self.model.last = self.model.asked + 2, text

    @rule()
    def reject(self) -> None:
        """Reject the last answer: it is no hit any more."""
        if self.model.last in self.model.exact:
            assert self.pkb.reject().question == self.model.last
            self.model.exact.discard(self.model.last)
        else:
            with suppress(PkbError):
                self.pkb.reject()
        self.model.last = None

    @rule()
    def idle(self) -> None:
        """Work ahead, which fails nowhere and changes nothing that was found out before."""
        report = self.pkb.idle(budget_s=60)
        assert {one.state for one in report.results} <= {"done", "cached"}

    @rule(change=changes)
    def configure(self, change: tuple[str, object]) -> None:
        """Change a setting; a wrong one changes nothing."""
        key, value = change
        save(self.pkb.session.home.config, key, str(value))
        with pytest.raises(UsageError):
            save(self.pkb.session.home.config, key, "many")
        if self.model.settings.get(key) != value:
            self.model.exact.clear()  # another k is another key
        self.model.settings[key] = value
        self.reopen()

    @rule(thing=things)
    def search(self, thing: str) -> None:
        """Search: what is indexed is found, and nothing else."""
        found = {Path(one.path).stem for one in self.pkb.search(thing)}
        assert found <= set(self.model.indexed)
        assert (thing in found) == (thing in self.model.indexed)

    @rule()
    def reopen(self) -> None:
        """Be another process."""
        self.pkb.close()
        self.pkb = self._open()

    @rule()
    def check(self) -> None:
        """Examine everything."""
        assert [one for one in self.pkb.check(read_data=True) if one.wrong] == []

    @invariant()
    def counts(self) -> None:
        """Count as the model does."""
        if self.model.asked:
            ledger = self.pkb.session.ledger.rows
            assert ledger.execute("SELECT count(*) FROM documents").fetchone() == (len(self.model.indexed),)
            assert ledger.execute("SELECT count(*) FROM history").fetchone() == (self.model.asked,)
        settings = self.pkb.session.settings
        known = {"ask.k": settings.ask.k, "bank.tau": settings.bank.tau}
        assert {key: known[key] for key in self.model.settings} == self.model.settings

    def teardown(self) -> None:
        self.pkb.close()
        shutil.rmtree(self.folder)


TestCommands = Commands.TestCase
TestCommands.settings = examples(30, stateful_step_count=12, suppress_health_check=list(HealthCheck))
TestCommands = pytest.mark.slow(TestCommands)
