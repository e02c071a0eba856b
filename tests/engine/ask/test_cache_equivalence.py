"""Cached and uncached prefill are bit-identical: the same prompt gives the same logits, compared with `==`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.models.load import load
from engine.models.mlx import Mlx
from store.kv_files import grouped
from tests.demo import NANO
from tests.effort import examples, slow_only
from tests.engine.ask.equivalence_box import (
    SUB_STEP,
    Box,
    cold,
    decode_after_computed_and_loaded,
    read_amid_events,
    rewrite,
    some,
)
from tests.engine.models.shapes import KINDS, make

BORDERS = (31, 32, 50, 64, 100)  # tokens that a segment shares with another one


@pytest.fixture(scope="module", params=["llama", "nano", *slow_only("qwen3", "gemma2", "stories260K")])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return a model: random ones of three architectures, and two that were trained."""
    cache = tmp_path_factory.mktemp("cache")
    name = request.param
    if name == "stories260K":
        folder: Path = request.getfixturevalue("shared") / "models" / name
    else:
        folder = NANO if name == "nano" else make(tmp_path_factory.mktemp("models") / name, KINDS[name])
    found = load(folder, name=name, cache=cache, memory_share=0.9)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP)


@pytest.fixture
def box(model: Mlx, tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path, model)
    yield found
    found.close()


def test_64_decoding_steps_are_bit_identical_after_a_loaded_and_a_computed_prefix(box: Box) -> None:
    model = box.model
    segments = [some(model, seed, length) for seed, length in enumerate((100, 130, 64, 31))]
    box.read(segments)
    box.close()
    box.open()
    read, _ = box.read(segments)
    assert read.reused == (100, 130, 64)
    tokens, _ = decode_after_computed_and_loaded(box, segments)
    if model.name in KINDS:
        assert len(set(tokens)) > 50  # else equal tokens would say little


@pytest.mark.parametrize("common", BORDERS)
def test_a_segment_with_a_common_prefix_reuses_whole_sub_steps(box: Box, common: int) -> None:
    model = box.model
    first, other, last = some(model, 1, 120), some(model, 2, 120), some(model, 3, 20)
    alike = first[:common] + other[common:]
    box.read([first, last])
    read, found = box.read([alike, last])
    assert read.reused == (common // SUB_STEP * SUB_STEP,)
    assert np.array_equal(found, cold(model, [alike, last]))


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_whatever_happens_to_the_store_the_logits_are_bit_identical(model: Mlx, tmp_path: Path, seed: int) -> None:
    """Random prompts over few segments, some alike at the beginning; between them anything may happen to the store.

    Models that were trained are larger, and read fewer of them.
    """
    rng, folder = Random(seed), Path(mkdtemp(dir=tmp_path))  # another one when a failure is looked at again
    box = Box(folder, model)
    pool = [some(model, rng.randrange(99), rng.choice((5, *BORDERS, 120))) for _ in range(4)]
    pool += [pool[0][: rng.choice(BORDERS)] + some(model, rng.randrange(99), 40) for _ in range(2)]
    rounds = range(6 if model.name in KINDS else 3)
    prompts = ([*rng.sample(pool, rng.randint(1, 3)), some(model, rng.randrange(99), rng.choice((1, 20, 70)))]
               for _ in rounds)  # fmt: skip
    read_amid_events(box, rng, prompts)


@pytest.mark.parametrize("step", [SUB_STEP, 192])
def test_groups_of_short_segments_are_bit_identical_whatever_happens(model: Mlx, tmp_path: Path, step: int) -> None:
    """With a step as of a GPU a group has many segments, and prompts share what ends at the border of one."""
    rng, stepping = Random(step), replace(model, sub_step=step)
    box, reused = Box(tmp_path, stepping), 0
    pool = [some(model, seed, rng.choice((5, 20, 40, 70))) for seed in range(7)]
    for number in range(6):
        shown = [*pool[: rng.randint(4, 7)], *rng.sample(pool, 2)]
        segments = [*grouped(shown, step), some(model, 99 + number, 20)]
        read, found = box.read(segments)
        assert np.array_equal(found, cold(stepping, segments))
        reused += sum(read.reused)
    assert reused
    read_amid_events(box, rng, [segments, segments, [*grouped(pool, step), pool[0]]])


def test_a_float_changed_behind_the_checksums_is_seen_by_these_tests(box: Box) -> None:
    """Write a well-formed file with one other float: if the comparison could not see that, it could see nothing."""
    model = box.model
    segments = [some(model, 1, 100), some(model, 2, 20)]
    box.read(segments)
    rewrite(box, lambda data: data[: 4 * 17] + np.float32(3.0).tobytes() + data[4 * 18 :])
    read, found = box.read(segments)
    assert read.reused == (100,)
    assert not np.array_equal(found, cold(model, segments))
