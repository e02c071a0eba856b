"""The budget: what pkb costs as ratios, in one run, against limits that only go down.

Run it with `python -m tests.bench.budget` (under three minutes on two quiet cores; `--messages N`, `--rounds N`). Each
row is what a pkb command needs, divided by what the thing beside it needs: a process that imports typer and rich, or
SQLite's FTS5 with the same messages. Ends with 1 if a ratio is above its limit in budget.json;
`--lower` writes the measured ratios there, a tenth higher, where they are below.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from tests.bench.home import environment
from tests.bench.processor import resident_s
from tests.cli.serving import served

LIMITS = Path(__file__).with_name("budget.json")
MESSAGES, ROUNDS, FEW = 5_000, 5, 10
_MARGIN = 1.1  # of a lowered limit above the measured ratio
_QUESTION = "Who has the spare key to the workshop?"
_ANSWER = "Yvonne has the spare key to the workshop."
_BARE = ("-c", "import typer, rich.console")
_FTS5 = """
import email, email.policy, sqlite3, sys
from pathlib import Path
index = sqlite3.connect(sys.argv[2])
index.execute("CREATE VIRTUAL TABLE mail USING fts5(sender, recipients, date, title, text)")
for path in sorted(Path(sys.argv[1]).iterdir()):
    one = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    row = (*(str(one[name]) for name in ("From", "To", "Date", "Subject")), one.get_content())
    index.execute("INSERT INTO mail VALUES (?, ?, ?, ?, ?)", row)
index.commit()
"""
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu")


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor seconds of a process, and the most memory it had, in MB."""

    seconds: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Row:
    """A cost of pkb beside that of something else, in the same unit."""

    name: str
    cost: float
    other: float
    beside: str
    unit: str

    @property
    def ratio(self) -> float:
        """Return how many times as much it costs."""
        return self.cost / self.other


def main() -> int:
    """Measure, print the table, and return 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=MESSAGES, help="in the home that is measured")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of short commands, of which the median counts")
    parser.add_argument("--lower", action="store_true", help="lower the limits to what was measured")
    asked = parser.parse_args()
    limits: dict[str, float] = json.loads(LIMITS.read_text())
    print(f"{_commit()}, {asked.messages} messages, load {os.getloadavg()[0]:.1f} at the start\n")
    print("| cost | pkb | beside | | ratio | limit |\n|---|---:|---|---:|---:|---:|", flush=True)
    rows = list[Row]()
    with TemporaryDirectory(prefix="pkb-budget-") as scratch:
        for row in measured(Path(scratch), asked.messages, asked.rounds):
            rows.append(row)
            print(line(row, limits.get(row.name)), flush=True)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if asked.lower:
        LIMITS.write_text(json.dumps(lowered(limits, rows), indent=2) + "\n")
    return int(bool(broken(limits, rows)))


def line(row: Row, limit: float | None) -> str:
    """Return a row of the table."""
    shown = "-" if limit is None else f"{limit:.2f}" + (" (broken)" if row.ratio > limit else "")
    return f"| {row.name} | {row.cost:.2f} {row.unit} | {row.beside} | {row.other:.2f} | {row.ratio:.2f} | {shown} |"


def broken(limits: Mapping[str, float], rows: Sequence[Row]) -> list[str]:
    """Return the names of the costs that are above their limits."""
    return [row.name for row in rows if row.ratio > limits.get(row.name, float("inf"))]


def lowered(limits: Mapping[str, float], rows: Sequence[Row]) -> dict[str, float]:
    """Return the limits, those lowered that are far above what was measured; a new cost gets one."""
    found = {row.name: round(row.ratio * _MARGIN, 2) for row in rows}
    return {**limits, **{name: min(one, limits.get(name, one)) for name, one in found.items()}}


def measured(scratch: Path, messages: int, rounds: int) -> Iterator[Row]:
    """Yield the costs; short commands and the bare import by turns."""
    mail, environ = scratch / "mail", {**os.environ, **environment(scratch)}
    write(mail, 0, messages)
    (mail / "key.eml").write_text(_message(Random(0), "key", f"{_ANSWER}\n"))
    fts = _spend(("-c", _FTS5, str(mail), str(scratch / "fts.db")), environ)
    whole = _pkb(environ, "ingest", str(mail), "--vectors", "later")
    yield Row("ingest", whole.seconds, fts.seconds, "FTS5", "s")
    yield Row("memory of ingest", whole.megabytes, fts.megabytes, "FTS5", "MB")
    size = _bytes(scratch / "home") / 1e6
    yield Row("disk", size, (scratch / "fts.db").stat().st_size / 1e6, "FTS5", "MB")
    yield Row("disk a byte of mail", size, _bytes(mail) / 1e6, "mail", "MB")
    _pkb(environ, "ask", _QUESTION)
    short = {"help": ("--help",), "exact hit": ("ask", _QUESTION), "search": ("search", "workshop", "key")}
    spent = [(_spend(_BARE, environ), *(_pkb(environ, *words) for words in short.values())) for _ in range(rounds)]
    bare, *found = (median(one.seconds for one in each) for each in zip(*spent, strict=True))
    yield from (Row(name, one, bare, "bare import", "s") for name, one in zip(short, found, strict=True))
    with served(scratch, environ) as home:
        yield Row("search, warm", median(_warm(home.environ, rounds)), bare, "bare import", "s")
    for name, words in _changes(mail, messages):
        yield Row(name, _pkb(environ, *words).seconds, bare, "bare import", "s")


def _changes(mail: Path, messages: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Change the folder step by step, and yield the command that follows."""
    update = ("ingest", "--vectors", "later")
    write(mail, messages, messages + FEW)
    yield f"add {FEW}", update
    for number in range(FEW):
        (mail / f"{number}.eml").unlink()
    yield f"delete {FEW}", update
    yield "forget 1", ("forget", str(mail / f"{FEW}.eml"), "--yes")


def write(folder: Path, first: int, end: int) -> None:
    """Write numbered messages, each drawn by its number."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(first, end):
        random = Random(number)
        paragraphs = (_prose(random, random.randrange(20, 80)) for _ in range(random.randrange(1, 6)))
        (folder / f"{number}.eml").write_text(_message(random, str(number), "\n\n".join(paragraphs)))


def _message(random: Random, name: str, text: str) -> str:
    sender, to = random.randrange(300), random.randrange(300)
    day = datetime(2026, 1, 1, 8, tzinfo=UTC) + timedelta(minutes=random.randrange(200_000))
    return (
        f"From: Person {sender} <p{sender}@example.org>\nTo: Me <me@example.org>, p{to}@example.org\n"
        f"Date: {format_datetime(day)}\nMessage-ID: <{name}@example.org>\nSubject: {_prose(random, 5)}\n\n{text}\n"
    )


def _prose(random: Random, words: int) -> str:
    """Return words as rare as in a language: the nth of 20,000 comes about 1/n as often as the first."""
    numbers = (int(20_000 ** random.random()) for _ in range(words))
    return " ".join("".join(_SYLLABLES[int(digit)] for digit in str(number)) for number in numbers)


def _warm(environ: dict[str, str], rounds: int) -> Iterator[float]:
    """Yield the processor seconds of searches with the background server, its own among them."""
    for number in range(rounds + 2):
        before = resident_s(environ)
        spent = _pkb(environ, *(("ask", _QUESTION, "--cache=off") if number < 2 else ("search", "workshop", "key")))
        if number >= 2:  # before that it starts, and reads the tables
            yield spent.seconds + resident_s(environ) - before


def _pkb(environ: Mapping[str, str], *words: str) -> Spent:
    return _spend(("-m", "cli.app", *words), environ)


def _spend(words: Sequence[str], environ: Mapping[str, str]) -> Spent:
    process = subprocess.Popen(
        [sys.executable, *words], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    scale = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kB elsewhere
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / scale)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _commit() -> str:
    words = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(words, cwd=LIMITS.parent, capture_output=True, text=True, check=False).stdout.strip() or "?"


if __name__ == "__main__":
    sys.exit(main())
