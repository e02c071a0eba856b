"""The section on parts of pkb: itself without each, at two thresholds, and what prediction adds to hits.

A policy's name says what is off: `pkb-no-bank`, `pkb-no-kv`, `pkb-no-drafts`, `pkb-no-prediction`, and at
0.80 `pkb-no-bank-tau80`.
"""

from collections.abc import Iterator, Sequence

from tests.bench.page import NONE, Section, of, points, ratio, table
from tests.bench.reading import Line
from tests.bench.sums import by, matched, of_policies, share, summed
from tests.bench.sweeps import HEADS, quality

PARTS = ("", "-no-bank", "-no-kv", "-no-drafts", "-no-prediction")
LEVELS = {"0.85": "", "0.80": "-tau80"}  # as the paper has them
SAID = "What prediction adds to hits, in points (the paper: bank +6.8 to +13.8, tensors +11.6 to +37.6):"
GAINS = ("corpus", "writer", "tau", "n", "bank hits", "chunks found", "false hits with", "without")
Rows = list[Sequence[str]]


def ablation(lines: Sequence[Line]) -> Section:
    """Set pkb beside itself without each part, by writer and threshold."""
    title, rows, gains = "Ablation", Rows(), Rows()
    for writer, own in by(lines, lambda line: line.writer).items():
        for level, suffix in LEVELS.items():
            names = [f"pkb{part}{suffix}" for part in PARTS]
            rows += _rows(of_policies(own, names), writer, level, names[0])
            gains += _gains(own, writer, level, (names[0], names[-1]))
    if not rows:
        return Section(title, "Left out: there are no lines of pkb and of pkb without a part over the same questions.")
    heads = ("policy", "writer", "tau", *HEADS, "of pkb")
    parts = [table(heads, rows, left=3)]
    if gains:
        parts += [SAID, table(GAINS, gains, left=3)]
    return Section(title, "\n\n".join(parts))


def _rows(found: dict[str, list[Line]], writer: str, level: str, whole: str) -> Iterator[Sequence[str]]:
    groups = {name: own for name, own in matched(found).items() if own}
    if whole not in groups or len(groups) == 1:
        return
    mean = summed(groups[whole]).mean_ms
    for name, own in groups.items():
        yield (name, writer, level, *quality(own), ratio(summed(own).mean_ms, mean))


def _gains(lines: Sequence[Line], writer: str, level: str, names: Sequence[str]) -> Iterator[Sequence[str]]:
    for corpus, own in by(lines, lambda line: line.corpus).items():
        sums = [summed(group) for group in matched(of_policies(own, names)).values() if group]
        if len(sums) == len(names):
            whole, without = sums
            lent = points(whole.lent / whole.n - without.lent / without.n)
            shares = share(whole.found, whole.chunks), share(without.found, without.chunks)
            there = points(shares[0] - shares[1]) if shares[0] is not None and shares[1] is not None else NONE
            false = [of(one.false, one.known, one.lent - one.known) for one in sums]
            yield (corpus, writer, level, str(whole.n), lent, there, *false)
