"""The sections that other measurements leave beside the lines, and those that say what is not there. Knows no file."""

from collections.abc import Sequence
from statistics import fmean, median

from tests.bench.material import Machine, Material, Motive
from tests.bench.page import NONE, Section, plain, prose, ratio, table, verbatim, weight
from tests.bench.pictures import Curve, Curves, Picture
from tests.bench.policies import POLICIES

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
    """Say where the lines were made, and how to make them again."""
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
    """Say what each policy is."""
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
    """Say how long each run took, and all jobs together."""
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
    """Give points numbered from 1; of many, some between the first and the last."""
    step = -(-len(numbers) // SHORT)
    points = [(float(number), value) for number, value in enumerate(numbers, 1)]
    return [*points[:-1:step], points[-1]]


def _shown(title: str, text: str, name: str) -> Section:
    return Section(title, verbatim(text) if text.strip() else f"Left out: there is no {name}.")
