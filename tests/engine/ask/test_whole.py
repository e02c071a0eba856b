"""What a retrieved chunk brings: a function of that chunk alone, within its limit, in the sources it belongs to."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from engine.ask.sources import Source
from engine.ask.whole import Whole, bring, widened
from store.hits import Hit
from store.records import Chunk, Scope
from tests.engine.ask.bank import MemoryBank

EVERYTHING = Scope()
NEIGHBOURS, THREAD = Whole("neighbours", 10_000), Whole("thread", 10_000)
_TEXT = "x" * 384  # 100 tokens with a header of four letters, a line end and a number


def hit(document: str, position: int, day: int = 1) -> Hit:
    chunk = Chunk(f"{document}{position}", document, position, "From", _TEXT, position + 1, position + 1)
    return Hit(chunk, "x", None, datetime(2024, 6, day, tzinfo=UTC), f"sender of {document}", (), document)


def mailbox() -> MemoryBank:
    """Give a bank: a thread of three messages of two chunks, and a meeting of twelve chunks."""
    thread = [hit(name, position, day) for day, name in enumerate("abc", 1) for position in range(2)]
    return MemoryBank([*thread, *(hit("m", position) for position in range(12))], [["a", "b", "c"]])


BANK = mailbox()


def source(*names: str) -> Source:
    by_id = {one.chunk.id: one.chunk for one in BANK.hits}
    return Source(tuple(by_id[name] for name in names), 1.0)


def brought(whole: Whole, *sources: Source, scope: Scope = EVERYTHING) -> set[str]:
    return set(bring(BANK, whole, sources, scope))


def ids(sources: Sequence[Source]) -> list[list[str]]:
    return [[chunk.id for chunk in one.chunks] for one in sources]


def test_neighbours_are_the_chunk_before_and_the_one_behind_in_the_same_document() -> None:
    assert brought(NEIGHBOURS, source("m5")) == {"m4", "m6"}
    assert brought(NEIGHBOURS, source("m0")) == {"m1"}
    assert brought(NEIGHBOURS, source("m3", "m4")) == {"m2", "m5"}
    assert brought(NEIGHBOURS, source("b1")) == {"b0"}


def test_a_thread_is_all_its_messages() -> None:
    assert brought(THREAD, source("b1")) == {"a0", "a1", "b0", "c0", "c1"}
    assert brought(THREAD, source("m11")) == {f"m{position}" for position in range(11)}


def test_of_a_long_thread_comes_the_part_that_the_chunk_stands_in() -> None:
    part = Whole("thread", 450)  # four chunks
    assert brought(part, source("m5")) == {"m4", "m6", "m7"}
    assert brought(part, source("m7")) == {"m4", "m5", "m6"}
    assert brought(part, source("b0")) == {"a0", "a1", "b1"}


def test_a_limit_shorter_than_a_chunk_brings_nothing() -> None:
    assert brought(Whole("thread", 20), source("m5")) == set()
    assert brought(Whole("neighbours", 20), source("m5")) == set()
    assert brought(Whole("neighbours", 120), source("m5")) == {"m4"}


@given(
    st.sampled_from(["neighbours", "thread"]),
    st.integers(0, 1500),
    st.lists(st.sampled_from([one.chunk.id for one in BANK.hits]), unique=True, min_size=1, max_size=5),
)
def test_what_a_chunk_brings_depends_on_that_chunk_alone(how: str, limit: int, names: list[str]) -> None:
    whole = Whole(how, limit)
    each = set[str]().union(*(brought(whole, source(name)) for name in names))
    assert brought(whole, *(source(name) for name in names)) == each - set(names)


@given(st.integers(0, 1500), st.integers(0, 11))
def test_chunks_that_come_together_bring_each_other(limit: int, position: int) -> None:
    whole = Whole("thread", limit)
    part = brought(whole, source(f"m{position}")) | {f"m{position}"}
    assert all(brought(whole, source(name)) | {name} == part for name in part)


def test_more_mail_at_its_end_leaves_the_parts_of_a_thread_as_they_were() -> None:
    part = Whole("thread", 450)
    more = MemoryBank([*BANK.hits, hit("d", 0, 4)], [["a", "b", "c", "d"]])
    assert set(bring(more, part, [source("b0")], EVERYTHING)) == brought(part, source("b0"))


def test_nothing_comes_from_outside_the_scope() -> None:
    assert brought(THREAD, source("b1"), scope=Scope(sender="of b")) == {"b0"}


def test_a_copy_of_what_is_shown_does_not_come() -> None:
    copied = replace(source("b1"), copies=source("c1").chunks)
    assert brought(THREAD, copied) == {"a0", "a1", "b0", "c0"}


def test_what_stands_beside_a_source_joins_it_and_the_rest_come_behind_all_sources() -> None:
    sources = [source("m5"), source("b1")]
    found = widened(sources, bring(BANK, Whole("thread", 450), sources, EVERYTHING))
    assert ids(found) == [["m4", "m5", "m6", "m7"], ["b0", "b1"], ["a0", "a1"]]
    assert [one.score for one in found] == [1.0, 1.0, 0.0]


def test_sources_that_grow_together_become_one_with_the_better_rank_and_all_copies() -> None:
    copied = replace(source("m3"), score=0.5, copies=source("c1").chunks)
    sources = [source("b0"), source("m5"), copied]
    found = widened(sources, bring(BANK, NEIGHBOURS, sources, EVERYTHING))
    assert ids(found) == [["b0", "b1"], ["m2", "m3", "m4", "m5", "m6"]]
    assert (found[1].score, found[1].copies) == (1.0, copied.copies)


@given(
    st.sampled_from([NEIGHBOURS, THREAD, Whole("thread", 450)]),
    st.lists(st.sampled_from([one.chunk.id for one in BANK.hits]), unique=True, max_size=5),
)
def test_every_chunk_is_in_one_source_and_every_source_is_without_a_gap(whole: Whole, names: list[str]) -> None:
    sources = [source(name) for name in names]
    more = bring(BANK, whole, sources, EVERYTHING)
    found = widened(sources, more)
    assert sorted(name for one in ids(found) for name in one) == sorted({*names, *more})
    for one in found:
        places = [chunk.position for chunk in one.chunks]
        assert places == list(range(places[0], places[0] + len(places)))
