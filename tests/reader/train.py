"""Trains the reader for a number of steps: the loss, the schedule, the log, and going on after an end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from tests.reader.examples import Example, Public, made
from tests.reader.model import HELD, Reader, save
from tests.reader.windows import Batch, batch, rows

SMOOTH, CLIP, DECAY = 0.02, 1.0, 0.01
WEIGHTS = {"window": 0.5, "group": 1.0, "relevance": 0.5, "evidence": 0.5}


@dataclass(frozen=True, slots=True)
class Run:
    """How long and how fast to train; `public` is the share of examples from reading sets."""

    out: Path
    steps: int
    seed: int = 1
    examples: int = 16  # a step
    rate: float = 3e-4
    warm: int = 100
    public: float = 0.65
    every: int = 100  # steps between two lines of the log and two files


def train(reader: Reader, tokenizer: Tokenizer, public: Public | None, run: Run) -> None:
    """Train from where the log in `run.out` ends; each step draws its examples by its number alone."""
    run.out.mkdir(parents=True, exist_ok=True)
    log, state = run.out / "log.jsonl", run.out / "state.pt"
    optimizer = _optimizer(reader, run.rate)
    first = _resumed(reader, optimizer, state) if state.exists() else 0
    device, losses = reader.words.device, list[dict[str, float]]()
    reader.train()
    for step in range(first, run.steps):
        torch.manual_seed(run.seed * 1_000_003 + step)
        for group in optimizer.param_groups:
            group["lr"] = run.rate * min(1.0, (step + 1) / run.warm) * max(0.02, 1 - step / run.steps)
        drawn = batch([rows(tokenizer, one) for one in _drawn(Random(run.seed * 1_000_003 + step), public, run)])
        with torch.autocast(device.type, torch.bfloat16):
            logits, relevance = reader(drawn)
        parts = loss(drawn, logits.float(), relevance.float())
        sum(WEIGHTS[name] * part for name, part in parts.items()).backward()
        torch.nn.utils.clip_grad_norm_(reader.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append({name: float(part.detach()) for name, part in parts.items()})
        if (step + 1) % run.every == 0 or step + 1 == run.steps:
            means = {name: round(sum(one[name] for one in losses) / len(losses), 4) for name in WEIGHTS}
            losses.clear()
            with log.open("a") as lines:
                lines.write(json.dumps({"step": step + 1, **means}) + "\n")
            torch.save({"step": step + 1, "reader": reader.state_dict(), "optimizer": optimizer.state_dict()}, state)
            save(reader, run.out / "reader.safetensors")


def _optimizer(reader: Reader, rate: float) -> torch.optim.Optimizer:
    learned = [one for one in reader.parameters() if one.requires_grad]
    wide, narrow = ([one for one in learned if (one.ndim > 1) is is_wide] for is_wide in (True, False))
    groups = [{"params": wide, "weight_decay": DECAY}, {"params": narrow, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))


def _resumed(reader: Reader, optimizer: torch.optim.Optimizer, state: Path) -> int:
    held = torch.load(state, map_location=reader.words.device)
    reader.load_state_dict(held["reader"])
    optimizer.load_state_dict(held["optimizer"])
    return int(held["step"])


def _drawn(rng: Random, public: Public | None, run: Run) -> Iterator[Example]:
    waiting = list[Example]()
    for _ in range(run.examples):
        if public and rng.random() < run.public:
            yield public.draw(rng)
            continue
        while not waiting:
            waiting = list(made(rng))
            rng.shuffle(waiting)
        yield waiting.pop()


def loss(drawn: Batch, logits: Tensor, relevance: Tensor) -> dict[str, Tensor]:
    """Return the parts of the loss.

    `window` is over the tokens of a window and "no answer here", `group` over those of all windows of a question and
    one "no answer": the best of all windows is what a person sees.
    """
    given = {name: torch.tensor(getattr(drawn, name), device=logits.device) for name in ("second", "starts", "ends")}
    bears, groups = torch.tensor(drawn.bears, device=logits.device), torch.tensor(drawn.groups, device=logits.device)
    held, allowed = given["starts"].any(1), given["second"].clone()
    allowed[:, 0] = True
    window, group = logits.new_zeros(()), logits.new_zeros(())
    for column, name in enumerate(("starts", "ends")):
        scores, wanted = logits[..., column].masked_fill(~allowed, HELD), given[name].clone()
        wanted[:, 0] = ~held
        window = window - (_some(scores, wanted) - scores.logsumexp(1)).mean()
        group = group + _over_groups(scores, wanted, held, groups)
    evidence = functional.binary_cross_entropy_with_logits(logits[..., 2], bears.float(), reduction="none")[
        given["second"]
    ]
    aimed = held.float() * (1 - 2 * SMOOTH) + SMOOTH
    return {
        "window": window,
        "group": group,
        "relevance": functional.binary_cross_entropy_with_logits(relevance, aimed),
        "evidence": evidence.mean(),
    }


def _some(scores: Tensor, wanted: Tensor) -> Tensor:
    return scores.masked_fill(~wanted, HELD).logsumexp(1)


def _over_groups(scores: Tensor, wanted: Tensor, held: Tensor, groups: Tensor) -> Tensor:
    """Return the loss of whole questions: an answer against all windows, "no answer" as the mean of its scores."""
    losses = list[Tensor]()
    for number in range(int(groups.max()) + 1):
        mine = groups == number
        tokens, none = scores[mine][:, 1:].flatten(), scores[mine][:, 0].mean()[None]
        every = torch.cat([tokens, none]).logsumexp(0)
        right = tokens.masked_fill(~wanted[mine][:, 1:].flatten(), HELD)
        losses.append(every - (right.logsumexp(0) if held[mine].any() else none[0]))
    return torch.stack(losses).mean()
