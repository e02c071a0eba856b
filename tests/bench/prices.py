"""Milliseconds of a trace: the counted work of a question, priced by curves that were measured on a machine.

A step of a model takes F(rows) + tokens before it x G(rows), both linear between measured numbers of rows. Loading KV
takes so long for each file and token, and pkb's own stages as long as their mean over a corpus.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tests.bench.traces import Row, Work

Form = Literal["published", "strengthened"]
FALLBACKS = {
    "exact": ("semantic",),
    "semantic": ("exact",),
    "made": ("looked up", "guarded"),
    "looked up": ("made", "guarded"),
    "guarded": ("looked up", "made"),
}
FORMS: tuple[Form, ...] = ("published", "strengthened")
# Rows of a step at which times are measured, by kind: of keys and values alone, with logits, and of decoding.
KNOTS: Mapping[str, tuple[int, ...]] = {
    "body": (1, 8, 32, 64, 96, 128, 160, 191),
    "head": (4, 16, 32, 64, 128),
    "decode": (1, 2, 3, 5, 9),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """Milliseconds of a step by rows, `first`, and of each token before it, `further`, at the knots of its kind."""

    knots: Sequence[int]
    first: Sequence[float]
    further: Sequence[float]

    def ms(self, rows: int, steps: float, before: float) -> float:
        """Return the milliseconds of so many steps of some rows, with so many tokens before them in all."""
        first, further = (float(np.interp(rows, self.knots, values)) for values in (self.first, self.further))
        return steps * first + before * further


@dataclass(frozen=True, slots=True)
class Curves:
    """What a shape takes on a machine; `plain` curves are those with mlx-lm's own attention.

    `load` is milliseconds of a file and a token, `moved` of a segment and a token that block mode loads, then of one
    that it puts together; `engine` has pkb's stages by corpus and number of sources.
    """

    shape: str
    clock: str
    fast: Mapping[str, Curve]
    plain: Mapping[str, Curve]
    load: Sequence[float]
    moved: Sequence[float]
    engine: Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Price:
    """Milliseconds of a question by what they are spent on."""

    engine: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    load: float = 0.0
    again: float = 0.0  # asking once more after a wrong answer

    @property
    def total(self) -> float:
        """Return all of it."""
        return self.engine + self.prefill + self.decode + self.load + self.again


def price(row: Row, curves: Curves, form: Form = "strengthened") -> Price:
    """Return the price of a question, without that of a wrong answer.

    As published nothing is guessed, and the attention is mlx-lm's own.
    """
    prefill, decode = of_steps(row.work, curves, form)
    return Price(own(row, curves), prefill, decode, loading(row, curves))


def own(row: Row, curves: Curves) -> float:
    """Return the milliseconds of pkb's own work, without the model's; where its path was not met, the nearest one's."""
    known, path = curves.engine[row.corpus][str(row.top)], path_of(row)
    return next(known[one] for one in (path, *FALLBACKS[path]) if one in known)


def path_of(row: Row) -> str:
    """Return which way a question went through pkb: by its tier, and by what a look-up of paraphrases cost."""
    if row.tier in ("exact", "semantic"):
        return row.tier
    return "made" if "similar" not in row.stages else "guarded" if row.policy.startswith("pkb") else "looked up"


def of_steps(work: Work, curves: Curves, form: Form = "strengthened") -> tuple[float, float]:
    """Return the milliseconds of prefill, and of decoding."""
    kinds = curves.plain if form == "published" else curves.fast
    spent = {"body": 0.0, "head": 0.0, "decode": 0.0}
    for kind, rows, steps, before in work.steps:
        spent[kind] += kinds[kind].ms(rows, steps, before)
    decode = kinds["decode"].ms(1, *work.plain) if form == "published" else spent["decode"]
    return spent["body"] + spent["head"], decode


def loading(row: Row, curves: Curves) -> float:
    """Return the milliseconds of loading KV, and in block mode of moving it to its place."""
    files, tokens = row.work.loads
    ms = curves.load[0] * files + curves.load[1] * tokens
    moved, segments = row.moved
    if not moved:
        return ms
    loaded, each, put, token = curves.moved
    share = row.reused / row.prompt
    return ms + share * segments * loaded + row.reused * each + segments * put + moved * token


Key = tuple[str, str, int]  # corpus, user, number of a question
Pricing = Callable[[Row], float]


def totals(rows: Sequence[Row], naive: Sequence[Row], pricing: Pricing) -> dict[Key, float]:
    """Return the price of each question; a wrong answer costs that of asking again, past the cache.

    `naive` are the same questions without a cache.
    """
    uncached = {key(row): row for row in naive}
    return {key(row): pricing(row) + (pricing(uncached[key(row)]) if row.right is False else 0.0) for row in rows}


def key(row: Row) -> Key:
    """Return which question a row is about."""
    return row.corpus, row.user, row.number


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine by published figures of one model: tokens a second of prefill and of decoding.

    `token_bytes` is the size of a token's keys and values, `disk` the bytes a second at which they are loaded.
    """

    name: str
    prefill: float
    decode: float
    token_bytes: int
    disk: float


def projected(row: Row, curves: Curves, machine: Machine, form: Form = "strengthened") -> float:
    """Return the milliseconds that a question would take on another machine; pkb's own stages are those measured here.

    A step that checks guesses takes as long as decoding one token, or as prefilling its rows if that is longer.
    """
    seconds = 0.0
    for kind, rows, steps, _ in row.work.steps:
        if kind != "decode":
            seconds += steps * rows / machine.prefill
        elif form == "strengthened":
            seconds += steps * max(1 / machine.decode, rows / machine.prefill)
    if form == "published":
        seconds += row.work.plain[0] / machine.decode
    loaded = row.reused if row.moved[0] else row.work.loads[1]
    return 1000 * (seconds + loaded * machine.token_bytes / machine.disk) + own(row, curves)
