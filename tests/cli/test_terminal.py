"""What reaches the terminal: nothing that it would act on, no styles where nobody sees them, no noise in a pipe."""

import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.output import bars, progress_line, session
from cli.render import show_answer, show_source
from engine.http.completions import footnotes
from engine.text.question import Synthesis
from engine.text.terminal import cited_numbers
from engine.types import Answer, AskResult, Source, Trace, Writer
from tests.cli.conftest import Pkb
from tests.demo import DATA, environment
from tests.effort import slow_only

KEY = "Who has the spare key to the workshop?"
BOX = DATA / "mail" / "archive.mbox"
TURNING = {"LRO", "RLO", "LRE", "RLE", "PDF", "LRI", "RLI", "FSI", "PDI"}
EVIL = "\x1b]0;owned\x07\x1b[31mred\x1b[2J\x9b5n\x08\x7f\u202eturned\u2066\u200f"


def acted_on(text: str) -> set[str]:
    """Return the characters that a terminal would act on."""
    return {
        c
        for c in text
        if (unicodedata.category(c) == "Cc" and c not in "\n\t") or unicodedata.bidirectional(c) in TURNING
    }


def hostile(folder: Path) -> Path:
    """Make mail and a transcript that try to write on the terminal, in names of files too."""
    folder.mkdir()
    subject = "=?utf-8?b?" + __import__("base64").b64encode(f"Boat {EVIL}\n[9] forged".encode()).decode() + "?="
    head = f'From: "Eve {EVIL}" <eve@example.org>\nTo: mira@example.org\nSubject: {subject}\n'
    body = f"The boat {EVIL} is in the shed {EVIL} since Monday 3 June.\n"
    (folder / "eve.eml").write_text(f"{head}Content-Type: text/plain; charset=utf-8\n\n{body}", "utf-8")
    name = "boat \x1b[31m\u202e\nskipped forged.txt"
    (folder / name).write_text(f"2024-06-03\n\nEve: the boat {EVIL} is in the shed.\nIda: good.\n", "utf-8")
    (folder / "broken \x1b[2J\n.bin").write_bytes(bytes(range(256)) * 20)
    return folder


def test_nothing_in_mail_acts_on_the_terminal(fresh: Pkb, tmp_path: Path) -> None:
    folder = hostile(tmp_path / "ev\x1b[31mil")
    commands = [
        ["ingest", str(folder), "--vectors", "later"],
        ["ask", "where is the boat?"],
        ["ask", "where is the boat?", "--explain"],
        ["search", "boat", "shed"],
        *(["show", str(path)] for path in sorted(folder.iterdir())),
        ["stats"],
        ["doctor", "--data"],
        ["ask", f"where is {EVIL}?"],
        ["show", f"/nowhere/{EVIL}"],
        ["config", "get", EVIL],
        [EVIL],
    ]
    for words in [*commands, *([*words, "--json"] for words in commands)]:
        ran = fresh(*words)
        assert (words, acted_on(ran.out + ran.err)) == (words, set())
        assert all(row["schema"] == 4 for row in ran.rows if "--json" in words) if "--json" in words else True


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_no_setting_acts_on_the_terminal_or_forges_a_line(fresh: Pkb, options: tuple[str, ...]) -> None:
    evil = f"/models/{EVIL}\nask.k = 50"
    texts = ("model.name", "embed.model")
    commands = [["config", "set", key, evil] for key in (*texts, "ask.k", "kv.reuse", evil)]
    commands += [["config", "get", key] for key in (*texts, evil)]
    commands += [["config", "show"], ["config", "show", "--origin"], ["config", "path"], ["doctor"]]
    for words in commands:
        ran = fresh(*words, *options)
        assert (words, acted_on(ran.out + ran.err), "\nask.k = 50" in ran.out) == (words, set(), False)


def test_no_settings_file_acts_on_the_terminal(fresh: Pkb) -> None:
    config = Path(fresh("config", "path").out.strip())
    config.parent.mkdir(parents=True, exist_ok=True)
    for text in (f"[ask]\n{json.dumps(EVIL)} = 1\n", f"[ask]\nk = {json.dumps(EVIL)}\n", f"[ask]\nk = {EVIL}\n"):
        config.write_text(text, "utf-8")
        for words in (["config", "show"], ["config", "set", "ask.k", "5"], ["config", "get", "ask.k"]):
            ran = fresh(*words)
            assert (text, words, acted_on(ran.out + ran.err)) == (text, words, set())


def test_no_name_or_subject_forges_a_line(fresh: Pkb, tmp_path: Path) -> None:
    folder = hostile(tmp_path / "mail")
    ran = fresh("ingest", str(folder), "--vectors", "later")
    assert [line for line in ran.out.splitlines() if line.startswith(("forged", "skipped forged"))] == []
    for words in (["ask", "where is the boat?"], ["search", "boat"]):
        assert [line for line in fresh(*words).out.splitlines() if line.startswith(("forged", "[9]"))] == []
    shown = fresh("show", str(folder / "eve.eml")).out
    assert [line for line in shown.splitlines() if line.startswith("[9]")] == []


def test_json_keeps_what_the_terminal_must_not_see(fresh: Pkb, tmp_path: Path) -> None:
    folder = hostile(tmp_path / "mail")
    fresh("ingest", str(folder), "--vectors", "later")
    paths = {source["path"] for source in fresh("search", "boat", "--json").row["sources"]}
    assert str(folder / "boat \x1b[31m\u202e\nskipped forged.txt") in paths


def test_file_names_that_are_no_text_are_read_and_shown(fresh: Pkb, tmp_path: Path) -> None:
    folder = tmp_path / "caf\udce9"
    folder.mkdir()
    (folder / "r\udce9union.txt").write_text("2024-06-03\n\nEve: the boat is in the shed.\nIda: good.\n")
    (folder / "br\udcfcken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    ran = fresh("ingest", str(folder), "--vectors", "later")
    assert ran.code == 3
    assert "br\\udcfcken.png: not mail or a transcript" in ran.out
    assert "r\\udce9union.txt" in fresh("ask", "where is the boat?").out
    (source, *_) = fresh("ask", "where is the boat?", "--json").row["sources"]
    assert fresh("show", source["path"]).code == 0
    assert fresh("stats").code == 0


def terminal(folder: Path, *words: str, **variables: str) -> str:
    """Run pkb on a terminal and give all that was written to it."""
    ours, theirs = os.openpty()
    plain = {name: value for name, value in environment(folder).items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    env = {**plain, "TERM": "xterm-256color", **variables}
    command = [sys.executable, "-m", "cli.app", *words]
    with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 4096):
                written += part
        except OSError:  # how Linux says that the other side has closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return written.decode()


def test_styles_are_for_terminals_and_end_with_no_color(pkb: Pkb) -> None:
    printed = pkb("ask", KEY).out
    assert "\x1b" not in printed
    assert "\x1b[" in terminal(pkb.folder, "ask", KEY)
    assert "\x1b" not in terminal(pkb.folder, "ask", KEY, NO_COLOR="1")


@pytest.mark.slow
@pytest.mark.parametrize("words", [("ask", KEY), ("search", "gazebo"), ("list",)])
def test_a_cold_command_shows_that_it_works_before_it_imports_lancedb(pkb: Pkb, words: tuple[str, ...]) -> None:
    (pkb.folder / "config.toml").write_text('[serve]\ndaemon = "off"\n')
    for stored in pkb.folder.rglob("*.shard"):  # a question reads them anew from LanceDB
        stored.unlink()
    shown = terminal(pkb.folder, *words, PYTHONPROFILEIMPORTTIME="1")
    assert 0 < shown.index("ing...") < shown.index(" lancedb")


@pytest.mark.slow
@pytest.mark.parametrize("words", [("ask", KEY), ("search", "gazebo")])
def test_a_cold_question_that_finds_a_mapped_index_does_without_lancedb(pkb: Pkb, words: tuple[str, ...]) -> None:
    (pkb.folder / "config.toml").write_text('[serve]\ndaemon = "off"\n')
    assert list(pkb.folder.rglob("*.shard"))
    shown = terminal(pkb.folder, *words, PYTHONPROFILEIMPORTTIME="1")
    assert " numpy" in shown
    assert " lancedb" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("columns", [40, 60, 100, 300])
def test_lines_end_at_the_width_of_the_terminal_and_long_paths_begin_later(pkb: Pkb, columns: int) -> None:
    shown = terminal(pkb.folder, "ask", KEY, "--all", NO_COLOR="1", COLUMNS=str(columns)).splitlines()
    seen = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", line) for line in shown]
    width = min(max(columns, 60), 200)
    assert max(map(len, seen)) <= width
    piped = pkb("ask", KEY, "--all").out.splitlines()
    paths = [line for line in piped if str(DATA) in line]
    assert paths
    for path in paths:
        assert path in seen or any(one.startswith("    …") and path.endswith(one[5:]) for one in seen)


def quoting(quote: str, span: tuple[int, int]) -> str:
    source = Source("/m/a.eml", None, "Fair", None, (1, 2), 1.0, quote, span=span)
    with redirect_stdout(io.StringIO()) as out:
        show_source(1, [source])
    return out.getvalue().splitlines()[-1].strip()


@given(st.text("ab \n", max_size=400), st.text("xy", min_size=1, max_size=20), st.text("ab \n", max_size=400))
def test_a_long_quote_is_cut_and_never_its_answer(before: str, said: str, after: str) -> None:
    shown = quoting(before + said + after, (len(before), len(before) + len(said)))
    assert said in shown
    assert len(shown) <= 244


def test_other_sources_are_counted_and_listed_on_demand(pkb: Pkb) -> None:
    short, long = pkb("ask", KEY).out, pkb("ask", KEY, "--all").out
    assert short.endswith(" more sources: add --all\n")
    numbers = [line[1] for line in long.splitlines() if line.startswith("[")]
    assert sorted(numbers) == ["1", "2", "3", "4", "5"]
    assert long.startswith(short.rpartition("\n\n")[0])


@pytest.mark.parametrize(
    "words",
    [
        ("ask", KEY),
        ("--help",),
        ("nope", "--json"),
        *slow_only(("ask", KEY, "--json"), ("config", "show"), ("stats",), ("search", "rehearsal", "-k", "30")),
    ],
)
def test_a_closed_pipe_is_no_error(pkb: Pkb, words: tuple[str, ...]) -> None:
    pkb("ask", KEY)
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "cli.app", *words]
    with subprocess.Popen(command, env=environment(pkb.folder), stdout=pipe, stderr=pipe) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert "Error" not in said
    assert "bug" not in said


def test_a_terminal_without_our_letters_is_no_error(pkb: Pkb) -> None:
    pkb("ask", KEY)
    command = [sys.executable, "-m", "cli.app", "ask", KEY]
    env = {**environment(pkb.folder), "PYTHONIOENCODING": "ascii"}
    human, machine = (
        subprocess.run([*command, *more], env=env, capture_output=True, check=True).stdout for more in ([], ["--json"])
    )
    assert b"\\u201c" in human
    assert machine.isascii()
    assert (
        machine.decode()
        == subprocess.run([*command, "--json"], env=env, capture_output=True, check=True).stdout.decode()
        or machine
    )


def test_a_person_reads_the_answer_then_its_sources_then_how_it_was_found(pkb: Pkb) -> None:
    ran = pkb("ask", KEY, env={"HOME": str(DATA)})
    answer, empty, first, where, quote, *_ = ran.out.splitlines()
    assert "spare key" in answer
    assert (empty, first) == ("", "[1] workshop meeting · Gus Tindall · Tue 2024-02-27 ← answer")
    assert where.startswith("    ~/transcripts/2024-02-27 workshop meeting.vtt:")
    assert quote.startswith("    “")
    assert ran.err.startswith("\nfull · ")


def test_a_declined_answer_says_that_its_sources_are_only_near(pkb: Pkb) -> None:
    ran = pkb("ask", "Which quorv blimmers the choir?")
    assert ran.out.startswith("No answer found. Closest passages:\n")
    assert pkb("ask", "who?", "--from", "nobody").out == "No answer found.\n"


def test_show_numbers_the_lines_that_it_prints(pkb: Pkb) -> None:
    path = DATA / "transcripts" / "parents-committee-2024-05-20.md"
    numbered = [line for line in pkb("show", str(path)).out.splitlines() if line[:5].strip().isdigit()]
    assert [int(line[:5]) for line in numbered] == list(range(1, len(numbered) + 1))


class Terminal(io.StringIO):
    """What a terminal is sent."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Have both streams of later commands be one terminal."""
    screen = Terminal()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    return screen


@pytest.mark.parametrize(
    ("words", "line"),
    [(["search", "gazebo"], "Searching..."), (["show", str(BOX)], "Reading..."), (["ask", KEY], "Searching...")],
)
def test_a_terminal_shows_that_a_command_works_until_it_prints(
    pkb: Pkb, monkeypatch: pytest.MonkeyPatch, words: list[str], line: str
) -> None:
    screen = on_terminal(monkeypatch)
    pkb(*words)
    before, _, after = screen.getvalue().partition("\r\x1b[2K")
    assert (before, "\x1b" in after, len(after) > 100) == (line, False, True)


def test_neither_a_dumb_terminal_nor_a_cached_answer_has_such_a_line(pkb: Pkb, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    pkb("ask", KEY, env={"TERM": "dumb"})
    pkb("ask", KEY, env={"TERM": "xterm"})
    assert ("Searching" in screen.getvalue(), screen.getvalue().count("Gus Tindall") > 1) == (False, True)


def test_a_notice_takes_the_place_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = on_terminal(monkeypatch)
    with session() as opened:
        with progress_line(opened):
            opened.on_wait()
            opened.on_wait()
            opened.on_notice("no space left")
        opened.on_wait()
    assert screen.getvalue() == "Searching...\r\x1b[2Kpkb: no space left\n"


def declined(question: str, asked: Synthesis) -> list[str]:
    sources = [
        Source(f"/m/{number}.eml", None, f"Mail {number}", day, (1, 2), 1.0, "…", date_claimed=day)
        for number, day in enumerate(["2024-05-02T10:00:00", None, "2024-05-01T10:00:00"], 1)
    ]
    reply = Answer(question, None, "full", "quote", None, tuple(sources), {"total": 1.0}, synthesis=asked)
    with redirect_stdout(io.StringIO()) as out:
        show_answer(AskResult(reply, Trace()), streamed=False, explain=False, more="add --all")
    return out.getvalue().splitlines()


def test_a_question_that_no_passage_answers_says_what_pkb_can_do_and_shows_passages_by_date() -> None:
    line, *rest = declined("Summarize the talk", "summary")
    assert line.endswith("pkb only quotes; see the passages below, by date, or use a language model: pkb model pull")
    assert [one[:10].strip() for one in rest if "Mail" in one] == ["[3] Mail 3", "[1] Mail 1", "[2] Mail 2"]


@pytest.mark.parametrize(
    ("question", "asked", "command"),
    [
        ("How many unread mails did Ann Lee send?", "count", "pkb list --from NAME --about WORDS --count"),
        ("Who writes most?", "comparison", "pkb list --from NAME --about WORDS --count"),
        ("List all mails from Ben or Ann", "list", "pkb list --from NAME --about WORDS"),
    ],
)
def test_what_cannot_be_counted_by_quotes_can_be_listed(question: str, asked: Synthesis, command: str) -> None:
    assert declined(question, asked)[0].endswith(f" documents: {command}")


@pytest.mark.parametrize(
    ("stay", "fails", "left"),
    [(True, False, ["read 100", "keep 4,312"]), (True, True, ["read 40/100", "keep 4,312"]), (False, False, [])],
)
def test_bars_fit_a_narrow_terminal_and_those_that_counted_remain(
    monkeypatch: pytest.MonkeyPatch, stay: bool, fails: bool, left: list[str]
) -> None:
    screen = on_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "60")
    with suppress(KeyboardInterrupt), bars(quiet=False, stay=stay) as tick:
        for step, done, total in [("scan", 0, None), ("read", 40, 100), ("keep", 4312, None), ("index", 0, None)]:
            tick(step, done, total)
        if fails:
            raise KeyboardInterrupt
        tick("read", 100, 100)
    frames = [re.sub(r"\x1b\[[0-9?;]*[a-zA-Z]", "", frame) for frame in screen.getvalue().split("\x1b[2K")]
    assert all(len(line.strip("\r")) <= 60 for frame in frames for line in frame.split("\n"))
    remain = [line for line in frames[-1].replace("\r", "").split("\n") if line.strip()]
    assert [" ".join(line.replace("━", " ").split()[:2]) for line in remain] == left


def test_bars_that_counted_nothing_and_those_of_a_pipe_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with redirect_stderr(io.StringIO()) as piped, bars(quiet=False) as tick:
        tick("read", 1, 1)
    screen = on_terminal(monkeypatch)
    with bars(quiet=False) as tick:
        tick("scan", 0, None)
    assert (piped.getvalue(), "━" in screen.getvalue().rpartition("\x1b[2K")[2]) == ("", False)


def listing(*numbers: int, writer: Writer = "quote") -> Answer:
    """Return an answer that names these of its nine sources, each with a copy."""
    day = "2024-05-02T10:00:00"
    sources = [
        Source(f"/m/{number}{copy}.eml", None, f"Mail {number}", day, (1, 2), 1.0, quote, copy=copy, date_claimed=day)
        for number in range(1, 10)
        for copy, quote in ((False, f"said {number}" if number in numbers else ""), (True, ""))
    ]
    lines = "\n".join(f"[{number}] 2 May 2024, Ann: said {number}" for number in numbers)
    return Answer("What was said?", lines, "full", writer, None, tuple(sources), {"total": 1.0})


LISTS = [(1, 3), (2, 3), (1, 2, 3, 4, 5), (7, 9), (1, 9), tuple(range(1, 10))]


@pytest.mark.parametrize("numbers", LISTS, ids=str)
@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("writer", ["quote", "model"])
def test_every_source_that_an_answer_names_is_shown_under_its_number(
    monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...], brief: bool, writer: Writer
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    reply = listing(*numbers, writer=writer)
    with redirect_stdout(io.StringIO()) as out:
        show_answer(AskResult(reply, Trace()), streamed=True, explain=False, more="add --all", brief=brief)
    shown = re.findall(r"^\s*\[(\d+)\] Mail (\d+)", out.getvalue(), re.MULTILINE)
    assert all(number == title for number, title in shown)
    assert {str(number) for number in numbers} <= {number for number, _ in shown}


@pytest.mark.parametrize("numbers", LISTS, ids=str)
def test_footnotes_number_every_source_that_an_answer_names(numbers: tuple[int, ...]) -> None:
    reply = listing(*numbers)
    noted = re.findall(r"^\[(\d+)\] Mail (\d+)", footnotes(reply), re.MULTILINE)
    assert all(number == title for number, title in noted)
    assert {str(number) for number in numbers} <= {number for number, _ in noted}
    assert cited_numbers(reply.text or "") == set(numbers)


@pytest.mark.parametrize("text", ["see [3] there", "[2024] was good", "[x] done", " [3] said", "[3]said"])
def test_a_bracket_elsewhere_names_no_source(text: str) -> None:
    assert cited_numbers(text) == frozenset()


def test_on_a_terminal_a_report_has_no_escapes_of_markdown_and_settings_fit(pkb: Pkb) -> None:
    report = terminal(pkb.folder, "digest", "--since", "2024-06-01", COLUMNS="80")
    assert "Tollmouth Library <library@example.org>" in report
    assert "\\" not in report
    assert pkb("digest", "--since", "2024-06-01").out.count("\\<") > 1
    settings = terminal(pkb.folder, "config", "show", COLUMNS="80").splitlines()
    assert max(map(len, settings)) <= 80
