"""PerCache's experiments as lists of units: overall, two shapes, ablation, sensitivity; `make bench` does them all.

Run `python -m tests.bench.experiments quick|whole [--out FOLDER] [--data DATA] [--only NAME...] [--to DOCS]`. A unit
that is done is not done again, so that what was cut short goes on; at the end the page is written from the lines. With
weights of a real shape every policy reads two chunks, as PerCache has it (5.1): five would take twice as long.
"""

import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE
from time import perf_counter
from typing import Any

from tests.bench import machine, report
from tests.bench.corpora import users
from tests.bench.harness import replay
from tests.bench.lines import Work
from tests.bench.living import SHARED
from tests.bench.policies import POLICIES, TAU, Policy

OUT = Path("build/bench")
TOP = 2  # chunks (PerCache 5.1)
TAUS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
STRIDES = (1, 2, 3, 4, 5)
BUDGETS = (25, 100)  # MB of tensors; a prompt of two chunks takes about 15 at the 135M shape
PUBLIC = ("locomo", "qmsum", "enron-annotated", "clinton-foia")
PARTS: Mapping[str, Mapping[str, Any]] = {
    "bank": {"bank": False, "settings": {"bank.semantic": "off"}},
    "kv": {"settings": {"kv.reuse": "off"}},
    "prediction": {"foresee": 0},
}


@dataclass(frozen=True, slots=True)
class Experiment:
    """Units that belong together: every policy for the first users of each corpus, and their first questions."""

    name: str
    writer: str
    corpora: Sequence[str]
    policies: Sequence[Policy]
    users: int
    questions: int


def main() -> int:
    """Do the experiments of a scope; gives the number of other measurements that failed."""
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    only = ["--only", *options.only] if options.only else []
    command = " ".join(("python -m tests.bench.experiments", options.scope, *only))
    machine.note(options.out, options.out / "models", command)  # before MLX is imported, which would take its own BLAS
    chosen = [one for one in SCOPES[options.scope] if not options.only or one.name in options.only]
    for experiment in chosen:
        begun, units = perf_counter(), 0
        for work in works(experiment, options):
            replay(work, options.out)
            units += 1
        print(f"{experiment.name}: {units} units, {perf_counter() - begun:.0f} s", flush=True)
    failed = 0 if options.only else sum(run(words, file) for words, file in others(options))
    report.write(options.out, options.to)
    return failed


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("scope", choices=tuple(SCOPES))
    parser.add_argument("--out", type=Path, help="where lines and homes lie; build/bench/SCOPE by default")
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--only", nargs="+", default=[], help="experiments, by name; and nothing beside them")
    parser.add_argument("--to", type=Path, help="where the page is written; FOLDER of the lines by default")
    options = parser.parse_args()
    options.out = options.out or OUT / options.scope
    options.to = options.to or options.out
    return options


def works(experiment: Experiment, options: Namespace) -> Iterator[Work]:
    """Give the units of an experiment, each user's beside each other: what else the machine does meets all policies."""
    for corpus in experiment.corpora:
        for user in users(corpus, options.data, options.out / "scratch")[: experiment.users]:
            for policy in experiment.policies:
                yield Work(user, policy, experiment.writer, experiment.questions)


def others(options: Namespace) -> Iterator[tuple[list[str], Path | None]]:
    """Give the measurements that are no replays, each a module of its own, and where what it prints is kept."""
    if options.scope == "quick":
        return
    where = ["--to", str(options.out)]
    yield ["operations", *where], None
    yield ["motivation", *where, "--data", str(options.data), "--users", "1"], None
    yield ["peers", *where], None
    yield ["reuse", "135M", "--rounds", "3", "--lengths", "650"], options.out / "article.txt"
    if options.data.is_dir():
        yield ["showcase", "--users", "locomo", "--writers", "nano"], options.out / "showcase.txt"
        yield ["cases", "a", "b", "c"], options.out / "cases.txt"


def run(words: Sequence[str], file: Path | None) -> bool:
    """Run a module of measurements; tells whether it failed."""
    print(f"python -m tests.bench.{' '.join(words)}", flush=True)
    done = subprocess.run([sys.executable, "-m", f"tests.bench.{words[0]}", *words[1:]], stdout=PIPE, check=False)
    if file:
        file.write_bytes(done.stdout)
    return done.returncode != 0


def varied(name: str, suffix: str, settings: Mapping[str, Any], **changes: Any) -> Policy:
    """Give a policy with some settings changed."""
    policy = POLICIES[name]
    titled = f"{policy.title}, {suffix.replace('-', ' ')}"
    return replace(policy, name=f"{name}-{suffix}", title=titled, settings={**policy.settings, **settings}, **changes)


def at(top: int, policies: Sequence[Policy]) -> list[Policy]:
    """Have policies read so many chunks."""
    return [replace(one, settings={**one.settings, "ask.k": top}) for one in policies]


def ablated(tau: float) -> Iterator[Policy]:
    """Give pkb without each of its parts, and whole where its threshold is not the usual one (PerCache 5.4)."""
    end = "" if tau == TAU else f"-tau{round(100 * tau)}"
    if end:
        yield varied("pkb", end[1:], {"bank.tau": tau})
    for part, changes in PARTS.items():
        rest = dict(changes)
        yield varied("pkb", f"no-{part}{end}", {**rest.pop("settings", {}), "bank.tau": tau}, **rest)


def taus() -> list[Policy]:
    """Give thresholds, with the guards and without (PerCache 5.6)."""
    return [varied(name, f"tau{round(100 * tau)}", {"bank.tau": tau}) for name in ("pkb", "percache") for tau in TAUS]


def strides() -> list[Policy]:
    """Give numbers of questions that are foreseen at a time (PerCache 5.6)."""
    return [varied("pkb", f"stride{number}", {}, foresee=number) for number in STRIDES]


def budgets() -> list[Policy]:
    """Give room for tensors."""
    return [varied("pkb", f"kv{size}MB", {"kv.bytes": size * 1_000_000}) for size in BUDGETS]


def named(*names: str) -> list[Policy]:
    """Give policies by name."""
    return [POLICIES[name] for name in names]


BLOCKS = varied("pkb", "blocks", {"kv.reuse": "blocks", "kv.bytes": 1_000_000_000})
EIGHT = tuple(POLICIES.values())
FIVE = named("naive", "meancache", "sleeptime", "percache", "pkb")  # by quotes there are no tensors to tell others by
FOUR = named("naive", "ragcache-meancache", "percache", "pkb")
SIX = [*FOUR, *named("ragcache-sleeptime"), BLOCKS]
WHOLE = (
    Experiment("time", "135M", ("synthetic",), at(TOP, [*EIGHT, BLOCKS]), 1, 10),
    Experiment("public", "135M", PUBLIC, at(TOP, SIX), 1, 3),
    Experiment("ablation", "135M", ("synthetic",), at(TOP, list(ablated(0.85))), 1, 10),
    Experiment("budget", "135M", ("synthetic",), at(TOP, budgets()), 1, 6),
    Experiment("shape", "0.5B", ("synthetic",), at(TOP, FOUR), 1, 3),
    Experiment("nano", "nano", ("synthetic",), FOUR, 1, 40),
    Experiment("words", "quote", ("synthetic", *PUBLIC, "paraphrase"), FIVE, 1, 60),
    Experiment("parts", "quote", ("synthetic",), [*ablated(0.85), *ablated(0.80)], 1, 70),
    Experiment("taus", "quote", ("synthetic",), taus(), 1, 70),
    Experiment("strides", "quote", ("synthetic",), strides(), 1, 70),
)
QUICK = (
    Experiment("words", "quote", ("synthetic",), FIVE, 1, 30),
    Experiment("nano", "nano", ("synthetic",), FOUR, 1, 15),
    Experiment("time", "135M", ("synthetic",), at(TOP, FOUR), 1, 2),
)
SCOPES: Mapping[str, Sequence[Experiment]] = {"quick": QUICK, "whole": WHOLE}

if __name__ == "__main__":
    sys.exit(main())
