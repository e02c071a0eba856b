"""The resident process, measured: an exact hit beside it, the first token, a crowd, its memory, a question at night.

Run `python -m tests.bench.serve [exact|first|crowd|growth|night]... [--questions 200] [--growth 10000] [--rounds 7]`.
`first` and `night` have random weights of the shape of SmolLM2-135M, for speed does not depend on them; the others use
the bundled mail and model. Ways take turns; other work on the machine meets all of them.
"""

import json
import os
import random
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, sleep

from cli.daemon.request import request
from engine.ask.means import Manner
from tests.cli.serving import Served, served, wait
from tests.demo import DATA, NANO, QUESTIONS, WORDS, environment
from tests.engine.models.shapes import REAL, make

SHAPE = "135M"
CLIENTS = 8
FIRST = 10  # question of a client, by which nearly all that is asked was read once
TICKET = "How much is a ticket for the summer concert?"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a crowd: of which client, the how manieth of it, and how long it waited."""

    client: int
    at: int
    seconds: float


def main() -> None:
    """Print a block for each part."""
    parts: dict[str, Callable[[Served, int], None]] = {
        "exact": exact, "first": first, "crowd": crowd, "growth": growth, "night": night,
    }  # fmt: skip
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(parts))
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--growth", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    counts = {"exact": 3 * options.rounds, "crowd": options.questions, "growth": options.growth}
    for name in options.parts:
        with TemporaryDirectory(prefix="pkb-serve-") as folder, home(Path(folder)) as own:
            print(f"\n{name}: load {os.getloadavg()[0]:.1f}", flush=True)
            parts[name](own, counts.get(name, options.rounds))


@contextmanager
def home(folder: Path) -> Iterator[Served]:
    """Give a home with the bundled mail, whose resident process is wanted."""
    with served(folder, environment(folder)) as own:
        own.run("ingest", str(DATA / "mail"), str(DATA / "transcripts"))
        yield own


def exact(own: Served, rounds: int) -> None:
    """Time exact hits as whole processes, beside the imports that every command has; all compiled, as installed."""
    own.run("ask", TICKET)
    wait(lambda: own.is_there)
    commands = {
        "bare import": [sys.executable, "-c", "import typer, rich.console"],
        "exact hit, a resident process there": own.command("ask", TICKET),
    }
    environ = {name: value for name, value in own.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(commands["exact hit, a resident process there"], env=environ, capture_output=True, check=True)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            begun = perf_counter()
            subprocess.run(command, env=environ, capture_output=True, check=True)
            times[name].append(perf_counter() - begun)
    for name, values in times.items():
        ratio = median(mine / bare for mine, bare in zip(values, times["bare import"], strict=True))
        print(f"  {name:42}{1e3 * median(values):8.0f} ms  {ratio:.2f} (2.0 or less)")


def first(own: Served, rounds: int) -> None:
    """Time the first token of a prompt that was read before: a process that loads the model, and the resident one."""
    use_shape(own)
    own.run("ask", TICKET, "--max-tokens", "1", "--no-daemon")
    ways = {"in a process of its own": ["--no-daemon"], "by the resident process": []}
    times: dict[str, list[float]] = {name: [] for name in ways}
    inner: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, flags in ways.items():
            if not flags:
                own.run("serve")
                wait(lambda: own.status()["model"])
            begun = perf_counter()
            ran = own.run("ask", TICKET, "--max-tokens", "1", "--fresh", "--json", *flags)
            times[name].append(perf_counter() - begun)
            row = json.loads(ran.stdout)
            assert row["tokens"]["reused"] > 0
            inner[name].append(row["ms"]["first_token"])
    for name in ways:
        print(f"  {name:42}{1e3 * median(times[name]):8.0f} ms, its first token at {median(inner[name]):.0f} ms")
    cold, warm = times.values()
    ratio = median(a / b for a, b in zip(cold, warm, strict=True))
    tokens = median(a / b for a, b in zip(*inner.values(), strict=True))
    print(f"  whole process {ratio:.1f} times sooner, first token {tokens:.1f} (5 or more)")


def crowd(own: Served, questions: int) -> None:
    """Ask at once from many clients: kept answers, quotes, and answers in words, each client in an order of its own."""
    own.run("config", "set", "model.name", str(NANO))
    own.run("serve")
    wait(lambda: own.status()["model"])
    found: list[Asked] = []
    failed: list[str] = []
    asked = [list(mixed(random.Random(number), own, questions)) for number in range(CLIENTS)]
    threads = [Thread(target=client, args=(own, number, asked[number], found, failed)) for number in range(CLIENTS)]
    begun = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = perf_counter() - begun
    print(f"  {CLIENTS} clients, {len(found)} answers, {len(failed)} failed; {len(found) / took:.1f} a second")
    usual, late = median(one.seconds for one in found), [one for one in found if one.at >= min(FIRST, questions)]
    print(f"  waits: median {1e3 * usual:.0f} ms")
    for name, part in {"from the first question on": found, f"from each client's {FIRST}th on": late}.items():
        longest = max(part, key=lambda one: one.seconds)
        ratio = f"{longest.seconds / usual:.2f} times (3 or less)"
        print(f"    longest {name:30}{1e3 * longest.seconds:6.0f} ms, {ratio}, for question {longest.at} of a client")
    means = [median(one.seconds for one in found if one.client == number) for number in range(CLIENTS)]
    print(f"  medians of the clients: {1e3 * min(means):.0f} to {1e3 * max(means):.0f} ms")


def client(own: Served, number: int, questions: Iterable[object], found: list[Asked], failed: list[str]) -> None:
    """Ask one question after the other through one connection."""
    with closing(own.link()) as link:
        for at, asked in enumerate(questions, 1):
            begun = perf_counter()
            link.send("ask", {"request": asked})
            frame = next(link.answers())
            found.append(Asked(number, at, perf_counter() - begun))
            if frame["kind"] != "answered":
                failed.append(frame["kind"])


def mixed(chance: random.Random, own: Served, questions: int) -> Iterator[object]:
    """Give questions of all sorts: asked before or not, of the whole bank or of a part, in words or quoted."""
    quoting = own.session()
    quoting.override("model.name", "quote")
    for _ in range(questions):
        worded = chance.random() < 0.5
        text = chance.choice(WORDS if worded else QUESTIONS)
        manner = Manner(k=chance.choice((3, 5)), read_bank=chance.random() < 0.3)
        yield request(own.session() if worded else quoting, text, manner, streams=False)


def growth(own: Served, questions: int) -> None:
    """Watch the memory of a process that answers and answers."""
    own.run("config", "set", "model.name", str(NANO))
    own.run("serve")
    wait(lambda: own.status()["model"])
    marks = [mark for mark in (100, 300, 1000, 3000, 10_000, 30_000) if mark < questions] + [questions]
    chance, asked, at = random.Random(1), 0, list[float]()
    for mark in marks:
        found, failed = list[Asked](), list[str]()
        client(own, 0, mixed(chance, own, mark - asked), found, failed)
        assert not failed
        asked = mark
        at.append(own.status()["memory"])
        print(f"  after {asked:6,} questions {at[-1] / 1e6:7.1f} MB  {at[-1] / at[0]:.3f} (1.1 or less)", flush=True)


def night(own: Served, rounds: int) -> None:
    """Ask while idle work is done, and while none is: what was read before, at the shape that is measured."""
    for question in QUESTIONS[:8]:
        own.run("ask", question, "--no-daemon")
    use_shape(own)
    own.run("ask", TICKET, "--max-tokens", "1", "--no-daemon")
    own.run("serve")
    wait(lambda: own.status()["model"])
    quiet = [one(own) for _ in range(rounds)]
    work = subprocess.Popen(own.command("idle", "--force", "--budget", "10m"), env=own.environ)
    wait(lambda: own.status()["jobs"])
    busy = list[float]()
    while len(busy) < rounds and work.poll() is None:
        sleep(random.random())
        busy.append(one(own))
    work.terminate()
    work.wait()
    for name, values in (("at rest", quiet), ("during idle work", busy)):
        times = sorted(values) or [0.0]
        print(f"  {name:20}{len(values)} questions, {1e3 * median(times):6.0f} ms (to {1e3 * times[-1]:.0f})")
    if busy:
        print(
            f"  delayed by {1e3 * (median(busy) - median(quiet)):.0f} ms, at most {1e3 * (max(busy) - min(quiet)):.0f}"
        )


def one(own: Served) -> float:
    """Ask one question through its socket, and time its answer of one token."""
    opened = own.session()
    opened.override("model.max_tokens", 1)
    with closing(own.link()) as link:
        begun = perf_counter()
        link.send("ask", {"request": request(opened, TICKET, Manner(read_bank=False), streams=False)})
        assert next(link.answers())["kind"] == "answered"
        return perf_counter() - begun


def use_shape(own: Served) -> None:
    """Have answers written by random weights of the shape that is measured."""
    folder = own.home.data.parent / SHAPE
    made = f"from tests.bench.serve import weights; weights({str(folder)!r})"
    subprocess.run([sys.executable, "-c", made], check=True)
    own.run("config", "set", "model.name", str(folder))


def weights(folder: str) -> None:
    """Write the weights, in a process that does nothing else with MLX."""
    make(Path(folder), REAL[SHAPE], dtype="float16")


if __name__ == "__main__":
    main()
