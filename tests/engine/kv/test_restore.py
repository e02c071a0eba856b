"""Restoring a prefix by loading and computing at once: equal to computing it, wherever both meet."""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import cast

import numpy as np
import pytest

from engine.kv.costs import MeasuredCosts, Planner, Unit, Way
from engine.kv.restore import KvBinding, Prefilled, PromptReader, keep, prefill
from engine.models.kv_cache import ReadAt
from engine.models.load import load as load_model
from engine.models.mlx import Mlx
from engine.types import Trace
from store.kv_index import KvIndex
from tests.effort import PATIENCE_S, slow_only
from tests.engine.ask.equivalence_box import ROOT, SUB_STEP, Box, Ids, Logits, cold, decoded, some
from tests.engine.kv.conftest import give_up_after
from tests.engine.models.shapes import KINDS, OTHERS, make

LENGTHS = (130, 64, 130, 90)  # sub-steps of 64: 2, 1, 2 and 1
UNITS = (64, 66, 64, 64, 66, 90)


@pytest.fixture(scope="module", params=[0, 8])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return a random model of the llama family, with its KV as it is and in 8 bits."""
    folder = tmp_path_factory.mktemp("restore")
    found = load_model(make(folder / "llama", KINDS["llama"]), name="llama", cache=folder / "cache", memory_share=0.9)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP, bits=request.param)


@pytest.fixture
def box(model: Mlx, tmp_path: Path) -> Iterator[Box]:
    """Return a store that holds a prompt of four segments."""
    with closing(Box(tmp_path, model)) as made:
        made.read(prompt(model))
        yield made


def prompt(model: Mlx) -> list[Ids]:
    return [*(some(model, number, length) for number, length in enumerate(LENGTHS)), some(model, 9, 20)]


class Reads:
    """Reads files as `os.preadv` does, so many sub-steps; then it blocks until it is freed, or fails."""

    def __init__(self, box: Box, units: int, *, fail: bool = False) -> None:
        self.free, self.enough = Event(), Event()
        tensors = (4 if box.model.bits else 2) * len(box.model.begin())  # keys and values, and their scales
        self._fail, self._left = fail, units * tensors * KINDS["llama"]["num_key_value_heads"]
        self.read: list[tuple[int, int]] = []
        if not units:
            self.enough.set()

    def __call__(self, descriptor: int, buffers: Sequence[memoryview], at: int) -> int:
        if not self._left:
            self.enough.set()
            if self._fail:
                raise OSError(errno.EIO, "the disk failed")
            self.free.wait()
        self._left -= len(buffers)
        self.read.append((os.fstat(descriptor).st_ino, at))
        return os.preadv(descriptor, buffers, at)

    def wait(self) -> None:
        """Wait until it has read enough, or all that nobody computes."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.enough.wait(0.01) and loading():
            assert time.monotonic() < deadline


def loading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kv-load"]


def at_once(_: Sequence[Unit]) -> Way:
    return "overlap"


def load(_: Sequence[Unit]) -> Way:
    return "load"


def compute(_: Sequence[Unit]) -> Way:
    return "compute"


def restored(
    box: Box, segments: Sequence[Ids], planner: Planner, read_at: ReadAt = os.preadv, before: Callable[[], object] = int
) -> tuple[Prefilled, Trace]:
    """Prefill a prompt with its plan; `before` is called before each step that the model computes."""
    reader, trace = replace(box.model, yield_point=cast("Callable[[], None]", before)), Trace()
    binding = KvBinding(box.store, ROOT, reader, MeasuredCosts(box.ledger, "root"), planner, read_at)
    return prefill(PromptReader(reader, binding), segments[:-1], trace), trace


def logits(box: Box, read: Prefilled, segments: Sequence[Ids]) -> Logits:
    return decoded(box.model, read.cache, segments[-1])[0]


def computed(box: Box, segments: Sequence[Ids]) -> Logits:
    return logits(box, prefill(PromptReader(box.model), segments[:-1], Trace()), segments)


@pytest.mark.parametrize("units", [0, 3, 6, *slow_only(1, 2, 4, 5)])
def test_wherever_computing_and_loading_meet_the_logits_are_those_of_computing(box: Box, units: int) -> None:
    segments, reads = prompt(box.model), Reads(box, units)
    try:
        read, trace = restored(box, segments, at_once, reads, reads.wait)
    finally:
        reads.free.set()
    assert np.array_equal(logits(box, read, segments), computed(box, segments))
    if units < len(UNITS):
        assert sum(read.reused) == sum(UNITS[::-1][:units])
    assert f"{sum(read.reused)} tokens" in next(step.note for step in trace.steps if step.name == "load") or not units


def test_nothing_is_read_that_was_computed(box: Box) -> None:
    segments, reads = prompt(box.model), Reads(box, 3)
    try:
        read, _ = restored(box, segments, at_once, reads, reads.enough.wait)
    finally:
        reads.free.set()
    assert sum(read.reused) == 90 + 66 + 64
    places = [box.store.folder.path_of(node.key).stat().st_ino for node in read.nodes]
    assert {inode for inode, _ in reads.read} == set(places[2:])


@pytest.mark.parametrize("length", [100, 128, 130])
def test_a_part_of_a_segment_is_restored_up_to_a_border_of_its_sub_steps(box: Box, length: int) -> None:
    first = prompt(box.model)
    changed = [first[0], first[1], (*first[2][:length], *some(box.model, 77, 50)), first[4]]
    reads = Reads(box, 1)
    try:
        read, _ = restored(box, changed, at_once, reads, reads.enough.wait)
    finally:
        reads.free.set()
    assert read.reused == ((0, 64, 0) if box.model.bits else (0, 0, 64))  # in 8 bits a segment is reused as a whole
    assert np.array_equal(logits(box, read, changed), computed(box, changed))


def test_after_a_read_error_the_rest_is_computed(box: Box) -> None:
    segments, reads = prompt(box.model), Reads(box, 2, fail=True)
    read, _ = restored(box, segments, at_once, reads, reads.enough.wait)
    assert sum(read.reused) == 90 + 66
    assert np.array_equal(logits(box, read, segments), computed(box, segments))


def test_a_damaged_file_is_computed_and_removed(box: Box) -> None:
    segments = prompt(box.model)
    path = box.store.folder.path_of(box.store.match(ROOT, segments[:-1]).nodes[-1].key)  # damaged after the match

    def truncated(descriptor: int, buffers: Sequence[memoryview], at: int) -> int:
        if os.fstat(descriptor).st_ino == path.stat().st_ino:
            os.truncate(path, 100)
        return os.preadv(descriptor, buffers, at)

    read, _ = restored(box, segments, at_once, truncated)
    assert np.array_equal(logits(box, read, segments), computed(box, segments))
    assert not path.exists()
    assert keep(KvBinding(box.store, ROOT, box.model, MeasuredCosts(box.ledger, "root")), segments[:-1], read) == 0
    assert len(box.files()) == len(LENGTHS) - 1


@pytest.mark.parametrize("files", [0, 2])
def test_a_disk_that_hangs_delays_a_plain_load_no_longer_than_computing(
    box: Box, files: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up_after(1.0, monkeypatch)
    segments, reads = prompt(box.model), Reads(box, files)
    try:
        read, trace = restored(box, segments, load, reads)
    finally:
        reads.free.set()
    assert read.reused == (*(0,) * (len(LENGTHS) - files), *LENGTHS[len(LENGTHS) - files :])
    assert np.array_equal(logits(box, read, segments), computed(box, segments))
    assert files or "did not come in time" in next(step.note for step in trace.steps if step.name == "load")
    assert len(box.files()) == len(LENGTHS)


def test_a_load_that_never_came_is_learnt_as_slow(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    give_up_after(1.0, monkeypatch)
    costs, reads = MeasuredCosts(box.ledger, "root"), Reads(box, 0)
    binding = KvBinding(box.store, ROOT, box.model, costs, load, reads)
    try:
        for _ in range(2):
            prefill(PromptReader(box.model, binding), prompt(box.model)[:-1], Trace())
    finally:
        reads.free.set()
    sizes = [node.bytes for node in KvIndex(box.ledger).nodes()]
    assert (costs.load.seconds(len(sizes), sum(sizes)) or 0) > 0.5  # it was waited for a second each time


def test_an_interrupt_leaves_no_thread_and_the_store_as_it_was(box: Box) -> None:
    segments, reads = prompt(box.model), Reads(box, 1)

    def interrupt() -> None:
        reads.wait()
        reads.free.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restored(box, segments, at_once, reads, interrupt)
    for thread in loading():
        thread.join(PATIENCE_S)
    assert not loading()
    assert np.array_equal(box.read(segments)[1], cold(box.model, segments))


@pytest.mark.parametrize(("planner", "reused"), [(load, LENGTHS), (compute, (0, 0, 0, 0))])
def test_pure_plans_give_the_logits_of_computing(box: Box, planner: Planner, reused: tuple[int, ...]) -> None:
    segments = prompt(box.model)
    read, _ = restored(box, segments, planner)
    assert read.reused == reused
    assert np.array_equal(logits(box, read, segments), computed(box, segments))


def test_what_is_computed_again_is_not_stored_again(box: Box) -> None:
    segments, before = prompt(box.model), [path.stat().st_mtime_ns for path in box.files()]
    binding = KvBinding(box.store, ROOT, box.model, MeasuredCosts(box.ledger, "root"), compute)
    read = prefill(PromptReader(box.model, binding), segments[:-1], Trace())
    assert keep(binding, segments[:-1], read) == 0
    assert [path.stat().st_mtime_ns for path in box.files()] == before


def test_a_restore_slower_than_computing_is_said(box: Box) -> None:
    for node in box.store.match(ROOT, prompt(box.model)[:-1]).nodes:
        box.ledger.rows.execute("UPDATE kv_nodes SET seconds = 1e-9 WHERE key = ?", (node.key,))
    _, trace = restored(box, prompt(box.model), load)
    assert "longer than computing" in next(step.note for step in trace.steps if step.name == "load")
    assert trace.saved_s == 0


def test_loads_and_prefill_are_learnt(box: Box) -> None:
    costs = MeasuredCosts(box.ledger, "root")
    binding = KvBinding(box.store, ROOT, box.model, costs)
    for _ in range(3):
        read = prefill(PromptReader(box.model, binding), prompt(box.model)[:-1], Trace())
        keep(binding, prompt(box.model)[:-1], read)
    kept = MeasuredCosts(box.ledger, "root")
    assert kept.load.seconds(4, 1_000_000) is not None
    other = [some(box.model, 50 + number, 100) for number in range(4)]
    prefill(PromptReader(box.model, binding), other, Trace())
    assert costs.prefill_s(0, 100) is not None


def windowed(folder: Path) -> Mlx:
    """Return a model of which some layers keep a window of tokens."""
    found = load_model(make(folder / "m", OTHERS["gemma3"]), name="m", cache=folder / "cache", memory_share=0.9)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP)


def test_a_model_without_token_wise_cache_loads_or_computes(tmp_path: Path) -> None:
    windows = windowed(tmp_path)
    with closing(Box(tmp_path, windows)) as box:
        segments = prompt(windows)
        _, expected = box.read(segments)
        read, _ = restored(box, segments, at_once)
        assert read.reused == LENGTHS
        assert np.array_equal(windows.logits(read.cache, segments[-1]), expected)
