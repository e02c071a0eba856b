"""Orders of chunks: by date, by relevance and along cached prefixes, against all permutations."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import permutations, takewhile

from hypothesis import given
from hypothesis import strategies as st

from engine.llm.prompt import PromptChunk, chunk_ids, system_ids
from store.kv_index import path_keys
from store.kv_tree import Key, root_of
from store.types import Chunk
from tests.bench.orders import along_what_is_kept, by_relevance
from tests.engine.llm.scripted_model import ScriptedModel

ROOT = root_of({"model": "scripted"})
MODEL = ScriptedModel([])


def shown(number: int, rank: int = 0) -> PromptChunk:
    """Return the chunk of one message, the first of them the oldest, of another length each."""
    chunk = Chunk(f"c{number}", f"d{number}", 0, f"From: {number}", "word " * (number + 1), 1, 1)
    return PromptChunk(chunk, rank, datetime(2024, 6, 1 + number, tzinfo=UTC))


def keys(ordered: Sequence[PromptChunk]) -> list[Key]:
    ids = [chunk_ids(MODEL, number, one.chunk) for number, one in enumerate(ordered, 1)]
    return path_keys(ROOT, [system_ids(MODEL), *ids])[2:]


def reused(ordered: Sequence[PromptChunk], kept: dict[Key, int]) -> int:
    """Count the tokens of a prompt that are kept, from its beginning."""
    there = list(takewhile(lambda key: key in kept, keys(ordered)))
    return sum(len(chunk_ids(MODEL, number, one.chunk)) for number, one in enumerate(ordered[: len(there)], 1))


def follow(ones: Sequence[PromptChunk], kept: dict[Key, int]) -> list[PromptChunk]:
    return along_what_is_kept(MODEL, ROOT, kept.get, ones)


@given(st.data())
def test_no_order_of_the_same_chunks_has_more_of_its_tokens_kept(data: st.DataObject) -> None:
    pool = [shown(number) for number in range(5)]
    asked = data.draw(st.lists(st.permutations(pool).map(lambda way: way[:3]), max_size=5))
    kept = {key: number for number, way in enumerate(asked) for key in keys(way)}
    some = data.draw(st.lists(st.sampled_from(pool), unique=True, min_size=1, max_size=4))
    found = follow(some, kept)
    assert sorted(one.chunk.id for one in found) == sorted(one.chunk.id for one in some)
    assert reused(found, kept) == max(reused(way, kept) for way in permutations(some))


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_where_nothing_is_kept_the_order_is_that_of_date_whatever_the_ranks(one: list[int], other: list[int]) -> None:
    found = [follow([shown(number) for number in way], {}) for way in (one, other)]
    assert found == [[shown(number) for number in range(5)]] * 2


def test_what_is_not_kept_stands_behind_in_order_of_date() -> None:
    kept = dict.fromkeys(keys([shown(3)]), 0)
    assert follow([shown(2), shown(0), shown(3), shown(1)], kept) == [shown(3), shown(0), shown(1), shown(2)]


def test_a_chunk_kept_under_another_number_is_not_followed() -> None:
    kept = dict.fromkeys(keys([shown(4), shown(3)]), 0)
    assert follow([shown(1), shown(3)], kept) == [shown(1), shown(3)]


def test_of_paths_of_the_same_length_the_more_used_one_is_followed() -> None:
    alike = [PromptChunk(Chunk(f"c{i}", f"d{i}", 0, f"From: {i}", "same", 1, 1), 0, shown(i).date) for i in range(2)]
    kept = {keys([alike[0]])[0]: 1, keys([alike[1]])[0]: 2}
    assert follow(alike, kept) == [alike[1], alike[0]]


def test_relevance_puts_the_best_source_first_and_its_chunks_in_their_order() -> None:
    old, new = shown(0, rank=1), shown(4, rank=0)
    second = PromptChunk(Chunk("c9", "d4", 1, "From: 4", "more", 2, 2), 0, new.date)
    assert by_relevance([old, second, new]) == [new, second, old]
