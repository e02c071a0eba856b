"""How policies stand against one another by priced traces: means, medians and changes, each with its interval."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from tests.bench.intervals import Interval, Statistic, change, interval, mean
from tests.bench.prices import Curves, Form, Key, Machine, key, price, projected, totals
from tests.bench.sums import RIVALS
from tests.bench.traces import Row

ALL = "all"  # corpora together
Side = tuple[str, int, Form]  # policy, sources, form
Pricing = Callable[[Row, Form], float]


@dataclass(frozen=True, slots=True)
class Column:
    """A policy at a number of sources: its rows, and the milliseconds of each question in one form."""

    rows: tuple[Row, ...]
    ms: Mapping[Key, float]


@dataclass(frozen=True)
class Standings:
    """All traces, priced by one function."""

    rows: Sequence[Row]
    pricing: Pricing
    columns: dict[Side, Column] = field(default_factory=dict)

    @cached_property
    def grouped(self) -> dict[tuple[str, int], tuple[Row, ...]]:
        """Return the rows of each policy and number of sources."""
        found: dict[tuple[str, int], list[Row]] = {}
        for row in self.rows:
            found.setdefault((row.policy, row.top), []).append(row)
        return {name: tuple(rows) for name, rows in found.items()}

    @property
    def corpora(self) -> list[str]:
        """Return the corpora, by name."""
        return sorted({row.corpus for row in self.rows})

    def column(self, policy: str, top: int, form: Form = "strengthened") -> Column:
        """Return the priced questions of a policy."""
        side = policy, top, form
        if side not in self.columns:
            rows, naive = self.grouped[policy, top], self.grouped["naive", top]
            self.columns[side] = Column(rows, totals(rows, naive, partial(_flipped, self.pricing, form)))
        return self.columns[side]

    def values(self, side: Side, corpus: str = ALL) -> list[float]:
        """Return the milliseconds of the questions of a corpus, in the order of their keys."""
        ms = self.column(*side).ms
        return [ms[one] for one in sorted(ms) if corpus in (ALL, one[0])]

    def best(self, top: int, form: Form, corpus: str = ALL) -> Side:
        """Return the rival with the lowest mean, PerCache among them."""
        there = [name for name in RIVALS if (name, top) in self.grouped]
        sides: list[Side] = [(name, top, form) for name in there]
        return min(sides, key=lambda side: float(np.mean(self.values(side, corpus))))

    def against(self, side: Side, other: Side, corpus: str = ALL, statistic: Statistic = mean) -> Interval:
        """Return the change from another policy to this one."""
        return change(self.values(side, corpus), self.values(other, corpus), statistic)

    def of(self, side: Side, corpus: str = ALL, statistic: Statistic = mean) -> Interval:
        """Return a statistic of a policy's milliseconds."""
        return interval(self.values(side, corpus), statistic)


def _flipped(pricing: Pricing, form: Form, row: Row) -> float:
    return pricing(row, form)


def priced(rows: Sequence[Row], curves: Curves) -> Standings:
    """Return the standings on the machine of the curves."""
    return Standings(rows, lambda row, form: price(row, curves, form).total)


def projection(rows: Sequence[Row], curves: Curves, machine: Machine) -> Standings:
    """Return the standings on a machine of published figures."""
    return Standings(rows, lambda row, form: projected(row, curves, machine, form))


@dataclass(frozen=True, slots=True)
class Counts:
    """What a policy did, in all questions of a corpus; `wrong` answers are those of hits that say something else."""

    n: int
    tiers: Mapping[str, int]
    hits: int
    wrong: int
    chunks: int
    found: int
    prompt: int
    reused: int
    generated: int
    guessed: int
    written: int  # bytes of KV and answers
    idle_tokens: int  # prefilled in idle runs

    @property
    def tokens_reused(self) -> float:
        """Return the share of the prompts' tokens that were loaded."""
        return self.reused / max(1, self.prompt)


def counts(rows: Iterable[Row]) -> Counts:
    """Add up rows."""
    own = list(rows)
    hits = [row for row in own if row.tier in ("exact", "semantic")]
    idle = [row.idle for row in own if row.idle]
    return Counts(
        n=len(own),
        tiers=Counter(row.tier for row in own),
        hits=len(hits),
        wrong=sum(row.right is False for row in hits),
        chunks=sum(row.chunks for row in own),
        found=sum(row.found for row in own),
        prompt=sum(row.prompt for row in own),
        reused=sum(row.reused for row in own),
        generated=sum(row.generated for row in own),
        guessed=sum(row.guessed for row in own),
        written=sum(row.work.written for row in own) + sum(one.written for one in idle),
        idle_tokens=sum(rows * steps for one in idle for kind, rows, steps, _ in one.steps if kind != "decode"),
    )


def common(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of questions that every policy was asked."""
    sides: dict[tuple[str, int], set[Key]] = {}
    for row in rows:
        sides.setdefault((row.policy, row.top), set()).add(key(row))
    shared = set.intersection(*sides.values()) if sides else set()
    return [row for row in rows if key(row) in shared]


@dataclass(frozen=True, slots=True)
class Error:
    """How far prices are from what questions took: the mean relative error, and the sum's relative difference."""

    n: int
    mean: Interval
    sum: float


def error(pairs: Sequence[tuple[float, float]]) -> Error:
    """Compare prices with milliseconds, at least one pair."""
    apart = [abs(priced_ms - took) / took for priced_ms, took in pairs]
    return Error(len(pairs), interval(apart), sum(one for one, _ in pairs) / sum(took for _, took in pairs) - 1)


def parts(standings: Standings, curves: Curves, side: Side) -> dict[str, float]:
    """Return the mean milliseconds of a policy's questions by what they are spent on."""
    column = standings.column(*side)
    prices = [price(row, curves, side[2]) for row in column.rows]
    found = {
        name: float(np.mean([getattr(one, part) for one in prices]))
        for name, part in (("pkb's own", "engine"), ("load", "load"), ("prefill", "prefill"), ("decode", "decode"))
    }
    found["asked again"] = float(np.mean(list(column.ms.values()))) - sum(found.values())
    return found
