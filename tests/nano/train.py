"""The training loop: repetition first, then contexts that grow; saves a loadable folder every half minute.

Muon turns the hidden matrices, AdamW the embedding and the norms; the rates fall along a cosine over the time given.
Two runs with different seeds may be each other's peers: whenever one saves, it takes the mean with the other's weights.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.nn import functional

from tests.nano import folder
from tests.nano.batches import PADDING, Batch, batches, repetition
from tests.nano.model import Shape, Weights, given, hidden, logits

REPEATS = 200  # steps of pure repetition, at most
COPIES = 0.7  # the loss at which they end
LEARNT = 0.25  # the loss below which contexts grow
WARMUP = 60
SAVED = 30.0  # seconds between two saved models


@dataclass(frozen=True, slots=True)
class Run:
    """How one training run goes: rates for Muon and AdamW, the part of the curriculum to go through, tokens a step."""

    minutes: float
    seed: int
    out: Path
    muon: float = 4e-3
    adam: float = 3e-3
    begin: float = 0.0
    end: float = 1.0
    least: float = 0.0  # the rates end at this share
    tokens: int = 3200
    peer: Path | None = None  # where another run saves
    blocks: bool = False  # contexts are read in blocks


@dataclass(slots=True)
class Progress:
    """How far a run is; mutable. `reached` is the share of the curriculum, `done` that of the time."""

    run: Run
    began: float
    reached: float
    done: float = 0.0
    tokens: int = 0
    losses: list[float] = field(default_factory=list)

    def recent(self, steps: int) -> float:
        """Return the mean loss of the last steps; infinite before there are as many."""
        return sum(self.losses[-steps:]) / steps if len(self.losses) >= steps else math.inf

    def advance(self, now: float) -> None:
        """Let the contexts grow, so as to be through in time, but only when those of now are learnt."""
        before, self.done = self.done, (now - self.began) / (60 * self.run.minutes)
        if self.recent(20) < LEARNT and self.done < 1:
            self.reached += (self.run.end - self.reached) * (self.done - before) / (1 - before)

    def line(self) -> str:
        """Return where it stands."""
        minutes = self.done * self.run.minutes
        at = f"curriculum {self.reached:.2f} minutes {minutes:.1f} tokens {self.tokens:,}"
        return f"step {len(self.losses)} loss {self.recent(100):.4f} {at}"


def train(weights: Weights, tokenizer: Tokenizer, run: Run, say: Callable[[str], None]) -> None:
    """Train for the minutes given and leave the model in the folder."""
    shape, rng, optimisers = Shape(), Random(run.seed), _optimisers(weights, run)
    saved = time.monotonic()
    progress, queue = Progress(run, saved, run.begin), list[Batch]()
    while progress.done < 1:
        queue = queue or _next(tokenizer, rng, progress)
        batch = queue.pop()
        _rate(optimisers, len(progress.losses), progress.done, run.least)
        progress.losses.append(_step(weights, shape, batch, optimisers))
        progress.tokens += batch.tokens
        progress.advance(time.monotonic())
        if len(progress.losses) % 100 == 0:
            say(progress.line())
        if time.monotonic() - saved > SAVED:
            folder.save(run.out, weights, shape, tokenizer)
            _meet(weights, run.peer)
            saved = time.monotonic()
    folder.save(run.out, weights, shape, tokenizer)
    say(f"done: {progress.line()}")


def _next(tokenizer: Tokenizer, rng: Random, progress: Progress) -> list[Batch]:
    fresh = progress.run.begin == 0 and len(progress.losses) < REPEATS
    if fresh and progress.recent(20) > COPIES:
        return [repetition(rng, Shape().vocabulary, progress.run.tokens)]
    return batches(tokenizer, rng, progress.reached, progress.run.tokens, blocks=progress.run.blocks)


def _meet(weights: Weights, peer: Path | None) -> None:
    if peer and (peer / "model.safetensors").exists():
        theirs = folder.load(peer)[0]
        with torch.no_grad():
            for name, one in weights.items():
                one.lerp_(theirs[name], 0.5)


def loss_of(weights: Weights, shape: Shape, batch: Batch) -> Any:
    """Return the mean cross-entropy of the tokens of the answers."""
    targets = torch.from_numpy(batch.targets).flatten()
    asked = (targets != PADDING).nonzero()[:, 0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = hidden(weights, shape, *given(batch))
        scores = logits(weights, states.flatten(0, 2)[asked])
    return functional.cross_entropy(scores.float(), targets[asked])


def _step(weights: Weights, shape: Shape, batch: Batch, optimisers: list[Any]) -> float:
    loss = loss_of(weights, shape, batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
    for optimiser in optimisers:
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return float(loss.detach())


def _optimisers(weights: Weights, run: Run) -> list[Any]:
    matrices = [one for name, one in weights.items() if name.endswith("proj.weight")]
    others = [one for name, one in weights.items() if not name.endswith("proj.weight")]
    return [
        torch.optim.Muon(matrices, lr=run.muon, momentum=0.95, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=run.adam, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _rate(optimisers: list[Any], step: int, done: float, least: float) -> None:
    share = min(1.0, (step + 1) / WARMUP) * (least + (1 - least) * 0.5 * (1 + math.cos(math.pi * done)))
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group.setdefault("full", group["lr"])
            group["lr"] = share * group["full"]
