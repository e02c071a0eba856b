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
NOTE = (
    "Their figures are of phones and models of 1 to 3 billion parameters: shares compare, bytes and seconds do not. "
    "Ranges are over corpora; where there are two figures, they are at the thresholds .85 and .80."
)
MISSING, NOT_RUN, NOT_QUICK = "missing", "it was not run", "not in the quick evaluation"
COMPLETE = "Of the experiments nothing is missing."
CAPABLE = """\
Weights of a real shape are random: they take the time of a real model, and the answers are the data set's own. These
are therefore missing here:

- the quality of a capable model's answers, and the cost of a paraphrase hit in quality;
- the questions that a capable model predicts: here the forms of earlier questions are used, for all policies alike;
- how often its yes-or-no check of a paraphrase's answer is right;
- latency on your machine: it scales with the model and the machine, tiers and tokens do not."""
Rows = list[tuple[str, str, str]]


def machine(material: Material) -> Section:
    """Return where the lines were made, and by which commands."""
    title, units = "Machine and commands", {(one.corpus, one.user, one.policy, one.writer) for one in material.lines}
    counts = f"{len(material.lines):,} lines of {len(units):,} units."
    if not material.runs.runs:
        return Section(title, f"Left out: there is no runs.json.\n\n{counts}")
    facts = list(dict.fromkeys(tuple(run.machine.items()) for run in material.runs.runs))
    parts = [table(("", "this machine"), one, left=2) for one in facts]
    rows = [(run.command, str(run.jobs), str(run.workers), plain(run.seconds / 60)) for run in material.runs.runs]
    parts.append(table(("run", "jobs", "at a time", "minutes"), rows))
    whole = sum(material.runs.seconds.values()) / 60
    return Section(
        title, "\n\n".join((*parts, prose(f"{WORKERS} All jobs, one by one: {plain(whole)} minutes. {counts}")))
    )


def legend() -> Section:
    """Return a sentence on each policy."""
    rows = [prose(f"- {one.title} (`{one.name}`): {one.about}", "  ") for one in POLICIES.values()]
    return Section("Policies", "\n".join(rows))


def operations(material: Material) -> Section:
    """Return the times of operations and the bytes of items."""
    title = "Operations and items"
    if not material.operations:
        return Section(title, "Left out: there is no operations.json.")
    rows = [
        (one.name, plain(one.median_ms), f"{plain(one.low_ms)} to {plain(one.high_ms)}", weight(one.bytes), one.note)
        for one in material.operations
    ]
    heads = ("operation", "median ms", "quartiles", "bytes", "note")
    return Section(title, f"PerCache's Table 1, of pkb.\n\n{table(heads, rows)}")


def peers(material: Material) -> Section:
    """Compare pkb with other programs, and with itself without a KV cache."""
    title = "Other programs"
    if not material.comparisons:
        return Section(title, "Left out: there is no kv_reuse.json or paraphrases.json.")
    rows = list[Sequence[str]]()
    groups = dict[tuple[str, str, str], list[Comparison]]()
    for one in material.comparisons:
        groups.setdefault((one.figure, one.unit, plain(one.pkb)), []).append(one)
    for (figure, unit, own), group in groups.items():
        notes = [one.note.rpartition(", ")[2] for one in group]  # without the ranges
        common = notes[0] if len(set(notes)) == 1 else ""
        apart = [f" ({note})" if note != common else "" for note in notes]
        others = "; ".join(f"{one.program} {plain(one.other)}{said}" for one, said in zip(group, apart, strict=True))
        rows.append((figure, unit, own, others, common))
    absent = (
        [] if any(one.program.startswith("GPTCache") for one in material.comparisons) else ["GPTCache: not measured."]
    )
    heads = ("figure", "unit", "pkb", "others", "note")
    return Section(title, "\n\n".join((table(heads, rows, left=5), *absent)))


def claims(material: Material) -> Section:
    """Return every figure of the papers beside the one measured here."""
    rows: Rows = [*_latency(material.lines), *_prediction(material.lines), *_items(material)]
    body = table(("figure", "theirs", "here"), rows, left=3)
    return Section("Figures of the papers", f"{prose(NOTE)}\n\n{body}")


def _latency(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    for policy, title in (("percache", "PerCache"), ("pkb", "pkb")):
        found = list[str]()
        for writer, own in by(lines, lambda line: line.writer).items():
            each = (against(sums_of(part), policy) for part in by(own, lambda line: line.corpus).values())
            if gains := [gain for gain in each if gain is not None]:
                ends = f"{change(min(gains))} to {change(max(gains))}, mean {change(fmean(gains))}"
                found.append(f"{writer}: {ends} (corpora: {len(gains)})")
        what = f"mean latency of {title} against the best baseline"
        yield what, "-12.55 % in the mean, -34.4 % at best", "; ".join(found) or MISSING


def _prediction(lines: Sequence[Line]) -> Iterator[tuple[str, str, str]]:
    kinds: Sequence[tuple[str, str, Callable[[Sum], float | None]]] = (
        ("answer hits that prediction adds, in points", "+6.8 to +13.8", lambda one: one.hits / one.n),
        ("chunk hits that prediction adds, in points", "+11.6 to +37.6", lambda one: share(one.found, one.chunks)),
    )
    for what, theirs, part in kinds:
        yield what, theirs, "; ".join(_gains(lines, part)) or MISSING


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
    here = f"{weight(all_.bytes)}, of which pkb stores {weight(stored.bytes)}" if all_ and stored else MISSING
    yield "bytes of a chunk's tensors (Table 1)", "87 MB", here
    times = [
        one for one in material.comparisons if one.program == COMPUTED and one.figure.endswith("180 tokens cached")
    ]
    sooner = f"{plain(times[0].other / times[0].pkb)} times" if times else MISSING
    yield "first token behind 180 cached tokens (prefix-caching article)", "4.2 times as soon", sooner


def missing(material: Material) -> Section:
    """Return the units and measurements that are not there, each with the reason, and what needs a capable model."""
    writers = ", ".join(sorted({line.writer for line in material.lines})) or "nobody"
    rows = [row for one in WHOLE for row in _units(one, material)]
    rows += [(name, "", "", "", why) for name, why in material.runs.missing.items() if " " not in name]
    heads = ("experiment", "of", "writer and corpus", "without lines", "why")
    body = table(heads, rows, left=len(heads)) if rows else COMPLETE
    return Section("What is missing", f"Answers here are by: {writers}.\n\n{body}\n\n{CAPABLE}")


def _units(experiment: Experiment, material: Material) -> Iterator[Sequence[str]]:
    """Yield a row for each corpus of which a policy has no lines, or too few."""
    wanted, runs = [policy.name for policy in experiment.policies], material.runs
    for corpus in experiment.corpora:
        own = (line for line in material.lines if (line.corpus, line.writer) == (corpus, experiment.writer))
        asked = Counter(line.policy for line in own)
        absent = [name for name in wanted if not asked[name]]
        why = runs.missing.get(f"{experiment.name} {corpus}")
        if absent or why:
            named = f"all {len(wanted)} policies" if len(absent) == len(wanted) else ", ".join(absent)
            named = named or "some of the questions"
            reason = why or (NOT_QUICK if runs.scope == "quick" else NOT_RUN)
            yield experiment.name, experiment.title, f"{experiment.writer}, {corpus}", named, reason
