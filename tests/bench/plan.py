"""PerCache's experiments as data: overall latency, two model shapes, ablation, sensitivity; whole and quick.

With weights of a real shape every policy reads two chunks, as PerCache does (5.1): five would take twice as long.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.settings import Experiment as Usual
from tests.bench.policies import POLICIES, TAU, Policy

TOP = 2  # chunks (PerCache 5.1)
TAUS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
STRIDES = (1, 2, 3, 4, 5)
BUDGETS = (250, 1000)  # MB of KV; a prompt of five sources takes about 50 at the 135M shape
PUBLIC = ("locomo", "enron-annotated", "clinton-foia", "qmsum")
PARTS: Mapping[str, Mapping[str, Any]] = {
    "bank": {"bank": False, "settings": {"experiment.semantic": False}},
    "kv": {"settings": {"kv.reuse": "off"}},
    "prediction": {"predict": 0},
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of a question about short mail, and of the idle run before it, on one core of 2020 or so."""

    ask: float
    idle: float


ESTIMATES = {
    "quote": Estimate(0.06, 0.2),
    "nano": Estimate(0.3, 1.0),
    "135M": Estimate(2.5, 18.0),
    "0.5B": Estimate(11.0, 80.0),
}
OPENING, LONGER = 3.0, 2.0  # seconds of a unit's start; factor of real mail and meetings


@dataclass(frozen=True, slots=True)
class Experiment:
    """Every policy for the first users of each corpus and their first questions; policies of a user take turns."""

    name: str
    title: str  # in reports
    writer: str
    corpora: Sequence[str]
    policies: Sequence[Policy]
    users: int
    questions: int

    def seconds(self, corpus: str) -> float:
        """Estimate the duration of a corpus, on one core."""
        each, idle = ESTIMATES[self.writer], sum(policy.predict > 0 for policy in self.policies)
        asked = len(self.policies) * (OPENING + self.questions * each.ask) + idle * self.questions * each.idle
        return self.users * asked * (1.0 if corpus == "synthetic" else LONGER)


def varied(name: str, suffix: str, settings: Mapping[str, Any], **changes: Any) -> Policy:
    """Return a policy with some settings changed."""
    policy = POLICIES[name]
    titled = f"{policy.title}, {suffix.replace('-', ' ')}"
    return replace(policy, name=f"{name}-{suffix}", title=titled, settings={**policy.settings, **settings}, **changes)


def at(top: int, policies: Sequence[Policy]) -> list[Policy]:
    """Return the policies with so many chunks in a prompt."""
    return [replace(one, settings={**one.settings, "ask.k": top}) for one in policies]


def ablated(tau: float) -> Iterator[Policy]:
    """Yield pkb without each of its parts, and pkb itself at another threshold than the default (PerCache 5.4)."""
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
    """Return numbers of questions predicted at a time (PerCache 5.6)."""
    return [varied("pkb", f"stride{number}", {}, predict=number) for number in STRIDES]


def budgets() -> list[Policy]:
    """Return sizes of the KV cache."""
    return [varied("pkb", f"kv{size}MB", {"kv.bytes": size * 1_000_000}) for size in BUDGETS]


def named(*names: str) -> list[Policy]:
    """Return policies by name."""
    return [POLICIES[name] for name in names]


BLOCKS = varied("pkb", "blocks", {"kv.reuse": "blocks"})
TOPS = (2, 5)  # sources in a prompt: PerCache's and pkb's
DRAFTED = varied("ragcache-meancache", "drafts", {"experiment.drafts": 8})
DRAFTLESS = varied("pkb", "no-drafts", {"experiment.drafts": 0})
EIGHT = tuple(POLICIES.values())
QUOTED = named("naive", "meancache", "sleeptime", "percache", "pkb")  # without a KV cache the others do not differ
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
    Experiment("nano", "answers of a small model", "nano", ("synthetic",), FOUR, 1, 40),
    Experiment("strides", "sensitivity to the stride", "quote", ("synthetic",), strides(), 1, 60),
)
QUICK = (
    Experiment("time", "overall latency", "135M", ("synthetic",), at(TOP, FOUR), 1, 2),
    Experiment("words", "hits", "quote", ("synthetic",), QUOTED, 1, 30),
    Experiment("nano", "answers of a small model", "nano", ("synthetic",), FOUR, 1, 15),
)
IDLE = (
    Experiment(
        "idle",
        "hits with idle runs and without",
        "nano",
        ("locomo", "enron-annotated", "clinton-foia"),
        [POLICIES["pkb"], varied("pkb", "no-prediction", {}, predict=0)],
        2,
        40,
    ),
)


def traced() -> dict[str, Policy]:
    """Return the policies whose steps are counted, by name and number of sources.

    All guess tokens: what an answer takes without that follows from the counts.
    """
    usual = {"experiment.drafts": Usual().drafts}
    found = dict[str, Policy]()
    for top in TOPS:
        parts = [one for one in ablated(TAU) if top == TOPS[-1]]
        for one in at(top, [*EIGHT, BLOCKS, *parts]):
            found[f"{one.name}-{top}"] = replace(one, settings={**one.settings, **usual})
    return found


TRACED: Mapping[str, Policy] = traced()
SCOPES: Mapping[str, Sequence[Experiment]] = {"quick": QUICK, "whole": WHOLE, "idle": IDLE}
