"""Blocks: with what was read before or without it, in any order, the same prompt gives the same logits, by `==`."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.kv import blocks
from engine.kv.costs import MeasuredCosts
from engine.kv.restore import KvBinding, PromptReader, keep, prefill
from engine.models.kv_cache import take
from engine.models.load import movable
from engine.models.mlx import Mlx
from engine.types import Trace
from store.kv_files import Tensor, verify, write
from tests.effort import examples, slow_only
from tests.engine.ask.equivalence_box import EVENTS, ROOT, Box, Ids, decoded, some
from tests.engine.llm.kit import MOVABLE, loaded, through, without

QUICK = ["partial", "qwen3 in 8 bits"]


@pytest.fixture(scope="module", params=[*QUICK, *slow_only("nano", *(name for name in MOVABLE if name not in QUICK))])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return a model: random ones with ropes of all sorts, and one that was trained."""
    cache = tmp_path_factory.mktemp("cache")
    return loaded(request.param, tmp_path_factory.mktemp("models"), cache)


@pytest.fixture
def box(model: Mlx, tmp_path: Path) -> Iterator[Box]:
    found = Box(tmp_path, model)
    yield found
    found.close()


def drawn(model: Mlx, *lengths: int) -> list[Ids]:
    return [some(model, seed, length) for seed, length in enumerate(lengths)]


def test_64_steps_behind_loaded_blocks_are_those_behind_computed_ones(box: Box) -> None:
    segments = drawn(box.model, 40, 3, 100, 3, 130, 3, 64, 31)
    system, first, second, last = segments[0], segments[1:3], segments[3:5], segments[-1]
    through(box, segments)
    box.close()
    box.open()
    turned = [system, *second, *first, last]  # another order, another subset
    read, _ = through(box, turned)
    assert read.reused == tuple(map(len, turned[:-1]))
    fresh = blocks.read(PromptReader(box.model, None, movable(box.model), links=0), turned[:-1], Trace())
    one, tokens = decoded(box.model, fresh.cache, last)
    kept = PromptReader(
        box.model, KvBinding(box.store, ROOT, box.model, MeasuredCosts(box.ledger, "root")), movable(box.model), links=0
    )
    other, again = decoded(box.model, blocks.read(kept, turned[:-1], Trace()).cache, last)
    assert np.array_equal(one, other)
    assert tokens == again
    if box.model.name != "nano":
        assert len(set(tokens)) > 20  # else equal tokens would say little


@examples(8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_whatever_happens_to_the_store_the_logits_are_the_same(model: Mlx, tmp_path: Path, seed: int) -> None:
    """Random prompts over few blocks in any order; between them anything may happen to the store."""
    rng, folder = Random(seed), tmp_path / str(seed)
    folder.mkdir()
    box = Box(folder, model)
    system = some(model, 1000, rng.choice((5, 64, 70)))
    pool = [some(model, number, rng.choice((1, 3, 31, 64, 100))) for number in range(5)]
    for _ in range(2 if model.name == "nano" else 5):  # it is the largest
        chosen = [rng.choice(pool) for _ in range(rng.randint(0, 4))]  # the same one twice, too
        segments = [system, *chosen, some(model, rng.randrange(99), rng.choice((1, 20, 70)))]
        links = rng.choice((0, 16))
        _, found = through(box, segments, kept=rng.random() < 0.8, links=links)
        assert np.array_equal(found, without(model, segments, links=links))
        rng.choice(EVENTS)(box, rng)
    box.close()
    shutil.rmtree(folder)


def test_a_block_is_kept_once_whatever_its_place_and_neighbours(box: Box) -> None:
    system, one, two, a, b, last = drawn(box.model, 30, 3, 3, 80, 50, 10)
    through(box, [system, one, a, two, b, last])
    assert len(box.files()) == 5
    read, _ = through(box, [system, one, b, two, a, last])
    assert read.reused == (30, 3, 50, 3, 80)
    assert len(box.files()) == 5


def test_a_block_does_not_depend_on_its_place_or_its_neighbours(model: Mlx) -> None:
    system, a, b, last = drawn(model, 30, 80, 50, 10)
    ropes = movable(model)

    def values(before: list[Ids], block: Ids) -> list[list[float]]:
        read = blocks.read(PromptReader(model, None, ropes, links=0), [system, *before, block], Trace())
        start = len(system) + sum(map(len, before))
        taken = take(read.cache, start, start + len(block))
        return [np.array(one).ravel().tolist() for name, one in taken.items() if name.endswith("v")]

    assert values([], a) == values([b], a) == values([b, last, b], a)


def test_a_block_read_beforehand_behind_the_system_segment_is_loaded(box: Box) -> None:
    segments = drawn(box.model, 40, 3, 100, 10)
    system, block, kept = (
        segments[0],
        segments[2],
        KvBinding(box.store, ROOT, box.model, MeasuredCosts(box.ledger, "root")),
    )
    assert keep(kept, (system, block), prefill(PromptReader(box.model, kept), (system, block), Trace())) == 2
    read, found = through(box, segments)
    assert read.reused == (40, 0, 100)
    assert np.array_equal(found, without(box.model, segments))


def test_the_first_tokens_of_a_block_are_computed_behind_all_before_them(box: Box) -> None:
    """All of a block that is no longer than that is what prefix mode computes, and is not stored."""
    segments = drawn(box.model, 30, 16, 50, 10)
    before = prefill(PromptReader(box.model), segments[:2], Trace()).cache
    reading = PromptReader(box.model, None, movable(box.model), links=16)
    own, usual = blocks.read(reading, segments[:2], Trace()).cache, take(before, 0, 46)
    assert all(np.array_equal(np.array(one), np.array(usual[name])) for name, one in take(own, 0, 46).items())
    through(box, segments, links=16)
    assert len(box.files()) == 2
    read, found = through(box, segments, links=16)
    assert read.reused == (30, 0, 34)
    assert np.array_equal(found, without(box.model, segments, links=16))


def test_what_was_not_kept_for_lack_of_room_is_computed(box: Box) -> None:
    segments = drawn(box.model, 30, 80, 50, 10)
    box.budget = 60_000
    box.close()
    box.open()
    _, found = through(box, segments)
    read, again = through(box, segments)
    assert sum(read.reused) < 160
    assert np.array_equal(found, again)


def test_a_damaged_block_is_computed_again(box: Box) -> None:
    segments = drawn(box.model, 30, 80, 50, 10)
    _, found = through(box, segments)
    for path in box.files():
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
    read, again = through(box, segments)
    assert read.reused == (0, 0, 0)
    assert np.array_equal(found, again)


def test_a_float_changed_behind_the_checksums_is_seen_by_these_tests(box: Box) -> None:
    """Write a well-formed file with one other float: if the comparison could not see that, it could see nothing."""
    segments = drawn(box.model, 30, 80, 10)
    through(box, segments)
    path = max(box.files(), key=lambda one: one.stat().st_size)
    header = verify(path)
    values = bytearray(path.read_bytes()[-header.payload_bytes :])
    at = header.payloads[1].begin + 4 * 17
    values[at : at + 4] = np.float32(30.0).tobytes()
    write(path, header, [Tensor(p.name, p.dtype, p.shape, bytes(values[p.begin : p.end])) for p in header.payloads])
    read, found = through(box, segments)
    assert read.reused == (30, 80)
    assert not np.array_equal(found, without(box.model, segments))
