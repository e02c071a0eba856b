"""What the evaluation runs, as data: the policies that traces count, and the experiments in real time; whole and quick.

In real time are those on hits, whose writer is fast: ablation, and sensitivity to the threshold and the stride.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from engine.settings import Experiment as Usual
from tests.bench.policies import POLICIES, TAU, Policy

TAUS = (0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95)
STRIDES = (1, 2, 3, 4, 5)
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
    "quote": Estimate(0.015, 0.05),
    "nano": Estimate(0.1, 0.3),
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


def named(*names: str) -> list[Policy]:
    """Return policies by name."""
    return [POLICIES[name] for name in names]


BLOCKS = varied("pkb", "blocks", {"kv.reuse": "blocks"})
TOPS = (2, 5)  # sources in a prompt: PerCache's and pkb's
EIGHT = tuple(POLICIES.values())
QUOTED = named("naive", "meancache", "sleeptime", "percache", "pkb")  # without a KV cache the others do not differ
FOUR = named("naive", "ragcache-meancache", "percache", "pkb")
ABLATED = [*QUOTED, *ablated(0.85), *ablated(0.80)]
OTHER_TAUS = [policy for policy in taus() if policy.name not in {one.name for one in ABLATED}]
WHOLE = (
    Experiment("taus", "sensitivity to the threshold", "quote", ("synthetic",), OTHER_TAUS, 1, 60),
    Experiment("parts", "hits, ablation", "quote", ("synthetic",), ABLATED, 1, 60),
    Experiment("words", "hits, public sets", "quote", (*PUBLIC, "paraphrase"), QUOTED, 1, 40),
    Experiment("nano", "answers of a small model", "nano", ("synthetic",), FOUR, 1, 40),
    Experiment("strides", "sensitivity to the stride", "quote", ("synthetic",), strides(), 1, 60),
)
QUICK = (
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


@dataclass(frozen=True, slots=True)
class Tracing:
    """Which traces are counted, about so many questions of each corpus, and rounds of measuring by shape."""

    corpora: Sequence[str]
    questions: int
    policies: Sequence[str]
    rounds: Mapping[str, int]

    def seconds(self, asked: int) -> float:
        """Estimate the time of a user with so many questions, on one core."""
        return len(self.policies) * (OPENED + COUNTED * asked)


OPENED, COUNTED = 0.5, 0.09  # seconds of opening a home again, and of a question with its share of an idle run
FEW = [f"{name}-{top}" for top in TOPS for name in ("naive", "ragcache-meancache", "percache", "pkb", "pkb-blocks")]
TRACINGS: Mapping[str, Tracing] = {
    "whole": Tracing((*PUBLIC, "paraphrase"), 400, tuple(TRACED), {"135M": 2, "0.5B": 2}),
    "quick": Tracing(("synthetic",), 20, FEW, {"135M": 1}),
}
SCOPES: Mapping[str, Sequence[Experiment]] = {"quick": QUICK, "whole": WHOLE, "idle": IDLE}
