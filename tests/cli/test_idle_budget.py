"""The time budget of an idle run holds within a job too: the language model stops between two of its steps."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from engine.idle.plan import IdlePlanner
from engine.idle.scheduler import JobRunner, stopping
from engine.llm.resident import ResidentModel
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.session import Session
from store.answers import AnswerBank
from store.database import Ledger
from store.history import History, HistoryEntry
from store.jobs import JobRow, Jobs, OutOfTime
from tests.demo import NANO, copied, environment

QUESTION = "How much is a ticket for the summer concert?"


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Load the bundled language model."""
    return load(NANO, name="nano", cache=tmp_path_factory.mktemp("cache"), memory_share=0.7)


@pytest.fixture
def session(made: Path, tmp_path: Path) -> Iterator[Session]:
    """Open a home in which a language model answers."""
    folder = copied(made, tmp_path / "demo")
    Path(environment(folder)["PKB_CONFIG"]).write_text(f'[model]\nname = "{NANO}"\n', "utf-8")
    found = Session(environment(folder))
    found.make()
    with closing(found.ledger):
        yield found


def after(steps: int) -> Callable[[], bool]:
    """Return a function that tells, after so many calls, that the run is over."""
    calls = count(1)
    return lambda: next(calls) > steps


def populate(session: Session, is_over: Callable[[], bool]) -> list[str]:
    """Precompute predicted questions until the run is over; return the states of the jobs."""
    planner = IdlePlanner(session, True, is_over)
    began, ledger = time.monotonic(), session.ledger
    about = (lambda: None, session.now.timestamp(), began + 1e6, 9)
    runner = JobRunner(ledger, time.monotonic, *about)
    with stopping(session.models, is_over):
        return [one.state for one in runner.run({"populate": planner.plans()["populate"]})]


def queued(ledger: Ledger) -> list[tuple[str, int]]:
    """Return the queued questions, and how often each was tried."""
    return [(job.subject, job.attempts) for job in Jobs(ledger).pending("populate")]


def test_a_job_that_takes_too_long_ends_with_the_run_and_is_done_in_another(session: Session) -> None:
    Jobs(session.ledger).offer([JobRow("populate", QUESTION, 1.0, 1.0, 0.0, "history/model")])
    assert populate(session, after(2)) == ["no time"]
    assert queued(session.ledger) == [(QUESTION, 1)]
    assert AnswerBank(session.ledger).size()[0] == 0
    assert populate(session, lambda: False) == ["done"]
    assert queued(session.ledger) == []


@pytest.mark.parametrize("steps", [0, 2, 9])
def test_predicting_from_templates_ends_at_the_first_chunk_or_look_up_after_the_end(
    made: Path, tmp_path: Path, steps: int
) -> None:
    session = Session(environment(copied(made, tmp_path / "demo")))
    session.make()
    for at, name in enumerate(("Ida Quist", "Bo Lind")):
        History(session.ledger).add(HistoryEntry(float(at), f"Who is {name}?", "full", True, 1.0, 0.0))
    calls, over = count(1), after(steps)

    def is_over() -> bool:
        next(calls)
        return over()

    planner = IdlePlanner(session, True, is_over)
    ((_, run),) = planner.plans()["predict"]()
    with closing(session.ledger), pytest.raises(OutOfTime):
        run()
    assert next(calls) == steps + 2


def test_the_model_stops_at_the_first_step_after_the_end_and_works_again_after_the_run(
    nano: Mlx, tmp_path: Path
) -> None:
    models = ResidentModel(tmp_path)
    model = models.get("a", lambda: nano)
    ids = [5] * (3 * model.sub_step)
    with stopping(models, after(1)), pytest.raises(OutOfTime):
        model.prefill(model.begin(), ids)
    model.prefill(model.begin(), ids)


def test_a_question_that_is_answered_between_two_steps_goes_on_to_its_end(nano: Mlx, tmp_path: Path) -> None:
    answered = list[str]()

    def ask() -> None:
        if not answered:
            answered.append("begun")
            answered.extend(model.decode(model.begin(), [5, 6], 4))
            answered.append("ended")

    models = ResidentModel(tmp_path, ask)
    model = models.get("a", lambda: nano)
    with stopping(models, lambda: True), pytest.raises(OutOfTime):
        model.prefill(model.begin(), [5])
    assert (answered[0], answered[-1]) == ("begun", "ended")
