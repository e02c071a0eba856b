"""The section that sets what PerCache and the prefix-caching article report beside what was measured. Knows no file.

What is not there says so: each of their figures has a row, whatever became of it here.
"""

import re
from collections.abc import Callable, Sequence
from statistics import fmean

from tests.bench.material import Material
from tests.bench.overall import against, sums_of
from tests.bench.page import Section, change, percent, plain, points, prose, table, weight
from tests.bench.reading import Line
from tests.bench.sums import by, matched, of_policies, share, summed

MISSING = "missing"
SAID = (
    "Theirs are of phones and models of 1 to 3 billion parameters: shares compare, bytes and seconds do not. Ranges "
    "are over corpora; where there are two figures, they are at the thresholds .85 and .80."
)
Rows = list[tuple[str, str, str]]


def claims(material: Material) -> Section:
    """Set every figure that they report beside ours."""
    rows: Rows = [*_latency(material.lines), *_prediction(material.lines), *_scheduler(material), *_items(material)]
    heads = ("what", "theirs", "here")
    return Section(
        "What others report, and what is here", f"{prose(SAID)}\n\n{table(heads, [*rows, *_article(material)], left=3)}"
    )


def _latency(lines: Sequence[Line]) -> Rows:
    rows: Rows = []
    for policy, title in (("percache", "PerCache"), ("pkb", "pkb")):
        found = list[str]()
        for writer, own in by(lines, lambda line: line.writer).items():
            each = (against(sums_of(part), policy) for part in by(own, lambda line: line.corpus).values())
            if gains := [gain for gain in each if gain is not None]:
                ends = f"{change(min(gains))} to {change(max(gains))}, mean {change(fmean(gains))}"
                found.append(f"{writer}: {ends} (corpora: {len(gains)})")
        what = f"mean latency of {title} against the best baseline"
        rows.append((what, "-12.55 % in the mean, -34.4 % at best", "; ".join(found) or MISSING))
    return rows


def _prediction(lines: Sequence[Line]) -> Rows:
    """Give what prediction adds to hits."""
    kinds: Sequence[tuple[str, str, Callable[[Sequence[Line]], float | None]]] = (
        ("hits of the bank that prediction adds, in points", "+6.8 to +13.8", _lent),
        ("hits of tensors that prediction adds, in points", "+11.6 to +37.6", _found),
    )
    return [(what, theirs, "; ".join(_gains(lines, of)) or MISSING) for what, theirs, of in kinds]


def _gains(lines: Sequence[Line], of: Callable[[Sequence[Line]], float | None]) -> list[str]:
    found = list[str]()
    for writer, own in by(lines, lambda line: line.writer).items():
        gains = list[float]()
        for end in ("", "-tau80"):
            names = (f"pkb{end}", f"pkb-no-prediction{end}")
            shares = [of(group) for group in matched(of_policies(own, names)).values() if group]
            if len(shares) == len(names) and (whole := shares[0]) is not None and (rest := shares[1]) is not None:
                gains.append(whole - rest)
        if gains:
            found.append(f"{writer}: {' and '.join(map(points, gains))}")
    return found


def _lent(lines: Sequence[Line]) -> float | None:
    one = summed(lines)
    return one.lent / one.n


def _found(lines: Sequence[Line]) -> float | None:
    one = summed(lines)
    return share(one.found, one.chunks)


def _scheduler(material: Material) -> Rows:
    saved = re.search(r"saved: ([\d.]+)\s?% of the nights' operations", material.cases)
    here = f"{saved[1]} % of the nights', by a small model" if saved else MISSING
    return [("operations saved when the threshold rises (case a)", "14.12 %", here)]


def _items(material: Material) -> Rows:
    named = {one.name: one for one in material.operations}
    tensors, smaller = named.get("a chunk's tensors, Q, K and V"), named.get("a chunk's tensors, K and V")
    here = f"{weight(tensors.bytes)}, of which pkb keeps {weight(smaller.bytes)}" if tensors and smaller else MISSING
    return [("bytes of a chunk's tensors (Table 1)", "87 MB", here)]


def _article(material: Material) -> Rows:
    whole = re.search(r"nothing reused, of reused \(.*?\)\s+([\d.]+)", material.article)
    part = re.search(r"128\+52\s+128 alike.*? ([\d.]+) of the saving", material.shares)
    times = {name: float(ms) for name, ms in re.findall(r"^ +(computed|restored) +([\d.]+) ms", material.article, re.M)}
    restored = percent(times["restored"] / times["computed"]) if len(times) == 2 else MISSING
    return [
        (
            "first token with the context kept (article)",
            "4.2 times as soon",
            f"{plain(float(whole[1]))} times" if whole else MISSING,
        ),
        ("saving where 128 of 180 tokens are shared", "71 %", percent(float(part[1])) if part else MISSING),
        ("restoring, of computing anew", "18 to 24 of 830 ms: 2 to 3 %", restored),
    ]
