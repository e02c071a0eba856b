"""`pkb idle --install`: what it writes, idempotently, leaving everything else unchanged."""

import configparser
import json
import os
import plistlib
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.app import run as pkb
from cli.idle import MARK, SYSTEMD_TIMER, Action, arrange, cron, launchd, systemd_service, with_line
from store.errors import PkbError
from tests.cli.conftest import Pkb, commands
from tests.cli.test_json import compare

COMMAND = ["/opt/my pkb/bin/pkb", "idle", "--budget", "50m"]
PLACES = {"PKB_HOME": "/home/zoë/100% $mine", "PKB_CONFIG": "/a'b\"c\\d"}
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
WORDS = st.lists(TEXT, min_size=1, max_size=4).map(lambda rest: ["/bin/echo", *rest])
ENVIRON = st.dictionaries(st.sampled_from(["PKB_HOME", "PKB_CACHE", "PKB_CONFIG"]), TEXT)
CRONTAB = """#!/bin/sh
test -n "$BROKEN" && { echo "crontab: cannot be read" >&2; exit 1; }
test "$1" = - && exec cat > "$TABLE"
test -f "$TABLE" && exec cat "$TABLE"
echo "no crontab for me" >&2; exit 1
"""
LOGGED = '#!/bin/sh\necho "$(basename "$0") $*" >> "$LOG"\nexit ${CODE:-0}\n'
REFUSING = '#!/bin/sh\ncase "$*" in *show-env*|*reload) exit 0;; *) echo "no bus" >&2; exit 1;; esac\n'
AT_HOME = ("PKB_HOME", "PKB_CACHE", "PKB_CONFIG")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder of programs there is, and a user's own folders."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("cat", "basename"):
        (folder / name).symlink_to(shutil.which(name) or "")
    for name, value in {"PATH": folder, "HOME": tmp_path, "XDG_CONFIG_HOME": tmp_path / "config",
                        "TABLE": tmp_path / "table", "LOG": tmp_path / "log"}.items():  # fmt: skip
        monkeypatch.setenv(name, str(value))
    for name in AT_HOME:
        monkeypatch.setenv(name, str(tmp_path / "pkb's" / name))
    return folder


def tool(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)


def run(action: Action, capsys: pytest.CaptureFixture[str], system: str = "linux") -> dict[str, object]:
    arrange(action, as_json=True, system=system)
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def by_sh(line: str, environ: Mapping[str, str]) -> list[str]:
    """Run the command of a line of cron as cron does, and give the lines it printed."""
    command = line.split(" ", 5)[5].replace("\\%", "%")
    done = subprocess.run(["/bin/sh", "-c", command], env=dict(environ), capture_output=True, text=True, check=True)
    return done.stdout.split("\n")


def test_the_launchd_agent_has_command_environment_and_hour() -> None:
    agent = plistlib.loads(launchd(COMMAND, PLACES).encode())
    assert (agent["ProgramArguments"], agent["EnvironmentVariables"]) == (COMMAND, PLACES)
    assert agent["StartCalendarInterval"] == {"Minute": 17}
    assert agent["ProcessType"] == "Background"


@given(WORDS, ENVIRON)
def test_the_launchd_agent_takes_any_path(words: list[str], environ: dict[str, str]) -> None:
    agent = plistlib.loads(launchd(words, environ).encode())
    assert (agent["ProgramArguments"], agent["EnvironmentVariables"]) == (words, environ)


def test_the_systemd_unit_quotes_command_and_environment() -> None:
    lines = systemd_service(COMMAND, PLACES).splitlines()
    assert 'ExecStart="/opt/my pkb/bin/pkb" "idle" "--budget" "50m"' in lines
    assert 'Environment="PKB_HOME=/home/zoë/100%% $mine"' in lines
    assert 'Environment="PKB_CONFIG=/a\'b\\"c\\\\d"' in lines
    assert 'ExecStart="/a$$b"' in systemd_service(["/a$b"], {}).splitlines()


def test_the_timer_catches_up_after_sleep() -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(SYSTEMD_TIMER)
    assert dict(parser["Timer"]) == {"oncalendar": "*-*-* *:17:00", "persistent": "true"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here to ask")
def test_systemd_analyze_accepts_the_units(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('a b %h $HOME')"]
    (tmp_path / "pkb-idle.service").write_text(systemd_service(command, PLACES))
    (tmp_path / "pkb-idle.timer").write_text(SYSTEMD_TIMER)
    names = [str(tmp_path / f"pkb-idle.{kind}") for kind in ("service", "timer")]
    done = subprocess.run(["systemd-analyze", "verify", "--user", *names], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "pkb-idle" in line] == []


@settings(max_examples=25, deadline=None)
@given(WORDS, ENVIRON)
def test_cron_runs_the_exact_command_and_environment(given_words: list[str], given_places: dict[str, str]) -> None:
    """Have a shell print them, as cron would have it: percent signs end a command unless they are escaped."""
    line = cron([sys.executable, "-c", _SHOW, *given_words], given_places)
    assert "%" not in line.replace("\\%", "")
    words, environ = json.loads(by_sh(line, {})[0])
    assert words == given_words
    assert environ == given_places


_SHOW = (
    "import json, os, sys; "
    "print(json.dumps([sys.argv[1:], {k: v for k, v in os.environ.items() if k.startswith('PKB_')}]))"
)


LINES = st.lists(st.text(st.characters(exclude_characters="\n"), max_size=20).filter(lambda one: MARK not in one))


@given(LINES, st.booleans())
def test_installing_and_removing_leaves_the_crontab_as_it_was(lines: list[str], ended: bool) -> None:
    table = "\n".join([*lines, ""]) if ended else "\n".join(lines)
    line = cron(COMMAND, PLACES)
    there = with_line(table, line)
    assert there.endswith(f"{line}\n")
    assert with_line(there, line) == there
    assert with_line(there, None) == (table if not table or table.endswith("\n") else f"{table}\n")


def test_installing_twice_with_cron_leaves_one_line(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "crontab", CRONTAB)
    (tmp_path / "table").write_text("MAILTO=me\n5 4 * * * backup\n")
    first, second, status = (run(action, capsys) for action in ("install", "install", "status"))
    line = (tmp_path / "table").read_text().splitlines()[2]
    assert (tmp_path / "table").read_text() == f"MAILTO=me\n5 4 * * * backup\n{line}\n"
    assert first == {"schema": 4, "by": "cron", "installed": True,
                     "files": [{"where": "crontab", "text": line, "changed": True}]}  # fmt: skip
    assert (second["installed"], second["files"]) == (True, [{"where": "crontab", "text": line, "changed": False}])
    assert (status["installed"], status["files"]) == (True, second["files"])
    assert run("uninstall", capsys)["installed"] is False
    assert (tmp_path / "table").read_text() == "MAILTO=me\n5 4 * * * backup\n"
    assert run("status", capsys)["installed"] is False


def test_the_cron_line_has_absolute_paths_and_only_the_home_s_variables(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "crontab", CRONTAB)
    run("install", capsys)
    words = shlex.split((tmp_path / "table").read_text(), comments=True)[5:]
    given = dict(word.split("=", 1) for word in words[:3])
    assert given == {name: str(tmp_path / "pkb's" / name) for name in AT_HOME}
    assert Path(words[3]).is_absolute()
    assert words[-3:] == ["idle", "--budget", "50m"]


def test_an_unreadable_crontab_is_not_overwritten(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tools, "crontab", CRONTAB)
    (tmp_path / "table").write_text("5 4 * * * backup\n")
    monkeypatch.setenv("BROKEN", "1")
    with pytest.raises(PkbError, match="cannot be read"):
        arrange("install", as_json=True, system="linux")
    assert (tmp_path / "table").read_text() == "5 4 * * * backup\n"


@pytest.mark.parametrize("path", ["/a\nb", "/a\x7fb", "/caf\udce9"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_a_path_that_no_schedule_can_hold_is_refused(
    tools: Path, monkeypatch: pytest.MonkeyPatch, system: str, path: str
) -> None:
    monkeypatch.setenv("PKB_HOME", path)
    with pytest.raises(PkbError, match="cannot be scheduled"):
        arrange("install", as_json=True, system=system)


def test_systemd_gets_two_units_and_is_reloaded(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "systemctl", LOGGED)
    folder = tmp_path / "config" / "systemd" / "user"
    installed = run("install", capsys)
    assert installed["by"] == "systemd"
    assert {path.name for path in folder.iterdir()} == {"pkb-idle.service", "pkb-idle.timer"}
    assert f'Environment="PKB_HOME={tmp_path}/pkb\'s/PKB_HOME"' in (folder / "pkb-idle.service").read_text()
    told = (tmp_path / "log").read_text().splitlines()
    assert told[1:] == ["systemctl --user daemon-reload", "systemctl --user enable --now pkb-idle.timer"]
    again = run("install", capsys)["files"]
    assert isinstance(again, list)
    assert {one["changed"] for one in again} == {False}
    assert run("uninstall", capsys)["installed"] is False
    assert list(folder.iterdir()) == []
    gone = run("uninstall", capsys)
    assert gone["installed"] is False
    compare("pkb idle --status", [installed, gone])


def test_units_that_systemd_does_not_know_do_not_count(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "systemctl", LOGGED)
    run("install", capsys)
    tool(tools, "systemctl", REFUSING)
    found = run("status", capsys)
    assert (found["by"], found["installed"]) == ("systemd", False)


@pytest.mark.parametrize(("system", "name"), [("linux", "systemctl"), ("darwin", "launchctl")])
def test_a_failed_installation_leaves_no_files(system: str, name: str, tools: Path, tmp_path: Path) -> None:
    tool(tools, name, REFUSING)
    with pytest.raises(PkbError, match="no bus"):
        arrange("install", as_json=True, system=system)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent != tools] == []


def test_units_that_systemd_does_not_stop_are_not_removed(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "systemctl", LOGGED)
    run("install", capsys)
    tool(tools, "systemctl", REFUSING)
    with pytest.raises(PkbError, match="systemctl --user disable: no bus"):
        arrange("uninstall", as_json=True, system="linux")
    assert len([*(tmp_path / "config" / "systemd" / "user").iterdir()]) == 2


def test_launchd_gets_an_agent_and_loads_it(tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tool(tools, "launchctl", LOGGED)
    agent = tmp_path / "Library" / "LaunchAgents" / "pkb.idle.plist"
    assert run("install", capsys, "darwin")["by"] == "launchd"
    assert plistlib.loads(agent.read_bytes())["EnvironmentVariables"]["PKB_CACHE"] == f"{tmp_path}/pkb's/PKB_CACHE"
    domain = f"gui/{os.getuid()}"
    assert (tmp_path / "log").read_text().splitlines() == [
        f"launchctl bootout {domain}/pkb.idle",
        f"launchctl bootstrap {domain} {agent}",
    ]
    assert (run("uninstall", capsys, "darwin")["installed"], agent.exists()) == (False, False)


@pytest.mark.parametrize("action", ["--install", "--uninstall", "--status"])
@pytest.mark.parametrize("other", [("--dry-run",), ("--force",), ("--verbose",), ("--budget", "1h"), ("--max", "3")])
def test_no_option_of_a_run_is_dropped_in_silence(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], action: str, other: tuple[str, ...]
) -> None:
    tool(tools, "systemctl", LOGGED)
    assert pkb(["idle", action, *other]) == 2
    assert f"{action} cannot be combined" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_machine_without_a_scheduler_is_an_error(tools: Path, there: bool) -> None:
    if there:  # but without a session
        tool(tools, "systemctl", "#!/bin/sh\nexit 1\n")
    with pytest.raises(PkbError, match="neither systemd user timers nor cron"):
        arrange("status", as_json=True, system="linux")


def test_without_a_systemd_session_cron_is_used(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "systemctl", LOGGED)
    tool(tools, "crontab", CRONTAB)
    monkeypatch.setenv("CODE", "1")
    assert run("status", capsys)["by"] == "cron"


def test_the_output_names_what_was_written_and_where(
    tools: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tool(tools, "systemctl", LOGGED)
    arrange("install", as_json=False, system="linux")
    units = [tmp_path / "config" / "systemd" / "user" / f"pkb-idle.{kind}" for kind in ("service", "timer")]
    shown = [
        f"{unit}: written\n" + "".join(f"  {line}\n" for line in unit.read_text().split("\n")[:-1]) for unit in units
    ]
    assert capsys.readouterr().out == "".join(shown) + "pkb idle runs every hour by systemd\n"
    arrange("uninstall", as_json=False, system="linux")
    removed = "".join(f"{unit}: removed\n" for unit in units)
    assert capsys.readouterr().out == f"{removed}pkb idle is not scheduled with systemd\n"


@pytest.mark.parametrize("action", ["--install", "--uninstall"])
@pytest.mark.parametrize("before", [True, False])
def test_a_dry_run_neither_installs_nor_uninstalls(
    pkb: Pkb, tools: Path, tmp_path: Path, action: str, before: bool
) -> None:
    tool(tools, "systemctl", "#!/bin/sh\n")
    if action == "--uninstall":
        assert pkb("idle", "--install").code == 0
    found = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "demo" not in path.parts}
    words = ["--dry-run", action] if before else [action, "--json", "--dry-run"]
    ran = pkb("idle", *words)
    assert (ran.code, "pkb idle --status" in ran.err + ran.out) == (2, True)
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "demo" not in path.parts}
    assert kept == found


def test_every_command_that_has_a_dry_run_changes_no_file_with_it(pkb: Pkb) -> None:
    having = {name for name, one in commands().items() if any("--dry-run" in option.opts for option in one.params)}
    assert having == {"forget", "idle"}
    assert pkb("ask", "when is rehearsal?").code == 0

    def state() -> tuple[set[Path], list[str]]:
        files = {path for path in pkb.folder.rglob("*") if "locks" not in path.parts and not path.name.endswith("-shm")}
        with closing(sqlite3.connect(pkb.folder / "home" / "ledger.db")) as ledger:
            return files, list(ledger.iterdump())

    found = state()
    for words in (
        ["idle", "--dry-run", "--force"],
        ["idle", "--force", "--budget", "5s", "--dry-run", "--json"],
        ["idle", "--dry-run", "--max", "1", "-v"],
        ["forget", "--from", "ann", "--dry-run"],
        ["forget", "--dry-run", "--yes", "--from", "ann", "--json"],
        ["forget", "--question", "when is rehearsal?", "--yes", "--dry-run"],
    ):
        assert pkb(*words).code in (0, 1)
        assert state() == found
