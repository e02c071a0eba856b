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
from time import perf_counter
from typing import Any

from tests.bench import machine, report
from tests.bench.corpora import users
from tests.bench.harness import replay
from tests.bench.lines import Work
from tests.bench.living import SHARED
from tests.bench.policies import POLICIES, Policy

OUT = Path("build/bench")
TOP = 2  # chunks (PerCache 5.1)
TAUS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
STRIDES = (1, 2, 3, 4, 5)
BUDGETS = (4, 16, 64)  # MB of tensors; a prompt of two chunks takes about 15 at the 135M shape
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
    chosen = [one for one in SCOPES[options.scope] if not options.only or one.name in options.only]
    for experiment in chosen:
        begun, units = perf_counter(), 0
        for work in works(experiment, options):
            replay(work, options.out)
            units += 1
        print(f"{experiment.name}: {units} units, {perf_counter() - begun:.0f} s", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    machine.note(options.out, options.out / "models", " ".join(("python -m tests.bench.experiments", *sys.argv[1:])))
    failed = 0 if options.only else sum(run(words) for words in others(options))
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


def others(options: Namespace) -> Iterator[list[str]]:
    """Give the measurements that are no replays, each a module of its own."""
    where = ["--to", str(options.out)]
    yield ["operations", *where, "--model", "135M"]
    yield ["motivation", *where, "--data", str(options.data)]
    if options.scope == "whole":
        yield ["peers", *where]


def run(words: Sequence[str]) -> bool:
    """Run a module of measurements; tells whether it failed."""
    print(f"python -m tests.bench.{' '.join(words)}", flush=True)
    return subprocess.run([sys.executable, "-m", f"tests.bench.{words[0]}", *words[1:]], check=False).returncode != 0


def varied(name: str, suffix: str, settings: Mapping[str, Any], **changes: Any) -> Policy:
    """Give a policy with some settings changed."""
    policy = POLICIES[name]
    titled = f"{policy.title}, {suffix.replace('-', ' ')}"
    return replace(policy, name=f"{name}-{suffix}", title=titled, settings={**policy.settings, **settings}, **changes)


def at(top: int, policies: Sequence[Policy]) -> list[Policy]:
    """Have policies read so many chunks."""
    return [replace(one, settings={**one.settings, "ask.k": top}) for one in policies]


def ablated() -> Iterator[Policy]:
    """Give pkb without each of its parts, at both thresholds of PerCache's ablation (5.4)."""
    for tau in (0.85, 0.80):
        end = "" if tau == 0.85 else "-tau80"
        if end:
            yield varied("pkb", "tau80", {"bank.tau": tau})
        for part, changes in PARTS.items():
            rest = dict(changes)
            yield varied("pkb", f"no-{part}{end}", {**rest.pop("settings", {}), "bank.tau": tau}, **rest)


def sensitive() -> list[Policy]:
    """Give thresholds, with the guards and without, and strides (PerCache 5.6)."""
    taus = [varied(name, f"tau{round(100 * tau)}", {"bank.tau": tau}) for name in ("pkb", "percache") for tau in TAUS]
    return [*taus, *(varied("pkb", f"stride{number}", {}, foresee=number) for number in STRIDES)]


def budgets() -> list[Policy]:
    """Give room for tensors."""
    return [varied("pkb", f"kv{size}MB", {"kv.bytes": size * 1_000_000}) for size in BUDGETS]


EIGHT = tuple(POLICIES.values())
BLOCKS = varied("pkb", "blocks", {"kv.reuse": "blocks", "kv.bytes": 1_000_000_000})
FOUR = [POLICIES[name] for name in ("naive", "ragcache-meancache", "percache", "pkb")]
WHOLE = (
    Experiment("words", "quote", ("synthetic", *PUBLIC, "paraphrase"), EIGHT, 2, 150),
    Experiment("time", "135M", ("synthetic",), at(TOP, [*EIGHT, BLOCKS]), 1, 20),
    Experiment("public", "135M", PUBLIC, at(TOP, [*EIGHT, BLOCKS]), 1, 6),
    Experiment("ablation", "135M", ("synthetic",), at(TOP, list(ablated())), 1, 20),
    Experiment("budget", "135M", ("synthetic",), at(TOP, budgets()), 1, 20),
    Experiment("shape", "0.5B", ("synthetic",), at(TOP, FOUR), 1, 6),
    Experiment("sensitivity", "quote", ("synthetic", "paraphrase"), sensitive(), 1, 120),
    Experiment("nano", "nano", ("synthetic",), EIGHT, 1, 60),
)
QUICK = (
    Experiment("words", "quote", ("synthetic",), EIGHT, 1, 60),
    Experiment("nano", "nano", ("synthetic",), EIGHT, 1, 30),
    Experiment("time", "135M", ("synthetic",), at(TOP, FOUR), 1, 6),
)
SCOPES: Mapping[str, Sequence[Experiment]] = {"quick": QUICK, "whole": WHOLE}

if __name__ == "__main__":
    sys.exit(main())
