"""PerCache's three scheduler cases on the first questions of one user: the effect of a setting changed midway.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.cases CASE... [--model nano|135M] [--user NAME] [--questions N]
[--foreseen N] [--counted]`. After every question some are foreseen and readied. a: tau from .85 to .90 after question
2, so that foreseen questions are read and not answered: operations saved. b: .90 to .85 after question 5: what was
only read is answered. c: a small budget of tensors grows after question 6: tokens loaded for questions asked anew.
Each beside the same life without the change. Weights of 135M are random, answers forced and as long as the set's own:
for operations and time. Counted, layers note tokens and compute nothing: the same operations, and no times.
"""

import shutil
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest

from engine.idle.types import Kind
from engine.models.mlx import Mlx
from engine.models.types import Meter, flops
from engine.session import Session
from engine.types import AskResult
from store.jobs import JobCost
from store.kv_index import KvCounts
from tests.bench.corpus import User
from tests.bench.forced import force
from tests.bench.forced import model as random_model
from tests.bench.harness import texts
from tests.bench.living import NANO, USERS, Answers, Life, as_it_is, folders, prepared
from tests.engine.models.traced import traced

QUESTIONS, FORESEEN = 10, 5
SMALL = {"nano": 40_000_000, "135M": 105_000_000}  # bytes of tensors, before there are more
LARGE = 4_000_000_000
SIZES: dict[str, dict[str, Any]] = {"nano": {}, "135M": {"ask.k": 2}}  # settings: PerCache reads two chunks
USUAL = {"nano": "locomo", "135M": "qmsum"}  # whose answers are sentences
READY: tuple[Kind, ...] = ("populate", "convert", "refill")


@dataclass(slots=True)
class Lived:
    """What a life came to: answers by question, what nights took by kind, operations of nights and of questions."""

    answers: list[AskResult] = field(default_factory=list)
    spent: dict[Kind, JobCost] = field(default_factory=dict)
    reasker: float = 0.0
    loaded: list[int] = field(default_factory=list)  # tokens, by question

    @property
    def idle_runs(self) -> float:
        """Return the operations of all nights."""
        return sum(one.flops for one in self.spent.values())


@dataclass(frozen=True, slots=True)
class Case:
    """Where a case is lived: a home to copy, what holds from its beginning, and what is asked in it."""

    made: Path
    settings: Mapping[str, Any]
    questions: Sequence[str]
    predicted_counts: int  # after each answer
    dress: Callable[[Session], None]
    counted: bool

    def live(self, name: str, phases: Mapping[int, Mapping[str, Any]], *, again: bool = False) -> Lived:
        """Ask all questions, `phases` saying what changes before which; `again`, and those before the last change."""
        home, lived = self.made.parent / name, Lived()
        shutil.copytree(self.made, home)
        starts = sorted(phases)
        for start, end in zip(starts, [*starts[1:], len(self.questions)], strict=True):
            with Life(home, {**self.settings, **phases[start]}, self.dress) as life:
                if start:
                    _add(lived.spent, life.runner(READY))
                if again and start:
                    _ask(life, lived, self.questions[:start], fresh=True)
                for question in self.questions[start:end]:
                    _ask(life, lived, [question])
                    life.foresee(self.predicted_counts)
                    _add(lived.spent, life.runner(READY))
        return lived


def main() -> None:
    """Run the cases, each on a home of its own."""
    options = arguments()
    with uncomputed() if options.counted else nullcontext():
        for name in options.cases:
            run(name, options)


def run(name: str, options: Namespace) -> None:
    """Run one case."""
    user, nano = options.user or USUAL[options.model], options.model == "nano"
    with TemporaryDirectory() as folder:
        home = Path(folder, "made")
        answers = Answers(prepared(user, home))
        questions = list(answers)[: options.questions]
        model = NANO if nano else _random(options.model, Path(folder), user)
        settings = {"model.name": str(model), **SIZES[options.model]}
        dress = as_it_is if nano else partial(force, golds=answers)
        about = f"{len(questions)} questions, {options.predicted_counts} foreseen after each"
        print(f"case {name}, {options.model}, {user}, {about}{', counted' if options.counted else ''}", flush=True)
        with Life(home, settings):
            pass  # a BLAS that MLX needs lies in the cache from now on, and counts in every life
        case = Case(home, settings, questions, options.predicted_counts, dress, options.counted)
        {"a": a, "b": b, "c": c}[name](case, options.model)


def arguments() -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", choices=("a", "b", "c"))
    parser.add_argument("--model", choices=tuple(SIZES), default="nano")
    parser.add_argument(
        "--user", choices=tuple(USERS), help="locomo with nano, else qmsum, whose answers are sentences"
    )
    parser.add_argument("--counted", action="store_true", help="with random weights: compute nothing, count alone")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--foreseen", type=int, default=FORESEEN, help="questions readied after each answer")
    return parser.parse_args()


def a(case: Case, name: str) -> None:
    """Raise tau after question 2: operations saved."""
    usual = case.live("usual", {0: {"bank.tau": 0.85}})
    raised = case.live("raised", {0: {"bank.tau": 0.85}, 2: {"bank.tau": 0.90}})
    for title, one in (("tau .85 throughout", usual), ("tau .90 from question 3 on", raised)):
        print(f"  {title}: {one.idle_runs / 1e9:.2f} GFLOP at night, {one.reasker / 1e9:.2f} for the questions")
        for kind, did in one.spent.items():
            if did.units:
                print(f"    {kind}: {did.units} in {did.seconds:.1f} s, {did.read} tokens read, {did.written} written")
    runner = 1 - raised.idle_runs / usual.idle_runs
    whole = 1 - (raised.idle_runs + raised.reasker) / (usual.idle_runs + usual.reasker)
    print(f"  saved: {runner:.2%} of the nights' operations, {whole:.2%} of all (the paper: 14.12 %)")
    if not case.counted:
        with Life(case.made, case.settings, case.dress) as life:
            check(cast("Mlx", life.planner.load().model))


def b(case: Case, name: str) -> None:
    """Lower tau after question 5: what the later questions take, and those that were foreseen."""
    for title, after in (("tau .90 throughout", {"bank.tau": 0.90}), ("tau .85 after question 5", {"bank.tau": 0.85})):
        folder = title.replace(" ", "-")
        lived = case.live(folder, {0: {"bank.tau": 0.90}, 5: after})
        later = [one.reply for one in lived.answers[5:]]
        with Life(case.made.parent / folder, {}, case.dress) as life:
            predicted_counts = [*life.predicted_counts("answered"), *life.predicted_counts("prefilled")][:FORESEEN]
            asked = [life.ask(text).reply for text in predicted_counts]
        for whom, found in (("later questions", later), ("foreseen ones, asked", asked)):
            tiers = [one.tier for one in found]
            times = f"{median(one.ms['total'] for one in found):.1f} ms" if found else "none"
            print(f"  {title}, {whom}: median {times}, {dict(Counter(tiers))}")
        did = lived.spent.get("convert", JobCost())
        print(f"    converted: {did.units} in {did.seconds:.2f} s, {did.read} tokens read, {did.written} written")


def c(case: Case, name: str) -> None:
    """Let the budget of tensors grow after question 6: tokens loaded for the first six asked anew, and by the rest."""
    small = {"kv.bytes": SMALL[name], "bank.tau": 0.85}
    for title, after in (("small throughout", small), ("large after question 6", {"kv.bytes": LARGE})):
        lived = case.live(title.replace(" ", "-"), {0: small, 6: after}, again=True)
        anew, rest = slice(6, 12), slice(12, None)
        nodes = f"{sum(lived.loaded[:6])} tokens by the first 6 at first, {sum(lived.loaded[anew])} asked anew"
        shares = (_share(lived.answers[part]) for part in (slice(0, 6), anew, rest))
        print(f"  {title}: {nodes}, {sum(lived.loaded[rest])} by the rest;", end=" ")
        print("of their tokens {:.0%}, {:.0%} and {:.0%}".format(*shares))
        did = lived.spent.get("refill", JobCost())
        print(f"    read again: {did.units} segments, {did.read} tokens in {did.seconds:.1f} s")


@contextmanager
def uncomputed() -> Iterator[None]:
    """Have the layers of llamas keep as many tokens as they are given, all of them naught, and compute nothing."""
    import mlx.core as mx
    from mlx_lm.models import llama

    def passed(layer: Any, rows: Any, mask: Any = None, cache: Any = None) -> Any:
        heads, width = layer.self_attn.n_kv_heads, layer.args.head_dim or layer.hidden_size // layer.num_attention_heads
        naught = mx.zeros((1, heads, rows.shape[1], width), rows.dtype)
        cache.update_and_fetch(naught, naught)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama.TransformerBlock, "__call__", passed)
        yield


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


def _random(size: str, folder: Path, user: str) -> Path:
    return random_model(size, folder, texts(User(user, user, tuple(folders(user)), ())))


def _ask(life: Life, lived: Lived, questions: Sequence[str], *, fresh: bool = False) -> None:
    for question in questions:
        before, loaded = life.flops(), _loaded(life)
        lived.answers.append(life.ask(question, fresh=fresh))
        lived.reasker += life.flops() - before
        lived.loaded.append(_loaded(life) - loaded)


def _loaded(life: Life) -> int:
    """Count the tokens that were loaded for questions so far."""
    return KvCounts(life.session.ledger).total("hit").tokens


def _share(answers: Sequence[AskResult]) -> float:
    """Return the share of the prompts' tokens that was loaded."""
    tokens = [one.reply.tokens for one in answers if one.reply.tokens]
    return sum(one["reused"] for one in tokens) / max(1, sum(one["prompt"] for one in tokens))


def _add(whole: dict[Kind, JobCost], runner: Mapping[Kind, JobCost]) -> None:
    for kind, spent in runner.items():
        whole[kind] = whole.get(kind, JobCost()) + spent


if __name__ == "__main__":
    main()
