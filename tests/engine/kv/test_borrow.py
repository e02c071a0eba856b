"""Nodes from another machine's store: the logits are those of computing, whatever the other side does."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from engine.kv import blocks
from engine.kv.costs import MeasuredCosts, Planner, Way, auto
from engine.kv.restore import KvBinding, Prefilled, PromptReader, keep, prefill
from engine.models.load import load, movable
from engine.models.mlx import Mlx
from engine.models.runtime import gpu_parts
from engine.settings import LINKS
from engine.types import Trace
from store.kv_files import Key, TreeRoot, root_of
from store.remote import Remote, RemoteCall, RemoteMiss, inflated, rounded
from tests.effort import examples, slow_only
from tests.engine.ask.equivalence_box import EVENTS, ROOT, SUB_STEP, Box, Ids, Logits, decoded, some
from tests.engine.llm.kit import without
from tests.engine.models.shapes import KINDS, make

LENGTHS = (90, 70, 100, 80)


@pytest.fixture(scope="module", params=[0, 8])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return a random model of the llama family, with its KV as it is and in 8 bits."""
    folder = tmp_path_factory.mktemp("borrow")
    found = load(make(folder / "llama", KINDS["llama"]), name="llama", cache=folder / "cache", memory_share=0.9)
    return replace(found, stops=frozenset(), sub_step=SUB_STEP, bits=request.param)


@dataclass
class Desktop:
    """The store of another machine as a source of nodes, with what a test does to it."""

    box: Box
    broken: dict[int, bytes] = field(default_factory=dict)  # files of the nodes by their place on the path
    stuck_from: int = -1  # the place of the node that never comes, and of all that are asked for after it
    asked: list[int] = field(default_factory=list)
    stuck: Event = field(default_factory=Event)
    root: TreeRoot = ROOT

    def files(self) -> list[Path]:
        """Return the files of the path, in order."""
        match = self.box.store.match(self.root, prompt(self.box.model)[:-1])
        return [self.box.store.folder.path_of(node.key) for node in match.nodes]

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the sizes of what is there."""
        there = {path.stem: path.stat().st_size for path in self.files()}
        sizes = list[int]()
        for key in keys:
            if key.hex() not in there:
                break
            sizes.append(there[key.hex()])
        return sizes

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a file, or what a test put in its place."""
        paths = self.files()
        place = [path.stem for path in paths].index(key.hex())
        self.asked.append(place)
        if place == self.stuck_from:
            call.guard(self.stuck.set)
            self.stuck.wait()
            raise RemoteMiss("cancelled")
        return BytesIO(self.broken.get(place) or paths[place].read_bytes())


def prompt(model: Mlx) -> list[Ids]:
    return [*(some(model, number, length) for number, length in enumerate(LENGTHS)), some(model, 9, 20)]


@pytest.fixture
def desktop(model: Mlx, tmp_path: Path) -> Iterator[Desktop]:
    (tmp_path / "desktop").mkdir()
    with closing(Box(tmp_path / "desktop", model)) as box:
        box.read(prompt(model))
        yield Desktop(box)


@pytest.fixture
def laptop(model: Mlx, tmp_path: Path) -> Iterator[Box]:
    (tmp_path / "laptop").mkdir()
    with closing(Box(tmp_path / "laptop", model)) as box:
        yield box


def asked(
    laptop: Box, desktop: Desktop, planner: Planner = auto, root: TreeRoot = ROOT, *, is_rounded: bool = False
) -> tuple[Prefilled, str]:
    """Prefill the prompt on the laptop and store it; returns what was read, and the note of the step."""
    segments, trace, remote = prompt(laptop.model)[:-1], Trace(), Remote(desktop, is_rounded=is_rounded)
    costs = MeasuredCosts(laptop.ledger, "root")
    for position in range(0, 600, 100):  # computing is slow, so that fetching is worth waiting for
        costs.record_prefill(position, position + 100, 1.0)
    exact = desktop.root if is_rounded else None
    binding = KvBinding(laptop.store, root, laptop.model, costs, planner, remote=remote, exact=exact)
    try:
        read = prefill(PromptReader(laptop.model, binding), segments, trace)
        keep(binding, segments, read)
    finally:
        remote.cancel()
    return read, next((step.note for step in trace.steps if step.name == "remote"), "")


def equal(laptop: Box, read: Prefilled) -> bool:
    """Return whether 32 steps behind a cache have the logits of those behind a computed one."""
    last = prompt(laptop.model)[-1]
    one, other = (decoded(laptop.model, cache, last, 32)[0] for cache in (read.cache, computed(laptop)))
    return np.array_equal(one, other)


def computed(laptop: Box) -> Any:
    """Return a cache of the prompt of which nothing was loaded or fetched."""
    return prefill(PromptReader(laptop.model), prompt(laptop.model)[:-1], Trace()).cache


def test_what_the_desktop_has_prefilled_is_fetched_and_stored(laptop: Box, desktop: Desktop) -> None:
    read, note = asked(laptop, desktop)
    assert read.reused == LENGTHS
    assert note.startswith("4 of 4 segments fetched")
    assert equal(laptop, read)
    assert sorted(path.read_bytes()[-1000:] for path in laptop.files()) == sorted(
        path.read_bytes()[-1000:] for path in desktop.box.files()
    )
    index = laptop.store.index
    assert (index.totals().count, index.counted("fetched").tokens) == (4, sum(LENGTHS))
    read, note = asked(laptop, desktop)
    assert (read.reused, note) == (LENGTHS, "nothing there")  # nothing is left to be asked for


def test_what_another_gpu_has_prefilled_is_neither_fetched_nor_found_in_a_migrated_home(
    laptop: Box, desktop: Desktop
) -> None:
    parts = {"model": "test", "adapter": "", "device": "metal"}
    air, studio, updated = (
        root_of(parts | gpu_parts({"architecture": name}, system))
        for name, system in [
            ("applegpu_g16g", "macOS 15"),
            ("applegpu_g15d", "macOS 15"),
            ("applegpu_g16g", "macOS 26"),
        ]
    )
    asked(desktop.box, desktop, root=studio)
    desktop.root = studio
    read, note = asked(laptop, desktop, root=studio)
    assert (read.reused, note.partition(",")[0]) == (LENGTHS, "4 of 4 segments fetched")
    for other in (air, updated):
        read, note = asked(laptop, desktop, root=other)
        assert (read.reused, note) == ((0, 0, 0, 0), "nothing there")
    assert asked(laptop, desktop, root=air)[0].reused == LENGTHS
    assert equal(laptop, read)


def test_only_what_is_not_here_is_fetched(laptop: Box, desktop: Desktop) -> None:
    laptop.read([*prompt(laptop.model)[:2], prompt(laptop.model)[-1]])
    read, _ = asked(laptop, desktop)
    assert sorted(desktop.asked) == [2, 3]
    assert read.reused == LENGTHS
    assert equal(laptop, read)


@pytest.mark.parametrize("place", range(4))
def test_a_file_of_another_node_is_not_used(laptop: Box, desktop: Desktop, place: int) -> None:
    desktop.broken[place] = desktop.files()[(place + 1) % 4].read_bytes()
    read, _ = asked(laptop, desktop)
    assert read.reused == (*(0,) * (place + 1), *LENGTHS[place + 1 :])
    assert equal(laptop, read)


@pytest.mark.parametrize("at", [9, 200, -1])
def test_a_file_with_a_flipped_byte_is_not_used(laptop: Box, desktop: Desktop, at: int) -> None:
    raw = bytearray(desktop.files()[2].read_bytes())
    raw[at] ^= 1
    desktop.broken[2] = bytes(raw)
    read, _ = asked(laptop, desktop)
    assert read.reused == (0, 0, 0, LENGTHS[3])
    assert equal(laptop, read)


@pytest.mark.parametrize("place", [3, *slow_only(0, 1, 2)])
def test_a_node_that_never_comes_is_computed_and_the_request_ended(laptop: Box, desktop: Desktop, place: int) -> None:
    desktop.stuck_from = place
    read, _ = asked(laptop, desktop)
    assert read.reused == (*(0,) * (place + 1), *LENGTHS[place + 1 :])
    assert equal(laptop, read)
    assert desktop.stuck.wait(10)
    assert not [thread for thread in threading.enumerate() if thread.name == "kv-load"]


def test_nodes_of_another_shape_are_computed(laptop: Box, desktop: Desktop, tmp_path: Path) -> None:
    """As if two models had the same root."""
    (tmp_path / "other").mkdir()
    wide = KINDS["llama"] | {"num_key_value_heads": KINDS["llama"]["num_attention_heads"]}
    found = load(make(tmp_path / "wide", wide), name="llama", cache=tmp_path / "cache", memory_share=0.9)
    with closing(
        Box(tmp_path / "other", replace(found, stops=frozenset(), sub_step=SUB_STEP, bits=laptop.model.bits))
    ) as other:
        other.read(prompt(other.model))
        laptop.read([prompt(laptop.model)[0], prompt(laptop.model)[-1]])
        read, _ = asked(laptop, Desktop(other))
        assert read.reused == (LENGTHS[0], 0, 0, 0)
        assert equal(laptop, read)


def test_behind_what_is_computed_again_nothing_is_fetched(laptop: Box, desktop: Desktop) -> None:
    laptop.read([*prompt(laptop.model)[:2], prompt(laptop.model)[-1]])
    plans: Iterator[Way] = iter(("compute", "overlap"))  # a slow disk here, a fast desktop there
    read, _ = asked(laptop, desktop, lambda _: next(plans))
    assert (read.reused, desktop.asked) == ((0, 0, 0, 0), [])
    assert equal(laptop, read)


def test_a_desktop_without_them_costs_nothing_but_a_look(laptop: Box, desktop: Desktop) -> None:
    desktop.box.store.shrink(0)
    read, note = asked(laptop, desktop)
    assert (read.reused, note, desktop.asked) == ((0, 0, 0, 0), "nothing there", [])
    assert equal(laptop, read)


def test_a_place_that_is_too_slow_gave_no_answer_in_time(laptop: Box, desktop: Desktop) -> None:
    class Slow(Desktop):
        def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
            raise RemoteMiss("late")

    class Broken(Desktop):
        def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
            raise RemoteMiss("unreachable")

    assert asked(laptop, Slow(desktop.box))[1] == "no answer in time"
    laptop.store.folder.remove([node.key for node in laptop.store.match(ROOT, prompt(laptop.model)[:-1]).nodes])
    assert asked(laptop, Broken(desktop.box))[1] == "no answer"


class AnyNode(Desktop):
    """A store of another machine that holds blocks: each is asked for by its key alone."""

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the sizes of what is there."""
        there = {path.stem: path.stat().st_size for path in self.box.files()}
        return [there.get(key.hex(), 0) for key in keys]

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a file; RemoteMiss where it is gone."""
        found = next((path for path in self.box.files() if path.stem == key.hex()), None)
        if found is None:
            raise RemoteMiss("absent")
        return BytesIO(found.read_bytes())


class Rounding(AnyNode):
    """Another machine that sends its nodes rounded."""

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return the steps of a node."""
        sent = rounded(super().read(key, size, call))
        call.sent, call.received = len(sent), size
        return inflated(sent, size)


OWN = root_of({"model": "test", "remote": "5 bits"})  # of what came rounded


def test_rounded_nodes_are_marked_with_their_error_and_kept_apart_from_exact_ones(
    laptop: Box, desktop: Desktop
) -> None:
    read, note = asked(laptop, Rounding(desktop.box), root=OWN, is_rounded=True)
    assert read.reused == LENGTHS
    assert re.fullmatch(r"4 of 4 segments fetched, 0\.\d MB in 5 bits, error [12]\.\d% of the spread", note)
    last = prompt(laptop.model)[-1]
    first, exact = (decoded(laptop.model, cache, last, 8)[0] for cache in (read.cache, computed(laptop)))
    assert not np.array_equal(first, exact)
    assert np.abs(first[0] - exact[0]).max() < 0.25 * np.abs(exact[0]).max()
    laptop.close()
    laptop.open()
    read, note = asked(laptop, Rounding(desktop.box), root=OWN, is_rounded=True)
    assert (read.reused, note) == (LENGTHS, "nothing there")
    assert np.array_equal(decoded(laptop.model, read.cache, last, 8)[0], first)
    read, note = asked(laptop, desktop)  # the exact ones are fetched all the same
    assert (read.reused, note.startswith("4 of 4 segments fetched")) == (LENGTHS, True)
    assert equal(laptop, read)


def test_rounded_blocks_are_marked_with_their_error_and_kept_apart(laptop: Box, desktop: Desktop) -> None:
    segments = prompt(laptop.model)
    in_blocks(desktop.box, None, segments)
    trace = Trace()
    reused, found = in_blocks(laptop, Rounding(desktop.box), segments, OWN, trace)
    assert reused == (LENGTHS[0], *(length - LINKS for length in LENGTHS[1:]))
    notes = {step.name: step.note for step in trace.steps}
    assert re.search(r"\d tokens, 0\.\d MB fetched in 5 bits, error [12]\.\d% of the spread", notes["load"])
    exact = without(laptop.model, segments, links=LINKS)
    assert not np.array_equal(found, exact)
    assert np.array_equal(in_blocks(laptop, None, segments, OWN)[1], found)
    assert np.array_equal(in_blocks(laptop, None, segments)[1], exact)


def in_blocks(
    laptop: Box, source: Desktop | None, segments: Sequence[Ids], root: TreeRoot = ROOT, trace: Trace | None = None
) -> tuple[tuple[int, ...], Logits]:
    """Prefill a prompt in blocks on the laptop and store it; returns what was reused, and the logits behind it."""
    costs = MeasuredCosts(laptop.ledger, "root")
    for position in range(0, 600, 100):
        costs.record_prefill(position, position + 100, 1.0)
    remote = Remote(source, is_rounded=root != ROOT) if source else None
    binding = KvBinding(laptop.store, root, laptop.model, costs, remote=remote, exact=ROOT)
    reader = PromptReader(laptop.model, binding, movable(laptop.model))
    read = blocks.read(reader, segments[:-1], trace or Trace())
    found = laptop.model.logits(read.cache, segments[-1])
    read.keep()
    return read.reused, found


def test_any_block_is_fetched_in_any_order_and_then_read_from_its_file(laptop: Box, desktop: Desktop) -> None:
    system, one, two, three, last = prompt(laptop.model)
    new = some(laptop.model, 77, 66)
    in_blocks(desktop.box, None, [system, one, two, three, last])
    segments = [system, three, new, one, last]
    reused, found = in_blocks(laptop, AnyNode(desktop.box), segments)
    assert reused == (len(system), len(three) - LINKS, 0, len(one) - LINKS)
    assert np.array_equal(found, without(laptop.model, segments, links=LINKS))
    laptop.close()
    laptop.open()
    turned = [system, new, one, three, last]
    reused, found = in_blocks(laptop, None, turned)
    assert reused == (len(system), *(len(block) - LINKS for block in turned[1:-1]))
    assert np.array_equal(found, without(laptop.model, turned, links=LINKS))


@examples(3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 2**32))
def test_whatever_happens_to_both_stores_blocks_give_the_same_logits(model: Mlx, tmp_path: Path, seed: int) -> None:
    """Random prompts of few blocks; between them anything may happen to either store."""
    rng, folder = Random(seed), Path(mkdtemp(dir=tmp_path))
    for name in ("laptop", "desktop"):
        (folder / name).mkdir()
    both = [Box(folder / "laptop", model), Box(folder / "desktop", model)]
    pool = [some(model, number, rng.choice((3, 31, 64, 100))) for number in range(4)]
    for _ in range(4):
        segments = [some(model, 99, 40), *rng.choices(pool, k=rng.randint(0, 4)), some(model, rng.randrange(99), 9)]
        box = rng.choice(both)
        other = AnyNode(both[box is both[0]])
        assert np.array_equal(in_blocks(box, other, segments)[1], without(model, segments, links=LINKS))
        rng.choice(EVENTS)(rng.choice(both), rng)
    for box in both:
        box.close()
