"""The KV tree over real rows and files: what it finds, what it keeps, and what it does with damage."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from store.kv_files import root_of, shared
from store.kv_index import CountTotal
from tests.effort import examples
from tests.store.kv_kit import PARTS, ROOT, SUB_STEP, A, B, C, Kept, tensors


def test_nothing_matches_in_an_empty_tree(kept: Kept) -> None:
    assert kept.shape(A, B) == (0, (), 0)


def test_a_kept_prefix_is_found_from_its_beginning(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    assert kept.shape(A, B, C) == (2, (), 8)


def test_a_segment_under_another_prefix_is_not_found(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    kept.keep(C)
    assert kept.shape(C, B) == (1, (), 4)


def test_a_prefix_under_another_root_is_not_found(kept: Kept) -> None:
    kept.keep(A)
    assert not kept.has(A, root=root_of(PARTS | {"dtype": "F16"}))


def test_another_adapter_has_nodes_of_its_own_on_the_same_path(kept: Kept) -> None:
    other = root_of(PARTS | {"adapter": "mine"})
    one, two = kept.keep(A), kept.keep(A, root=other)
    assert one is not None
    assert two is not None
    assert (one.key == two.key, one.path == two.path) == (False, True)


def test_a_segment_that_begins_alike_lends_whole_sub_steps(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, (1, 2, 3, 4, 5, 6, 7, 8, 9, 9))
    assert kept.shape(A, (1, 2, 3, 4, 5, 6, 7, 8, 8, 8), B) == (1, (1, 2, 3, 4, 5, 6, 7, 8, 9, 9), 6 + 8)


def test_of_segments_that_begin_alike_the_one_that_shares_most_lends(kept: Kept) -> None:
    for tail in ((5, 5, 5, 5), (5, 6, 7, 8, 9, 9), (6, 6, 6, 6)):
        kept.keep((1, 2, 3, 4, *tail))
    assert kept.shape((1, 2, 3, 4, 5, 6, 7, 8, 8, 8)) == (0, (1, 2, 3, 4, 5, 6, 7, 8, 9, 9), 8)


def test_less_than_a_sub_step_is_not_lent(kept: Kept) -> None:
    kept.keep((1, 2, 3))
    assert kept.shape((1, 2, 3, 4)) == (0, (), 0)


def test_a_kept_node_says_what_it_is(kept: Kept) -> None:
    node = kept.keep(A, size=2048, seconds=0.25)
    assert node is not None
    assert (node.depth, node.parent, node.ids, node.seconds, node.uses) == (1, ROOT.key, A, 0.25, 0)
    assert kept.store.folder.path_of(node.key).stat().st_size == node.bytes


def test_keeping_a_node_again_writes_nothing(kept: Kept) -> None:
    first = kept.keep(A)
    kept.clock.at += 9
    written = kept.store.index.written()
    assert (kept.keep(A), kept.store.index.written()) == (first, written)


def test_a_node_without_its_parent_is_not_kept(kept: Kept) -> None:
    parent = kept.keep(A)
    assert parent is not None
    kept.store.folder.remove([parent.key])
    assert kept.store.keep(ROOT, parent, B, 1.0, tensors(100)) is None
    assert kept.files() == set()


def test_uses_count_when_they_are_reported_and_not_before(kept: Kept) -> None:
    kept.keep(A)
    match = kept.store.match(ROOT, [A])
    before = kept.store.index.counted("hit")
    kept.store.record_use(match, 1.5)
    found = kept.store.match(ROOT, [A]).nodes[0]
    hits = kept.store.index.counted("hit")
    assert (before, found.uses, hits.tokens, hits.seconds) == (CountTotal(), 1, 6, 1.5)


def test_parts_are_counted_as_hits(kept: Kept) -> None:
    kept.keep(A)
    match = kept.store.match(ROOT, [(1, 2, 3, 4, 9, 9)])
    kept.store.record_use(match, 0.5)
    assert (kept.store.index.counted("hit").tokens, kept.store.match(ROOT, [A]).nodes[0].uses) == (4, 1)


def test_of_a_match_loaded_from_the_back_what_was_read_counts(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    match = kept.store.match(ROOT, [A, B])
    kept.store.record_use(match, 0.5, loaded=5)
    assert kept.store.index.counted("hit").tokens == 5


def test_a_match_of_nothing_is_no_hit(kept: Kept) -> None:
    kept.store.record_use(kept.store.match(ROOT, [A]), 0.0)
    assert kept.store.index.counted("hit") == CountTotal()


def test_forgetting_a_node_takes_its_descendants_and_their_files(kept: Kept) -> None:
    kept.keep(A)
    kept.keep(A, B)
    kept.keep(A, B, C)
    kept.keep(C)
    key = kept.store.match(ROOT, [A, B]).nodes[1].key
    assert kept.store.folder.remove([key]) == 2
    assert (kept.shape(A, B, C), kept.shape(C), len(kept.files())) == ((1, (), 6), (1, (), 4), 2)


def test_forgetting_what_is_not_there_is_no_error(kept: Kept) -> None:
    assert kept.store.folder.remove([b"k" * 16]) == 0


SEGMENTS = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)
PROMPTS = st.lists(SEGMENTS, min_size=1, max_size=4)


@given(st.lists(PROMPTS, max_size=6), PROMPTS, st.data())
@examples(40)
def test_a_match_is_the_longest_path_that_a_naive_search_finds(
    prompts: list[list[tuple[int, ...]]], asked: list[tuple[int, ...]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as folder, closing(Kept(Path(folder))) as kept:
        there = set()
        for prompt in prompts:
            for n in range(1, len(prompt) + 1):
                kept.keep(*prompt[:n], size=1)
                there.add(tuple(prompt[:n]))
        if there:
            gone = data.draw(st.sampled_from(sorted(there)))
            match = kept.store.match(ROOT, gone)
            kept.store.folder.remove([match.nodes[-1].key])
            there = {prefix for prefix in there if prefix[: len(gone)] != gone}
        depth = max(n for n in range(len(asked) + 1) if n == 0 or tuple(asked[:n]) in there)
        siblings = [prefix[-1] for prefix in there if prefix[:-1] == tuple(asked[:depth])]
        shared_tokens = (
            max((shared(one, asked[depth], SUB_STEP) for one in siblings), default=0) if depth < len(asked) else 0
        )
        assert kept.shape(*asked)[::2] == (depth, sum(map(len, asked[:depth])) + shared_tokens)
        assert kept.count() == len(kept.files()) == len(there)
