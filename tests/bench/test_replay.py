"""The replay without tensors decides as a real store over real files does."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from store.eviction import scores
from store.kv_files import size_of
from store.kv_header import Header
from store.kv_index import KvIndex
from store.kv_room import size_on_disk
from tests.bench.replay import Ids, Replay, Terms
from tests.store.kv_kit import ROOT, SUB_STEP, WEIGHTS, Kept, tensors

SLACK = 2 * (16 << 10)  # that the store sets aside for folders that grow
BYTES = 4096  # of tensors, a token
KEY = b"k" * 16


def size(ids: Ids) -> int:
    return size_of(Header(KEY, KEY, KEY, KEY, ids), tensors(BYTES * len(ids)))


def seconds(tokens: int, behind: int) -> float:
    return tokens * (1.0 + behind / 10)


def prompts(seed: int) -> Iterator[list[Ids]]:
    """Give prompts out of few segments, some of which begin alike."""
    rng = Random(seed)
    pool = [tuple(rng.randrange(9) for _ in range(rng.randint(1, 14))) for _ in range(6)]
    pool += [(*pool[n][: 2 * SUB_STEP], n, n, 5) for n in range(3)]
    for _ in range(50):
        yield [*rng.sample(pool, rng.randint(1, 4)), (0,)]


def asked(kept: Kept, segments: list[Ids]) -> int:
    """Ask a real store, as prefill and keep do."""
    *before, _ = segments
    with kept.store.match(ROOT, before) as match:
        if match.found:
            kept.store.used(match, 0.0)
        nodes, at = list(match.nodes), sum(len(node.ids) for node in match.nodes)
        for ids in before[len(nodes) :]:
            parts = tensors(BYTES * len(ids), ids)
            node = kept.store.keep(ROOT, nodes[-1] if nodes else None, ids, seconds(len(ids), at), parts)
            if node is None:
                break
            nodes.append(node)
            at += len(ids)
        return match.tokens


@pytest.mark.parametrize("name", ["value", "lfu", "recency"])
def test_a_replay_finds_and_keeps_what_a_real_store_does(tmp_path: Path, name: str) -> None:
    score, budget = scores(WEIGHTS)[name], 600_000
    with closing(Kept(tmp_path, budget=budget, score=score)) as kept:
        kept.store.collect()
        empty = size_on_disk(kept.folder)
        replay = Replay(ROOT, Terms(budget, score, SUB_STEP, size, seconds, SLACK + empty))
        found = []
        for segments in prompts(3):
            kept.clock.at += 7
            found.append((asked(kept, segments), replay.ask(segments, kept.clock.at)))
        there = {entry.node for entry in KvIndex(kept.ledger).entries()}
        stats = kept.store.stats()
    assert [real for real, _ in found] == [replayed for _, replayed in found]
    assert {node.key: (node.uses, node.bytes) for node in there} == {
        node.key: (node.uses, node.bytes) for node in replay.nodes.values()
    }
    assert (stats.removed["room"].count > 20, stats.partial.count > 0) == (True, True)
