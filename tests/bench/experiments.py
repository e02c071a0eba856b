"""`make bench`: runs all experiments of a scope, two jobs side by side, and writes the report from their lines.

Run `python -m tests.bench.experiments quick|whole|idle [--out FOLDER] [--data DATA] [--only NAME...] [--to DOCS]
[--minutes N] [--gptcache PYTHON]`. Finished units are not repeated, so an interrupted run resumes. With --minutes each
corpus of an experiment has its share of the time and asks no question after it: its policies were then asked equally
few questions, and the page says what is missing.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time

from tests.bench import jobs, machine, report
from tests.bench.corpus import DATA, users
from tests.bench.harness import replay, unit_file
from tests.bench.jobs import QUIET, Done, Job
from tests.bench.plan import SCOPES, TRACINGS, Experiment, Tracing
from tests.bench.records import RUNS, Run, Runs, read_file, write_file
from tests.bench.replay import Unit
from tests.bench.traces import file_of, share

OUT = Path("build/bench")
NEVER = float("inf")
ROUND = {"135M": 350.0, "0.5B": 850.0}  # seconds of a round of curves and real answers


def main() -> int:
    """Run what is left of a scope, or one corpus of an experiment; returns the number of failed jobs."""
    os.environ.update(QUIET)
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.group:
        one = next(one for one in SCOPES[options.scope] if one.name == options.group[0])
        for units in groups(one, options.group[1], options):
            replay(units, options.out, lambda: time() > options.until)
        return 0
    failed = run(options)
    for page in report.write(options.out, options.to):
        print(page)
    return failed


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("scope", choices=tuple(SCOPES))
    parser.add_argument("--out", type=Path, help="folder for lines and homes; build/bench/SCOPE by default")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="experiments and other measurements")
    parser.add_argument("--to", type=Path, help="folder for the page; that of the lines by default")
    parser.add_argument("--minutes", type=float, default=NEVER)
    parser.add_argument("--gptcache", default=sys.executable, metavar="PYTHON", help="of an environment that has it")
    parser.add_argument("--questions", type=int, default=sys.maxsize, help="at most, of each unit: for a trial run")
    parser.add_argument("--group", nargs=2, metavar=("NAME", "CORPUS"), help="run this alone, and write no page")
    parser.add_argument("--until", type=float, default=NEVER, help="deadline of a group, seconds since the epoch")
    options = parser.parse_args()
    options.out = options.out or OUT / options.scope
    options.to = options.to or options.out
    return options


def run(options: Namespace) -> int:
    """Run the jobs that are left and record the run; returns the number of failed jobs."""
    facts = machine.described()  # before MLX is imported
    begun, free = monotonic(), jobs.cores()
    found, missing = waiting(options)
    print(f"{len(found)} jobs, {len(free)} at a time", flush=True)
    ended = jobs.run(jobs.ordered(found, limited=options.minutes < NEVER), free, time() + 60 * options.minutes)
    done = {one.job.name: one for one in told(ended, len(found))}
    seconds = {name: round(one.seconds, 1) for name, one in done.items() if not one.failed}
    missing |= {
        job.name: "it failed" if job.name in done else "time was up" for job in found if job.name not in seconds
    }
    this = Run(command(options), facts, len(free), round(monotonic() - begun, 1), len(seconds))
    before: Runs = read_file(options.out / RUNS, Runs) or Runs()
    missing = shortened(options, set(seconds)) | missing
    write_file(options.out / RUNS, Runs(options.scope, (*before.runs, this), {**before.seconds, **seconds}, missing))
    print(f"{this.jobs} jobs in {this.seconds / 60:.1f} min", flush=True)
    return len(done) - len(seconds)


def told(ended: Iterator[Done], count: int) -> Iterator[Done]:
    """Print the jobs as they end."""
    for number, one in enumerate(ended, 1):
        result = "FAILED after" if one.failed else "done in"
        print(f"{number} of {count}, {one.job.name}: {result} {one.seconds:.0f} s", flush=True)
        yield one


def command(options: Namespace) -> str:
    """Return the command line, without paths."""
    only = ["--only", *options.only] if options.only else []
    limit = ["--minutes", f"{options.minutes:g}"] if options.minutes < NEVER else []
    return " ".join(("python -m tests.bench.experiments", options.scope, *only, *limit))


def groups(experiment: Experiment, corpus: str, options: Namespace) -> Iterator[list[Unit]]:
    """Yield the units of each user of a corpus."""
    most = min(experiment.questions, options.questions)
    for user in users(corpus, options.data, options.out / "scratch")[: experiment.users]:
        yield [Unit(user, policy, experiment.writer, most) for policy in experiment.policies]


def waiting(options: Namespace) -> tuple[list[Job], dict[str, str]]:
    """Return the jobs that are left, and the reason for each that cannot be run."""
    found, missing = list[Job](), dict[str, str]()
    about = ["--out", str(options.out), "--data", str(options.data), "--questions", str(options.questions)]
    for experiment in SCOPES[options.scope]:
        for corpus in experiment.corpora:
            name, units = (
                f"{experiment.name} {corpus}",
                [one for own in groups(experiment, corpus, options) for one in own],
            )
            if not units:
                missing[name] = "its documents are not here"
            elif not all(unit_file(one, options.out).exists() for one in units):
                words = ["experiments", options.scope, "--group", experiment.name, corpus, *about]
                found.append(Job(name, words, experiment.seconds(corpus), limited=True))
    found += others(options) if options.scope == "whole" else []
    if tracing := TRACINGS.get(options.scope):
        found += [*counting(tracing, options), *pricing(tracing, options)]
    return [job for job in found if not options.only or job.name.split()[0] in options.only], missing


def counting(tracing: Tracing, options: Namespace) -> Iterator[Job]:
    """Yield a job for each user whose questions were not counted."""
    for corpus in tracing.corpora:
        found = users(corpus, options.data, options.out / "scratch")
        most = min(options.questions, share([len(user.queries) for user in found], tracing.questions))
        for user in found:
            if not file_of(corpus, user.name, options.out).exists():
                words = ["traces", corpus, user.name, "--out", str(options.out), "--data", str(options.data)]
                words += ["--questions", str(most), "--policies", *tracing.policies]
                yield Job(f"traces {corpus}.{user.name}", words, tracing.seconds(min(most, len(user.queries))))


def pricing(tracing: Tracing, options: Namespace) -> Iterator[Job]:
    """Yield a job for each shape that was not measured."""
    for shape, rounds in tracing.rounds.items():
        if not (options.out / f"curves.{shape}.json").exists():
            words = ["curves", shape, "--out", str(options.out), "--data", str(options.data), "--rounds", str(rounds)]
            yield Job(f"curves {shape}", [*words, "--corpora", *tracing.corpora], ROUND[shape] * rounds)


def others(options: Namespace) -> Iterator[Job]:
    """Yield the measurements that are not replays and not done, each a module of its own."""
    to = ["--to", str(options.out)]
    made = [
        Job("operations", ["operations", *to, "--rounds", "7"], 90),
        Job("kv_reuse", ["kv_reuse", *to, "--rounds", "3"], 700),
    ]
    if options.data.is_dir():
        words = ["paraphrases", str(options.data), *to, "--sets", "paraphrase"]
        made.append(Job("paraphrases", words, 150, python=options.gptcache))
    yield from (job for job in made if not (options.out / f"{job.name}.json").exists())


def shortened(options: Namespace, done: set[str]) -> dict[str, str]:
    """Return the jobs with units that were asked too few questions, and how few."""
    found = dict[str, str]()
    for experiment in SCOPES[options.scope]:
        for corpus in experiment.corpora:
            name = f"{experiment.name} {corpus}"
            for unit in (unit for units in groups(experiment, corpus, options) for unit in units):
                file = unit_file(unit, options.out)
                asked = len(file.read_bytes().splitlines()) if file.exists() else 0
                if asked < len(unit.queries) and (file.exists() or name in done):
                    found[name] = f"time was up: {asked} of {len(unit.queries)} questions"
    return found


if __name__ == "__main__":
    sys.exit(main())
