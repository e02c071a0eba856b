"""The training loop: AdamW on the factors of an adapter, a cosine over the time given, saved every minute.

Two runs with different seeds may be each other's peers: whenever one saves, it takes the mean with the other's factors.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from engine.models.adapters import BASE
from store.types import Chunk
from tests.adapters import contacts, made, reading
from tests.adapters.base import Base, Factors, Past, Tensor, fresh
from tests.adapters.rows import PADDING, Framed, Row
from tests.adapters.tasks import Example

ALPHA = 2.0  # what the adapter adds is multiplied by this
WARMUP, EACH = 40, 4  # steps, and examples a step
SAVED = 60.0  # seconds between two saved adapters
FILE = "adapters.safetensors"
SHARES = (0.60, 0.16, 0.14, 0.05, 0.05)  # of examples: reading, made up, contacts, abstracts, follow-ups


@dataclass(frozen=True, slots=True)
class Run:
    """How one training run goes."""

    minutes: float
    seed: int
    out: Path
    rank: int = 16
    rate: float = 6e-4
    least: float = 0.05  # share of the rate at the end
    go_on: Path | None = None
    peer: Path | None = None


def examples(rng: Random, passages: reading.ReadingSet, *, unseen: bool = False) -> Iterator[Example]:
    """Yield examples of all kinds."""

    def distractors() -> list[Chunk]:
        return reading.distractors(rng, passages, 6) if rng.random() < 0.6 else []

    kinds: tuple[Callable[[], Example], ...] = (
        lambda: reading.example(rng, passages),
        lambda: made.example(rng, distractors(), unseen),
        lambda: contacts.example(rng, distractors(), unseen),
        lambda: made.abstracts(rng, unseen),
        lambda: made.follow_ups(rng, unseen),
    )
    while True:
        yield rng.choices(kinds, SHARES)[0]()


def train(base: Base, framed: Framed, passages: reading.ReadingSet, run: Run, say: Callable[[str], None]) -> None:
    """Train for the minutes given and leave the adapter in a file."""
    factors = load(run.go_on) if run.go_on else fresh(base, run.rank)
    optimiser = torch.optim.AdamW([one for pair in factors.values() for one in pair], lr=run.rate, betas=(0.9, 0.98))
    rows = (row for one in examples(Random(run.seed), passages) if framed.fits(row := framed.row(one)))
    began = saved = time.monotonic()
    losses, counts, step, done = defaultdict[str, list[float]](list), 0, 0, 0.0
    while done < 1:
        share = min(1.0, (step + 1) / WARMUP) * (run.least + (1 - run.least) * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimiser.param_groups:
            group["lr"] = run.rate * share
        for _ in range(EACH):
            counts += _backward(base, factors, next(rows), losses)
        torch.nn.utils.clip_grad_norm_([one for pair in factors.values() for one in pair], 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step, done = step + 1, (time.monotonic() - began) / (60 * run.minutes)
        if step % 20 == 0:
            say(f"step {step} tasks {counts:,} minutes {done * run.minutes:.1f} {_recent(losses)}")
        if time.monotonic() - saved > SAVED:
            saved = time.monotonic()
            save(run.out, factors, base.name)
            _meet(factors, run.peer)
    save(run.out, factors, base.name)
    say(f"done: step {step} tasks {counts:,} {_recent(losses)}")


def _backward(base: Base, factors: Factors, row: Row, losses: dict[str, list[float]]) -> int:
    """Add the gradient of one example's tasks, each counting alike; returns how many there are."""
    past = base.read(torch.tensor(row.context))
    each = task_losses(base, factors, row, past)
    (each.mean() / EACH).backward()
    for role, loss in zip(row.roles, each.tolist(), strict=True):
        losses[role].append(loss)
    return len(row.said)


def task_losses(base: Base, factors: Factors, row: Row, past: Past) -> Tensor:
    """Return the mean cross-entropy of the reply's tokens of each task, (tasks,)."""
    targets = torch.tensor([target for one in row.targets for target in one])
    asked = targets != PADDING
    states = base.hidden(row.said, past, factors, ALPHA)
    found = functional.cross_entropy(base.logits(states[asked]), targets[asked], reduction="none")
    lengths = torch.tensor([sum(target != PADDING for target in one) for one in row.targets])
    owner = torch.arange(len(row.said)).repeat_interleave(lengths)
    return torch.zeros(len(row.said)).index_add(0, owner, found) / lengths


def save(out: Path, factors: Factors, base: str) -> None:
    """Write the factors of an adapter of a base model in half precision, under mlx-lm's names."""
    out.mkdir(parents=True, exist_ok=True)
    halves = {}
    for name, (down, up) in factors.items():
        halves[f"{name}.lora_a"] = down.detach().T.to(torch.bfloat16).contiguous()
        halves[f"{name}.lora_b"] = (up.detach().T * ALPHA).to(torch.bfloat16).contiguous()
    part = out / "adapters.part"
    save_file(halves, str(part), metadata={"format": "mlx", BASE: base})
    part.chmod(0o644)
    part.replace(out / FILE)


def load(folder: Path) -> Factors:
    """Read factors to train on."""
    halves = {name: one.float() for name, one in load_file(str(folder / FILE)).items()}
    names = [name.removesuffix(".lora_a") for name in halves if name.endswith(".lora_a")]
    return {
        name: (
            halves[f"{name}.lora_a"].T.contiguous().requires_grad_(),
            (halves[f"{name}.lora_b"].T / ALPHA).contiguous().requires_grad_(),
        )
        for name in names
    }


def mean(many: list[Factors]) -> Factors:
    """Average the factors of runs that began as one."""
    names = many[0]
    return {name: tuple(sum(one[name][at] for one in many) / len(many) for at in (0, 1)) for name in names}


def _meet(factors: Factors, peer: Path | None) -> None:
    if peer and (peer / FILE).exists():
        theirs = load(peer)
        with torch.no_grad():
            for name, pair in factors.items():
                for own, other in zip(pair, theirs[name], strict=True):
                    own.lerp_(other, 0.5)


def _recent(losses: dict[str, list[float]], last: int = 200) -> str:
    return " ".join(f"{role} {sum(found[-last:]) / len(found[-last:]):.3f}" for role, found in sorted(losses.items()))
