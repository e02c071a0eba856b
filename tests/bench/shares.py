"""The time saved by a prompt that shares only part of a cached prefix.

The saving of a whole match is the time that computing everything takes beyond it; a part's share of that is held
against its share of the kept tokens, for which the prefix-caching article gives 128 of 180, 71 %.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import median

from engine.llm.prefill import Ids
from engine.models.mlx import Mlx
from tests.bench.state import Desk

QUESTION = 50  # tokens
FINER = 64  # tokens of a sub-step, for comparison


@dataclass(frozen=True, slots=True)
class Case:
    """What is kept, by tokens of each segment, and how many of its first tokens the prompt shares."""

    kept: tuple[int, ...]
    shared: int


CASES = (
    Case((128, 52), 128),
    Case((180,), 128),
    Case((90, 130), 90 + 65),
    Case((90, 256), 90 + 128),
    Case((90, 112, 112, 112, 174), 90 + 3 * 112),
    Case((90, 130, 130, 130, 120), 90 + 130),
)


def measure(model: Mlx, home: Path, rounds: int) -> None:
    """Print the shares, in the model's sub-steps and in finer ones."""
    for step in (model.sub_step, FINER):
        print(f"\n{model.name}, in sub-steps of {step}: what a part of the kept tokens saves of what all of them save")
        for number, case in enumerate(CASES):
            state = Desk(replace(model, sub_step=step), home / f"share-{step}-{number}", prompt(case, 0))
            show(state, case, rounds)
            state.close()


def prompt(case: Case, seed: int) -> list[Ids]:
    """Return a prompt whose tokens are those of any other seed up to the last that is shared."""
    common, own, given = Random(1), Random(seed + 2), list[Ids]()
    at = 0
    for length in case.kept:
        left = max(0, min(length, case.shared - at))
        given.append((*_some(common, left), *_some(own, length - left)))
        at += length
    return [*given, _some(Random(2), QUESTION)]


def show(state: Desk, case: Case, rounds: int) -> None:
    """Print one case: medians of rounds in which all, a part and nothing is reused in turn."""
    other, tokens = prompt(case, 1), sum(case.kept)
    found = [(state.computed(), state.reused(other), state.reused()) for _ in range(rounds)]
    saved = median((none.total - some.total) / (none.total - whole.total) for none, some, whole in found)
    ms = "/".join(f"{1e3 * median(one.total for one in way):.0f}" for way in zip(*found, strict=True))
    shared_tokens, name = found[0][1].reused, "+".join(map(str, case.kept))
    print(
        f"  {name:20} {case.shared:4} alike, {shared_tokens:4} lent, {shared_tokens / tokens:.2f} of the tokens;",
        end=" ",
    )
    print(f"{saved:.2f} of the saving; nothing, a part, all reused {ms} ms", flush=True)


def _some(rng: Random, length: int) -> Ids:
    return tuple(rng.randrange(10, 600) for _ in range(length))
