"""Processor time of each command, cold and with the resident process, of one or more checkouts by turns.

Run it with `python -m tests.bench.processor [FOLDER...]`. User and system time of the command and of what the resident
process did for it; less wall time than load decides it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median

from engine.serve.process import connect
from store.home import locate
from tests.cli.serving import Served, served
from tests.demo import DATA, environment

_HERE = Path(__file__).resolve().parents[2]
_QUESTION = "Who has the spare key to the workshop?"
_DECLINED = "Who won the chess game on Mars?"
_IMPORT = "bare import"  # of the libraries that no command can do without
_COMMANDS = {
    _IMPORT: (),
    "ask": ("ask", _QUESTION, "--cache=off"),
    "exact hit": ("ask", _QUESTION),
    "declined hit": ("ask", _DECLINED),
    "search": ("search", "workshop", "key"),
    "show": ("show", str(DATA / "mail" / "archive.mbox")),
    "list": ("list",),
    "todo": ("todo", "--since", "2024"),
    "chat": ("chat",),
    "stats": ("stats",),
    "config show": ("config", "show"),
    "model list": ("model", "list"),
    "doctor": ("doctor",),
    "help": ("--help",),
}
_DONE = (0, 4)  # 4: `doctor` found something to warn of


def main() -> None:
    """Measure and print a table; the load of the machine goes with it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=_folder, default=[_HERE], help="checkouts (default: this one)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median is shown")
    parser.add_argument("--only", nargs="*", choices=_COMMANDS, default=list(_COMMANDS), help="commands")
    asked = parser.parse_args()
    print(f"median of {asked.rounds}, in processor seconds; load {os.getloadavg()[0]:.1f} at the start", flush=True)
    print(f"| command | {' | '.join(f'{f.name} {mode}' for f in asked.folders for mode in ('cold', 'warm'))} |")
    print("|---|" + "---:|" * 2 * len(asked.folders))
    for name, cells in _measured(asked.folders, asked.only, asked.rounds):
        print(f"| {name} | {' | '.join('-' if s is None else f'{s:.2f}' for s in cells)} |", flush=True)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def _folder(name: str) -> Path:
    return Path(name).resolve()


def _measured(folders: list[Path], names: list[str], rounds: int) -> Iterator[tuple[str, list[float | None]]]:
    """Yield each command with its median in each checkout, cold and warm; None where it has no such command."""
    with tempfile.TemporaryDirectory(prefix="pkb-processor-") as scratch, ExitStack() as homes:
        columns = list[tuple[Path, dict[str, str]]]()
        for number, folder in enumerate(folders):
            columns.append((folder, _home(folder, Path(scratch) / f"cold-{number}") | {"PKB_DAEMON": "off"}))
            home = homes.enter_context(served(folder, _home(folder, Path(scratch) / f"warm-{number}")))
            _warm(folder, home)
            columns.append((folder, home.environ))
        for name in names:
            spent = [[_spent(*column, name) for column in columns] for _ in range(rounds)]
            yield (
                name,
                [None if None in one else median(s for s in one if s is not None) for one in zip(*spent, strict=True)],
            )


def _home(folder: Path, place: Path) -> dict[str, str]:
    """Make a home with the code of a checkout: the demonstration's documents, one answer and one decline."""
    environ = {**environment(place), "PYTHONPATH": str(folder)}
    for words in (("ingest", str(DATA)), ("ask", _QUESTION), ("ask", _DECLINED)):
        _run(folder, {**environ, "PKB_DAEMON": "off"}, words)
    return environ


def _warm(folder: Path, home: Served) -> None:
    """Start the resident process, and ask it once."""
    _run(folder, home.environ, ("ask", _QUESTION, "--cache=off"))
    home.link().close()
    _run(folder, home.environ, ("ask", _QUESTION, "--cache=off"))


def _spent(folder: Path, environ: Mapping[str, str], name: str) -> float | None:
    """Return the processor seconds of a command and of the resident process during it; None if it fails."""
    before = resident_s(environ)
    code, seconds = _run(folder, environ, _COMMANDS[name])
    return seconds + resident_s(environ) - before if code in _DONE else None


def _run(folder: Path, environ: Mapping[str, str], words: tuple[str, ...]) -> tuple[int, float]:
    """Run a command with the code of a checkout; return its exit code and its processor seconds."""
    process = subprocess.Popen(
        [sys.executable, *(("-m", "cli.app", *words) if words else ("-c", "import rich.console, typer"))],
        cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write(f"{_QUESTION}\n".encode() if words == ("chat",) else b"")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def resident_s(environ: Mapping[str, str]) -> float:
    """Return the processor seconds that the resident process has used so far; 0 without one."""
    link = None if environ["PKB_DAEMON"] == "off" else connect(locate(environ))
    if link is None:
        return 0.0
    with closing(link):
        fields = Path(f"/proc/{link.pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
