"""An adapter's cache from the border on equals its own pass, through a file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.models.load import load
from tests.bench.delta.border import Border, equal
from tests.engine.models.adapter_kit import make_adapter
from tests.engine.models.shapes import KINDS, make


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_from_the_border_on_every_adapter_has_the_tensors_and_logits_of_its_own_pass(kind: str, tmp_path: Path) -> None:
    folder = make(tmp_path / kind, KINDS[kind])
    found = load(folder, name=kind, cache=tmp_path / "cache", memory_share=0.9)
    model = replace(found, stops=frozenset(), sub_step=64)
    upper = len(model.begin()) // 2
    border, ids, last = Border(model, len(model.begin()) - upper), [*range(5, 205)], (7, 8, 9)
    border.read(ids, tmp_path / "border.safetensors")
    caches = []
    for seed in (3, 4):
        adapter = make_adapter(folder, tmp_path / f"adapter{seed}", seed=seed, layers=upper)
        caches.append(border.restore(ids, tmp_path / "border.safetensors", adapter))
        assert equal(replace(model, wears=adapter), caches[-1], border.cold(ids, adapter), last)
    (lowest, highest), (low, high) = ([np.array(cache[at].keys_and_values()[1]) for at in (0, -1)] for cache in caches)
    assert np.array_equal(lowest, low)
    assert not np.array_equal(highest, high)
