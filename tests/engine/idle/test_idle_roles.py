"""A model with a role adapter predicts from chunks, and answers over the same KV cache."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.idle.plan import IdlePlanner
from engine.kv.restore import KvBinding, PromptReader
from engine.llm.prompt import question_segment
from engine.session import Session
from store.jobs import Kind
from tests.demo import NANO
from tests.engine.ask.small_home import SmallHome, ask, ingest
from tests.engine.models.shapes import add_adapter

MAILS = ("The rehearsal moved to Friday at seven.", "Ann brings the green folders.", "The fair needs two tents.")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Return a home of three mails, with a model that has an adapter."""
    home, model = SmallHome(tmp_path), tmp_path / "nano"
    shutil.copytree(NANO, model)
    add_adapter(model)
    for number, text in enumerate(MAILS):
        home.write(f"mail-{number}", text, day=3 + number)
    found = home.open()
    found.override("model.name", str(model))
    ingest(found, home.mail)
    yield found
    found.models.free()
    found.ledger.close()


def kept(reader: PromptReader) -> KvBinding:
    assert reader.kept
    return reader.kept


def done(planner: IdlePlanner, kind: Kind) -> list[str]:
    return [run().state for _, run in planner.plans()[kind]()]


@pytest.mark.slow
def test_predictions_read_each_chunk_once(session: Session) -> None:
    planner = IdlePlanner(session, True, lambda: False)
    index = kept(planner.load()).store.index
    assert index.totals().count == 0
    assert done(planner, "predict")[-1:] == ["done"]
    assert index.totals().count == len(MAILS)  # each with the system segment, too short to be computed alone
    assert done(planner, "prefetch") == []


@pytest.mark.slow
def test_a_question_loads_the_message_that_idle_predicted_from(session: Session) -> None:
    planner = IdlePlanner(session, True, lambda: False)
    assert done(planner, "predict")[-1:] == ["done"]
    question = "Who brings the green folders?"
    tokens = ask(session, question).reply.tokens
    assert tokens
    assert tokens["computed"] == len(planner.load().model.tokens(question_segment(question, session.now)))


def test_another_adapter_is_another_writer_over_the_same_kv_cache(session: Session) -> None:
    assert session.model
    assert session.model.roles
    first, root = session.backend.fingerprint, kept(session.model.load()).root
    session.models.free()
    add_adapter(Path(session.settings.model.name), seed=12)
    again = Session(session.environ)
    again.override("model.name", session.settings.model.name)
    assert again.backend.fingerprint != first
    assert again.model
    assert kept(again.model.load()).root == root
    again.models.free()
