"""`pkb export`: files for their owner alone."""

import json
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb
from tests.cli.test_terminal import KEY, acted_on, hostile

CONCERT = "When is the summer concert?"
QUESTIONS = (KEY, CONCERT, "Which quorv blimmers the choir?")


@pytest.fixture
def exported(pkb: Pkb, tmp_path: Path) -> Path:
    """Return the export of a home with some answers."""
    for question in QUESTIONS:
        pkb("ask", question)
    assert pkb("export", str(tmp_path / "answers.jsonl")).out == ""
    return tmp_path / "answers.jsonl"


def test_an_export_is_for_its_owner_alone_and_replaces_no_file_by_itself(pkb: Pkb, exported: Path) -> None:
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    assert [json.loads(line)["kind"] for line in exported.read_text("utf-8").splitlines()] == [
        "export",
        *["answer"] * 3,
    ]
    before = exported.read_bytes()
    refused = pkb("export", str(exported))
    assert (refused.code, refused.err) == (2, f"pkb: {exported} exists; try: pkb export FILE --force\n")
    assert exported.read_bytes() == before
    assert pkb("export", str(exported), "--force").code == 0
    assert [path.name for path in exported.parent.iterdir() if path.is_file()] == ["answers.jsonl"]
    assert pkb("export", str(exported / "below")).code == 1


def test_a_missing_folder_is_named(pkb: Pkb, tmp_path: Path) -> None:
    ran = pkb("export", str(tmp_path / "gone" / "x.json"))
    assert (ran.code, ran.err) == (2, f"pkb: no such folder: {tmp_path}/gone\n")


def test_standard_output_is_the_default(pkb: Pkb, exported: Path) -> None:
    assert pkb("export").out == exported.read_text("utf-8") == pkb("export", "-").out


def test_a_home_without_mail_exports_nothing(fresh: Pkb, tmp_path: Path) -> None:
    assert (fresh("export", str(tmp_path / "a")).code, (tmp_path / "a").exists()) == (10, False)


def test_nothing_in_mail_acts_on_a_terminal_or_a_page(fresh: Pkb, tmp_path: Path) -> None:
    folder = hostile(tmp_path / "mail")
    fresh("ingest", str(folder), "--vectors", "later")
    fresh("ask", "where is the boat?")
    for words in (
        ("search", "boat", "shed", "--json"),
        ("export",),
    ):
        assert (words, acted_on(fresh(*words).out)) == (words, set())
