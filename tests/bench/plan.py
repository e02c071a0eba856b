"""PerCache's experiments as data: overall, two model shapes, ablation, sensitivity, in full and in short form.

With weights of a real shape every policy reads two chunks, as PerCache has it (5.1): five would take twice as long.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.bench.policies import POLICIES, TAU, Policy

TOP = 2  # chunks (PerCache 5.1)
TAUS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
STRIDES = (1, 2, 3, 4, 5)
BUDGETS = (25, 100)  # MB of tensors; a prompt of two chunks takes about 15 at the 135M shape
PUBLIC = ("locomo", "enron-annotated", "clinton-foia", "qmsum")
PARTS: Mapping[str, Mapping[str, Any]] = {
    "bank": {"bank": False, "settings": {"experiment.semantic": False}},
    "kv": {"settings": {"kv.reuse": "off"}},
    "prediction": {"foresee": 0},
}


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that a question of short mail takes, and the night before it, on one core of 2020 or so."""

    ask: float
    runner: float


PACES = {"quote": Pace(0.06, 0.2), "nano": Pace(0.3, 1.0), "135M": Pace(2.5, 18.0), "0.5B": Pace(11.0, 80.0)}
OPENING, LONGER = 3.0, 2.0  # seconds of a unit's start; how many times as long real mail and meetings take


@dataclass(frozen=True, slots=True)
class Experiment:
    """Units that belong together: every policy for the first users of each corpus, and their first questions.

    The policies of a user take turns, question by question, so that what is compared stands in one experiment.
    """

    name: str
    what: str  # as the report calls it
    writer: str
    corpora: Sequence[str]
    policies: Sequence[Policy]
    users: int
    questions: int

    def seconds(self, corpus: str) -> float:
        """Estimate what a corpus takes, on one core."""
        pace, idle_runs = PACES[self.writer], sum(policy.foresee > 0 for policy in self.policies)
        asked = len(self.policies) * (OPENING + self.questions * pace.ask) + idle_runs * self.questions * pace.runner
        return self.users * asked * (1.0 if corpus == "synthetic" else LONGER)


def varied(name: str, suffix: str, settings: Mapping[str, Any], **changes: Any) -> Policy:
    """Return a policy with some settings changed."""
    policy = POLICIES[name]
    titled = f"{policy.title}, {suffix.replace('-', ' ')}"
    return replace(policy, name=f"{name}-{suffix}", title=titled, settings={**policy.settings, **settings}, **changes)


def at(top: int, policies: Sequence[Policy]) -> list[Policy]:
    """Have policies read so many chunks."""
    return [replace(one, settings={**one.settings, "ask.k": top}) for one in policies]


def ablated(tau: float) -> Iterator[Policy]:
    """Yield pkb without each of its parts, and whole where its threshold is not the usual one (PerCache 5.4)."""
    end = "" if tau == TAU else f"-tau{round(100 * tau)}"
    if end:
        yield varied("pkb", end[1:], {"bank.tau": tau})
    for part, changes in PARTS.items():
        rest = dict(changes)
        yield varied("pkb", f"no-{part}{end}", {**rest.pop("settings", {}), "bank.tau": tau}, **rest)


def taus() -> list[Policy]:
    """Return thresholds, with the guards and without (PerCache 5.6)."""
    return [varied(name, f"tau{round(100 * tau)}", {"bank.tau": tau}) for name in ("pkb", "percache") for tau in TAUS]


def strides() -> list[Policy]:
    """Return numbers of questions that are foreseen at a time (PerCache 5.6)."""
    return [varied("pkb", f"stride{number}", {}, foresee=number) for number in STRIDES]


def budgets() -> list[Policy]:
    """Return room for tensors."""
    return [varied("pkb", f"kv{size}MB", {"kv.bytes": size * 1_000_000}) for size in BUDGETS]


def named(*names: str) -> list[Policy]:
    """Return policies by name."""
    return [POLICIES[name] for name in names]


BLOCKS = varied("pkb", "blocks", {"kv.reuse": "blocks"})
DRAFTED = varied("ragcache-meancache", "drafts", {"experiment.drafts": 8})
DRAFTLESS = varied("pkb", "no-drafts", {"experiment.drafts": 0})
EIGHT = tuple(POLICIES.values())
QUOTED = named("naive", "meancache", "sleeptime", "percache", "pkb")  # there are no tensors to tell others by
FOUR = named("naive", "ragcache-meancache", "percache", "pkb")
FIVE = named("naive", "ragcache-meancache", "ragcache-sleeptime", "percache", "pkb")
REAL = at(TOP, [*EIGHT, DRAFTED, BLOCKS, *ablated(0.85), DRAFTLESS, *budgets()])
ABLATED = [*QUOTED, *ablated(0.85), *ablated(0.80)]
OTHER_TAUS = [policy for policy in taus() if policy.name not in {one.name for one in ABLATED}]
WHOLE = (
    Experiment("time", "overall latency, ablation, budget", "135M", ("synthetic",), REAL, 1, 8),
    Experiment("public", "overall latency, public sets", "135M", PUBLIC, at(TOP, [*FIVE, DRAFTED, BLOCKS]), 1, 3),
    Experiment("shape", "a second shape of model", "0.5B", ("synthetic",), at(TOP, FOUR), 1, 2),
    Experiment("taus", "sensitivity to the threshold", "quote", ("synthetic",), OTHER_TAUS, 1, 60),
    Experiment("parts", "hits, ablation", "quote", ("synthetic",), ABLATED, 1, 60),
    Experiment("words", "hits, public sets", "quote", (*PUBLIC, "paraphrase"), QUOTED, 1, 40),
    Experiment("nano", "words of a small model", "nano", ("synthetic",), FOUR, 1, 40),
    Experiment("strides", "sensitivity to the stride", "quote", ("synthetic",), strides(), 1, 60),
)
QUICK = (
    Experiment("time", "overall latency", "135M", ("synthetic",), at(TOP, FOUR), 1, 2),
    Experiment("words", "hits", "quote", ("synthetic",), QUOTED, 1, 30),
    Experiment("nano", "words of a small model", "nano", ("synthetic",), FOUR, 1, 15),
)
NIGHTS = (
    Experiment(
        "nights",
        "hits with nights and without",
        "nano",
        ("locomo", "enron-annotated", "clinton-foia"),
        [POLICIES["pkb"], varied("pkb", "no-prediction", {}, foresee=0)],
        2,
        40,
    ),
)
SCOPES: Mapping[str, Sequence[Experiment]] = {"quick": QUICK, "whole": WHOLE, "nights": NIGHTS}
