"""`make bench`: runs all experiments of a scope, two jobs side by side, and writes the report from their lines.

Run `python -m tests.bench.experiments quick|whole|nights [--out FOLDER] [--data DATA] [--only NAME...] [--to DOCS]
[--minutes N] [--gptcache PYTHON]`. A unit that is done is not done again, so that what was cut short goes on. With
--minutes each corpus of an experiment has its share of so many, and begins no question after it: its policies then have
been asked equally few, and the page says what is missing.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, time

from tests.bench import machine, report, runs
from tests.bench.corpora import users
from tests.bench.harness import together, unit_file
from tests.bench.lanes import QUIET, Done, Job, lanes, left, ordered, work
from tests.bench.lines import Work
from tests.bench.living import DATA
from tests.bench.plan import SCOPES, Experiment
from tests.bench.runs import joules, taken

OUT = Path("build/bench")
NEVER = float("inf")


def main() -> int:
    """Do what is left of a scope, or one corpus of an experiment; returns the number of jobs that failed."""
    os.environ.update(QUIET)
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.group:
        name, corpus = options.group
        replay(name, corpus, options)
        return 0
    machine.note(options.out, options.out / "models", command(options))  # before MLX is imported
    failed = all_of_it(options)
    report.write(options.out, options.to)
    print(options.to / "benchmarks.md")
    return failed


def all_of_it(options: Namespace) -> int:
    """Do what is left of a scope, and note what it took and what is left then; returns number of jobs that failed."""
    begun, before, cores = monotonic(), joules(), lanes()
    found, absent = jobs(options)
    print(f"{len(found)} jobs in {len(cores)} lanes, about {left(found, {}, len(cores)) / 60:.0f} min", flush=True)
    waiting = ordered(found, limited=options.minutes < NEVER)
    ended = work(waiting, cores, time() + 60 * options.minutes)
    done = {one.job.name: one for one in told(found, ended, len(cores))}
    seconds = {name: one.seconds for name, one in done.items() if not one.failed}
    whys = {job.name: "it failed" if job.name in done else "time was up" for job in found if job.name not in seconds}
    short = shortened(options, SCOPES[options.scope], seconds)
    energy = taken(before, joules())
    run = runs.Run(command(options), len(cores), round(monotonic() - begun, 1), len(seconds), energy)
    runs.note(options.out, options.scope, run, seconds, short | absent | whys)
    print(f"{run.jobs} jobs in {run.seconds / 60:.1f} min", flush=True)
    return len(done) - len(seconds)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("scope", choices=tuple(SCOPES))
    parser.add_argument("--out", type=Path, help="where lines and homes lie; build/bench/SCOPE by default")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="experiments and other measurements")
    parser.add_argument("--to", type=Path, help="where the page is written; FOLDER of the lines by default")
    parser.add_argument("--minutes", type=float, default=NEVER)
    parser.add_argument("--gptcache", default=sys.executable, metavar="PYTHON", help="of an environment that has it")
    parser.add_argument("--questions", type=int, default=sys.maxsize, help="of a unit at most, to try that all runs")
    parser.add_argument("--group", nargs=2, metavar=("NAME", "CORPUS"), help="this alone, and no page")
    parser.add_argument("--until", type=float, default=NEVER, help="seconds since the epoch, of a group")
    options = parser.parse_args()
    options.out = options.out or OUT / options.scope
    options.to = options.to or options.out
    return options


def command(options: Namespace) -> str:
    """Return what was typed, but for paths."""
    only = ["--only", *options.only] if options.only else []
    limit = ["--minutes", f"{options.minutes:g}"] if options.minutes < NEVER else []
    return " ".join(("python -m tests.bench.experiments", options.scope, *only, *limit))


def replay(name: str, corpus: str, options: Namespace) -> None:
    """Do the units of one corpus of an experiment, user by user, the policies in turns."""
    experiment = next(one for one in SCOPES[options.scope] if one.name == name)
    for works in groups(experiment, corpus, options):
        together(works, options.out, lambda: time() > options.until)


def groups(experiment: Experiment, corpus: str, options: Namespace) -> Iterator[list[Work]]:
    """Yield the units of each user of a corpus."""
    most = min(experiment.questions, options.questions)
    for user in users(corpus, options.data, options.out / "scratch")[: experiment.users]:
        yield [Work(user, policy, experiment.writer, most) for policy in experiment.policies]


def jobs(options: Namespace) -> tuple[list[Job], dict[str, str]]:
    """Return what is left to do, and by name why what else there is cannot be done."""
    found, absent = list[Job](), dict[str, str]()
    about = ["--out", str(options.out), "--data", str(options.data), "--questions", str(options.questions)]
    for experiment in SCOPES[options.scope]:
        for corpus in experiment.corpora:
            name, works = f"{experiment.name} {corpus}", list(groups(experiment, corpus, options))
            if not works:
                absent[name] = "its documents are not here"
            elif not all(unit_file(one, options.out).exists() for own in works for one in own):
                words = ["experiments", options.scope, "--group", experiment.name, corpus, *about]
                found.append(Job(name, words, experiment.seconds(corpus), limited=True))
    found += others(options) if options.scope == "whole" else []
    return [job for job in found if not options.only or job.name.split()[0] in options.only], absent


def shortened(options: Namespace, experiments: Sequence[Experiment], done: Container[str]) -> dict[str, str]:
    """Tell by job of units that were asked fewer questions than there are, none where the job is done without lines."""
    found = dict[str, str]()
    for experiment in experiments:
        for corpus in experiment.corpora:
            name = f"{experiment.name} {corpus}"
            for unit in (unit for works in groups(experiment, corpus, options) for unit in works):
                file, most = unit_file(unit, options.out), min(experiment.questions, len(unit.user.queries))
                without = 0 if name in done else most
                asked = len(file.read_bytes().splitlines()) if file.exists() else without
                if asked < most:
                    found[name] = f"time was up: {asked} of {most} questions"
    return found


def others(options: Namespace) -> Iterator[Job]:
    """Yield the measurements that are no replays and are not done, each a module of its own."""
    out, data = options.out, ["--data", str(options.data)]
    where = ["--to", str(out)]
    given = options.data.is_dir()
    corpora = ["--corpora", "synthetic", *(("locomo", "enron-annotated") if given else ())]
    made: Mapping[str, Job] = {
        "operations.json": Job("operations", ["operations", *where, "--rounds", "7"], 90),
        "motivation.json": Job("motivation", ["motivation", *where, *data, "--users", "1", *corpora], 60),
        "peers.json": Job("peers", ["peers", *where, *data, "--rounds", "3", "--gptcache", options.gptcache], 270),
        "article.txt": _printed(out, "article", ["reuse", "135M", "--rounds", "3", "--lengths", "650"], 60),
        "shares.txt": _printed(out, "shares", ["reuse", "135M", "--rounds", "3", "--shares"], 60),
    }
    if given:
        cases = {f"cases-{one}.txt": _printed(out, f"cases-{one}", ["cases", one], 60) for one in "abc"}
        lived = ["showcase", "--users", "locomo", "--writers", "nano"]
        made = {**made, "showcase.txt": _printed(out, "showcase", lived, 60), **cases}
    yield from (job for file, job in made.items() if not (out / file).exists())


def told(found: Sequence[Job], done: Iterator[Done], count: int) -> Iterator[Done]:
    """Return of each job what it took, and what is left."""
    seconds = dict[str, float]()
    for one in done:
        seconds[one.job.name] = one.seconds
        rest = left(found, seconds, count)
        ended = "FAILED after" if one.failed else "done in"
        print(f"{one.job.name}: {ended} {one.seconds:.0f} s; about {rest / 60:.0f} min left", flush=True)
        yield one


def _printed(out: Path, name: str, words: list[str], seconds: float) -> Job:
    return Job(name, words, seconds, out / f"{name}.txt")


if __name__ == "__main__":
    sys.exit(main())
