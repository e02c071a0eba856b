"""The semantic tier without commands: time-sensitive questions, and each check."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import begin, fingerprint, gather_context
from engine.ask.semantic import SemanticRules
from engine.session import Session
from engine.text.question import Question, understand
from engine.text.time_sensitive import time_sensitivity
from engine.types import AskOptions, AskResult, Evidence, Source, Trace
from store.types import Chunk, Vectors, replace
from tests.engine.ask.backend import Wrapped
from tests.engine.ask.passages import passage
from tests.engine.ask.small_home import RULES, SmallHome, apart, ask, asker, ingest

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
QUESTION, LIKE = understand("When is rehearsal?", NOW), understand("When's rehearsal?", NOW)
SOURCE = Source("/a", None, "a", NOW.isoformat(), (1, 1), 1.0, "")
READ = passage((Chunk("a0", "a", 0, "From: Ann", "Rehearsal is on Friday.", 1, 1),), "Ann", (), NOW, 1.0, (SOURCE,))
EVIDENCE = Evidence((READ,), ("a0",), 1.0)
MOST = 50


_DAYS = ["Monday", "Sunday", "week", "month", "year", "weekend", "3 days", "two weeks"]
_WHENS = ["on", "last", "this", "next", "in the last", "coming", "previous", "past"]
_ALONE = ["today", "tonight", "yesterday", "tomorrow", "3 days ago", "a week ago", "in May", "on 3 May 2023", "in 2024"]
deictic = st.builds("{} {}".format, st.sampled_from(_WHENS), st.sampled_from(_DAYS)) | st.sampled_from(_ALONE)


@given(deictic, st.sampled_from([" ", "  ", "\n"]), st.integers(1, 400))
def test_a_question_that_names_another_day_tomorrow_expires_with_its_day(when: str, space: str, later: int) -> None:
    text = f"Who came to rehearsal {when}?".replace(" ", space)
    then = understand(text, NOW + timedelta(days=later)).dates
    if [one for one in understand(text, NOW).dates if not one.yearly] != [one for one in then if not one.yearly]:
        assert time_sensitivity(text)


@dataclass(frozen=True, slots=True)
class Shelf:
    """A home that holds two things of the museum, and a session of it."""

    session: Session

    def ask(self, text: str, number: int = 0, rules: SemanticRules = RULES) -> AskResult:
        return ask(self.session, text, apart(number), rules)

    def reasons(self, answered: AskResult) -> list[str]:
        """Return why each near question was refused, nearest first."""
        (step,) = (step for step in answered.trace.steps if step.name == "similar")
        return [reason.partition(" ")[2] for reason in step.note.split("; ")]


@pytest.fixture
def folder(tmp_path: Path) -> Shelf:
    home = SmallHome(tmp_path)
    for name, text in {"a": "The tandem of the museum is green.", "b": "The canoe of the museum is red."}.items():
        home.write(name, text)
    session = home.open()
    ingest(session, home.mail)
    return Shelf(session)


TANDEM, LIKE_TANDEM = "Which colour has the tandem of the museum?", "Which colour does the tandem of the museum have?"
CANOE = "Which colour has the canoe of the museum?"


NONE = replace(RULES, guard=False, verify=False)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (replace(NONE, verify=True), "another answer"),
        (replace(NONE, guard=True), ""),
    ],
)
def test_each_check_alone_refuses_a_near_twin(folder: Shelf, rules: SemanticRules, reason: str) -> None:
    folder.ask(TANDEM)
    found = folder.ask(CANOE, 0, rules)
    assert (found.reply.tier, reason in folder.reasons(found)[0]) == ("full", True)


def test_a_hit_retrieves_nothing(folder: Shelf) -> None:
    class Blind(Wrapped):
        def retrieve(self, question: Question, vector: Vectors | None, options: AskOptions, trace: Trace) -> Evidence:
            raise AssertionError("retrieved")

    made = folder.ask(TANDEM).reply
    blind = asker(folder.session, Blind(folder.session.backend))
    found = blind.ask(LIKE_TANDEM, apart(0), folder.session.now)
    assert (found.reply.tier, found.reply.text, found.reply.sources) == ("semantic", made.text, made.sources)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_evidence_is_the_same_when_it_is_read_again(folder: Shelf, k: int) -> None:
    session, options = folder.session, AskOptions(k=k)
    for text in (TANDEM, CANOE, "Who is red?", "What about the museum?"):
        asked = gather_context(session.backend, begin(session.backend, session.ledger, text, options, NOW))
        made = session.backend.generate(asked.question, asked.evidence, Trace(), None)
        again = session.backend.reread(asked.read, made.scores)
        assert fingerprint(again, session.backend.fingerprint) == asked.read
        assert [read.text for read in again.passages] == [read.text for read in asked.evidence.passages]


def test_evidence_that_is_not_all_there_is_none(folder: Shelf) -> None:
    found = folder.ask(TANDEM)
    read = ("of no chunk", *_evidence_of(folder, TANDEM))
    assert folder.session.backend.reread(read, found.reply.scores).passages == ()


def _evidence_of(folder: Shelf, text: str) -> tuple[str, ...]:
    session = folder.session
    return gather_context(session.backend, begin(session.backend, session.ledger, text, AskOptions(), NOW)).read


POLITE_TANDEM = "Please tell me which colour the tandem of the museum has."


def test_with_all_checks_off_the_nearest_answer_is_served(folder: Shelf) -> None:
    folder.ask(TANDEM)
    found = folder.ask(CANOE, 0, NONE)
    assert (found.reply.tier, found.reply.matched_question) == ("semantic", TANDEM)


def test_at_most_two_answers_are_checked(folder: Shelf) -> None:
    for text in (TANDEM, LIKE_TANDEM, POLITE_TANDEM):
        ask(folder.session, text, apart(0), None)
    found = folder.ask(CANOE, 0, replace(RULES, guard=False, tau=0.0))
    assert (found.reply.tier, len(folder.reasons(found))) == ("full", 2)


def test_an_answer_is_not_served_across_scopes_and_numbers_of_sources(folder: Shelf) -> None:
    ask(folder.session, TANDEM, AskOptions(k=5), RULES)
    tiers = [
        ask(folder.session, LIKE_TANDEM, options, RULES).reply.tier
        for options in (apart(1), AskOptions(k=4), AskOptions())
    ]
    assert tiers == ["full", "full", "semantic"]


def test_an_answer_of_a_scope_is_revalidated_within_that_scope(folder: Shelf) -> None:
    folder.ask(TANDEM, 3)
    folder.session.ledger.raise_generation()
    assert folder.ask(LIKE_TANDEM, 3).reply.tier == "semantic"
