"""docs/benchmarks.md and its plots, generated from measurements alone; the same measurements give the same bytes.

Run `python -m tests.bench.report FOLDER [--to docs]`: units are in FOLDER/lines, other measurements in FOLDER. Plots
need the group `bench` of pyproject.toml.
"""

import sys
from argparse import ArgumentParser
from pathlib import Path

from tests.bench import extras
from tests.bench.overall import detail, losses, overall
from tests.bench.page import Picture, Section, page
from tests.bench.records import Material, Unreadable, gathered
from tests.bench.stages import stages
from tests.bench.sweeps import ablation, sweep

OPENING = """\
Written by `python -m tests.bench.report` from the lines of the evaluation; each corpus is in
[detail](benchmarks/detail.md). Baselines are settings of pkb's own engine. The paper is PerCache."""


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
    content = made(gathered(folder))
    for name, text in content.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(text)
    return [to / name for name in content]


def made(material: Material) -> dict[str, bytes]:
    """Return the content of each file, by its path below docs."""
    from tests.bench.plots import svg

    chosen = sections(material)
    files = {
        "benchmarks.md": page("Benchmarks", OPENING, chosen, "benchmarks/").encode(),
        "benchmarks/detail.md": page(
            "By corpus", "Of [the benchmarks](../benchmarks.md).", detail(material.lines)
        ).encode(),
    }
    return files | {f"benchmarks/{picture.name}.svg": svg(picture) for picture in pictures(chosen)}


def sections(material: Material) -> list[Section]:
    """Return all parts of the page; parts without measurements say so."""
    lines = material.lines
    return [
        extras.machine(material),
        extras.legend(),
        extras.claims(material),
        overall(lines),
        losses(lines),
        ablation(lines),
        *(sweep(lines, kind) for kind in ("tau", "stride", "kv")),
        stages(lines),
        extras.operations(material),
        extras.peers(material),
        extras.missing(material),
    ]


def pictures(chosen: list[Section]) -> list[Picture]:
    """Return the plots of all parts."""
    return [picture for section in chosen for picture in section.pictures]


if __name__ == "__main__":
    sys.exit(main())
