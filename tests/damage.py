"""Damage to every file of a home: what the commands then say, and whether `pkb doctor --data --repair` mends it.

`python -m tests.damage [PART]` damages every file whose path contains PART, in every way; tests try a sample. Commands
run in worker processes, so that one that hangs or crashes is a finding like any other.
"""

import io
import json
import os
import random
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tests.demo import DATA, NANO, environment

KEPT = "When is the general meeting?"  # asked before the damage
NEW = "When is the summer concert?"
TICKET = "How much is a ticket for the summer concert?"  # for the language model
WORDS = ("tickets", "concert")
MOST_S = 120.0  # a command that takes longer hangs
_SEED = 18
_FLIPS = 3  # places in a file where a byte is flipped, each a case of its own
_FLIPS_LEDGER = 24


def build(folder: Path) -> Path:
    """Make a home that holds everything: answers by quotes and by a model, embeddings, predictions, KV."""
    mail = folder / "mail"
    shutil.copytree(DATA / "mail" / "single", mail)
    shutil.copytree(DATA / "mail" / "mh", mail / "mh")
    (folder / "reference").mkdir()
    steps = (
        ("ingest", str(mail)),
        ("ask", KEPT),
        ("ask", TICKET, "--model", str(NANO)),
        ("model", "use", str(NANO)),
        ("idle", "--force", "--max", "6"),
        ("model", "use", "quote"),
    )
    for words in steps:
        ran = subprocess.run(_command(*words), env=_environment(folder), capture_output=True, text=True, check=False)
        assert ran.returncode in (0, 3, 4), f"{words}: {ran.stderr}"
    return folder


def files(folder: Path) -> list[Path]:
    """Return every file of a home, below its folder."""
    found = [path for name in ("home", "cache") for path in (folder / name).rglob("*") if path.is_file()]
    return sorted(path.relative_to(folder) for path in [*found, folder / "config.toml"] if path.exists())


def _environment(folder: Path) -> dict[str, str]:
    return environment(folder) | {"PKB_DAEMON": "off", "PKB_THREADS": "1"}


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "cli.app", *words]


# Ways of damage: each takes the path and a source of chance.


def _delete(path: Path, _: random.Random) -> None:
    path.unlink()


def _empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def _truncate(path: Path, _: random.Random) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _flip(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    if raw:
        raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def _overwrite(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def _swap(path: Path, chance: random.Random) -> None:
    others = sorted(one for one in path.parent.parent.rglob("*") if one.is_file() and one != path)
    path.write_bytes(chance.choice(others).read_bytes() if others else b"another file")


def _replace(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "deleted": _delete,
    "emptied": _empty,
    "truncated": _truncate,
    "flipped": _flip,
    "overwritten": _overwrite,
    "swapped": _swap,
    "a folder": _replace,
}


def _flip_text(path: Path, chance: random.Random) -> None:
    """Flip a bit of a text, which leaves the structure of a ledger intact."""
    raw = bytearray(path.read_bytes())
    places = [at for text in re.finditer(rb"[ -~]{40,}", raw) for at in range(*text.span())]
    raw[chance.choice(places)] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


_TO_LEDGER = {"text flipped": _flip_text}


@dataclass(frozen=True, slots=True)
class Case:
    """One file, damaged in one way; `seed` chooses where."""

    file: str
    damage: str
    seed: int

    @property
    def model(self) -> bool:
        """Return whether only a language model uses the file."""
        return self.file.startswith("cache")


def cases(folder: Path, part: str = "") -> list[Case]:
    """Return every case of a home whose file's path contains `part`."""
    found = []
    for path in files(folder):
        for damage in DAMAGES:
            many = 1 if damage != "flipped" else _FLIPS_LEDGER if path.name == "ledger.db" else _FLIPS
            found += [Case(str(path), damage, _SEED + number) for number in range(many)]
        if path.name == "ledger.db":
            found += [Case(str(path), damage, _SEED + n) for damage in _TO_LEDGER for n in range(_FLIPS_LEDGER)]
    return [one for one in found if part in one.file]


@dataclass(slots=True)
class Verdict:
    """What became of a case; mutable: steps add to it."""

    case: Case
    problems: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)  # what a person would have read
    mended: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command printed, and its exit code; -1 where it ended in an exception."""

    code: int
    out: str
    err: str

    @property
    def warns(self) -> bool:
        """Return whether it fails, or says that something is damaged or missing."""
        return self.code not in (0, 4) or any(
            word in self.err for word in ("damaged", "missing", "nothing has been ingested", "check --repair")
        )


# In a worker: one case at a time, from a line of JSON to a line of JSON.


def work() -> None:
    """Try the cases that come in, until there are no more."""
    os.umask(0o077)
    home, stdout = Path(sys.argv[2]), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        verdict = Trial(home, Case(**json.loads(line))).run()
        print(json.dumps([verdict.problems, verdict.said, verdict.mended]), file=stdout, flush=True)


class Trial:
    """One case in a copy of the home, in this process."""

    def __init__(self, home: Path, case: Case) -> None:
        self._home, self._verdict = home, Verdict(case)

    def run(self) -> Verdict:
        """Damage the file, use the home, mend it, use it again."""
        at = Path(os.environ.get("PKB_DAMAGE_AT", self._home.parent / "at"))  # the mail's paths stay those of the home
        at.mkdir(exist_ok=True)
        folder = at / f"{os.getpid()}"
        shutil.copytree(self._home, folder, symlinks=True)
        os.environ.update(_environment(folder))
        try:
            self._try(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return self._verdict

    def _try(self, folder: Path) -> None:
        case, model = self._verdict.case, ("--model", str(NANO)) if self._verdict.case.model else ()
        asks: tuple[tuple[str, ...], ...] = (
            ("ask", KEPT, "--json"),
            ("ask", NEW, "--cache=off", "--json"),
            ("search", *WORDS, "--json"),
        )
        if case.model:
            asks = tuple(
                ("ask", TICKET, *model, flag, "--json") for flag in ("--no-daemon", "--cache=refresh", "--cache=off")
            )
        mail = str(min((self._home / "mail").glob("*.eml")))
        asks = (*asks, ("show", mail, "--json"))
        expected = self._expected(folder, asks)
        (DAMAGES | _TO_LEDGER)[case.damage](folder / case.file, random.Random(case.seed))
        for words in asks:
            self._compare(words, self._run(*words), expected[words], "before")
        for command in ("stats", "doctor --data", "doctor --data --read-data"):
            self._run(*command.split())
        self._mend(folder)
        wrong = len(self._verdict.problems)
        for words in asks:
            self._compare(words, self._run(*words), expected[words], "after", strict=True)
        if (ran := self._run("doctor", "--data", "--read-data")).code:
            self._verdict.problems.append(
                f"after: check finds {[x for x in ran.out.splitlines() if 'BAD' in x]} {ran.err}"
            )
        self._verdict.mended = len(self._verdict.problems) == wrong

    def _expected(self, folder: Path, asks: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], Any]:
        kept = self._home / "reference" / f"{int(self._verdict.case.model)}.json"
        if not kept.exists():
            shutil.copytree(folder, other := Path(f"{folder}-sound"), symlinks=True)
            os.environ.update(_environment(other))
            found = [[words, _answer(self._run(*words))] for words in asks]
            os.environ.update(_environment(folder))
            shutil.rmtree(other)
            temporary = kept.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(found))
            temporary.replace(kept)
        return {tuple(words): answer for words, answer in json.loads(kept.read_text())}

    def _mend(self, folder: Path) -> None:
        """Do what the commands say, as a person would: repair, then read again what is to be read again."""
        ran = self._run("doctor", "--data", "--repair")
        if self._verdict.case.file == "config.toml" and (folder / "config.toml").exists():
            broken = folder / "config.toml"  # the user's own; what is wrong with it was said
            shutil.rmtree(broken) if broken.is_dir() else broken.unlink()
        if "pkb ingest" in ran.err:
            asked = ("ingest", str(self._home / "mail")) if "FOLDER" in ran.err else ("ingest",)
            if (ran := self._run(*asked)).code not in (0, 3):
                self._verdict.problems.append(f"ingest: {ran.code} {ran.err}")
        else:
            self._run("ingest")  # embeds what is missing

    def _compare(self, words: tuple[str, ...], ran: Ran, expected: Any, when: str, *, strict: bool = False) -> None:
        if ran.code == -1:
            return
        if (strict or not ran.warns) and (found := _answer(ran)) != expected:
            self._verdict.problems.append(f"{when}: wrong: {' '.join(words[:3])}: {str(found)[:300]} {ran.err[:200]}")

    def _run(self, *words: str) -> Ran:
        from cli.app import run

        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        code = -1
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = run(list(words))
            except SystemExit as error:
                code = int(error.code or 0)
            except BaseException as error:  # what would be shown as a bug, panics of LanceDB among it
                self._verdict.problems.append(f"bug: {words[0]}: {type(error).__name__}: {str(error)[:200]}")
        said, shown = (stream.buffer.getvalue().decode() for stream in (err, out))
        self._verdict.said.append(f"{' '.join(words[:2])}: {code} {said.strip()}")
        return Ran(code, shown, said)


def _answer(ran: Ran) -> Any:
    """Return what a command answers, without times and paths to caches."""
    try:
        rows = [json.loads(line) for line in ran.out.splitlines()]
    except ValueError:
        return [ran.code, ran.out]
    kept = ("answer", "answered", "text", "title", "sender", "error")
    said = [{name: row[name] for name in kept if name in row} for row in rows]
    sources = [[(s["path"], s["quote"], s["lines"], s["date"]) for s in row.get("sources", ())] for row in rows]
    return json.loads(json.dumps([ran.code, said, sources]))


# In the parent: workers, one a thread, replaced where they hang or die.


class Worker:
    """A process that tries cases."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process = self._start()

    def try_one(self, case: Case) -> Verdict:
        """Try a case; a hang or a crash is its problem."""
        if "cache/tmp" in case.file:  # a process loads them once
            self.close()
            self._process = self._start()
        verdict, pipe = Verdict(case), self._process
        assert pipe.stdin
        assert pipe.stdout
        pipe.stdin.write(json.dumps({"file": case.file, "damage": case.damage, "seed": case.seed}) + "\n")
        pipe.stdin.flush()
        ready, _, _ = select.select([pipe.stdout], [], [], MOST_S)
        line = pipe.stdout.readline() if ready else ""
        if line:
            verdict.problems, verdict.said, verdict.mended = json.loads(line)
        else:
            verdict.problems.append("crash" if ready else "hang")
            self.close()
            self._process = self._start()
        return verdict

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                pipe.close() if pipe else None

    def _start(self) -> "subprocess.Popen[str]":
        words = [sys.executable, "-m", "tests.damage", "--work", str(self._home)]
        pipe = subprocess.PIPE
        null = None if os.environ.get("PKB_DEBUG") else subprocess.DEVNULL
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=null, text=True)


def try_all(home: Path, wanted: Sequence[Case], workers: int = 2) -> Iterator[Verdict]:
    """Try cases in so many processes at a time, in any order."""
    free: SimpleQueue[Worker] = SimpleQueue()
    made = [Worker(home) for _ in range(workers)]
    for one in made:
        free.put(one)

    def try_one(case: Case) -> Verdict:
        worker = free.get()
        try:
            return worker.try_one(case)
        finally:
            free.put(worker)

    try:
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(try_one, wanted)
    finally:
        for one in made:
            one.close()


def kind(problem: str) -> str:
    """Return the first word of a problem: bug, crash, hang, or where it was wrong."""
    return " ".join(problem.split(": ")[: 2 if problem.startswith(("before", "after")) else 1])


def sample(every: Sequence[Case]) -> list[Case]:
    """Return one case of each damage to each kind of file: of alike files, such as old versions, the first and last."""
    groups: dict[tuple[str, str, str, str], list[Case]] = {}
    for one in every:
        path = Path(one.file)
        name = path.name if "_indices" in one.file or path.suffix not in (".manifest", ".txn", ".lance") else ""
        name = "" if "kv" in path.parts or "digests" in path.parts else name
        parent = str(path.parent) if "_indices" not in one.file else "/".join(path.parts[:4])
        groups.setdefault((parent, path.suffix, name, one.damage), []).append(one)
    found = []
    for group in groups.values():
        flips = [one for one in group if "flipped" in one.damage]
        chosen = group if len(group) == len(flips) and "ledger" in group[0].file else [group[0], group[-1]]
        found += list(dict.fromkeys(chosen))
    return found


def main() -> int:
    """Try every case and print what went wrong; return the number of cases with a problem."""
    with tempfile.TemporaryDirectory(prefix="pkb-damage-", dir=os.environ.get("PKB_DAMAGE_DIR")) as folder:
        home = build(Path(folder) / "home")
        wanted = cases(home, next((word for word in sys.argv[1:] if not word.startswith("-")), ""))
        wanted = sample(wanted) if "--sample" in sys.argv else wanted
        wanted = wanted[:: int(os.environ.get("PKB_DAMAGE_EVERY", "1"))]
        counts: Counter[str] = Counter()
        began, bad = time.monotonic(), 0
        for verdict in try_all(home, wanted):
            counts.update({kind(problem) for problem in verdict.problems} | ({"mended"} if verdict.mended else set()))
            bad += bool(verdict.problems)
            if verdict.problems:
                print(f"{verdict.case.file} {verdict.case.damage} {verdict.case.seed}", flush=True)
                print(*(f"    {problem}" for problem in verdict.problems), sep="\n", flush=True)
                if "-v" in sys.argv:
                    print(*(f"      {said}" for said in verdict.said), sep="\n", flush=True)
        print(f"{len(wanted)} cases, {len({one.file for one in wanted})} files, {time.monotonic() - began:.0f} s")
        print(f"{bad} with a problem; {dict(sorted(counts.items()))}")
    return bad


if __name__ == "__main__":
    if "--work" in sys.argv:
        work()
    else:
        sys.exit(bool(main()))
