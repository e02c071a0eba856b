"""The section on what is missing: units of the whole evaluation that have no lines, and what needs a capable model.

Knows the experiments and no file.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.bench.material import Material
from tests.bench.page import Section, table
from tests.bench.plan import WHOLE, Experiment

NOT_RUN, SHORT = "it was not run", "not in the short form"
NONE = "Of the experiments nothing is missing."
CAPABLE = """\
Weights of a real shape are random: they take the time of a real model, and the words are the data set's own. So these
are missing here, and `pkb bench --model NAME` makes them on a machine that has the model:

- how good a capable model's answers are, and what a hit on an earlier answer costs in quality;
- how well a capable model foresees questions: here the forms of earlier questions do, for all policies;
- how often its one word on a like question's answer is right;
- latency on the machine of whoever asks: it scales with the model and the machine, tiers and tokens do not."""


def missing(material: Material) -> Section:
    """Say which units and measurements are not there, each with the reason, and what needs a capable model."""
    writers = ", ".join(sorted({line.writer for line in material.lines})) or "nobody"
    rows = [row for one in WHOLE for row in _units(one, material)]
    rows += [(name, "", "", "", why) for name, why in material.left.items() if " " not in name]
    heads = ("experiment", "of", "writer and corpus", "without lines", "why")
    said = table(heads, rows, left=len(heads)) if rows else NONE
    return Section("What is missing", f"Written here by: {writers}.\n\n{said}\n\n{CAPABLE}")


def _units(experiment: Experiment, material: Material) -> Iterator[Sequence[str]]:
    """Give a row for each corpus of which a policy has no lines, or fewer than were to be asked."""
    wanted = [policy.name for policy in experiment.policies]
    for corpus in experiment.corpora:
        own = (line for line in material.lines if (line.corpus, line.writer) == (corpus, experiment.writer))
        asked = Counter(line.policy for line in own)
        absent = [name for name in wanted if not asked[name]]
        why = material.left.get(f"{experiment.name} {corpus}", SHORT if material.scope == "quick" else NOT_RUN)
        where = f"{experiment.writer}, {corpus}"
        if absent:
            named = f"all {len(wanted)} policies" if len(absent) == len(wanted) else ", ".join(absent)
            yield experiment.name, experiment.what, where, named, why
        elif f"{experiment.name} {corpus}" in material.left:
            yield experiment.name, experiment.what, where, "some of the questions", why
