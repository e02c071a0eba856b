"""Killed ingest processes: the next run completes their work."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from store.database import UNCOMPACTED
from tests.effort import slow_only
from tests.engine.ingest.box import Box, mail, naive
from tests.store.kit import Killed

_STEPS = {
    "replaced documents were deleted": 3,
    "what was made from them was deleted": 5,
    "documents were written": 6,
    "chunks were written": 7,
    "the change was acknowledged": 9,
    "removed documents were deleted": 12,
    "what was made from those was deleted": 14,
    "the removal is about to be acknowledged": 15,
    "the removal was acknowledged": 16,
    "a table was compacted": 23,
}
_QUICK = ("documents were written", "removed documents were deleted")


def _fill(box: Box) -> None:
    """Ingest mail, then change it in every possible way: 26 steps for the next ingest."""
    for number in range(6):
        mail(box.mail / f"m{number}", f"word{number}", name=f"m{number}", day=number + 1)
    box.ingest()
    box.opened.ledger.set(UNCOMPACTED, "100")  # so that the next one compacts, too
    quote = "On 1 May 2024 ann@x.org wrote:\n> word1\n"
    mail(box.mail / "m7", f"yes\n\n{quote}", answers="m1", day=20)
    mail(box.mail / "m2", "word2 was changed", name="m2", day=3)
    (box.mail / "m3").unlink()
    (box.mail / "m4").rename(box.mail / "moved")


@pytest.mark.parametrize("step", [11, 12, 13, 14, *slow_only(*range(1, 11), *range(15, 27))])
def test_what_a_kill_leaves_is_no_damage(box: Box, step: int) -> None:
    _fill(box)
    dying = box.again(step)
    with pytest.raises(Killed):
        dying.ingest()
    again = dying.again()
    assert again.opened.wrong() == []
    again.opened.ledger.close()


@pytest.mark.parametrize(
    "step",
    [pytest.param(step, id=name, marks=() if name in _QUICK else pytest.mark.slow) for name, step in _STEPS.items()],
)
def test_after_a_kill_the_next_ingest_matches_the_files(box: Box, tmp_path: Path, step: int) -> None:
    _fill(box)
    words = [sys.executable, "-m", "tests.engine.ingest.killed", str(tmp_path), str(step)]
    ended = subprocess.run(words, check=False).returncode
    again = box.again()
    again.ingest()
    places, documents = naive(box.mail)
    assert (ended, again.places(), again.opened.documents()) == (-signal.SIGKILL, places, set(documents))
    assert (again.opened.wrong(), again.missing_words()) == ([], set())
    again.opened.ledger.close()
