"""The section on negative results: every figure in which pkb is behind a baseline, found from the lines."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tests.bench.headline import TARGET
from tests.bench.overall import against, sums_of, titled
from tests.bench.page import Section, change, percent, plain, prose, table, weight
from tests.bench.reading import Line
from tests.bench.sums import RIVALS, Sum, by, share


@dataclass(frozen=True, slots=True)
class Figure:
    """Something to be compared, and how it is shown."""

    name: str
    of: Callable[[Sum], float | None]
    show: Callable[[float | None], str]
    more: bool = False  # is better


FIGURES = (
    Figure("mean ms", lambda one: one.mean_ms, plain),
    Figure("median ms", lambda one: one.median_ms, plain),
    Figure("upper quartile, ms", lambda one: one.high_ms, plain),
    Figure("false hits", lambda one: one.false, plain),
    Figure("ROUGE-L", lambda one: one.rouge, plain, more=True),
    Figure("bank hits", lambda one: one.lent / one.n, percent, more=True),
    Figure("chunks found", lambda one: share(one.found, one.chunks), percent, more=True),
    Figure("tokens reused", lambda one: share(one.reused, one.prompt), percent, more=True),
    Figure("GFLOP, answering", lambda one: one.flops / 1e9, plain),
    Figure("GFLOP, nights too", lambda one: (one.flops + one.night_flops) / 1e9, plain),
    Figure("night s", lambda one: one.night_s, plain),
    Figure("written for questions", lambda one: one.written, weight),
    Figure("kept of a user", lambda one: one.kept, weight),
)


def losses(lines: Sequence[Line]) -> Section:
    """List them by corpus and writer, with whoever is furthest ahead, and who else is."""
    title, rows, missed, judged = "Where pkb is behind", list[Sequence[str]](), list[str](), 0
    for corpus, within in by(lines, lambda line: line.corpus).items():
        for writer, own in by(within, lambda line: line.writer).items():
            sums = sums_of(own)
            if "pkb" in sums and any(name in RIVALS for name in sums):
                judged += 1
                rows += _behind(corpus, writer, sums)
            gain = against(sums, "pkb")
            if gain is not None and gain > TARGET:
                missed.append(f"{corpus} with {writer} ({change(gain)}, n = {sums['pkb'].n})")
    if not judged:
        return Section(title, "Left out: there are no lines of pkb and of a baseline over the same questions.")
    goal = f"The aim of {change(TARGET)} against the best baseline is missed on: {'; '.join(missed) or 'none'}."
    goal = " ".join((goal, *_looking(lines)))
    said = "Every figure in which a baseline, or PerCache as printed, is ahead, the furthest ahead named first:"
    heads = ("corpus", "writer", "figure", "n", "pkb", "theirs", "ahead")
    body = f"{said}\n\n{table(heads, rows, left=3)}" if rows else "In no figure is a baseline ahead."
    return Section(title, f"{prose(goal)}\n\n{body}")


def _looking(lines: Sequence[Line]) -> Iterator[str]:
    """Say what of the time no answer that is lent can save: embedding and retrieval come before it is looked for."""
    quoted = [line for line in lines if (line.policy, line.writer) == ("naive", "quote")]
    if quoted:
        before = sum(line.ms.get(stage, 0.0) for line in quoted for stage in ("embed", "retrieve"))
        part = before / sum(line.ms["total"] for line in quoted)
        yield (
            f"Where answers are quoted, {percent(part)} of Naive's time goes by before a like question is looked for, "
            "by every policy alike: no hit can save that but an exact one, and no tensors are read."
        )


def _behind(corpus: str, writer: str, sums: Mapping[str, Sum]) -> Iterator[Sequence[str]]:
    pkb = sums["pkb"]
    for figure in FIGURES:
        sign = -1 if figure.more else 1
        values = {name: value for name, one in sums.items() if (value := figure.of(one)) is not None}
        if "pkb" not in values:
            continue
        ahead = [name for name in values if name in RIVALS and sign * values[name] < sign * values["pkb"]]
        ahead.sort(key=partial(_place, values, sign))
        if ahead:
            shown = (figure.show(values["pkb"]), figure.show(values[ahead[0]]))
            yield (corpus, writer, figure.name, str(pkb.n), *shown, ", ".join(titled(name) for name in ahead))


def _place(values: Mapping[str, float], sign: int, name: str) -> tuple[float, str]:
    return sign * values[name], name
