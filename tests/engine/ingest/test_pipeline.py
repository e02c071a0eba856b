"""The ingest pipeline end to end: documents are found, and quoted passages are indexed once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.ingest.pipeline import Guard, Ingest
from engine.ingest.types import ParseLimits
from store.catalog import SourceRoot
from store.database import UNCOMPACTED
from store.types import Scope
from tests.effort import examples, slow_only
from tests.engine.ingest.box import Box, mail, naive
from tests.store.kit import Killed


def test_what_is_ingested_is_found_by_its_words(box: Box) -> None:
    mail(box.mail / "a", "the rehearsal is on Friday", subject="Choir")
    box.ingest()
    hits = box.opened.reader.by_words(["rehearsal"], Scope(), 5)
    assert [(hit.title, hit.sender) for hit in hits] == [("Choir", "ann@x.org")]


def test_progress_names_the_steps(box: Box) -> None:
    mail(box.mail / "a", "red")
    run = Ingest(box.opened.ledger, box.opened.knowledge, ParseLimits(), Guard(0.2, 50))
    steps = list(run.run(SourceRoot(str(box.mail), "mail", None)))
    read, keep = [("read", 0, 1), ("read", 1, 1)], ("keep", 1, None)
    assert steps == [("scan", 0, None), read[0], keep, read[1]]


def test_tables_are_compacted_after_many_changes(box: Box) -> None:
    left = []
    for first, end in ((0, 4), (4, 99), (99, 130)):
        for path in range(first, end):
            mail(box.mail / f"{path}", f"red{path}")
        box.ingest()
        left.append(box.opened.ledger.count(UNCOMPACTED))
    assert left == [4, 99, 0]


_SAID = "We should meet on Thursday to talk about the harvest festival."
_QUOTING = f"Yes, gladly.\n\nOn 1 May 2024 ann@x.org wrote:\n> {_SAID}\n"


def _correspond(box: Box) -> None:
    mail(box.mail / "a", _SAID, name="a", subject="Harvest")
    mail(box.mail / "b", _QUOTING, name="b", answers="a", day=2, subject="Re: Harvest", sender="bob")
    box.ingest()


def _holding(box: Box, word: str) -> int:
    return sum(word in text for text in box.texts())


def test_a_quoted_passage_is_searched_once(box: Box) -> None:
    _correspond(box)
    assert (_holding(box, "Thursday"), _holding(box, "gladly")) == (1, 1)


def test_a_quoted_passage_is_searched_in_the_quote_when_the_quoted_message_goes(box: Box) -> None:
    _correspond(box)
    (box.mail / "a").unlink()
    summary = box.ingest()
    assert (_holding(box, "Thursday"), summary.removed, box.opened.wrong()) == (1, 1, [])


@pytest.mark.parametrize("step", [5, 9, 13, *slow_only(6, 7, 8, 10, 11, 12, 14, 15, 16)])
def test_a_quoted_message_removed_in_a_killed_run_is_found_in_its_quote(box: Box, step: int) -> None:
    _correspond(box)
    (box.mail / "a").unlink()
    box.fuse.length = box.fuse.burnt + step
    with pytest.raises(Killed):
        box.ingest()
    again = box.again()
    again.ingest()
    assert (_holding(again, "Thursday"), _holding(again, "gladly"), again.opened.wrong()) == (1, 1, [])
    again.opened.ledger.close()


def test_a_message_that_quotes_may_stand_in_another_root_and_stays_in_its_collection(box: Box) -> None:
    mail(box.folder / "one" / "a", _SAID, name="a")
    mail(box.folder / "two" / "b", _QUOTING, name="b", answers="a", day=2)
    box.ingest(box.folder / "one")
    box.ingest(box.folder / "two")
    (box.folder / "one" / "a").unlink()
    box.ingest(box.folder / "one")
    assert (box.collections(), _holding(box, "Thursday")) == ({("two",): 2}, 1)


def test_a_quoting_message_that_goes_with_the_quoted_one_leaves_nothing(box: Box) -> None:
    _correspond(box)
    for path in list(box.mail.iterdir()):
        path.unlink()
    box.ingest()
    assert (box.texts(), box.opened.frequencies(), box.opened.wrong()) == ([], {}, [])
    assert box.opened.ledger.rows.execute("SELECT count(*) FROM passages").fetchone() == (0,)


def test_a_search_during_an_ingest_never_fails(box: Box) -> None:
    """The full-text index is built last; a search before that must work without it."""
    mail(box.mail / "a", "red")
    for path in range(3):
        mail(box.mail / f"m{path}", f"word{path} red")
        box.ingest()
        assert len(box.opened.reader.by_words(["red"], Scope(), 10)) == path + 2


def test_the_next_run_compacts_after_a_killed_one(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.documents._UNTIDY", 1)
    mail(box.mail / "a", "red")
    box.fuse.length = 12  # behind the acknowledgement, before the index is made
    with pytest.raises(Killed):
        box.ingest()
    again = box.again()
    untidy = again.opened.ledger.count(UNCOMPACTED)
    again.ingest()
    assert (untidy > 0, again.opened.ledger.count(UNCOMPACTED), again.texts()) == (True, 0, ["red"])
    again.opened.ledger.close()


_MODES = """
import os, sys
os.umask(0o077)
from pathlib import Path
from engine.ingest.chunking import embed
from tests.engine.ingest.box import Box, mail
from tests.store.kit import HashEmbedder
box = Box(Path(sys.argv[1]))
mail(box.mail / "a", "red")
with box.opened.locks.writer():
    box.ingest()
list(embed(box.opened.vectors, HashEmbedder(), box.opened.locks))
with box.opened.locks.exclusive():
    box.opened.knowledge.compact()
for folder, _, names in os.walk(box.opened.home.data):
    for path in (folder, *(os.path.join(folder, name) for name in names)):
        print(oct(os.stat(path).st_mode & 0o777), "folder" if os.path.isdir(path) else Path(path).name)
"""


def test_every_file_of_a_home_is_its_owners_alone(tmp_path: Path) -> None:
    said = subprocess.run([sys.executable, "-c", _MODES, str(tmp_path)], capture_output=True, text=True, check=True)
    lines = [line.split(" ", 1) for line in said.stdout.splitlines()]
    assert {mode for mode, name in lines if name == "folder"} == {"0o700"}
    assert {mode for mode, name in lines if name != "folder"} == {"0o600"}
    assert {"ledger.db", "ledger.db-wal", "ledger.db-shm", "access.lock", "writer.lock"} <= {name for _, name in lines}


_BODIES = [f"{word} passage of its own kind and length" for word in ("red", "blue", "green", "grey")]
_NAMES = st.sampled_from(["a", "b", "c", "sub/a", "sub/b"])
_WRITE = st.tuples(st.just("write"), _NAMES, st.integers(0, 3), st.none() | st.integers(0, 3))
_MOVE = st.tuples(st.sampled_from(["move", "copy"]), _NAMES, _NAMES)
_REMOVE = st.tuples(st.just("remove"), _NAMES)
_INGEST = st.tuples(st.just("ingest"), st.integers(0, 22))
_STEPS = st.lists(_WRITE | _MOVE | _REMOVE | _INGEST, min_size=3, max_size=14)


def _step(box: Box, step: tuple[Any, ...]) -> Box:
    match step:
        case ("write", name, body, None):
            mail(box.mail / name, _BODIES[body], name=f"m{body}", day=body + 1)
        case ("write", name, body, quoted):
            text = f"{_BODIES[body]}\n\nOn 1 May 2024 ann@x.org wrote:\n> {_BODIES[quoted]}\n"
            mail(box.mail / name, text, name=f"m{body}q{quoted}", answers=f"m{quoted}", day=body + 5)
        case ("move" | "copy", name, other) if (box.mail / name).exists() and name != other:
            raw = (box.mail / name).read_bytes()
            (box.mail / other).parent.mkdir(exist_ok=True)
            (box.mail / other).write_bytes(raw)
            if step[0] == "move":
                (box.mail / name).unlink()
        case ("remove", name):
            (box.mail / name).unlink(missing_ok=True)
        case ("ingest", length):
            box = box.again(length)
            try:
                box.ingest()
            except Killed:
                return box
            box.fuse.length = 0  # the index is saved by who reads it
            _agrees(box)
    return box


def _agrees(box: Box) -> None:
    places, documents = naive(box.mail)
    assert box.places() == places
    assert box.opened.documents() == documents.keys()
    assert box.opened.wrong() == []
    assert box.missing_words() == set()


@examples(15, suppress_health_check=list(HealthCheck))
@given(_STEPS)
def test_any_history_of_changes_and_kills_ends_in_the_state_of_the_files(tmp_path_factory: Any, steps: Any) -> None:
    box = Box(tmp_path_factory.mktemp("box"))
    for step in [*steps, ("ingest", 0)]:
        box = _step(box, step)
    box.opened.ledger.close()
