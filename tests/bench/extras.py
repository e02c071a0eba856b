"""Report sections besides the result lines: machine, policies, operations, peers, the papers' figures, missing jobs."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from tests.bench.kv_reuse import COMPUTED
from tests.bench.overall import against, sums_of
from tests.bench.page import Section, change, plain, points, prose, table, weight
from tests.bench.plan import WHOLE, Experiment
from tests.bench.policies import POLICIES
from tests.bench.records import Comparison, Line, Material
from tests.bench.sums import Sum, by, matched, of_policies, share, summed

WORKERS = (
    "Each job has a core and one BLAS thread; jobs share memory and its bandwidth. Policies take turns, question by "
    "question, each time another one first."
)
NOTE = "Their figures are of phones and models of 1 to 3 billion parameters: shares compare, bytes and seconds do not."
NOT_RUN, NOT_QUICK = "it was not run", "not in the quick evaluation"
CAPABLE = (
    "No capable model was run: weights of a real shape are random, so the quality of answers, predictions and checks "
    "of paraphrases is not measured. Latency scales with the model and the machine; tiers and tokens do not."
)
DISK = ", from disk"
Rows = list[tuple[str, str, str]]


def machine(material: Material) -> Section:
    """Return where the lines were made, and by which commands."""
    title, units = "Machine and commands", {(one.corpus, one.user, one.policy, one.writer) for one in material.lines}
    counts = f"{len(material.lines):,} lines of {len(units):,} units."
    if not material.runs.runs:
        return Section(title, counts if material.lines else "")
    facts = list(dict.fromkeys(tuple(run.machine.items()) for run in material.runs.runs))
    parts = [prose(f"{'; '.join(f'{name}: {value}' for name, value in one)}.") for one in facts]
    rows = [(run.command, str(run.jobs), str(run.workers), plain(run.seconds / 60)) for run in material.runs.runs]
    parts.append(table(("run", "jobs", "at a time", "minutes"), rows))
    return Section(title, "\n\n".join((*parts, prose(f"{WORKERS} {counts}"))))


def legend() -> Section:
    """Return a sentence on each policy."""
    rows = [prose(f"- {one.title} (`{one.name}`): {one.about}", "  ") for one in POLICIES.values()]
    return Section("Policies", "\n".join(rows))


def operations(material: Material) -> Section:
    """Return the times of operations and the bytes of items."""
    title = "Operations and items"
    if not material.operations:
        return Section(title, "")
    times = [(one.name, plain(one.median_ms), one.note) for one in material.operations if one.median_ms is not None]
    sizes = [(one.name, weight(one.bytes), one.note) for one in material.operations if one.bytes is not None]
    parts = (
        "PerCache's Table 1, of pkb.",
        table(("operation", "median ms", "note"), times) if times else "",
        table(("item", "bytes", "note"), sizes) if sizes else "",
    )
    return Section(title, "\n\n".join(part for part in parts if part))


def peers(material: Material) -> Section:
    """Compare pkb with other programs, and with itself without a KV cache: a table for each unit."""
    units = by(material.comparisons, lambda one: one.unit)
    return Section("Other programs", "\n\n".join(_compared(unit, own) for unit, own in units.items()))


def _compared(unit: str, compared: Sequence[Comparison]) -> str:
    """Return a row for each figure, a column for each program; a note that all have is in the heading."""
    notes = {one.note.rpartition(", ")[2] for one in compared}  # without the ranges
    common = notes.pop() if len(notes) == 1 else ""
    programs = list(dict.fromkeys(one.program.removesuffix(DISK) for one in compared))
    rows = dict[tuple[str, str], dict[str, str]]()
    for one in compared:
        figure = one.figure + (DISK if one.program.endswith(DISK) else "")
        note = "" if common else one.note.rpartition(", ")[2]
        cell = f"{plain(one.other)} ({note})" if note else plain(one.other)
        rows.setdefault((figure, plain(one.pkb)), {})[one.program.removesuffix(DISK)] = cell
    heads = (f"{unit}, {common}" if common else unit, "pkb", *programs)
    return table(heads, [(*key, *(own.get(name, "") for name in programs)) for key, own in rows.items()])


def claims(material: Material) -> Section:
    """Return the figures of the papers that were measured here too."""
    every: Rows = [*_latency(material.lines), *_prediction(material.lines), *_items(material)]
    rows = [row for row in every if row[2]]
    body = f"{prose(NOTE)}\n\n{table(('figure', 'theirs', 'here'), rows, left=3)}" if rows else ""
    return Section("Figures of the papers", body)


def _latency(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    for policy, title in (("percache", "PerCache"), ("pkb", "pkb")):
        found = list[str]()
        for writer, own in by(lines, lambda line: line.writer).items():
            each = (against(sums_of(part), policy) for part in by(own, lambda line: line.corpus).values())
            if gains := [gain for gain in each if gain is not None]:
                ends = f", {change(min(gains))} to {change(max(gains))} on {len(gains)} corpora" * (len(gains) > 1)
                found.append(f"{writer}: {change(fmean(gains))}{ends}")
        what = f"mean latency of {title} against the best baseline"
        yield what, "-12.55 % in the mean, -34.4 % at best", "; ".join(found)


def _prediction(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    kinds: Sequence[tuple[str, str, Callable[[Sum], float | None]]] = (
        ("answer hits that prediction adds, in points, at .85 and .80", "+6.8 to +13.8", lambda one: one.hits / one.n),
        (
            "chunk hits that prediction adds, in points, at .85 and .80",
            "+11.6 to +37.6",
            lambda one: share(one.found, one.chunks),
        ),
    )
    for what, theirs, part in kinds:
        yield what, theirs, "; ".join(_gains(lines, part))


def _gains(lines: Sequence[Line], part: Callable[[Sum], float | None]) -> Iterator[str]:
    for writer, own in by(lines, lambda line: line.writer).items():
        gains = list[float]()
        for end in ("", "-tau80"):
            groups = matched(of_policies(own, (f"pkb{end}", f"pkb-no-prediction{end}"))).values()
            shares = [part(summed(group)) for group in groups if group]
            if len(shares) == 2 and shares[0] is not None and shares[1] is not None:
                gains.append(shares[0] - shares[1])
        if gains:
            yield f"{writer}: {' and '.join(map(points, gains))}"


def _items(material: Material) -> Iterator[tuple[str, str, str]]:
    named = {one.name: one for one in material.operations}
    all_, stored = named.get("a chunk's tensors, Q, K and V"), named.get("a chunk's tensors, K and V")
    here = f"{weight(all_.bytes)}, of which pkb stores {weight(stored.bytes)}" if all_ and stored else ""
    yield "bytes of a chunk's tensors (Table 1)", "87 MB", here
    times = [
        one for one in material.comparisons if one.program == COMPUTED and one.figure.endswith("180 tokens cached")
    ]
    sooner = f"{plain(times[0].other / times[0].pkb)} times" if times else ""
    yield "first token behind 180 cached tokens (prefix-caching article)", "4.2 times as soon", sooner


def missing(material: Material) -> Section:
    """Return the experiments without lines by the reason, and the figures that need a capable model."""
    if not material.lines:
        return Section("Not measured", "")
    reasons = dict[str, dict[str, list[str]]]()
    for one in WHOLE:
        for corpus, why in _units(one, material):
            reasons.setdefault(why, {}).setdefault(f"{one.title}, by {one.writer}", []).append(corpus)
    for name, why in material.runs.missing.items():
        reasons.setdefault(why, {}).update({} if " " in name else {name: []})
    found = {
        why: "; ".join(name + f" ({', '.join(corpora)})" * bool(corpora) for name, corpora in own.items())
        for why, own in reasons.items()
        if own
    }
    rows = [prose(f"- {why}: {names}", "  ") for why, names in found.items()]
    return Section("Not measured", "\n\n".join(filter(None, ("\n".join(rows), prose(CAPABLE)))))


def _units(experiment: Experiment, material: Material) -> Iterator[tuple[str, str]]:
    """Yield each corpus of which a policy has no lines, or too few, and the reason."""
    wanted, runs = [policy.name for policy in experiment.policies], material.runs
    for corpus in experiment.corpora:
        own = (line for line in material.lines if (line.corpus, line.writer) == (corpus, experiment.writer))
        asked = Counter(line.policy for line in own)
        absent = [name for name in wanted if not asked[name]]
        why = runs.missing.get(f"{experiment.name} {corpus}")
        if absent or why:
            part = "" if len(absent) == len(wanted) else f" without {', '.join(absent) or 'some of the questions'}"
            reason = why or (NOT_QUICK if runs.scope == "quick" else NOT_RUN)
            yield f"{corpus}{part}", reason
