"""Latency and hits of all policies, as tables: everything that was measured, and by user. Knows no file."""

from collections.abc import Iterable, Mapping, Sequence

from tests.bench.page import NONE, Section, change, of, percent, plain, ratio, table
from tests.bench.policies import POLICIES
from tests.bench.reading import TIERS, Line
from tests.bench.sums import MAIN, Sum, best, by, matched, of_policies, share, summed

HEADS = (
    *("policy", "mean ms", "median", "quartiles", "of naive", "of the best", *TIERS),
    *("false hits", "chunks found", "tokens reused", "guessed", "ROUGE-L", "GFLOP", "at night", "night s"),
)


def detail(lines: Sequence[Line]) -> list[Section]:
    """Set all policies by corpus, and the mean and median of every user."""
    sections = []
    for corpus, within in by(lines, lambda line: line.corpus).items():
        for writer, own in by(within, lambda line: line.writer).items():
            sums = sums_of(own)
            if sums:
                text = "\n\n".join((counted(sums), policies(sums), users(own)))
                sections.append(Section(f"{corpus}, {writer}", text))
    return sections


def sums_of(lines: Iterable[Line]) -> dict[str, Sum]:
    """Add up each main policy over the questions that all of those were asked."""
    return {name: summed(own) for name, own in matched(of_policies(lines, MAIN)).items() if own}


def counted(sums: Mapping[str, Sum]) -> str:
    """Say how many questions and users a table is of."""
    one = next(iter(sums.values()))
    return f"n = {one.n} questions of {one.users} users, the same for each policy."


def policies(sums: Mapping[str, Sum]) -> str:
    """Set everything that was measured, a policy a row."""
    return table(HEADS, [_row(name, one, sums) for name, one in sums.items()])


def users(lines: Sequence[Line]) -> str:
    """Set mean and median latency, a user a row."""
    names = [name for name in MAIN if any(line.policy == name for line in lines)]
    rows = []
    for user, own in by(lines, lambda line: line.user).items():
        sums = sums_of(own)
        cells = [
            f"{plain(sums[name].mean_ms)} / {plain(sums[name].median_ms)}" if name in sums else NONE for name in names
        ]
        counts = {str(one.n) for one in sums.values()} or {"0"}
        rows.append((user, *counts, *cells, change(against(sums, "pkb"))))
    return table(("mean / median ms of", "n", *names, "pkb and the best"), rows)


def titled(name: str) -> str:
    """Name a policy for readers; one that is varied keeps its name."""
    return POLICIES[name].title if name in POLICIES else name


def against(sums: Mapping[str, Sum], name: str) -> float | None:
    """Give the change of mean latency against the best baseline; negative is faster."""
    rival = best(sums)
    return sums[name].mean_ms / sums[rival].mean_ms - 1 if rival and name in sums else None


def _row(name: str, one: Sum, sums: Mapping[str, Sum]) -> tuple[str, ...]:
    naive, rival = sums.get("naive"), best(sums)
    return (
        titled(name),
        plain(one.mean_ms),
        plain(one.median_ms),
        f"{plain(one.low_ms)} to {plain(one.high_ms)}",
        ratio(one.mean_ms, naive.mean_ms) if naive else NONE,
        ratio(one.mean_ms, sums[rival].mean_ms) if rival else NONE,
        *(percent(one.tiers[tier] / one.n) for tier in TIERS),
        of(one.false, one.known, one.lent - one.known),
        of(one.found, one.chunks),
        percent(share(one.reused, one.prompt)),
        percent(share(one.guessed, one.generated)),
        plain(one.rouge),
        plain(one.flops / 1e9),
        plain(one.night_flops / 1e9),
        plain(one.night_s),
    )
