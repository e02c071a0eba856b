"""Cache equivalence for models that do not cache every token's keys and values as they are: windows, states, 8 bits.

Nodes are then used as a whole or not at all, and hold what `==` needs whatever comes behind them.
"""

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
from tests.engine.models.shapes import KINDS, OTHERS, make

LENGTHS = (1, 2, 31, 64, 100, 130)  # tokens of a segment: one takes another way through a window


QUICK = [("gemma3", 0), ("mamba", 0), ("qwen3", 8)]  # a window, a running state, eight bits
FORMS = [*((name, 0) for name in OTHERS), ("qwen3", 8), ("gemma3", 8), ("falcon_h1", 8)]


@pytest.fixture(scope="module", params=[*QUICK, *slow_only(*(form for form in FORMS if form not in QUICK))])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return a random model of an architecture, and the bits that what it has read is kept in."""
    cache, (name, bits) = tmp_path_factory.mktemp("cache"), request.param
    folder = make(tmp_path_factory.mktemp("models") / name, (KINDS | OTHERS)[name])
    found = load(folder, name=name, cache=cache, memory_share=0.9)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP, bits=bits)


@pytest.fixture
def box(model: Mlx, tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path, model)
    yield found
    found.close()


def test_64_decoding_steps_are_bit_identical_after_a_loaded_and_a_computed_prefix(box: Box) -> None:
    model = box.model
    segments = [some(model, seed, length) for seed, length in enumerate((100, 130, 64, 1, 1))]
    box.read(segments)
    box.close()
    box.open()
    tokens, reused = decode_after_computed_and_loaded(box, segments)
    assert reused == (100, 130, 64, 1)  # single tokens go round in a window
    assert len(set(tokens)) > 20  # else equal tokens would say little


def test_a_segment_with_only_a_common_prefix_reuses_nothing(box: Box) -> None:
    model = box.model
    first, other, last = some(model, 1, 130), some(model, 2, 130), some(model, 3, 20)
    alike = first[:SUB_STEP] + other[SUB_STEP:]
    box.read([first, last])
    read, found = box.read([alike, last])
    assert read.reused == (0,)
    assert np.array_equal(found, cold(model, [alike, last]))


@examples(6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_whatever_happens_to_the_store_the_logits_are_bit_identical(model: Mlx, tmp_path: Path, seed: int) -> None:
    """Random prompts over few segments; between them anything may happen to the store."""
    rng, folder = Random(seed), Path(mkdtemp(dir=tmp_path))  # another one when a failure is looked at again
    box = Box(folder, model)
    pool = [some(model, rng.randrange(99), rng.choice(LENGTHS)) for _ in range(3)]
    prompts = ([*rng.choices(pool, k=rng.randint(1, 3)), some(model, rng.randrange(99), rng.choice((1, 20, 70)))]
               for _ in range(5))  # fmt: skip
    read_amid_events(box, rng, prompts)


def test_numbers_changed_behind_the_checksums_are_seen_by_these_tests(box: Box) -> None:
    """Write a well-formed file with other numbers: if the comparison could not see that, it could see nothing."""
    model = box.model
    segments = [some(model, 1, 31), some(model, 2, 20)]
    box.read(segments)
    rewrite(box, lambda data: np.flip(np.frombuffer(data, "<u4")).tobytes())
    read, found = box.read(segments)
    assert read.reused == (31,)
    assert not np.array_equal(found, cold(model, segments))
