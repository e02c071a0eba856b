"""The kept tensors of a home: opens their store, for a model's prompts or for `pkb stats`."""

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.llm.prefill import Kept
    from engine.models.mlx import Mlx
    from engine.settings import KvSettings
    from store.database import Ledger
    from store.home import Home
    from store.kv_store import KvStore

_NEVER = sys.maxsize  # no segment is that long: none lends its beginning


def kept(
    model: "Mlx",
    fingerprint: str,
    home: "Home",
    ledger: "Ledger",
    settings: "KvSettings",
    threads: int,
    score: str = "value",
) -> "Kept":
    """Open what is kept of a model's prompts, as this machine computes them: its arithmetic is part of the root."""
    from importlib.metadata import version

    from engine.llm.prefill import Kept
    from engine.models.runtime import arithmetic
    from store.kv_tree import root_of

    form, sub_step = model.form, str(model.sub_step)
    store = open_store(home, ledger, settings, model.sub_step if form.lends else _NEVER, score)
    store.collect()
    parts = {"model": fingerprint, "dtype": model.dtype, "form": form.name, "sub_step": sub_step, "adapter": ""}
    parts |= {"mlx_lm": version("mlx-lm")} | arithmetic(home.cache, threads)
    return Kept(store, root_of(parts), model)


def open_store(
    home: "Home", ledger: "Ledger", settings: "KvSettings", sub_step: int = 1, score: str = "value"
) -> "KvStore":
    """Open the store; only who matches prompts needs to name the sub-step."""
    from engine.settings import FREQUENCY_WEIGHT, HALF_LIFE_S, RECENCY_WEIGHT
    from store.kv_budget import Limits, Weights, scores
    from store.kv_store import KvStore

    return KvStore(
        ledger,
        home.tensors,
        limits=Limits(settings.bytes, settings.daily_bytes),
        score=scores(Weights(RECENCY_WEIGHT, FREQUENCY_WEIGHT, HALF_LIFE_S))[score],
        sub_step=sub_step,
        now=time.time,
        others=home.beside_tensors,
    )
