"""Sources that can be followed: `pkb show N`, `pkb show N --open`, by the numbers that `pkb ask` shows."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.text.terminal import cells, opening
from store.errors import PkbError
from tests.cli.conftest import Pkb
from tests.cli.paraphrase_home import LIKE, QUESTION, ask, bank, shared
from tests.cli.test_freshness import write
from tests.cli.test_terminal import KEY, acted_on, hostile, terminal
from tests.demo import DATA, environment

__all__ = ["bank", "shared"]  # fixtures
STYLE = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def opener(tmp_path: Path) -> Path:
    """Return a program that notes down what it is given."""
    program = tmp_path / "bin" / "an opener"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{tmp_path}/opened"\n')
    program.chmod(0o755)
    return program


def opened(opener: Path) -> list[str]:
    return (opener.parents[1] / "opened").read_text().splitlines()


def test_a_source_is_shown_by_its_number_with_its_lines_marked(pkb: Pkb) -> None:
    source = pkb("ask", KEY, "--json").row["sources"][0]
    shown = pkb("show", "1")
    marked = [int(line[:5]) for line in shown.out.splitlines() if line[5:6] == ">"]
    assert (marked[0], marked[-1]) == tuple(source["lines"])
    assert re.sub(r"^( *\d+)>", r"\1 ", shown.out, flags=re.MULTILINE) == pkb("show", source["path"]).out
    assert pkb("show", "1", "--json").out == pkb("show", source["path"], "--json").out


def test_a_thread_is_its_subject_among_its_people_newest_first(fresh: Pkb, tmp_path: Path) -> None:
    letters = [("Keys", "ann", "ben", 1), ("Re: Keys", "ben", "ann", 2), ("AW: keys", "cy", "ben", 3),
               ("Keys", "dan", "eve", 4), ("Lamps", "ann", "ben", 5)]  # fmt: skip
    for title, sender, to, day in letters:
        text = f"From: {sender}@x.example\nTo: {to}@x.example\nSubject: {title}\nDate: {day} May 2024 10:00 +0000\n"
        (tmp_path / f"{day}.eml").write_text(f"{text}Message-ID: <{day}@x>\n\nWords of {sender}, number {day}.\n")
    fresh("ingest", str(tmp_path), "--vectors", "later")
    for file, days in ((2, [3, 2, 1]), (4, [4]), (5, [5])):
        rows = fresh("show", str(tmp_path / f"{file}.eml"), "--thread", "--json").rows
        assert [int(row["date"][8:10]) for row in rows] == days
    shown = fresh("show", str(tmp_path / "1.eml"), "--thread").out
    assert re.findall(r"number (\d)", shown) == ["3", "2", "1"]


def test_an_address_is_shown_where_the_name_may_be_anothers(fresh: Pkb, tmp_path: Path) -> None:
    for day, address in ((1, "ann@choir.example"), (2, "ann@choir.example"), (9, "ann@other.example")):
        text = f"From: Ann Whitlock <{address}>\nTo: ben@choir.example\nDate: {day} May 2024 10:00 +0000\n"
        (tmp_path / f"{day}.eml").write_text(f"{text}Subject: Boathouse {day}\n\nThe boathouse, number {day}.\n")
    fresh("ingest", str(tmp_path), "--vectors", "later")
    found = fresh("search", "boathouse").out
    named = dict(re.findall(r"Boathouse (\d) · (.+?) to ben@", found))
    assert named == {"1": "Ann Whitlock", "2": "Ann Whitlock", "9": "Ann Whitlock <ann@other.example>"}


def test_copies_count_with_their_source(pkb: Pkb) -> None:
    shown = pkb("ask", KEY, "--all").out
    titles = dict(re.findall(r"^\[(\d)\] (.+?) · ", shown, re.MULTILINE))
    for number, title in titles.items():
        (row,) = pkb("show", number, "--json").rows
        assert row["title"].startswith(title.removesuffix("…"))


def test_a_file_whose_name_is_a_number_is_reached_by_a_path(pkb: Pkb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA / "mail" / "mh")
    pkb("ask", KEY)
    assert pkb("show", "./1").out == pkb("show", str(DATA / "mail" / "mh" / "1")).out
    assert pkb("show", "1").out != pkb("show", "./1").out


def test_the_last_answer_is_that_of_a_cached_or_declined_question_too(pkb: Pkb) -> None:
    first = pkb("ask", KEY, "--json").row["sources"][0]
    pkb("ask", "Which quorv blimmers the choir?")
    assert pkb("show", "1").code == 0
    assert pkb("ask", KEY, "--json").row["tier"] == "exact"
    assert pkb("show", "1", "--json").row["path"] == first["path"]


def test_the_sources_of_a_paraphrase_hit_are_those_of_the_matched_question(bank: Pkb) -> None:
    path = ask(bank, QUESTION)["sources"][0]["path"]
    assert ask(bank, LIKE)["tier"] == "semantic"
    assert bank("show", "1", "--json").row["path"] == path
    bank("idle", "--force")
    assert bank("show", "1").err == 'pkb: the last answer was removed or replaced since; try: pkb ask "QUESTION"\n'


@pytest.mark.parametrize(
    ("asked", "number", "code", "said"),
    [
        ((), "1", 2, "no question was asked yet"),
        ((KEY, "--cache=off"), "1", 1, "the last question was asked without the answer cache"),
        ((KEY,), "6", 2, "no source 6: the last answer has 5; try: pkb show 1"),
        ((KEY,), "0", 2, "no source 0: the last answer has 5"),
    ],
)
def test_what_has_no_number_is_an_error_that_says_what_to_type(
    pkb: Pkb, asked: tuple[str, ...], number: str, code: int, said: str
) -> None:
    if asked:
        pkb("ask", *asked)
    ran = pkb("show", number)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith(f"pkb: {said}")
    assert "; try: pkb " in ran.err


def test_a_number_has_no_message_id(pkb: Pkb) -> None:
    assert pkb("show", "1", "--message-id", "x").err.startswith("pkb: 1 is the number of a source")


def test_a_rejected_answer_has_no_sources(pkb: Pkb) -> None:
    pkb("ask", KEY)
    pkb("wrong")
    assert pkb("show", "1").code == 1


def test_a_moved_file_is_found_once_it_was_ingested_again(fresh: Pkb, tmp_path: Path, opener: Path) -> None:
    mail = tmp_path / "mail"
    write(mail, "1.eml", "Boat", "The boat is in the shed since Monday.")
    fresh("ingest", str(mail), "--vectors", "later")
    fresh("ask", "Where is the boat?")
    (mail / "1.eml").rename(mail / "2.eml")
    named = {"PKB_OPENER": f"'{opener}'"}
    assert fresh("show", "1", "--open", env=named).err == f"pkb: {mail / '1.eml'} is missing; try: pkb ingest\n"
    fresh("ingest")
    assert fresh("show", "1", "--open", env=named).code == 0
    assert opened(opener) == [str(mail / "2.eml")]


def test_a_file_is_one_argument_of_its_opener_and_of_no_shell(fresh: Pkb, tmp_path: Path, opener: Path) -> None:
    mail = tmp_path / "$(touch ran) ; touch ran"
    write(mail, "-a 'b' & c.eml", "Boat", "The boat is in the shed since Monday.")
    fresh("ingest", str(mail), "--vectors", "later")
    fresh("ask", "Where is the boat?")
    ran = fresh("show", "1", "--open", "--json", env={"PKB_OPENER": f"'{opener}' --wait"})
    assert opened(opener) == ["--wait", str(mail / "-a 'b' & c.eml")]
    assert (ran.row["number"], ran.row["source"]["path"]) == (1, str(mail / "-a 'b' & c.eml"))
    assert list(tmp_path.rglob("ran")) == []


def test_the_opener_of_the_system_is_used_where_none_is_named(tmp_path: Path) -> None:
    for name in ("open", "xdg-open"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "a.eml").write_text("From: ann@example.org\n\n")
    mail, here = str(tmp_path / "a.eml"), {"PATH": str(tmp_path)}
    assert opening(mail, "1@x", "", here, "linux") == [f"{tmp_path}/xdg-open", mail]
    assert opening(mail, None, "", here, "darwin") == [f"{tmp_path}/open", mail]
    assert opening(mail, "1@x", "", here, "darwin") == [f"{tmp_path}/open", "message://%3C1@x%3E"]
    named = {**here, "PKB_OPENER": "xdg-open"}
    assert opening(mail, "1@x", "", named, "darwin") == [f"{tmp_path}/xdg-open", mail]
    with pytest.raises(PkbError, match="executable"):
        opening(f"{tmp_path}/open", None, "", here, "linux")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("no-such-program", "no-such-program is not installed; try: set PKB_OPENER to a program, or: pkb show 1"),
        ("'unbalanced", "PKB_OPENER is not a command"),
        ("false", "false failed with exit code 1; try: pkb show 1"),
    ],
)
def test_an_opener_that_fails_is_one_line(pkb: Pkb, named: str, said: str) -> None:
    pkb("ask", KEY)
    ran = pkb("show", "1", "--open", env={"PKB_OPENER": named})
    assert ran.code in (1, 2)
    assert ran.err.startswith(f"pkb: {said}")


@pytest.mark.parametrize("variables", [{}, {"FORCE_COLOR": "1"}])
def test_a_pipe_gets_styles_only_when_they_are_forced(pkb: Pkb, variables: dict[str, str]) -> None:
    env = {name: value for name, value in environment(pkb.folder).items() if name != "NO_COLOR"}
    command = [sys.executable, "-m", "cli.app", "ask", KEY, "--all"]
    done = subprocess.run(command, env={**env, **variables}, capture_output=True, text=True, check=True)
    assert ("\x1b[" in done.stdout) is ("FORCE_COLOR" in variables)
    forbidden = subprocess.run(
        command, env={**env, **variables, "NO_COLOR": "1"}, capture_output=True, text=True, check=True
    )
    assert "\x1b" not in forbidden.stdout


def test_a_pager_shows_an_answer_as_it_is_in_a_pipe(pkb: Pkb) -> None:
    if not (less := shutil.which("less")):
        pytest.skip("less is not installed")
    printed = pkb("ask", KEY, env={"FORCE_COLOR": "1", "NO_COLOR": ""}).out
    paged = subprocess.run([less, "-R"], input=printed.encode(), capture_output=True, check=True).stdout.decode()
    assert paged == printed
    assert acted_on(STYLE.sub("", paged)) == set()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_styles_take_no_columns(pkb: Pkb, columns: int) -> None:
    pkb("ask", KEY)
    written = terminal(pkb.folder, "ask", KEY, "--all", COLUMNS=str(columns))
    shown = [STYLE.sub("", line) for line in written.splitlines()]
    assert max(map(cells, shown)) <= columns
    plain = terminal(pkb.folder, "ask", KEY, "--all", NO_COLOR="1", COLUMNS=str(columns)).splitlines()
    assert shown[: shown.index("", 2)] == plain[: plain.index("", 2)]


def test_nothing_in_mail_acts_on_a_terminal_that_shows_styles(fresh: Pkb, tmp_path: Path) -> None:
    fresh("ingest", str(hostile(tmp_path / "ev\x1b[31mil \u202e")), "--vectors", "later")
    for words in (("ask", "where is the boat?", "--all"), ("search", "boat", "shed")):
        written = terminal(fresh.folder, *words).replace("\r\n", "\n").replace("Searching...\r\x1b[2K", "")
        assert acted_on(STYLE.sub("", written)) == set()


def test_a_chat_shows_and_opens_sources(pkb: Pkb, opener: Path) -> None:
    lines = f"{KEY}\n/open 1\n/show 1\n/open 9\n".encode()
    rows = pkb("chat", "--json", stdin=lines, env={"PKB_OPENER": f"'{opener}'"}).rows
    path = rows[0]["sources"][0]["path"]
    assert opened(opener) == [path]
    assert [rows[1]["source"]["path"], rows[2]["path"], rows[3]["error"]["code"]] == [path, path, 2]
    human = pkb("chat", stdin=f"{KEY}\n/show 1\n".encode()).out
    assert pkb("show", "1").out in human
