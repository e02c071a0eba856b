"""Report sections outside the result lines: machine, other measurements, claims of the papers, and missing units.

Each figure of PerCache and of the prefix-caching article has a row, measured here or not. Reads no file.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median

from tests.bench.material import Machine, Material, Motive
from tests.bench.overall import against, sums_of
from tests.bench.page import (
    NONE,
    Curve,
    Curves,
    Picture,
    Section,
    change,
    percent,
    plain,
    points,
    prose,
    ratio,
    table,
    verbatim,
    weight,
)
from tests.bench.plan import WHOLE, Experiment
from tests.bench.policies import POLICIES
from tests.bench.reading import Line
from tests.bench.sums import by, matched, of_policies, share, summed

SHORT = 500  # numbers, beyond which a curve is thinned
SEVERAL = "Made on several machines: times of different users or writers may be of different ones."
LANES = (
    "Each lane is a core of its own with one BLAS thread; lanes share memory and its bandwidth, which slows alike what "
    "is compared. Policies take turns, question by question, each time another one first."
)
ARTICLE = (
    "It reports a first token 4.2 times as soon with 180 tokens of a prompt kept, and 71 % of that saving where 71 % "
    "of the tokens are shared."
)


def machine(material: Material) -> Section:
    """Return where the lines were made, and how to make them again."""
    title = "Machine and commands"
    lines, units = material.lines, {(line.corpus, line.user, line.policy, line.writer) for line in material.lines}
    counts = f"{len(lines):,} lines of {len(units):,} units; {material.unfinished} units are not finished and not read."
    told = any(one.joules is not None for one in material.ran)
    energy = "Energy is of the processor, in all." if told else "Energy: not reported by this machine; FLOPs instead."
    if not material.machines:
        return Section(title, f"Left out: nobody noted the machine beside the lines.\n\n{counts} {energy}")
    said = [SEVERAL if material.machines[1:] else "", *map(_machine, material.machines), *_ran(material)]
    parts = [*said, f"{counts} {energy}"]
    return Section(title, "\n\n".join(part for part in parts if part))


def legend() -> Section:
    """Return what each policy is."""
    rows = [prose(f"- {one.title} (`{one.name}`): {one.about}", "  ") for one in POLICIES.values()]
    return Section("Policies", "\n".join(rows))


def operations(material: Material) -> Section:
    """Set what each operation takes and each item weighs."""
    title = "Operations and items"
    if not material.operations:
        return Section(title, "Left out: there is no operations.json.")
    rows = [
        (one.name, plain(one.median_ms), f"{plain(one.low_ms)} to {plain(one.high_ms)}", weight(one.bytes), one.note)
        for one in material.operations
    ]
    return Section(
        title, "PerCache's Table 1, of pkb.\n\n" + table(("operation", "median ms", "quartiles", "bytes", "note"), rows)
    )


def motivation(material: Material) -> Section:
    """Draw what a user's own stream says of caching."""
    title = "Why cache: what streams are like"
    if not material.motives:
        return Section(title, "Left out: there is no motivation.json.")
    rows = [
        (
            motive.title,
            corpus,
            str(motive.asked.get(corpus, NONE)),
            plain(fmean(numbers)),
            plain(median(numbers)),
            plain(max(numbers)),
        )
        for motive in material.motives.values()
        for corpus, numbers in motive.corpora.items()
        if numbers
    ]
    panels = tuple(map(_curves, material.motives.values()))
    text = "PerCache's figures 2, 3, 5 and 6.\n\n" + table(
        ("curve", "corpus", "n", "mean", "median", "most"), rows, left=2
    )
    return Section(title, text, (Picture("motivation", title, panels),))


def showcases(material: Material) -> Section:
    """Show what was lived through."""
    return _shown("Showcases", material.showcase, "showcase.txt")


def cases(material: Material) -> Section:
    """Show what the scheduler did when a setting changed."""
    return _shown("The scheduler's cases", material.cases, "cases-a.txt, cases-b.txt or cases-c.txt")


def article(material: Material) -> Section:
    """Set kept tensors beside the article on prefix caching."""
    title = "The prefix-caching article"
    parts = [_shown(title, material.article, "article.txt"), _shown(title, material.shares, "shares.txt")]
    return Section(title, "\n\n".join((ARTICLE, *(one.text for one in parts))))


def peers(material: Material) -> Section:
    """Set pkb beside other programs, in the same run."""
    title = "Other programs"
    unmade = "\n".join(material.unmade)
    if not material.peers:
        return Section(title, "\n\n".join(("Left out: there is no peers.json.", unmade)).strip())
    rows = [
        (one.name, one.what, plain(one.ours), plain(one.theirs), one.unit, ratio(one.ours, one.theirs), one.note)
        for one in material.peers
    ]
    heads = ("program", "what", "pkb", "theirs", "unit", "pkb of theirs", "note")
    return Section(title, "\n\n".join((table(heads, rows, left=2), unmade)).strip())


def _ran(material: Material) -> list[str]:
    """Return how long each run took, and all jobs together."""
    if not material.ran:
        return []
    rows = [
        (one.command, str(one.jobs), str(one.lanes), plain(one.seconds / 60), _kilo(one.joules)) for one in material.ran
    ]
    whole = f"All jobs, each in its lane: {plain(material.lanes_s / 60)} minutes."
    return [table(("run", "jobs", "lanes", "minutes", "kJ"), rows), prose(f"{LANES} {whole}")]


def _kilo(joules: float | None) -> str:
    return plain(None if joules is None else joules / 1000)


def _machine(one: Machine) -> str:
    rows = list(one.facts.items())
    commands = verbatim("\n".join(one.commands))
    return f"{table(('', 'this machine'), rows, left=2)}\n\n{commands}"


def _curves(motive: Motive) -> Curves:
    curves = [Curve(name, name, _thinned(numbers)) for name, numbers in motive.corpora.items() if numbers]
    return Curves(motive.title, motive.across, motive.axis, curves)


def _thinned(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """Return points numbered from 1; of many, some between the first and the last."""
    step = -(-len(numbers) // SHORT)
    points = [(float(number), value) for number, value in enumerate(numbers, 1)]
    return [*points[:-1:step], points[-1]]


def _shown(title: str, text: str, name: str) -> Section:
    return Section(title, verbatim(text) if text.strip() else f"Left out: there is no {name}.")


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
    """Return what prediction adds to hits."""
    kinds: Sequence[tuple[str, str, Callable[[Sequence[Line]], float | None]]] = (
        ("hits of the bank that prediction adds, in points", "+6.8 to +13.8", _semantic_lines),
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


def _semantic_lines(lines: Sequence[Line]) -> float | None:
    one = summed(lines)
    return one.shared / one.n


def _found(lines: Sequence[Line]) -> float | None:
    one = summed(lines)
    return share(one.found, one.chunks)


def _scheduler(material: Material) -> Rows:
    saved = re.search(r"saved: ([\d.]+)\s?% of the nights' operations", material.cases)
    here = f"{saved[1]} % of idle work, by a small model" if saved else MISSING
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
        ("loading KV, of computing it", "18 to 24 of 830 ms: 2 to 3 %", restored),
    ]


NOT_RUN, SHORT_FORM = "it was not run", "not in the short form"
COMPLETE = "Of the experiments nothing is missing."
CAPABLE = """\
Weights of a real shape are random: they take the time of a real model, and the answers are the data set's own. These
are therefore missing here; `pkb bench --model NAME` measures latency on a machine that has the model:

- how good a capable model's answers are, and how much quality a paraphrase hit costs;
- how well a capable model predicts questions: here the forms of earlier questions do, for all policies alike;
- how often its yes-or-no check of a paraphrase's answer is right;
- latency on your machine: it scales with the model and the machine, tiers and tokens do not."""


def missing(material: Material) -> Section:
    """Return which units and measurements are not there, each with the reason, and what needs a capable model."""
    writers = ", ".join(sorted({line.writer for line in material.lines})) or "nobody"
    rows = [row for one in WHOLE for row in _units(one, material)]
    rows += [(name, "", "", "", why) for name, why in material.left.items() if " " not in name]
    heads = ("experiment", "of", "writer and corpus", "without lines", "why")
    said = table(heads, rows, left=len(heads)) if rows else COMPLETE
    return Section("What is missing", f"Written here by: {writers}.\n\n{said}\n\n{CAPABLE}")


def _units(experiment: Experiment, material: Material) -> Iterator[Sequence[str]]:
    """Yield a row for each corpus of which a policy has no lines, or fewer than were to be asked."""
    wanted = [policy.name for policy in experiment.policies]
    for corpus in experiment.corpora:
        own = (line for line in material.lines if (line.corpus, line.writer) == (corpus, experiment.writer))
        asked = Counter(line.policy for line in own)
        absent = [name for name in wanted if not asked[name]]
        why = material.left.get(f"{experiment.name} {corpus}", SHORT_FORM if material.scope == "quick" else NOT_RUN)
        where = f"{experiment.writer}, {corpus}"
        if absent:
            named = f"all {len(wanted)} policies" if len(absent) == len(wanted) else ", ".join(absent)
            yield experiment.name, experiment.what, where, named, why
        elif f"{experiment.name} {corpus}" in material.left:
            yield experiment.name, experiment.what, where, "some of the questions", why
