"""Files that are still being written are postponed, and all removals with them."""

import os
import time

from engine.ingest.pipeline import Guard, Ingest, Summary
from store.catalog import SourceRoot
from store.types import FileState
from tests.engine.ingest.box import LIMITS, Box, mail


def settled(path: bytes, state: FileState) -> bool:
    """Return whether a file was written more than an hour ago."""
    assert path.startswith(b"/")
    return state.mtime_ns / 1e9 < time.time() - 3600


def ingest(box: Box) -> Summary:
    run = Ingest(box.opened.ledger, box.opened.knowledge, LIMITS, Guard(0.2, 50), settled)
    assert [step for step in run.run(SourceRoot(str(box.mail), "mail", None)) if step[1] < 0] == []
    return run.summary


def age(box: Box, name: str) -> None:
    os.utime(box.mail / name, (1e9, 1e9))


def test_a_file_is_postponed_until_it_is_settled(box: Box) -> None:
    for name in ("a", "b"):
        mail(box.mail / name, f"word {name}")
    age(box, "a")
    summary = ingest(box)
    assert (summary.new, summary.waiting, summary.kept, box.texts()) == (1, 1, 1, ["word a"])
    age(box, "b")
    assert (ingest(box).waiting, box.texts()) == (0, ["word a", "word b"])


def test_a_changed_file_keeps_its_old_content_until_it_is_settled(box: Box) -> None:
    mail(box.mail / "a", "red")
    age(box, "a")
    ingest(box)
    mail(box.mail / "a", "blue")
    assert (ingest(box).waiting, box.texts()) == (1, ["red"])
    os.utime(box.mail / "a", (1e9 + 1, 1e9 + 1))
    assert (ingest(box).changed, box.texts()) == (1, ["blue"])


def test_nothing_is_removed_while_an_unsettled_file_may_be_a_renamed_one(box: Box) -> None:
    mail(box.mail / "a", "red")
    age(box, "a")
    ingest(box)
    (box.mail / "a").unlink()
    mail(box.mail / "b", "red")
    assert (ingest(box).removed, box.texts()) == (0, ["red"])
    age(box, "b")
    summary = ingest(box)
    assert (summary.gone, summary.duplicates, summary.removed, box.texts()) == (1, 1, 0, ["red"])
