"""Report section on the time of each stage."""

from collections.abc import Sequence
from statistics import fmean

from engine.types import STAGES
from tests.bench.overall import titled
from tests.bench.page import Bars, Picture, Section, plain, table
from tests.bench.records import Line
from tests.bench.sums import MAIN, by, matched, of_policies

MARKS = ("first_token", "total")  # points in time, not stages
SHOWN = tuple(stage for stage in STAGES if stage not in MARKS)
REST = "other"
NOTE = "A stage that a question did not reach counts as 0."
HEADS = ("policy", *SHOWN, REST, "total")


def stages(lines: Sequence[Line]) -> Section:
    """Return the mean milliseconds of each stage."""
    title, parts, panels = "Where the time goes", list[str](), list[Bars]()
    for writer, own in by(lines, lambda line: line.writer).items():
        groups = {name: group for name, group in matched(of_policies(own, MAIN)).items() if group}
        if not groups:
            continue
        spent = {name: _spent(group) for name, group in groups.items()}
        rows = [(titled(name), *map(plain, (*row.values(), sum(row.values())))) for name, row in spent.items()]
        parts += [f"### {writer}, mean ms per question", table(HEADS, rows)]
        bars = {stage: [row[stage] for row in spent.values()] for stage in (*SHOWN, REST)}
        panels.append(Bars(f"Stages, {writer}", "ms", tuple(spent), bars, stacked=True))
    if not parts:
        return Section(title, "")
    return Section(title, "\n\n".join((NOTE, *parts)), (Picture("stages", "Stages by policy", tuple(panels)),))


def _spent(lines: Sequence[Line]) -> dict[str, float]:
    """Return the mean milliseconds of each stage, the rest of the total under `other`."""
    found = {stage: fmean(line.ms.get(stage, 0.0) for line in lines) for stage in SHOWN}
    return found | {REST: max(0.0, fmean(line.ms["total"] for line in lines) - sum(found.values()))}
