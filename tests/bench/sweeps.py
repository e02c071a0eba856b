"""Report sections on settings (threshold, stride, budget) and on parts of pkb (ablation).

The name of a policy says what varies or is off: `pkb-stride3`, `pkb-kv64MB`, `pkb-tau60`, `percache-tau60` (no guards),
`pkb-no-bank`, `pkb-no-kv`, `pkb-no-drafts`, `pkb-no-prediction`, and at 0.80 `pkb-no-bank-tau80`.
"""

import re
from collections.abc import Iterator, Sequence

from engine.settings import Settings
from tests.bench.page import Curve, Curves, Picture, Section, of, percent, plain, ratio, table
from tests.bench.records import Line
from tests.bench.sums import Sum, by, matched, of_policies, summed

BASES = ("pkb", "percache")
DEFAULTS = {"tau": Settings().bank.tau, "stride": Settings().experiment.stride, "kv": Settings().kv.bytes / 1e6}
TITLES = {
    "tau": "Sensitivity to the threshold",
    "stride": "Sensitivity to the stride",
    "kv": "Sensitivity to the budget",
}
AXES = {"tau": "tau", "stride": "questions predicted at a time", "kv": "MB of KV"}
HEADS = ("n", "answer hits", "false hits", "chunks found", "ROUGE-L", "mean ms", "quartiles")


def sweep(lines: Sequence[Line], kind: str) -> Section:
    """Return the effect of a varied setting, by writer; a base is among its variants at its own value."""
    rows, panels = list[Sequence[str]](), list[Curves]()
    for writer, own in by(lines, lambda line: line.writer).items():
        groups = varied(own, kind)
        for name, group in groups.items():
            rows.append((name, writer, f"{value_of(name, kind):g}", *quality(group)))
        if groups:
            panels += _panels({name: summed(group) for name, group in groups.items()}, kind, writer)
    if not rows:
        return Section(TITLES[kind], "")
    text = table(("policy", "writer", AXES[kind], *HEADS), rows, left=2)
    return Section(TITLES[kind], text, (Picture(kind, TITLES[kind], tuple(panels)),))


def varied(lines: Sequence[Line], kind: str) -> dict[str, list[Line]]:
    """Return the policies that vary a setting, by its value, over their common questions.

    A base is among them unless a variant has the base's own value.
    """
    values = {name: value for name in {line.policy for line in lines} if (value := value_of(name, kind)) is not None}
    varied = {(_base(name), value) for name, value in values.items() if name not in BASES}
    bases = {base for base, _ in varied}
    chosen = [name for name in values if _base(name) in bases and (name, values[name]) not in varied]
    chosen.sort(key=lambda name: (BASES.index(_base(name)), values[name]))
    return {name: group for name, group in matched(of_policies(lines, chosen)).items() if group}


def value_of(policy: str, kind: str) -> float | None:
    """Return the value of a setting by a policy's name; None where that varies something else."""
    if policy in BASES:
        return DEFAULTS[kind]
    found = re.fullmatch(rf"(?:{'|'.join(BASES)})-{kind}(\d+)(MB|GB)?", policy)
    if found is None or bool(found[2]) != (kind == "kv"):
        return None
    return int(found[1]) * (0.01 if kind == "tau" else 1000.0 if found[2] == "GB" else 1.0)


def quality(lines: Sequence[Line]) -> tuple[str, ...]:
    """Return the cells of HEADS."""
    one = summed(lines)
    return (
        str(one.n),
        percent(one.hits / one.n),
        of(one.false, one.known, one.unknown),
        of(one.found, one.chunks),
        plain(one.rouge),
        plain(one.mean_ms),
        f"{plain(one.low_ms)} to {plain(one.high_ms)}",
    )


def _panels(sums: dict[str, Sum], kind: str, writer: str) -> list[Curves]:
    hits, times = list[Curve](), list[Curve]()
    for base in BASES:
        own = [(value_of(name, kind) or 0.0, one) for name, one in sums.items() if _base(name) == base]
        if not own:
            continue
        hits += [
            Curve(f"{base}, answer hits", base, [(at, 100 * one.hits / one.n) for at, one in own]),
            Curve(f"{base}, false", base, [(at, 100 * one.false / one.n) for at, one in own], dashed=True),
        ]
        if kind != "tau":
            found = [(at, 100 * one.found / one.chunks) for at, one in own if one.chunks]
            hits.append(Curve(f"{base}, chunks found", f"{base} chunks", found))
        times.append(Curve(base, base, [(at, one.mean_ms) for at, one in own]))
    said, share_of = next(iter(sums.values())).n, "% of questions" if kind == "tau" else "% of questions, of chunks"
    return [
        Curves(f"Hits, {writer} (n = {said})", AXES[kind], share_of, hits),
        Curves(f"Mean latency, {writer} (n = {said})", AXES[kind], "ms", times, kind == "kv"),
    ]


def _base(policy: str) -> str:
    return policy.partition("-")[0]


PARTS = ("", "-no-bank", "-no-kv", "-no-drafts", "-no-prediction")
LEVELS = {"0.85": "", "0.80": "-tau80"}  # as the paper has them
Rows = list[Sequence[str]]


def ablation(lines: Sequence[Line]) -> Section:
    """Compare pkb with itself without each part, by writer and threshold."""
    title, rows = "Ablation", Rows()
    for writer, own in by(lines, lambda line: line.writer).items():
        for level, suffix in LEVELS.items():
            names = [f"pkb{part}{suffix}" for part in PARTS]
            rows += _rows(of_policies(own, names), writer, level, names[0])
    heads = ("policy", "writer", "tau", *HEADS, "of pkb")
    return Section(title, table(heads, rows, left=3) if rows else "")


def _rows(found: dict[str, list[Line]], writer: str, level: str, whole: str) -> Iterator[Sequence[str]]:
    groups = {name: own for name, own in matched(found).items() if own}
    if whole not in groups or len(groups) == 1:
        return
    mean = summed(groups[whole]).mean_ms
    for name, own in groups.items():
        yield (name, writer, level, *quality(own), ratio(summed(own).mean_ms, mean))
