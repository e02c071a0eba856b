"""Training on kept tensors: the same loss as on the whole prompt, the base untouched, and gone on with bit for bit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from engine.models.adapters import CONFIG, read_adapter
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.trainer import Batch, Start, Trainer, prefix_of
from tests.demo import NANO

CONTEXTS = ["[1] The rehearsal is on Friday at 6pm.\n", "[1] Ann brings the lemon cake to the picnic on Sunday.\n"]
LAST = "Question: When is it?\nAnswer:"
REPLY = "blue cheese"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    return load(NANO, name="nano", cache=tmp_path_factory.mktemp("cache"), memory_share=0.9)


def start(*, updates: int = 4, activated: bool = True) -> Start:
    return Start(None, 4, 2.0, 5e-3, activated, updates)


def batches(model: Mlx, done: int = 0) -> Iterator[Batch]:
    """Yield examples from the first of an update on; an update takes all of them twice."""
    reply = model.reply(REPLY)
    for context in cycle(CONTEXTS):
        cache = model.begin()
        model.prefill(cache, model.tokens(context))
        yield Batch(prefix_of(cache), [*model.tokens(LAST), *reply], len(reply))


def whole(model: Mlx) -> Iterator[Batch]:
    reply = model.reply(REPLY)
    for context in cycle(CONTEXTS):
        yield Batch([], [*model.tokens(context), *model.tokens(LAST), *reply], len(reply))


def logits(model: Mlx) -> np.ndarray:
    cache = model.begin()
    model.prefill(cache, model.tokens(CONTEXTS[0]))
    return model.logits(cache, model.tokens(LAST))


def factors(trainer: Trainer) -> dict[str, np.ndarray]:
    import mlx.core as mx

    found = mx.load(str(trainer.files / "adapters.safetensors"))
    assert isinstance(found, dict)
    return {name: np.array(one) for name, one in found.items()}


def test_it_learns_and_the_base_stays_as_it_is(model: Mlx, tmp_path: Path) -> None:
    before = logits(model)
    trainer = Trainer(model, NANO, start(updates=8), tmp_path)
    trainer.run(2, batches(model))
    first = trainer.loss
    trainer.run(6, batches(model))
    assert first
    assert trainer.loss
    assert trainer.loss < first / 2
    assert trainer.done == 8
    assert np.array_equal(logits(model), before)
    own = read_adapter(trainer.adapter_files(), "own")
    assert (own.rank, own.scale, own.activated) == (4, 2.0, True)
    assert not np.array_equal(logits(replace(model, wears=own)), before)
    assert np.array_equal(logits(model), before)


def test_kept_tensors_give_the_loss_of_the_whole_prompt(model: Mlx, tmp_path: Path) -> None:
    # A first update that changes nothing yet: the factors of fresh adapters multiply to zero.
    kept, read = (Trainer(model, NANO, replace(start(), rate=0.0), tmp_path / name) for name in ("kept", "whole"))
    kept.run(1, batches(model))
    read.run(1, whole(model))
    assert kept.loss == pytest.approx(read.loss, rel=1e-4)


@pytest.mark.slow
def test_an_interrupted_training_goes_on_bit_for_bit(model: Mlx, tmp_path: Path) -> None:
    once = Trainer(model, NANO, start(), tmp_path / "once")
    once.run(2, batches(model))
    once.run(2, batches(model))
    first = Trainer(model, NANO, start(), tmp_path / "twice")
    first.run(2, batches(model))

    def ends() -> Iterator[Batch]:
        yield next(batches(model))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        first.run(2, ends())
    second = Trainer(model, NANO, start(), tmp_path / "twice")
    assert second.done == 2
    second.run(9, batches(model))
    assert second.done == 4
    one, other = factors(once), factors(second)
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[name], other[name]) for name in one)


def test_another_training_starts_anew(model: Mlx, tmp_path: Path) -> None:
    Trainer(model, NANO, start(), tmp_path).run(1, batches(model))
    assert Trainer(model, NANO, start(), tmp_path).done == 1
    assert Trainer(model, NANO, start(updates=5), tmp_path).done == 0
    assert not any(tmp_path.glob("0*"))


def test_mlx_lm_can_load_what_was_trained(model: Mlx, tmp_path: Path) -> None:
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import load_model

    trainer = Trainer(model, NANO, start(activated=False), tmp_path)
    trainer.run(1, whole(model))
    files = trainer.adapter_files()
    assert json.loads((files / CONFIG).read_text("utf-8"))["num_layers"] == len(model.model.layers)
    load_adapters(load_model(NANO, lazy=True)[0], str(files))


def test_nothing_is_printed(model: Mlx, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Trainer(model, NANO, start(), tmp_path).run(1, batches(model))
    assert capsys.readouterr() == ("", "")
