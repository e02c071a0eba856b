"""The section on latency and hits: pkb and PerCache against the best baseline on every corpus. Knows no file."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from tests.bench.overall import against, counted, policies, sums_of, titled
from tests.bench.page import NONE, Section, change, of, plain, points, prose, table
from tests.bench.pictures import Bars, Picture
from tests.bench.reading import Line
from tests.bench.sums import BASELINES, MAIN, Sum, best, by, share

TARGET = -0.344  # of mean latency against the best baseline: the paper's best case
HEADS = (
    *("writer", "corpus", "n", "best baseline", "its mean ms", "PerCache", "pkb mean ms", "pkb", "by user"),
    *(f"{100 * TARGET:.1f} %", "in blocks", "bank hits", "chunks found", "false hits"),
)
PAPER = (
    "The paper has PerCache's mean latency 12.55 % below the best baseline's, and up to 34.4 %; its hits of tensors "
    "11.6 to 37.6 points higher, those of the bank 6.8 to 13.8. Below, hits are pkb's in points over the best of the "
    "baselines', and changes of mean latency are against the best baseline, which is the one with the lowest mean; "
    "blocks (`kv.reuse`) are off by default."
)
READ = (
    "Policies are compared over the questions that all of them were asked. False hits are of those that can be known: "
    "a foreseen question's answer counts as right where it holds half of the words of the gold one. Chunks and tokens "
    "are of the prompts that were read. GFLOP are of a question, when it is answered and at night; seconds of nights "
    "are of all."
)


def overall(lines: Sequence[Line]) -> Section:
    """Set pkb and PerCache against the best baseline on every corpus, and all policies against one another."""
    title = "Latency and hits"
    written = {writer: sums_of(own) for writer, own in by(lines, lambda line: line.writer).items()}
    written = {writer: sums for writer, sums in written.items() if len(sums) > 1}
    if not written:
        return Section(title, "Left out: there are no lines of two policies over the same questions.")
    parts = [prose(PAPER), table(HEADS, _headline(lines, written), left=2), prose(READ)]
    for writer, sums in written.items():
        parts += [f"### All corpora, {writer}", counted(sums), policies(sums)]
    return Section(title, "\n\n".join(parts), (_picture(lines, written),))


def _headline(lines: Sequence[Line], written: Mapping[str, object]) -> list[Sequence[str]]:
    rows = list[Sequence[str]]()
    for writer in written:
        changes = list[float]()
        for corpus, own in by((line for line in lines if line.writer == writer), lambda line: line.corpus).items():
            sums = sums_of(own)
            rival, gain = best(sums), against(sums, "pkb")
            if rival and gain is not None:
                changes.append(gain)
                rows.append((writer, corpus, *_against(sums, rival, gain, own)))
        if changes:
            row = dict.fromkeys(HEADS, "") | {"writer": writer, "corpus": f"mean of {len(changes)}"}
            rows.append(tuple((row | {"pkb": change(fmean(changes))}).values()))
    return rows


def _against(sums: Mapping[str, Sum], rival: str, gain: float, lines: Sequence[Line]) -> tuple[str, ...]:
    """Give pkb beside the best baseline; hits are gains in points over the best that any baseline has."""
    pkb = sums["pkb"]
    each = [against(sums_of(own), "pkb") for own in by(lines, lambda line: line.user).values()]
    known = [one for one in each if one is not None]
    rivals = [one for name, one in sums.items() if name in BASELINES]
    lent = pkb.lent / pkb.n - max(one.lent / one.n for one in rivals)
    theirs = [part for one in rivals if (part := share(one.found, one.chunks)) is not None]
    ours = share(pkb.found, pkb.chunks)
    return (
        str(pkb.n),
        titled(rival),
        plain(sums[rival].mean_ms),
        change(against(sums, "percache")),
        plain(pkb.mean_ms),
        change(gain),
        f"{change(min(known))} to {change(max(known))}",
        "reached" if gain <= TARGET else "missed",
        change(against(sums, "pkb-blocks")),
        points(lent),
        points(ours - max(theirs)) if ours is not None and theirs else NONE,
        of(pkb.false, pkb.known, pkb.lent - pkb.known),
    )


def _picture(lines: Sequence[Line], written: Mapping[str, object]) -> Picture:
    panels = []
    for writer in written:
        own = by((line for line in lines if line.writer == writer), lambda line: line.corpus)
        sums = {corpus: sums_of(part) for corpus, part in own.items()}
        names = [name for name in MAIN if any(name in each for each in sums.values())]
        bars = {name: [each[name].mean_ms if name in each else None for each in sums.values()] for name in names}
        panels.append(Bars(f"Mean latency, {writer}", "ms", tuple(sums), bars))
    return Picture("latency", "Mean latency by corpus and policy", tuple(panels), columns=1)
