"""PerCache's three scheduler cases on the first questions of one user: what a changed setting changes from then on.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.cases CASE... [--model nano|135M] [--user NAME]`. After every question
5 more are foreseen and readied. a: tau from .85 to .90 after question 2, so that foreseen questions are read and not
answered: operations saved. b: tau from .90 to .85 after question 5: what was only read is answered at night, and the
later questions. c: a small budget of tensors that grows after question 6: nodes matched by questions asked anew. Each
case is run beside the same life without the change. Weights of 135M are random: for operations and time, not words.
"""

import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

from engine.ask.means import Answered
from engine.idle.units import Kind
from engine.models.meter import Meter, flops
from engine.models.mlx import Mlx
from store.kv_counts import KvCounts
from store.spent import Spent
from tests.bench.living import NANO, USERS, Life, prepared
from tests.engine.models.traced import traced

QUESTIONS, FORESEEN = 10, 5
SMALL = {"nano": 40_000_000, "135M": 105_000_000}  # bytes of tensors, before there are more
LARGE = 4_000_000_000
SIZES: dict[str, dict[str, Any]] = {"nano": {}, "135M": {"ask.k": 2, "model.max_tokens": 16}}
READY: tuple[Kind, ...] = ("populate", "convert", "refill")


@dataclass(slots=True)
class Lived:
    """What a life came to: answers by question, what nights took by kind, operations of nights and of questions."""

    answers: list[Answered] = field(default_factory=list)
    spent: dict[Kind, Spent] = field(default_factory=dict)
    asking: float = 0.0
    nodes: list[int] = field(default_factory=list)  # matched by each question

    @property
    def nights(self) -> float:
        """Give the operations of all nights."""
        return sum(one.flops for one in self.spent.values())


@dataclass(frozen=True, slots=True)
class Case:
    """Where a case is lived: a home to copy, what holds from its beginning, the questions, and how many foreseen."""

    made: Path
    settings: Mapping[str, Any]
    questions: Sequence[str]
    foreseen: int  # after each answer

    def live(self, name: str, phases: Mapping[int, Mapping[str, Any]], *, again: bool = False) -> Lived:
        """Ask all questions, `phases` saying what changes before which; `again`, and those before the last change."""
        home, lived = self.made.parent / name, Lived()
        shutil.copytree(self.made, home)
        starts = sorted(phases)
        for start, end in zip(starts, [*starts[1:], len(self.questions)], strict=True):
            with Life(home, {**self.settings, **phases[start]}) as life:
                if start:
                    _add(lived.spent, life.night(READY))
                if again and start:
                    _ask(life, lived, self.questions[:start], fresh=True)
                for question in self.questions[start:end]:
                    _ask(life, lived, [question])
                    life.foresee(self.foreseen)
                    _add(lived.spent, life.night(READY))
        return lived


def main() -> None:
    """Run the cases, each on a home of its own."""
    options = arguments()
    for name in options.cases:
        run(name, options)


def run(name: str, options: Namespace) -> None:
    """Run one case."""
    with TemporaryDirectory() as folder:
        home = Path(folder, "made")
        questions = prepared(options.user, home)[: options.questions]
        settings = {"model.name": str(model(options.model, Path(folder))), **SIZES[options.model]}
        print(f"case {name}, {options.model}, {options.user}, {len(questions)} questions")
        with Life(home, settings):
            pass  # a BLAS that MLX needs lies in the cache from now on, and counts in every life
        {"a": a, "b": b, "c": c}[name](Case(home, settings, questions, options.foreseen), options.model)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", choices=("a", "b", "c"))
    parser.add_argument("--model", choices=tuple(SIZES), default="nano")
    parser.add_argument("--user", choices=tuple(USERS), default="locomo")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--foreseen", type=int, default=FORESEEN, help="questions readied after each answer")
    return parser.parse_args()


def a(case: Case, name: str) -> None:
    """Raise tau after question 2: operations saved."""
    usual = case.live("usual", {0: {"bank.tau": 0.85}})
    raised = case.live("raised", {0: {"bank.tau": 0.85}, 2: {"bank.tau": 0.90}})
    for title, one in (("tau .85 throughout", usual), ("tau .90 from question 3 on", raised)):
        did = {kind: f"{spent.units} in {spent.seconds:.1f} s" for kind, spent in one.spent.items() if spent.units}
        print(f"  {title}: {one.nights / 1e9:.2f} GFLOP at night, {one.asking / 1e9:.2f} for the questions; {did}")
    night = 1 - raised.nights / usual.nights
    whole = 1 - (raised.nights + raised.asking) / (usual.nights + usual.asking)
    print(f"  saved: {night:.2%} of the nights' operations, {whole:.2%} of all (the paper: 14.12 %)")
    with Life(case.made, case.settings) as life:
        check(cast("Mlx", life.nightly.load().model))


def b(case: Case, name: str) -> None:
    """Lower tau after question 5: what the later questions take, and those that were foreseen."""
    for title, after in (("tau .90 throughout", {"bank.tau": 0.90}), ("tau .85 after question 5", {"bank.tau": 0.85})):
        folder = title.replace(" ", "-")
        lived = case.live(folder, {0: {"bank.tau": 0.90}, 5: after})
        later = [one.reply for one in lived.answers[5:]]
        with Life(case.made.parent / folder, {}) as life:
            foreseen = [*life.foreseen("answered"), *life.foreseen("undecoded")][:FORESEEN]
            asked = [life.ask(text).reply for text in foreseen]
        for whom, found in (("later questions", later), ("foreseen ones, asked", asked)):
            tiers = [one.tier for one in found]
            times = f"{median(one.ms['total'] for one in found):.1f} ms" if found else "none"
            print(f"  {title}, {whom}: median {times}, {dict(Counter(tiers))}")
        did = lived.spent.get("convert", Spent())
        print(f"    converted: {did.units} in {did.seconds:.2f} s, {did.read} tokens read, {did.written} written")


def c(case: Case, name: str) -> None:
    """Let the budget of tensors grow after question 6: nodes matched by the first six asked anew, and by the rest."""
    small = {"kv.bytes": SMALL[name], "bank.tau": 0.85}
    for title, after in (("small throughout", small), ("large after question 6", {"kv.bytes": LARGE})):
        lived = case.live(title.replace(" ", "-"), {0: small, 6: after}, again=True)
        anew, rest = slice(6, 12), slice(12, None)
        nodes = f"{sum(lived.nodes[:6])} nodes by the first 6 at first, {sum(lived.nodes[anew])} asked anew"
        shares = (_share(lived.answers[part]) for part in (slice(0, 6), anew, rest))
        print(f"  {title}: {nodes}, {sum(lived.nodes[rest])} by the rest;", end=" ")
        print("of their tokens {:.0%}, {:.0%} and {:.0%}".format(*shares))
        did = lived.spent.get("refill", Spent())
        print(f"    read again: {did.units} segments, {did.read} tokens in {did.seconds:.1f} s")


def check(model: Mlx) -> None:
    """Hold the formula against the products of the layers themselves, over a prompt of 200 tokens and 8 more."""
    metered, cache = replace(model, meter=Meter()), model.begin()
    ids = [10 + number % 90 for number in range(208)]
    with traced(model) as counted:
        for start in range(0, 200, 50):
            metered.prefill(cache, tuple(ids[start : start + 50]))
        for one in ids[200:]:
            metered.logits(cache, [one])
    layers = flops(replace(metered.size, head_parameters=0), metered.meter)
    print(f"  of what the layers compute, traced, the formula gives {layers / counted[0]:.4f}")


def model(name: str, folder: Path) -> Path:
    """Give a model's folder; random weights are made in a process of their own."""
    if name == "nano":
        return NANO
    words = [name, "--part", "weights", "--home", str(folder)]
    subprocess.run([sys.executable, "-m", "tests.bench.reuse", *words], check=True)
    return folder / name


def _ask(life: Life, lived: Lived, questions: Sequence[str], *, fresh: bool = False) -> None:
    for question in questions:
        before, nodes = life.flops(), _matched(life)
        lived.answers.append(life.ask(question, fresh=fresh))
        lived.asking += life.flops() - before
        lived.nodes.append(_matched(life) - nodes)


def _matched(life: Life) -> int:
    """Count the nodes that questions were given so far."""
    return sum(int(depth) * tally.count for depth, tally in KvCounts(life.session.ledger).of("hit").items())


def _share(answers: Sequence[Answered]) -> float:
    """Give the share of the prompts' tokens that was loaded."""
    tokens = [one.reply.tokens for one in answers if one.reply.tokens]
    return sum(one["reused"] for one in tokens) / max(1, sum(one["prompt"] for one in tokens))


def _add(whole: dict[Kind, Spent], night: Mapping[Kind, Spent]) -> None:
    for kind, spent in night.items():
        whole[kind] = whole.get(kind, Spent()) + spent


if __name__ == "__main__":
    main()
