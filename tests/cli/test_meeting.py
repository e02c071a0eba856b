"""`pkb meeting` and `pkb before` over the bundled meetings: Markdown on a terminal and in a file, JSON, exit codes."""

import os
import stat
import subprocess
import sys

import pytest

from cli.render import markdown
from engine.types import OpenLoop, Report, Source
from tests.cli.conftest import Pkb
from tests.demo import environment


def test_a_meeting_is_shown_as_markdown_with_a_source_under_each_line(pkb: Pkb) -> None:
    ran = pkb("meeting", "workshop")
    lines = ran.out.splitlines()
    assert lines[:3] == [
        "# workshop meeting · Tue 2024-02-27",
        "",
        "Dele Marsh, Gus Tindall, Priya Raman, Mira Okafor (who spoke)",
    ]
    at = lines.index("- Then we open on Sundays, as a trial.")
    assert lines[at + 1].startswith("  workshop meeting · Dele Marsh · Tue 2024-02-27, ")
    assert lines[-2:] == ["", "None found by its words."]
    assert (ran.code, ran.err) == (0, "")


def test_a_report_goes_to_a_file_instead(pkb: Pkb) -> None:
    file, mine = pkb.folder / "minutes.md", pkb.folder / "minutes.part"
    file.write_text("older, and for everybody")
    mine.write_text("another file")
    ran = pkb("meeting", "workshop", "--output", str(file))
    assert (ran.code, ran.out) == (0, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (file.read_text("utf-8"), mine.read_text()) == (pkb("meeting", "workshop").out, "another file")


@pytest.mark.parametrize("words", [["before", "parents committee"], ["meeting", "parents committee", "--before"]])
def test_before_shows_what_is_open(pkb: Pkb, words: list[str]) -> None:
    ran = pkb(*words)
    assert [line for line in ran.out.splitlines() if line.startswith("## ")] == [
        "## Action items", "## Open questions", "## Done", "## Mail since",
    ]  # fmt: skip
    assert (ran.code, ran.err) == (0, "")


def test_an_unknown_name_is_an_error_with_a_next_step(pkb: Pkb) -> None:
    ran = pkb("meeting", "design review")
    assert (ran.code, ran.err) == (2, "pkb: no meeting fits design review; try: pkb list\n")


def test_marks_of_others_show_no_picture_or_link() -> None:
    evil = "![x](https://evil.example/p.png) <img src=x> [y](z)\x1b[2J\n# head"
    item = OpenLoop("decision", evil, evil, None, Source(f"/{evil}", None, evil, None, (1, 1), 0.0, evil, speaker=evil))
    shown = markdown(Report(1, (item,), 1, 1, evil, None, evil, ("decision",)))
    assert not any(mark in shown.replace(f"\\{mark[0]}", "") for mark in ("![", "[", "<", "\x1b"))
    assert [line[:2] for line in shown.splitlines() if line.startswith("#")] == ["# ", "##"]


def test_a_digest_of_days_without_news_prints_nothing_for_a_cron_mail(pkb: Pkb) -> None:
    ran = pkb("digest", "--since", "2024-06-19")
    assert (ran.code, ran.out, ran.err) == (4, "", "")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "cli.app", "digest", "--since", "2024-06-19"]
    subprocess.run(command, env=environment(pkb.folder), stderr=theirs, check=False)
    assert os.read(ours, 4096).endswith(b"pkb: nothing found; try: pkb digest --since 2024-06\r\n")
    for end in (ours, theirs):
        os.close(end)
    ran = pkb("digest", "--since", "7d")
    headings = [line for line in ran.out.splitlines() if line.startswith("#")]
    assert headings == [
        "# Since Wednesday 12 June 2024", "## Dates to come", "## Open questions", "## Wrote for the first time",
    ]  # fmt: skip
    assert (ran.code, ran.err) == (0, "")


def test_a_report_warns_of_whom_a_source_may_not_be_from() -> None:
    source = Source("/a", None, "Pay", None, (1, 1), 0.0, "Pay.", warnings=("the name is that of ann@example.org",))
    item = OpenLoop("person", "Ann <eve@example.net>: Pay", None, None, source)
    shown = markdown(Report(1, (item,), 1, 1, "Since Monday", None, "", ("person",)))
    assert "\n  \\! the name is that of ann@example.org\n" in shown
