"""KV reuse in blocks against prefix reuse on the latest questions of a home: answers and times.

Run `python -m tests.bench.blocks [--home FOLDER] [--questions N]`, where FOLDER is a home (PKB_HOME by default) whose
questions a language model answered. It works on a copy. Along the usual answers it prints how far the next token's
distribution is from the usual one and how many tokens and answers agree, then the share of prompt tokens that earlier
prompts had, and times.
"""

import os
import time
from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from engine.bench import copied, questions
from engine.llm.blocks import in_blocks
from engine.llm.generate import parse, read
from engine.llm.prefill import PromptReader
from engine.llm.prompt import Ids, fit
from engine.operations import search
from engine.session import Session, session
from engine.types import Trace
from store.kv_tree import root_of
from store.types import Scope

if TYPE_CHECKING:
    from engine.models.mlx import Mlx

ROOM = 1 << 40  # bytes of tensors

Logits = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds until the first token of an answer: all of the prompt computed, and what was kept of it loaded."""

    computed: float
    loaded: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One prompt read in both ways.

    Along the usual answer, its stop included: `kl`, how far the next token is from the usual one at each step, in nats,
    and `same`, at how many of them the same one is the likeliest. Both answers are as the model writes them.
    """

    kl: tuple[float, ...]
    same: int
    answers: tuple[str, str]
    usual: Timed
    blocks: Timed

    @property
    def equal(self) -> bool:
        """Return whether both ways give the same answer, to the letter."""
        return self.same == len(self.kl)

    @property
    def same_words(self) -> bool:
        """Return whether both answers are shown in the same words, whatever chunks they name."""
        one, other = (parse(answer).answer for answer in self.answers)
        return one == other


@dataclass(frozen=True, slots=True)
class _Begun:
    """A cache that has read a prompt, the logits behind it, and the seconds until they were there."""

    cache: Any
    logits: Logits
    seconds: float


def trial(
    model: "Mlx", usual: PromptReader, blocks: PromptReader, prompts: tuple[Sequence[Ids], Sequence[Ids]], most: int
) -> Trial:
    """Read a prompt in both forms, twice, and answer in at most so many tokens."""
    (computed, loaded), (computed_b, loaded_b) = (
        (_begin(model, way, ids), _begin(model, way, ids)) for way, ids in zip((usual, blocks), prompts, strict=True)
    )
    said, rows = _answer(model, computed, most)
    others = [computed_b.logits, *(model.logits(computed_b.cache, [token]) for token in said[: len(rows) - 1])]
    same = sum(int(a.argmax() == b.argmax()) for a, b in zip(rows, others, strict=True))
    other = said if same == len(rows) else _answer(model, loaded_b, most)[0]
    return Trial(
        kl=tuple(divergence(a, b) for a, b in zip(rows, others, strict=True)),
        same=same,
        answers=(_text(model, said), _text(model, other)),
        usual=Timed(computed.seconds, loaded.seconds),
        blocks=Timed(computed_b.seconds, loaded_b.seconds),
    )


def divergence(one: Logits, other: Logits) -> float:
    """Return how far the next token of the second logits is from that of the first: Kullback-Leibler, in nats."""
    p, q = _log_shares(one), _log_shares(other)
    return float((np.exp(p) * (p - q)).sum())


def again(prompts: Iterable[Sequence[Ids]], *, blocks: bool) -> float:
    """Return the share of the tokens of prompts, in the order they are read in, that were met before."""
    met, count, total = set[tuple[Ids, ...]](), 0, 0
    for ids in prompts:
        system, *rest = ids[:-1]
        behind = [(system, one) for one in rest] if blocks else [(system, *rest[: at + 1]) for at in range(len(rest))]
        paths: list[tuple[Ids, ...]] = [(system,), *behind]
        count += sum(len(path[-1]) for path in paths if path in met)
        total += sum(map(len, ids))
        met.update(paths)
    return count / total if total else 0.0


def _begin(model: "Mlx", way: PromptReader, ids: Sequence[Ids]) -> _Begun:
    """Read a prompt and keep it."""
    begun = time.perf_counter()
    with ExitStack() as held:
        found = read(way, ids[:-1], Trace(), held)
        logits = model.logits(found.cache, ids[-1])
        seconds = time.perf_counter() - begun
        found.keep()
    return _Begun(found.cache, logits, seconds)


def _answer(model: "Mlx", begun: _Begun, most: int) -> tuple[list[int], list[Logits]]:
    """Go on greedily up to a stop; returns the tokens, the stop among them, and the logits that each is the best of."""
    rows, said = [begun.logits], [int(begun.logits.argmax())]
    while len(said) < most and not _ends(model, said[-1]):
        rows.append(model.logits(begun.cache, said[-1:]))
        said.append(int(rows[-1].argmax()))
    return said, rows


def _ends(model: "Mlx", token: int) -> bool:
    return token in model.stops or (model.one_line and "\n" in model.vocabulary.decode([token]))


def _text(model: "Mlx", said: Sequence[int]) -> str:
    return model.vocabulary.decode([token for token in said if token not in model.stops]).strip()


def _log_shares(logits: Logits) -> NDArray[np.float64]:
    wide = logits.astype(np.float64) - logits.max()
    found: NDArray[np.float64] = wide - np.log(np.exp(wide).sum())
    return found


def main() -> None:
    """Compare the two ways over a copy of a home, and print a line for each figure."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home to copy")
    parser.add_argument("--questions", type=int, default=10)
    options = parser.parse_args()
    environ = {**os.environ, **({"PKB_HOME": str(options.home)} if options.home else {})}
    with (
        session(environ) as opened,
        copied(opened.home, opened.ledger, opened.locks) as home,
        session({**environ, "PKB_HOME": str(home.data), "PKB_CACHE": str(home.cache)}) as own,
    ):
        for setting, value in (("kv.reuse", "blocks"), ("kv.bytes", ROOM), ("kv.daily_bytes", ROOM)):
            own.override(setting, value)
        compare(own, questions(own.ledger, options.questions))


def compare(own: Session, asked: Sequence[str]) -> None:
    """Try each question with nothing kept of those before it, and print what the two ways have in common."""
    load, trials, usual, blocks = own.load_model, list[Trial](), list[Sequence[Ids]](), list[Sequence[Ids]]()
    if load is None or (store := load().kept) is None:
        raise SystemExit("this needs a home with a language model whose KV cache can be kept")
    reading, model, most = load(), cast("Mlx", load().model), own.settings.model.max_tokens
    for number, question in enumerate(asked):
        prompt = fit(model, question, own.now, search(own, question, Scope(), own.settings.ask.k), most)
        both = prompt.ids, in_blocks(model, prompt).ids
        kept, moved = (replace(store, root=root_of({"way": way, "number": str(number)})) for way in ("usual", "blocks"))
        found = trial(model, replace(reading, kept=kept, ropes=None), replace(reading, kept=moved), both, most)
        print(f"{question}\n  usual  {found.answers[0]}\n  blocks {found.answers[1]}", flush=True)
        trials.append(found)
        usual.append(both[0])
        blocks.append(both[1])
    steps = [step for one in trials for step in one.kl]
    print(f"answers: {len(trials)}, equal {sum(one.equal for one in trials)}, ", end="")
    print(f"in the same words {sum(one.same_words for one in trials)}")
    print(f"tokens: {len(steps)}, equal {sum(one.same for one in trials)}, divergence {fmean(steps):.4f} nats")
    print(f"reusable prompt tokens: usual {again(usual, blocks=False):.2f}, blocks {again(blocks, blocks=True):.2f}")
    for way in ("usual", "blocks"):
        times = [getattr(one, way) for one in trials]
        computed, loaded = (1000 * median(getattr(one, how) for one in times) for how in ("computed", "loaded"))
        print(f"first token, {way}: {computed:.0f} ms computed, {loaded:.0f} ms loaded")


if __name__ == "__main__":
    main()
