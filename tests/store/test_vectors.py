"""Vectors: newest first, kept as they come, all anew for another embedder."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from store.types import Scope
from tests.store.conftest import Open
from tests.store.kit import Fuse, HashEmbedder, Killed, Opened, entry

_DAY = datetime(2024, 5, 3, tzinfo=UTC)


def fill(opened: Opened, embedder: HashEmbedder, limit: int = 100) -> list[str]:
    rows = opened.vectors.wanted(limit)
    opened.vectors.put([row["id"] for row in rows], embedder.embed([row["text"] for row in rows]))
    return [row["id"] for row in rows]


@pytest.fixture
def three(opened: Opened) -> Opened:
    """Return a home with three documents of three days, in no order."""
    for day, name in ((1, "b"), (2, "c"), (0, "a")):
        opened.keep(entry(name, f"text of {name}", date=_DAY + timedelta(days=day)))
    opened.vectors.use("hash-1")
    return opened


def test_the_newest_are_wanted_first(three: Opened) -> None:
    embedder = HashEmbedder()
    assert [fill(three, embedder, 1) for _ in range(4)] == [["c/0"], ["b/0"], ["a/0"], []]


def test_what_has_no_date_is_wanted_last(three: Opened) -> None:
    three.keep(entry("undated", "text", date=None))
    assert "undated/0" not in {row["id"] for row in three.vectors.wanted(3)}


def test_what_came_meanwhile_is_wanted_before_the_rest(three: Opened) -> None:
    fill(three, HashEmbedder(), 1)
    three.keep(entry("new", "text", date=_DAY + timedelta(days=9)))
    assert [row["id"] for row in three.vectors.wanted(1)] == ["new/0"]


def test_every_chunk_without_a_vector_is_missing_one(three: Opened) -> None:
    fill(three, HashEmbedder(), 2)
    assert three.vectors.missing == 1


def test_a_kept_vector_is_found_bit_for_bit(three: Opened) -> None:
    row = HashEmbedder().embed(["text of c"])
    three.vectors.put(["c/0"], row)
    hit = three.reader.by_words(["c"], Scope(), 1)[0]
    assert hit.vector is not None
    assert np.array_equal(hit.vector, row[0])


def test_vectors_of_chunks_that_went_meanwhile_are_left_out(three: Opened) -> None:
    rows = three.vectors.wanted(10)
    three.keep(removes=["b"])
    three.vectors.put([row["id"] for row in rows], HashEmbedder().embed([row["text"] for row in rows]))
    assert (three.wrong(), three.vectors.missing) == ([], 0)


def test_the_vectors_of_a_removed_document_go_with_it(three: Opened) -> None:
    fill(three, HashEmbedder())
    three.keep(removes=["b"])
    assert (three.wrong(), three.reader.totals().embedded) == ([], 2)


def test_a_document_that_is_read_again_keeps_the_vectors_of_chunks_that_are_the_same(three: Opened) -> None:
    fill(three, HashEmbedder())
    three.keep(entry("b", "text of b", "more", date=_DAY + timedelta(days=1)), entry("a", date=_DAY))
    assert ([row["id"] for row in three.vectors.wanted(9)], three.wrong()) == (["b/1"], [])


def test_new_vectors_raise_the_generation(three: Opened) -> None:
    before = three.ledger.generation
    fill(three, HashEmbedder())
    assert three.ledger.generation > before


def test_the_same_embedder_again_changes_nothing(three: Opened) -> None:
    fill(three, HashEmbedder())
    before = three.ledger.generation
    assert (three.vectors.use("hash-1"), three.vectors.missing, three.ledger.generation) == (False, 0, before)


def test_another_embedder_wants_all_anew(three: Opened) -> None:
    fill(three, HashEmbedder())
    assert (three.vectors.use("hash-2"), three.vectors.missing, three.wrong()) == (True, 3, [])


def test_another_embedder_may_have_another_width(three: Opened) -> None:
    fill(three, HashEmbedder())
    three.vectors.use("hash-2")
    wide = HashEmbedder("hash-2", 24)
    fill(three, wide)
    best = three.reader.by_vector(wide.embed(["text of a"])[0], Scope(), 1)
    assert [hit.chunk.id for hit in best] == ["a/0"]


def test_vectors_of_a_former_embedder_are_not_searched(three: Opened) -> None:
    fill(three, HashEmbedder())
    three.vectors.use("hash-2")
    assert three.reader.by_vector(HashEmbedder().embed(["text"])[0], Scope(), 5) == []


def test_the_table_of_a_former_embedder_is_dropped(three: Opened) -> None:
    fill(three, HashEmbedder())
    three.vectors.use("hash-2")
    fill(three, HashEmbedder("hash-2"))
    three.vectors.drop_former()
    assert (three.vectors.former, len(three.tables.names()), three.wrong()) == ([], 3, [])


def test_an_embedder_that_comes_back_finds_none_of_its_old_vectors(three: Opened) -> None:
    fill(three, HashEmbedder())
    three.vectors.use("hash-2")
    three.keep(removes=["b"])
    three.vectors.use("hash-1")
    assert (three.vectors.missing, three.wrong()) == (2, [])
    fill(three, HashEmbedder())
    assert (three.vectors.missing, three.wrong()) == (0, [])


def test_a_death_behind_the_table_loses_no_vector_and_wants_it_again(open_home: Open) -> None:
    fuse = Fuse(0)
    opened = open_home(fuse)
    opened.keep(entry("a", "red"))
    opened.vectors.use("hash-1")
    fuse.length = fuse.burnt + 1
    with pytest.raises(Killed):
        fill(opened, HashEmbedder())
    after = open_home()
    assert (after.wrong(), fill(after, HashEmbedder()), after.wrong()) == ([], ["a/0"], [])
