"""A process that asks prompts of a store it shares, and holds what it gets against what was computed cold.

`prepare` computes everything cold; `serve` carries out orders, each in a fork of its own that may be killed: importing
takes longer than asking. Before a fork MLX computes nothing, for its threads would not be there behind it.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from random import Random

import numpy as np

from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, PromptReader, keep, prefill
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.runtime import load_blas
from engine.types import Trace
from store.database import Ledger
from tests.engine.ask.equivalence_home import ROOT, SUB_STEP, open_store
from tests.engine.models.shapes import KINDS, make

Ids = tuple[int, ...]
PROMPTS = 24
LENGTHS = (31, 64, 100, 130)  # tokens of a segment
IMPORTS = ("mlx_lm.models.cache", "mlx_lm.models.llama", "mlx_lm.utils")


@dataclass(frozen=True, slots=True)
class Order:
    """How many random prompts to ask, and when to die: after `seconds`, or before that `step` of keeping."""

    seed: int
    count: int
    seconds: float | None = None
    step: int | None = None


def prepare(folder: Path) -> None:
    """Make a model, and compute the logits behind every prompt with nothing kept: (prompts, vocabulary)."""
    load_blas(1)
    make(folder / "model", KINDS["llama"])
    model, rows = _model(folder), []
    for *before, last in prompts():
        read = prefill(PromptReader(model), before, Trace())
        rows.append(model.logits(read.cache, last))
    np.save(folder / "cold.npy", np.array(rows))


def serve(folder: Path) -> None:
    """Carry out orders, a line of JSON each; a line for each prompt, and one that tells how the fork ended."""
    load_blas(1)
    for name in IMPORTS:
        import_module(name)
    _say(ready=True)
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if not child:
            _ask(folder, order)
            os._exit(0)
        if order.seconds is not None:
            time.sleep(order.seconds)
            os.kill(child, signal.SIGKILL)
        _say(code=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@cache
def prompts() -> list[list[Ids]]:
    """Return prompts of up to four segments before the last, some of them alike in a sub-step and a half."""
    rng = Random(11)
    places = [[_some(rng, rng.choice(LENGTHS)) for _ in range(3)] for _ in range(4)]
    for place in places:
        long = _some(rng, 130)
        place += [long, long[:100] + _some(rng, 70)]
    found = [[rng.choice(place) for place in places[: rng.randint(1, 4)]] for _ in range(PROMPTS)]
    return [[*segments, _some(rng, rng.randint(1, 20))] for segments in found]


def _some(rng: Random, length: int) -> Ids:
    return tuple(rng.randrange(4, 512) for _ in range(length))


def _model(folder: Path) -> Mlx:
    found = load(folder / "model", name="random", cache=folder / "scratch", memory_share=0.9, threads=1)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP)


def _ask(folder: Path, order: Order) -> None:
    rng, cold, model = Random(order.seed), np.load(folder / "cold.npy"), _model(folder)
    with open_store(folder) as (ledger, store):
        kept, keeping = (
            KvBinding(store, ROOT, model, MeasuredCosts(ledger, "root")),
            _Keeping(folder, ledger, order.step),
        )
        for _ in range(order.count):
            number = rng.randrange(PROMPTS)
            *before, last = prompts()[number]
            read = prefill(PromptReader(model, kept), before, Trace())
            found = model.logits(read.cache, last)
            with keeping.counted():
                keep(kept, before, read)
            _say(prompt=number, reused=sum(read.reused), same=bool(np.array_equal(found, cold[number])))


class _Keeping:
    """Counts the steps of keeping, SQL statements and files opened, renamed, removed, and dies before one of them."""

    def __init__(self, folder: Path, ledger: Ledger, last: int | None) -> None:
        self._last, self._steps, self._inside = last, count(1), False
        if last is not None:
            ledger.rows.set_trace_callback(lambda sql: self._step())
            sys.addaudithook(lambda event, words: self._step() if _touches(str(folder), event, words) else None)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what happens meanwhile."""
        self._inside = True
        yield
        self._inside = False

    def _step(self) -> None:
        if self._inside and next(self._steps) == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def _touches(folder: str, event: str, words: tuple[object, ...]) -> bool:
    return event in ("open", "os.rename", "os.remove") and str(words[0]).startswith(folder)


def _say(**words: object) -> None:
    os.write(sys.stdout.fileno(), json.dumps(words).encode() + b"\n")  # at once, or a kill may part a line from its end
