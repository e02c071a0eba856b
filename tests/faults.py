"""Every call that changes a file of a home fails once, or is where the process dies; then the command runs again.

The calls are those of the C library, so SQLite's and LanceDB's own are among them: faults.c, which needs Linux and a C
compiler. Without them a process dies where Python's audit events tell of a change, which is before every commit, rename
and removal of pkb's own. Nothing in pkb knows of either: no version of it can be made to fail from outside.

What is there in the end is held against a home in which nothing happened.

    python -m tests.faults SCENARIO FAULT CALLS      tries so many calls, or those that match; a line of JSON for each
"""

import ctypes
import errno
import io
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from zlib import crc32

from cli.app import run
from tests import forked
from tests.demo import DATA, NANO, environment
from tests.forked import Ended

SOURCE = Path(__file__).with_name("faults.c")
GROWING = "create write mkdir rename"  # for which a full disk has no room
CHANGING = f"{GROWING} open sync remove"
KEPT, NEW = "When is the general meeting?", "What is wrong with the compressor?"
_BETWEEN = "\0"
_NOTICE = "nothing is cached or counted"


@dataclass(frozen=True, slots=True)
class Fault:
    """How calls fail: with which error (0: the process dies), which calls, and how many (0: all that follow).

    `audited`: the calls are those that Python's audit events tell of.
    """

    error: int
    calls: str
    count: int
    audited: bool = False

    @property
    def must_answer(self) -> bool:
        """Return whether a question is answered: not where no file, and so no lock, can be opened for writing."""
        return self.error == errno.ENOSPC or (self.error == errno.EIO and self.count > 0)


FAULTS = {
    "kill": Fault(0, CHANGING, 1),
    "audited kill": Fault(0, "", 1, audited=True),
    "full": Fault(errno.ENOSPC, GROWING, 0),
    "full once": Fault(errno.ENOSPC, GROWING, 1),
    "failing": Fault(errno.EIO, CHANGING, 0),
    "failing once": Fault(errno.EIO, CHANGING, 1),
    "denied once": Fault(errno.EACCES, CHANGING, 1),
}


def _change_mail(mail: Path) -> None:
    """Add, change, move and remove mail."""
    for path in sorted((DATA / "mail" / "single").glob("*.eml"))[:3]:
        shutil.copy(path, mail)
    first, second, third = sorted(path for path in mail.iterdir() if path.name.isdigit())
    first.write_text(first.read_text("utf-8").replace("the", "this"), "utf-8")
    second.rename(mail / "moved")
    third.unlink()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A command; whether it asks something, so that its answer must come; and what happens to the mail before."""

    words: tuple[str, ...]
    asks: bool = False
    before: Callable[[Path], None] = lambda _: None
    when_done: tuple[str, ...] = ()  # other exit codes of a second run, which has nothing left to do


_MODEL = ("--model", str(NANO))
SCENARIOS = {
    "ingest": Scenario(("ingest", "--vectors", "now"), before=_change_mail),
    "ask": Scenario(("ask", NEW), asks=True),
    "ask again": Scenario(("ask", KEPT), asks=True),
    "ask after mail": Scenario(("ask", KEPT, "--cache=refresh"), asks=True),
    "search": Scenario(("search", "compressor"), asks=True),
    "wrong": Scenario(("wrong",), when_done=("1",)),
    "idle": Scenario(("idle", "--force")),
    "forget": Scenario(("forget", "c0-0510@example.com", "--yes"), when_done=("2", "4")),
    "repair": Scenario(("doctor", "--data", "--repair")),
    "ask the model": Scenario(("ask", NEW, *_MODEL), asks=True),
}


def build(folder: Path) -> Path | None:
    """Build the library; None where that is not possible."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        return None
    library = folder / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


def arm(folder: Path, fault: Fault, at: int, log: Path | None = None) -> None:
    """Have the calls of this process on files below a folder fail from one on; none if `at` is 0."""
    if fault.audited:
        _audit(folder, at, log)
        return
    begin = ctypes.CDLL(None).fault_begin
    begin.argtypes = (ctypes.c_char_p, ctypes.c_char_p, *[ctypes.c_long] * 2, ctypes.c_int, ctypes.c_char_p)
    begin(f"{folder}/".encode(), fault.calls.encode(), at, fault.count, fault.error, os.fsencode(log or ""))


_EVENTS = {"os.rename": 1, "os.remove": 0, "os.rmdir": 0, "os.mkdir": 0, "os.truncate": 0}  # and which word is the path
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def _audit(folder: Path, at: int, log: Path | None) -> None:
    """Die before the change of that number that Python tells of."""
    number, fresh = count(1), list[sqlite3.Connection]()  # which can be traced from the next event on

    def step(kind: str, path: object) -> None:
        if log:
            with log.open("a") as file:
                file.write(f"{kind} {path}\n")
        elif next(number) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(event: str, words: tuple[Any, ...]) -> None:
        while fresh:
            _trace(fresh.pop(), step)
        if event == "sqlite3.connect/handle":
            fresh.append(words[0])
        kind = event if event in _EVENTS else "open" if event == "open" and words[2] & _WRITES else ""
        path = words[_EVENTS.get(event, 0)] if kind else None
        if isinstance(path, (str, os.PathLike)) and str(path).startswith(f"{folder}/") and path != log:
            step(kind, path)

    sys.addaudithook(tell)


def _trace(rows: sqlite3.Connection, step: Callable[[str, object], None]) -> None:
    """Call `step` before each commit: a COMMIT, or a change outside of a transaction."""

    def tell(sql: str) -> None:
        if sql.startswith("COMMIT") or (not rows.in_transaction and sql.startswith(("INSERT", "UPDATE", "DELETE"))):
            step("commit", "")

    with suppress(sqlite3.ProgrammingError):  # closed again
        rows.set_trace_callback(tell)


@dataclass(slots=True)
class Trials:
    """Runs of one scenario under one fault, each in a home of its own made from the same one."""

    base: Path
    scenario: Scenario
    fault: Fault
    expected: Any = field(init=False)
    reference: Ended = field(init=False)
    calls: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._prepare(self.base / "sound")
        log = self.base / "calls"
        log.unlink(missing_ok=True)
        self._fresh()
        self.reference = self._run(lambda: arm(self._home, self.fault, 0, log))
        assert log.exists(), self.reference.err
        self.calls = log.read_text().splitlines()
        self.expected = self._contents()

    def try_call(self, at: int) -> list[str]:
        """Have a call fail, or the process die there; returns what is wrong then, or after the next run."""
        self._fresh()
        disturbed = self._run(lambda: arm(self._home, self.fault, at))
        wrong = list(self._judged(disturbed))
        again = forked.call(self._again, self._environ).wait()
        code, found, contents = (*again.out.split(_BETWEEN), "", "")[:3]
        if code.strip() not in (str(self.reference.code), *self.scenario.when_done):
            wrong.append(f"again: {code} {again.err.strip()[-300:]}")
        if "BAD" in found or not contents:
            bad = [line for line in found.splitlines() if not line.startswith("ok")]
            wrong.append(f"check: {bad} {again.err.strip()[-300:]}")
        elif json.loads(contents) != self.expected:
            wrong.append(f"contents: {_difference(self.expected, json.loads(contents))}")
        return wrong

    def _again(self) -> int:
        """Run the command once more, examine the home, and print what it holds."""
        out = io.StringIO()
        with redirect_stdout(out):
            code = run(list(self.scenario.words))
        print(code, _BETWEEN, sep="")
        run(["doctor", "--data", "--read-data"])
        print(_BETWEEN, json.dumps(contents()), sep="")
        return 0

    @property
    def _home(self) -> Path:
        return self.base / "at"

    @property
    def _environ(self) -> dict[str, str]:
        return environment(self._home) | {"PKB_DAEMON": "off"}

    def _run(self, first: Callable[[], object] = lambda: None) -> Ended:
        return forked.start(self.scenario.words, self._environ, first=first).wait()

    def _prepare(self, sound: Path) -> None:
        mail, asked = self._home / "mail", self.base / "asked"
        shutil.rmtree(sound, ignore_errors=True)
        if not asked.exists():
            shutil.copytree(DATA / "mail" / "mh", mail)
            for words in (("ingest", str(mail), "--vectors", "now"), ("ask", KEPT), ("ask", "Who is the treasurer?")):
                forked.start(words, self._environ).wait()
            shutil.move(self._home, asked)
        self._fresh(asked)
        self.scenario.before(mail)
        shutil.move(self._home, sound)

    def _fresh(self, home: Path | None = None) -> None:
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(home or self.base / "sound", self._home, copy_function=shutil.copy2)

    def _judged(self, ended: Ended) -> Iterator[str]:
        """Yield what is wrong with how a command ended that was disturbed."""
        said = ended.err.strip()
        if "Traceback" in said or "bug" in said or "check --repair" in said:
            yield f"{ended.code} {said[-600:]}"
        elif self.fault.error == 0:
            if ended.code not in (-signal.SIGKILL, self.reference.code):
                yield f"{ended.code} {said[-300:]}"
        elif self.scenario.asks and self.fault.must_answer:
            if (ended.code, _answer(ended.out)) != (self.reference.code, _answer(self.reference.out)):
                yield f"not answered: {ended.code} {said[-300:]}"
            if said.count(_NOTICE) > 1:
                yield f"said twice: {said}"
        elif ended.code != self.reference.code and not (ended.code == 1 and re.search(r"^pkb: .*; try: ", said, re.M)):
            yield f"{ended.code} {said[-300:]}"

    def _contents(self) -> Any:
        ended = forked.call(lambda: print(json.dumps(contents())) or 0, self._environ).wait()
        return json.loads(ended.out) if ended.out else ended.err[-300:]


def _answer(out: str) -> str:
    """Return what a question printed."""
    return out.strip()


def contents() -> dict[str, Any]:
    """Return what the home of this process holds, without what only counts or times uses."""
    from engine.session import session

    sql = {
        "files": "SELECT CAST(path AS TEXT), size FROM files",
        "places": "SELECT CAST(path AS TEXT), item, document, message_id, collection FROM places",
        "documents": "SELECT id, date, chunks, names, rechunk FROM documents",
        "passages": "SELECT hex(digest), document FROM passages",
        "quoting": "SELECT hex(digest), document FROM quoting",
        "titles": "SELECT document, kind, title, day FROM titles",
        "people": "SELECT name, address, sends, documents FROM people",
        "answers": "SELECT question, scope, state, evidence, reply ->> 'answer', reply ->> 'text' FROM answers",
        "left": "SELECT chunk FROM removed_chunks",
        "nodes": "SELECT hex(key) FROM kv_nodes",
        "jobs": "SELECT kind, subject FROM jobs",
    }
    with session() as opened, closing(opened.ledger) as ledger:
        found: dict[str, Any] = {name: sorted(map(repr, ledger.rows.execute(text))) for name, text in sql.items()}
        for table, columns in (("documents", ["id", "text", "sender"]), ("chunks", ["id", "text", "words"])):
            found[f"table {table}"] = sorted(repr(row) for row in opened.tables.select(table, "true", columns))
        vectors = opened.tables.vectors(ledger.get("vectors") or "vectors", "true")
        found["vectors"] = sorted((name, crc32(one.tobytes())) for name, one in vectors.items())
        found["mapped"] = opened.mapped.view().count
        found["cache"] = sorted(path.name for path in opened.home.kv.glob("*.safetensors"))
    same: dict[str, Any] = json.loads(json.dumps(found))
    return same


def _difference(expected: Any, found: Any) -> str:
    if not isinstance(found, dict):
        return str(found)
    return str({
        name: [[one for one in rows if one not in found[name]][:2], [one for one in found[name] if one not in rows][:2]]
        if isinstance(rows, list) else [rows, found[name]]
        for name, rows in expected.items() if rows != found[name]
    })[:900]  # fmt: skip


def report(library: Path | None, folder: Path, scenario: str, fault: str, calls: int) -> list[dict[str, Any]]:
    """Try so many calls of a scenario in a process of its own; returns a row for each.

    The folder keeps the home that all scenarios begin with.
    """
    command = [sys.executable, "-m", "tests.faults", scenario, fault, str(calls), str(folder)]
    own = {} if FAULTS[fault].audited else {"LD_PRELOAD": str(library)}
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _chosen(calls: Sequence[str], wanted: str) -> list[int]:
    """Return the numbers of so many calls, evenly spread, or of those that match a pattern."""
    if not wanted.isdigit():
        return [at for at, call in enumerate(calls, 1) if re.search(wanted, call)]
    return sorted({1 + number * len(calls) // int(wanted) for number in range(min(int(wanted), len(calls)))})


def main(words: Sequence[str]) -> None:
    """Try the calls of a scenario."""
    forked.prepare()
    scenario, fault, wanted, *folders = words
    with tempfile.TemporaryDirectory(prefix="pkb-faults-") as own:
        folder = folders[0] if folders else own
        trials = Trials(Path(folder), SCENARIOS[scenario], FAULTS[fault])
        assert trials.reference.code in (0, 3, 4), trials.reference.err
        for at in _chosen(trials.calls, wanted):
            row = {"at": at, "of": len(trials.calls), "call": trials.calls[at - 1], "wrong": trials.try_call(at)}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
