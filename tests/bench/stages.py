"""Report sections on the time of each stage, and on the cost of PerCache's own engine. Knows no file."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from engine.types import STAGES
from tests.bench.overall import titled
from tests.bench.page import NONE, Bars, Picture, Section, change, plain, table, weight
from tests.bench.reading import Line
from tests.bench.sums import MAIN, by, matched, of_policies

MARKS = ("first_token", "total")  # points in time, not stages
SHOWN = tuple(stage for stage in STAGES if stage not in MARKS)
REST = "other"
SAID = "A stage that a question did not come to counts as 0. The first question of a home finds nothing kept."


def stages(lines: Sequence[Line]) -> Section:
    """Set the mean milliseconds of each stage, and the first question of a home beside those after it."""
    title, parts, panels = "Where the time goes", list[str](), list[Bars]()
    heads = ("policy", "n", *SHOWN, REST, "total", "first question, median", "the others, median")
    for writer, groups in written(lines).items():
        rows = {name: spent(own) for name, own in groups.items()}
        cells = [
            (
                titled(name),
                str(len(groups[name])),
                *map(plain, (*row.values(), sum(row.values()))),
                *_cold(groups[name]),
            )
            for name, row in rows.items()
        ]
        parts += [f"### {writer}, mean ms a question", table(heads, cells)]
        bars = {stage: [row[stage] for row in rows.values()] for stage in (*SHOWN, REST)}
        panels.append(Bars(f"Stages, {writer}", "ms", tuple(rows), bars, stacked=True))
    if not parts:
        return Section(title, "Left out: there are no lines.")
    return Section(title, "\n\n".join((SAID, *parts)), (Picture("stages", "Stages by policy", tuple(panels)),))


def printed(lines: Sequence[Line]) -> Section:
    """Set what PerCache took here beside what its own engine would take, by formula."""
    title, rows = "PerCache as printed, by formula", list[Sequence[str]]()
    for writer, own in by((line for line in lines if line.policy == "percache"), lambda line: line.writer).items():
        pairs = [(line, line.printed) for line in own if line.printed]
        if not pairs:
            continue
        here, there = fmean(line.ms["total"] for line, _ in pairs), fmean(one.ms for _, one in pairs)
        flops = [fmean(line.flops for line, _ in pairs) / 1e9, fmean(one.flops for _, one in pairs) / 1e9]
        last = {(line.corpus, line.user): (line.kv_bytes, one.kv_bytes) for line, one in pairs}
        sizes = [weight(fmean(size)) for size in zip(*last.values(), strict=True)]
        slower = change(there / here - 1)
        rows.append((writer, str(len(pairs)), plain(here), plain(there), slower, *map(plain, flops), *sizes))
    if not rows:
        return Section(title, "Left out: no line has what the paper's engine would have taken.")
    said = "The paper's engine keeps Q beside K and V and saves the projections alone (PerCache 4.1.1, 4.2.2)."
    heads = ("writer", "n", "mean ms here", "printed", "change", "GFLOP here", "printed", "kept here", "printed")
    return Section(title, f"{said}\n\n{table(heads, rows)}")


def spent(lines: Sequence[Line]) -> dict[str, float]:
    """Return the mean milliseconds of each stage, the rest of the total under `other`."""
    found = {stage: fmean(line.ms.get(stage, 0.0) for line in lines) for stage in SHOWN}
    return found | {REST: max(0.0, fmean(line.ms["total"] for line in lines) - sum(found.values()))}


def written(lines: Iterable[Line]) -> Mapping[str, Mapping[str, list[Line]]]:
    """Return the lines of each main policy by writer, over the questions that all of these were asked."""
    found = {}
    for writer, own in by(lines, lambda line: line.writer).items():
        groups = {name: group for name, group in matched(of_policies(own, MAIN)).items() if group}
        if groups:
            found[writer] = groups
    return found


def _cold(lines: Sequence[Line]) -> tuple[str, str]:
    firsts, others = list[float](), list[float]()
    for line in lines:
        (firsts if line.number == 1 else others).append(line.ms["total"])
    return (plain(median(firsts)) if firsts else NONE, plain(median(others)) if others else NONE)
