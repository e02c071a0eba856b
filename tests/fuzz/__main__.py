"""`python -m tests.fuzz [TARGET ...]`: fuzz the targets, guided by coverage where atheris is installed.

Each target runs in a process of its own; an input that finds something is kept beside the new corpus. Without atheris
inputs are mutated at random, without guidance.
"""

import argparse
import importlib
import importlib.util
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

MOST_S, MOST_BYTES = 1.0, 200 << 20  # of processor time and of more memory, for one input
LONGEST = 4096  # bytes of an input
CORPUS = Path(__file__).parent / "corpus"
_EDGES = (b"0", b"9" * 20, b"9" * 400, b"-1", b"[" * 50, b'"', b"\\", b"\0", b"\r\n", b"\n\n", b"\xff", b"\xe2\x80\xae")


class Costly(Exception):
    """An input that takes too much time or memory."""


@dataclass(slots=True)
class Fuzzed:
    """What became of one target; mutable."""

    target: str
    runs: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    finding: str = ""


def checked(run: Callable[[bytes], object], fuzzed: Fuzzed) -> Callable[[bytes], None]:
    """Return a target that counts, and raises Costly where an input is too dear."""

    def check(data: bytes) -> None:
        fuzzed.runs += 1
        before, begun = _memory(), time.thread_time()
        run(data)
        took = time.thread_time() - begun
        fuzzed.slowest_s = max(fuzzed.slowest_s, took)
        if took > MOST_S:
            raise Costly(f"{took:.1f} s")
        if (more := _memory() - before) > MOST_BYTES:
            raise Costly(f"{more >> 20} MB")

    return check


def _memory() -> int:
    """Return the most bytes that the process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Return an input like another."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(made) + 1)
        to = min(len(made), at + chance.choice((0, 1, 2, 8, 64)))
        match chance.randrange(6):
            case 0 if at < len(made):
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                del made[at:to]
            case 2:
                made[at:at] = made[at:to] * chance.choice((1, 2, 30))
            case 3:
                made[at:to] = chance.choice(_EDGES)
            case 4 if other:
                begin = chance.randrange(len(other))
                made[at:to] = other[begin : begin + chance.choice((1, 8, 64, 500))]
            case _:
                made[at:to] = chance.randbytes(chance.choice((1, 2, 4)))
    return bytes(made[:LONGEST])


def corpus(name: str, folder: Path | None = None) -> list[bytes]:
    """Return the inputs that are kept for a target, its seeds first; those of a folder of earlier runs last."""
    from tests.fuzz.targets import seeds

    packed = CORPUS / f"{name}.json"
    kept = json.loads(packed.read_text("ascii")) if packed.exists() else []
    found = sorted((folder / name).glob("*")) if folder else []
    return [*seeds(name), *(one.encode("latin-1") for one in kept), *(path.read_bytes() for path in found)]


def fuzz_blindly(name: str, runs: int, seconds: float, chance: random.Random, folder: Path | None = None) -> Fuzzed:
    """Fuzz a target by random mutations, in this process; the finding is kept in the result."""
    from tests.fuzz.targets import TARGETS

    fuzzed, inputs = Fuzzed(name), corpus(name, folder) or [b""]
    check, begun, data = checked(TARGETS[name], fuzzed), time.monotonic(), b""
    try:
        for data in inputs:
            check(data)
        while fuzzed.runs < runs and time.monotonic() - begun < seconds:
            data = mutate(chance.choice(inputs), chance.choice(inputs), chance)
            check(data)
    except Exception:  # the finding itself
        fuzzed.finding = f"{data!r}\n{traceback.format_exc()}"
    fuzzed.seconds = time.monotonic() - begun
    return fuzzed


def fuzz_guided(name: str, runs: int, seconds: float, folder: Path) -> None:
    """Fuzz a target by coverage; ends the process."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["engine", "store"]):  # before any other import of them
        targets = importlib.import_module("tests.fuzz.targets")
    found, fuzzed = folder / name, Fuzzed(name)
    found.mkdir(parents=True, exist_ok=True)
    for data in corpus(name):
        (found / blake2b(data, digest_size=10).hexdigest()).write_bytes(data)
    limits = [f"-runs={runs}", f"-max_total_time={seconds:.0f}", f"-max_len={LONGEST}"]
    quiet = ["-timeout=120", "-rss_limit_mb=3000", "-print_final_stats=1", "-verbosity=1", "-detect_leaks=0"]
    atheris.Setup([sys.argv[0], str(found), f"-artifact_prefix={folder}/{name}-", *limits, *quiet],
                  checked(targets.TARGETS[name], fuzzed))  # fmt: skip
    atheris.Fuzz()


def run(name: str, runs: int, seconds: float, folder: Path, *options: str) -> Fuzzed:
    """Fuzz a target in a process of its own."""
    words = [sys.executable, "-m", "tests.fuzz", name, "--runs", str(runs), "--seconds", str(seconds), "--into", folder]
    begun = time.monotonic()
    ran = subprocess.run(
        [*map(str, words), "--here", *options], capture_output=True, text=True, errors="replace", check=False
    )
    said = ran.stdout + ran.stderr
    if counted := re.search(r"stat::number_of_executed_units:\s*(\d+)", said):
        fuzzed = Fuzzed(name, int(counted[1]), time.monotonic() - begun)
    else:
        lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        fuzzed = Fuzzed(**json.loads(lines[-1])) if lines else Fuzzed(name)
    fuzzed.finding = fuzzed.finding or ("" if ran.returncode == 0 else said[-3000:])
    return fuzzed


def main() -> int:
    """Fuzz what is named, or everything; return 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="as in tests/fuzz/targets.py; all without one")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs of each target")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each target")
    parser.add_argument("--into", type=Path, default=Path(tempfile.gettempdir()) / "pkb-fuzz", help="for new inputs")
    parser.add_argument("--blind", action="store_true", help="mutate at random even where atheris is installed")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here and not given.blind and importlib.util.find_spec("atheris"):
        fuzz_guided(given.targets[0], given.runs, given.seconds, given.into)
    if given.here:
        fuzzed = fuzz_blindly(given.targets[0], given.runs, given.seconds, random.Random(), given.into)
        print(json.dumps(asdict(fuzzed)))
        return 1 if fuzzed.finding else 0
    from tests.fuzz.targets import TARGETS

    total = found = 0
    for name in given.targets or TARGETS:
        one = run(name, given.runs, given.seconds, given.into, *(["--blind"] if given.blind else []))
        total, found = total + one.runs, found + bool(one.finding)
        print(f"{name:12} {one.runs:>12,} runs {one.seconds:>8.1f} s", one.finding, flush=True)
    print(f"{total:,} runs, {found} targets with a finding; inputs in {given.into}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
