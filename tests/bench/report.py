"""docs/benchmarks.md and its plots, generated from measurements alone; the same measurements give the same bytes.

Run `python -m tests.bench.report FOLDER [--to docs]`: traces are in FOLDER/traces, units of experiments in real time in
FOLDER/lines, other measurements in FOLDER. Pages whose measurements are not there stay as they are. Plots need the
group `bench` of pyproject.toml.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from tests.bench import extras, trace_report
from tests.bench.overall import losses, overall
from tests.bench.page import Picture, Section, page
from tests.bench.records import Material, Unreadable, gathered
from tests.bench.stages import stages
from tests.bench.sweeps import ablation, sweep
from tests.bench.trace_report import Traces

OPENING = """\
Written by `python -m tests.bench.report docs/benchmarks` from counted traces, which are in
[traces](benchmarks/traces) and made again by `make bench`. Baselines are settings of pkb's own engine."""
BEHIND = """\
- [All policies, by corpus](benchmarks/corpora.md): means, hits, wrong hits, tokens reused
- [Residuals and checks of the prices](benchmarks/prices.md)
- [Apple machines, by published figures](benchmarks/apple.md): a projection
- [Experiments in real time](benchmarks/real-time.md): hits, operations, other programs
- [What was measured when, negative results too](log/evaluation.md)

```
make bench         # all of it again, planned for an hour on two quiet cores; resumes
make bench-quick   # a short form
python -m tests.bench.experiments whole --only traces curves --to docs    # traces and prices alone
python -m tests.bench.report docs/benchmarks --to docs                    # this page from the stored traces
```"""
REAL_TIME = """\
Written by `python -m tests.bench.report` from the lines of the experiments in real time. The paper is PerCache."""


def main() -> int:
    """Write the pages and the plots."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", type=Path, default=Path("docs"))
    options = parser.parse_args()
    try:
        for file in write(options.folder, options.to):
            print(file)
    except Unreadable as error:
        print(f"report: {error}", file=sys.stderr)
        return 1
    return 0


def write(folder: Path, to: Path) -> list[Path]:
    """Write the pages and the plots of a folder of measurements; returns the files."""
    content = made(folder)
    for name, text in content.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(text)
    return [to / name for name in content]


def made(folder: Path) -> dict[str, bytes]:
    """Return the content of each file that a folder has measurements for, by its path below docs."""
    files = dict[str, bytes]()
    if traces := trace_report.gathered(folder):
        files |= of_traces(traces) | {f"benchmarks/{name}": content for name, content in stored(folder).items()}
    if (material := gathered(folder)).lines:
        files |= of_lines(material)
    return files


def stored(folder: Path) -> dict[str, bytes]:
    """Return the traces and what prices them, from which the page can be made again."""
    kinds = ("traces/*.jsonl.gz", "curves.*.json", "checks.*.json", "residuals.*.json", "machine.json")
    files = [file for kind in kinds for file in sorted(folder.glob(kind))]
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def of_traces(traces: Traces) -> dict[str, bytes]:
    """Return the page of the figures that matter, and those behind it."""
    from tests.bench.plots import svg

    spent = Section("Where the time goes", "", (trace_report.spent(traces),))
    chosen = [trace_report.figures(traces), spent, Section("Behind this page", BEHIND)]
    back = "Of [the benchmarks](../benchmarks.md)."
    pages = {
        "benchmarks.md": page("Benchmarks", OPENING, chosen, "benchmarks/"),
        "benchmarks/corpora.md": page("All policies, by corpus", back, trace_report.by_corpus(traces)),
        "benchmarks/prices.md": page("Prices", back, trace_report.prices(traces)),
        "benchmarks/apple.md": page("Apple machines", back, trace_report.projections(traces)),
    }
    plots = {f"benchmarks/{picture.name}.svg": svg(picture) for picture in pictures(chosen)}
    return {name: text.encode() for name, text in pages.items()} | plots


def of_lines(material: Material) -> dict[str, bytes]:
    """Return the pages of the experiments in real time."""
    from tests.bench.plots import svg

    chosen = sections(material)
    files = {"benchmarks/real-time.md": page("Experiments in real time", REAL_TIME, chosen).encode()}
    return files | {f"benchmarks/{picture.name}.svg": svg(picture) for picture in pictures(chosen)}


def sections(material: Material) -> list[Section]:
    """Return the parts of the page of experiments in real time that have measurements."""
    lines = material.lines
    parts = (
        extras.machine(material),
        extras.legend(),
        extras.claims(material),
        overall(lines),
        losses(lines),
        ablation(lines),
        *(sweep(lines, kind) for kind in ("tau", "stride")),
        stages(lines),
        extras.operations(material),
        extras.peers(material),
        extras.missing(material),
    )
    return [part for part in parts if part.text]


def pictures(chosen: list[Section]) -> list[Picture]:
    """Return the plots of all parts."""
    return [picture for section in chosen for picture in section.pictures]


if __name__ == "__main__":
    sys.exit(main())
