"""Which chunks are read ahead: the most frequent ones, of equals the latest, and the head of each collection."""

from hypothesis import given
from hypothesis import strategies as st

from engine.idle.hot import Heat, Manner, as_first, heats, hottest, plan, unseen
from engine.idle.segment import Costs, Path, Segment
from store.records import Chunk

COSTS = Costs(0.5, 10.0)
ASKED = [("a", "b"), ("b", "c"), ("a", "c"), ("c",), ("d",)]
SYSTEM = (1, 2)


def chunk(name: str) -> Chunk:
    return Chunk(name, name, 0, f"From: {name}", "text", 1, 1)


CHUNKS = {name: chunk(name) for name in "abcd"}
BY_LETTER = Manner("first", SYSTEM, lambda chunk: (ord(chunk.id),), lambda heat: 1.0)


def planned(*names: str, kept: tuple[Path, ...] = ((SYSTEM,),)) -> list[Segment]:
    hot = [heat for heat in heats(ASKED) if heat.chunk in names]
    return list(plan(hot, CHUNKS, BY_LETTER, lambda path: path in kept, COSTS))


def test_chunks_are_counted_once_a_question_and_the_latest_of_equals_comes_first() -> None:
    assert heats(ASKED) == [Heat("c", 3, 1, 3), Heat("a", 2, 2, 2), Heat("b", 2, 1, 1), Heat("d", 1, 1, 4)]
    assert heats([("a", "a")]) == [Heat("a", 1, 1, 0)]


def test_new_chunks_share_what_chunks_retrieved_once_were_of_all_that_was_retrieved() -> None:
    assert unseen(heats(ASKED), ["new", "newer"], 14) == [Heat("new", 0.2, 0, -1), Heat("newer", 0.2, 0, -1)]
    assert unseen([], ["new"], 50) == [Heat("new", 0.02, 0, -1)]
    assert unseen(heats(ASKED), [], 4) == []


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=4)), st.integers(0, 20))
def test_a_new_chunk_is_never_expected_more_often_than_one_that_was_retrieved(
    retrieved: list[list[str]], more: int
) -> None:
    found = heats(retrieved)
    new = unseen(found, [f"new{number}" for number in range(more)], len(found) + more)
    assert [heat.chunk for heat in new] == [f"new{number}" for number in range(more)]
    assert all(0 < heat.times <= min((one.times for one in found), default=1) for heat in new)


def test_each_collection_has_its_hottest_chunk_read_however_many_others_are_hotter() -> None:
    many = [(f"mail{number}",) for number in range(300) for _ in range(3)] + [("talk",)] * 2
    found = hottest(heats(many), lambda name: [name.rstrip("0123456789")])
    assert len(found) == 201
    assert found[-1].chunk == "talk"


def test_what_is_planned_is_the_chunk_behind_the_system_segment_at_what_tokens_cost() -> None:
    assert planned("c") == [
        Segment("first", "From: c", "retrieved for 3 questions", (SYSTEM, (ord("c"),)), 3.0, 0.5, 10),
    ]


def test_what_is_kept_or_gone_is_not_read_and_the_system_segment_is_where_it_is_missing() -> None:
    assert planned("c", kept=((SYSTEM,), (SYSTEM, (ord("c"),)))) == []
    assert [one.path for one in planned("c", kept=())] == [(SYSTEM,), (SYSTEM, (ord("c"),))]
    assert list(plan(heats([("gone",)] * 2), CHUNKS, BY_LETTER, lambda path: False, COSTS)) == []


def test_a_new_chunk_is_planned_behind_those_that_were_retrieved_and_says_that_it_is_new() -> None:
    found = [*heats([("c",)]), *unseen(heats([("c",)]), ["a"], 11)]
    segments = list(plan(found, CHUNKS, BY_LETTER, lambda path: path == (SYSTEM,), COSTS))
    assert [(one.what, one.why, one.expected) for one in segments] == [
        ("From: c", "retrieved once", 1.0),
        ("From: a", "new, not retrieved yet", 0.2),
    ]


def test_a_chunk_comes_first_as_often_as_it_did_and_one_time_in_k_where_nothing_is_known() -> None:
    share = as_first(5)
    assert share(Heat("a", 0, 0, 0)) == 1 / 5
    assert share(Heat("a", 95, 94, 0)) == 0.95
    assert share(Heat("a", 95, 0, 0)) == 0.01
