"""`pkb export`: files for their owner alone, safe in pages."""

import json
import re
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.export import escaped, source_lines
from engine.types import Source, json_values
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


def test_standard_output_is_the_default(pkb: Pkb, exported: Path) -> None:
    assert pkb("export").out == exported.read_text("utf-8") == pkb("export", "-").out


def test_a_home_without_mail_exports_nothing(fresh: Pkb, tmp_path: Path) -> None:
    assert (fresh("export", str(tmp_path / "a")).code, (tmp_path / "a").exists()) == (10, False)


def test_markdown_has_the_questions_that_were_asked(pkb: Pkb, exported: Path) -> None:
    pkb("idle", "--force")
    page = pkb("export", "--format", "md").out
    assert set(QUESTIONS) <= set(re.findall(r"^## (.+)$", page, re.MULTILINE))
    assert "\nGus Tindall: From today I keep the spare key to the workshop.\n" in page
    assert "  > From today I keep the spare key to the workshop." in page


def test_nothing_in_mail_acts_on_a_terminal_or_a_page(fresh: Pkb, tmp_path: Path) -> None:
    folder = hostile(tmp_path / "mail")
    fresh("ingest", str(folder), "--vectors", "later")
    fresh("ask", "where is the boat?")
    for words in (
        ("search", "boat", "shed", "--json"),
        *(("export", "--format", form) for form in ("jsonl", "md")),
    ):
        assert (words, acted_on(fresh(*words).out)) == (words, set())


ANY = st.text(st.sampled_from("=+-@\t ab'\"\n\r,;\x1b\u200b|0#`*_[]()<>&!\\~.1"), max_size=20)


@given(ANY)
def test_text_of_mail_is_no_markdown(text: str) -> None:
    shown = escaped(text)
    assert re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]<>&|~]", shown) is None
    assert [line for line in shown.split("\n") if re.match(r"\s|\d*[#+=.)-]", line)] == []
    heading, *_ = source_lines(json_values(Source("/m", None, text, None, (1, 1), 1.0, "")))
    assert "\n" not in heading
