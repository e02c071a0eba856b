"""Report sections from priced traces: the figures that matter, each corpus, prices and residuals, and a projection."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from engine.text.terminal import count
from tests.bench.curves import MACHINE, Check, Facts, Residual
from tests.bench.intervals import Interval, median
from tests.bench.page import NONE, Bars, Picture, Section, change, of, percent, plain, prose, table
from tests.bench.policies import POLICIES
from tests.bench.prices import FORMS, Curves, Form, Machine, price
from tests.bench.records import read_file
from tests.bench.standings import ALL, Error, Side, Standings, common, counts, error, parts, priced, projection
from tests.bench.sums import RIVALS
from tests.bench.traces import Row, read

SHAPES = ("135M", "0.5B")
PKB: Side = ("pkb", 5, "strengthened")
BLOCKS: Side = ("pkb-blocks", 5, "strengthened")
TARGET, LEAST = -0.344, -0.25  # of the mean against the best published baseline, and of the interval's upper end
# Llama 3.1 8B, Q4_K_M, llama.cpp on Metal: pp512 and tg128. A token's keys and values take 2 x 32 x 8 x 128 x 2 bytes;
# what a disk reads in a second is an assumption.
SOURCE = "https://github.com/brand-o/normiebench"
MACHINES = (
    Machine("Mac mini, M4", 224.81, 20.87, 131_072, 3e9),
    Machine("MacBook Pro, M1 Max", 499.58, 46.2, 131_072, 5e9),
)
SHOWN: Mapping[Form, str] = {"published": "as published", "strengthened": "with pkb's engine"}
TITLES = {name: one.title for name, one in POLICIES.items()} | {"percache": "PerCache", "pkb-blocks": "pkb in blocks"}
CURVES = "The curves are in `curves.*.json` beside this page: ms of a step by its rows and the tokens before it."
NOTE = (
    "Every question runs under every policy with pkb's own ingest, retrieval, prompts, KV tree, answer cache and idle "
    "runs, but with a model whose layers compute nothing. The counted work is priced by curves measured on this "
    "machine. A baseline as published decodes without drafts and uses mlx-lm's attention; a strengthened one uses all "
    "of pkb's engine. PerCache is one of the baselines. A wrong hit, whose answer differs from the uncached one, also "
    "costs the uncached answer. Idle runs come every three questions, each with the same limit of work. The 0.5B shape "
    "is priced from token counts of SmolLM2's tokenizer."
)


@dataclass(frozen=True)
class Traces:
    """Traces and what prices them, as one folder holds them."""

    rows: Sequence[Row]
    curves: Mapping[str, Curves]
    checks: Mapping[str, Sequence[Check]]
    residuals: Mapping[str, Sequence[Residual]]
    machine: Mapping[str, str]

    @cached_property
    def standings(self) -> dict[str, Standings]:
        """Return the standings by shape."""
        return {shape: priced(self.rows, curves) for shape, curves in self.curves.items()}


def gathered(folder: Path) -> Traces | None:
    """Read a folder of traces; None where there are none, or no curves."""
    rows = [row for file in sorted((folder / "traces").glob("*.jsonl.gz")) for row in read(file)]
    curves = {shape: found for shape in SHAPES if (found := read_file(folder / f"curves.{shape}.json", Curves))}
    if not rows or not curves:
        return None
    known = {corpus: own for one in curves.values() for corpus, own in one.engine.items()}
    # pkb's own time does not depend on the shape: where it was not measured beside one, it is another's.
    curves = {shape: replace(one, engine={**known, **one.engine}) for shape, one in curves.items()}
    checks = {shape: read_file(folder / f"checks.{shape}.json", tuple[Check, ...]) or () for shape in curves}
    residuals = {shape: read_file(folder / f"residuals.{shape}.json", tuple[Residual, ...]) or () for shape in curves}
    facts: Facts = read_file(folder / MACHINE, Facts) or Facts({})
    return Traces(common(rows), curves, checks, residuals, facts.facts)


def spread(found: Interval, *, relative: bool = True) -> str:
    """Show a value with its interval."""
    if relative:
        return f"{100 * found.value:+.1f} % [{100 * found.low:+.1f}, {100 * found.high:+.1f}]"
    return f"{plain(found.value)} [{plain(found.low)}, {plain(found.high)}]"


def titled(side: Side) -> str:
    """Return a policy, its sources and its form in words."""
    name, top, form = side
    return f"{TITLES.get(name, name)}, {top} sources" + (f", {form}" if name in RIVALS else "")


def figures(traces: Traces) -> Section:
    """Return the ten figures that matter, a column for each shape."""
    columns = {shape: dict(_ten(traces, shape)) for shape in traces.curves}
    names = list(dict.fromkeys(name for own in columns.values() for name in own))
    rows = [
        (f"{number}. {name}", *(own.get(name, NONE) for own in columns.values()))
        for number, name in enumerate(names, 1)
    ]
    heads = ("figure [95 % interval]", *columns)
    said = [prose(NOTE), table(heads, rows, left=len(heads)), prose(verdict(traces)), prose(where(traces))]
    return Section("Ten figures", "\n\n".join(said), (pooled(traces), each(traces)))


def where(traces: Traces) -> str:
    """Say what was asked, and on which machine the curves were measured."""
    asked = {(row.corpus, row.user, row.number) for row in traces.rows}
    sizes = Counter(corpus for corpus, _, _ in asked)
    users = Counter(corpus for corpus, _ in {(corpus, user) for corpus, user, _ in asked})
    parts = [f"{corpus} {sizes[corpus]} of {count(users[corpus], 'user')}" for corpus in sorted(sizes)]
    clocks = " and ".join(sorted({curves.clock for curves in traces.curves.values()}))
    facts = ", ".join(traces.machine[name] for name in ("processor", "cores", "BLAS") if name in traces.machine)
    return f"Questions: {len(asked)} ({', '.join(parts)}). Machine: {facts or 'not recorded'}; clock: {clocks}."


def _ten(traces: Traces, shape: str) -> Iterator[tuple[str, str]]:
    standings = traces.standings[shape]
    best, percache = "the best baseline", ("percache", 2, FORMS[0])
    duels: list[tuple[Side, str, Side]] = [
        (PKB, best, standings.best(5, "published")),
        (PKB, best, standings.best(5, "strengthened")),
        (BLOCKS, best, standings.best(5, "published")),
        (BLOCKS, best, standings.best(5, "strengthened")),
        (("pkb", 2, "strengthened"), best, standings.best(2, "published")),
        (PKB, "", percache),
        (BLOCKS, "", percache),
    ]
    for side, rival, other in duels:
        against = f"{rival}, {other[2]}" if rival else titled(other)
        named = f" ({TITLES[other[0]]})" if rival else ""
        yield f"{titled(side)}, against {against}: mean", spread(standings.against(side, other)) + named
    for side in (PKB, BLOCKS):
        shown = spread(standings.of(side), relative=False), spread(standings.of(side, statistic=median), relative=False)
        yield f"{titled(side)}: mean; median, ms", "; ".join(shown)
    if checked := traces.checks[shape]:
        found = agreement(checked, traces.curves[shape])
        error_ = f"{100 * found.mean.value:.1f} % [{100 * found.mean.low:.1f}, {100 * found.mean.high:.1f}]"
        yield "mean relative error of the prices, against real answers", f"{error_}, n = {found.n}"


def verdict(traces: Traces) -> str:
    """Say whether the aim was reached, and where pkb is behind a baseline in either form."""
    said = [f"The aim is {100 * TARGET:.1f} % of the mean with an interval below {100 * LEAST:.0f} %."]
    for shape, standings in traces.standings.items():
        for side in (PKB, BLOCKS):
            gain = standings.against(side, standings.best(5, "published"))
            reached = "reached" if gain.value <= TARGET and gain.high <= LEAST else "missed"
            behind = [f"{'; '.join(behind_on(standings, side, form))} ({SHOWN[form]})" for form in FORMS]
            said.append(f"At {shape}, {titled(side)}: {reached}; behind the best baseline on {', '.join(behind)}.")
    return " ".join(said)


def behind_on(standings: Standings, side: Side, form: Form) -> list[str]:
    """Return the corpora on which a baseline in a form has the lower mean, with the change."""
    against = {corpus: standings.against(side, standings.best(5, form, corpus), corpus) for corpus in standings.corpora}
    return [f"{corpus} {change(gain.value)}" for corpus, gain in against.items() if gain.value > 0] or ["no corpus"]


def agreement(checks: Sequence[Check], curves: Curves) -> Error:
    """Compare the prices of real answers with what they took; hits of the answer cache, without a model, left out."""
    computed = [one for one in checks if one.row.tier not in ("exact", "semantic")]
    return error([(price(one.row, curves).total, one.ms) for one in computed])


def bars(title: str, axis: str, groups: Sequence[str], found: Mapping[str, Sequence[Interval | None]]) -> Bars:
    """Return bars with their intervals, by series."""
    values = {name: [one.value if one else None for one in own] for name, own in found.items()}
    ends = {name: [(one.low, one.high) if one else None for one in own] for name, own in found.items()}
    return Bars(title, axis, groups, values, spread=ends)


def pooled(traces: Traces) -> Picture:
    """Draw the mean of each policy over all corpora."""
    panels, names = list[Bars](), (*RIVALS, "pkb", "pkb-blocks")
    for shape, standings in traces.standings.items():
        for top in (2, 5):
            found = {
                SHOWN[form]: [
                    standings.of((name, top, form)) if form == "strengthened" or name in RIVALS else None
                    for name in names
                ]
                for form in FORMS
            }
            panels.append(bars(f"{shape}, {top} sources", "ms a question", [TITLES[name] for name in names], found))
    return Picture("traces-mean", "Mean milliseconds of a question by policy, all corpora", tuple(panels), columns=1)


def each(traces: Traces) -> Picture:
    """Draw pkb against the best baseline of each corpus."""
    panels = list[Bars]()
    for shape, standings in traces.standings.items():
        for form in FORMS:
            groups = [*standings.corpora, ALL]
            rivals = {corpus: standings.best(5, form, corpus) for corpus in groups}
            found = {
                TITLES[side[0]]: [percents(standings.against(side, rivals[corpus], corpus)) for corpus in groups]
                for side in (PKB, BLOCKS)
            }
            title = f"{shape}, five sources: against the best baseline {SHOWN[form]}"
            panels.append(bars(title, "% of its mean", groups, found))
    return Picture(
        "traces-corpora", "Change of mean time against the best baseline, by corpus", tuple(panels), columns=1
    )


def percents(found: Interval) -> Interval:
    """Return an interval of shares in per cent."""
    return Interval(100 * found.value, 100 * found.low, 100 * found.high)


def spent(traces: Traces) -> Picture:
    """Draw what the time of each policy is spent on."""
    panels = list[Bars]()
    for shape, standings in traces.standings.items():
        sides: list[Side] = [
            ("naive", 5, "strengthened"),
            standings.best(5, "strengthened"),
            ("percache", 2, "strengthened"),
            PKB,
            BLOCKS,
        ]
        sides = list(dict.fromkeys(sides))
        found = [parts(standings, traces.curves[shape], side) for side in sides]
        names = [f"{TITLES[name]}, {top}" for name, top, _ in sides]
        totals = [standings.of(side) for side in sides]
        series = {part: [one[part] for one in found] for part in found[0]}
        panels.append(
            Bars(
                f"Where the time goes, {shape}",
                "ms a question",
                names,
                series,
                stacked=True,
                spread={"": [(one.low, one.high) for one in totals]},
            )
        )
    return Picture("traces-parts", "What the time of a question is spent on", tuple(panels), columns=1)


def by_corpus(traces: Traces) -> list[Section]:
    """Return all policies over all corpora, and pkb beside the best baseline of each corpus."""
    first = next(iter(traces.standings.values()))
    n = len(first.values(PKB, ALL))
    heads = (
        *("policy", "sources", *(f"{shape}, {form}, ms" for shape in traces.standings for form in FORMS)),
        *("wrong hits", "tokens reused"),
    )
    shown = [side for side in first.grouped if side[1] == 5 or side[0] in ("percache", "pkb", "pkb-blocks")]
    rows = [_row(traces, name, top) for name, top in sorted(shown, key=lambda side: -side[1])]
    said = f"Mean milliseconds of n = {n} questions, the same for every policy, with 95 % intervals."
    each = [
        (corpus, str(len(one.values(PKB, corpus))), shape, *_beside(one, corpus))
        for corpus in first.corpora
        for shape, one in traces.standings.items()
    ]
    columns = ("corpus", "n", "shape", "best baseline, published", "best baseline, strengthened", "pkb", "in blocks")
    return [
        Section("All corpora", f"{said}\n\n{table(heads, rows, left=2)}"),
        Section("By corpus", f"Mean milliseconds with five sources.\n\n{table(columns, each, left=3)}"),
    ]


def _row(traces: Traces, name: str, top: int) -> Sequence[str]:
    found = counts(next(iter(traces.standings.values())).grouped[name, top])
    ends = [
        spread(one.of((name, top, form)), relative=False) if form == "strengthened" or name in RIVALS else ""
        for one in traces.standings.values()
        for form in FORMS
    ]
    shown = of(found.wrong, found.hits), percent(found.tokens_reused)
    return (TITLES.get(name, name), str(top), *ends, *shown)


def _beside(standings: Standings, corpus: str) -> Iterator[str]:
    for form in FORMS:
        best = standings.best(5, form, corpus)
        yield f"{TITLES[best[0]]}: {spread(standings.of(best, corpus), relative=False)}"
    for side in (PKB, BLOCKS):
        yield spread(standings.of(side, corpus), relative=False)


def prices(traces: Traces) -> list[Section]:
    """Return the residuals of the curves and the check of the prices by real answers."""
    said = list[str]()
    for shape, curves in traces.curves.items():
        load = f"{curves.load[0]:.2f} ms a file and {curves.load[1]:.4f} ms a token"
        apart = [f"{one.step} {100 * one.difference:+.1f} %" for one in traces.residuals[shape]]
        between = f"price against time between the measured lengths: {', '.join(apart) or 'not compared'}"
        said.append(prose(f"- {shape}: loading KV takes {load}; {between}", "  "))
    rows = [(shape, *row) for shape, curves in traces.curves.items() for row in _checked(traces.checks[shape], curves)]
    heads = ("shape", "policy", "sources", "tier", "n", "mean ms", "mean relative error", "sum")
    found = [Section("Curves", "\n".join((CURVES, "", *said)))]
    return found + ([Section("Prices of real answers", table(heads, rows, left=4))] if rows else [])


def _checked(checks: Sequence[Check], curves: Curves) -> Iterator[Sequence[str]]:
    groups = dict[tuple[str, int, str], list[tuple[float, float]]]()
    for one in checks:
        side = one.row.policy, one.row.top, one.row.tier
        groups.setdefault(side, []).append((price(one.row, curves).total, one.ms))
    for (policy, top, tier), pairs in sorted(groups.items()):
        found = error(pairs)
        took = plain(sum(ms for _, ms in pairs) / len(pairs))
        apart = f"{100 * found.mean.value:.1f} %", f"{100 * found.sum:+.1f} %"
        yield policy, str(top), tier, str(found.n), took, *apart


def projections(traces: Traces) -> list[Section]:
    """Return the standings on machines of published figures."""
    curves = next(iter(traces.curves.values()))
    rows = list[Sequence[str]]()
    for machine in MACHINES:
        standings = projection(traces.rows, curves, machine)
        best = [standings.best(5, form) for form in FORMS]
        for side in (PKB, BLOCKS):
            changes = [f"{spread(standings.against(side, one))} ({TITLES[one[0]]})" for one in best]
            rows.append((machine.name, titled(side), spread(standings.of(side), relative=False), *changes))
    speeds = [f"{one.name} {one.prefill:g} tokens/s prefill, {one.decode:g} decode" for one in MACHINES]
    text = (
        f"A projection, not a measurement: the same traces at published speeds of Llama 3.1 8B (Q4_K_M) by llama.cpp "
        f"on Metal ({SOURCE}): {'; '.join(speeds)}. "
        "It assumes linear prefill, disks that read 3 and 5 GB/s, the token counts of SmolLM2, and pkb's own time as "
        "measured here."
    )
    heads = ("machine", "policy", "mean ms", *(f"against the best baseline, {form}" for form in FORMS))
    return [Section("Apple machines, by published figures", f"{prose(text)}\n\n{table(heads, rows, left=2)}")]
