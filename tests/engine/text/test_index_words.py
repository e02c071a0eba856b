"""The words that a chunk is indexed under."""

from datetime import UTC, datetime

from engine.text.people import index_words
from store.types import Chunk

PEOPLE = ("Bob <bob@hall.org>", "Carol Ng <carol.ng@choir.org>", "dan@choir.org")


def piece(position: int) -> Chunk:
    return Chunk("c", "d", position, "From: Ann, To: Bob (+2), Hall", "It costs 450 euros.", 1, 1)


def test_header_and_text_are_index_words() -> None:
    assert {"ann", "hall", "450"} <= set(index_words(piece(3), "ann@choir.org", PEOPLE, None))


def test_all_addresses_are_index_words_of_the_first_chunk() -> None:
    assert {"ann@choir.org", "carol.ng@choir.org", "dan"} <= set(index_words(piece(0), "ann@choir.org", PEOPLE, None))


def test_addresses_are_not_index_words_of_other_chunks() -> None:
    assert "carol.ng@choir.org" not in index_words(piece(1), "ann@choir.org", PEOPLE, None)


def test_the_month_of_the_document_is_an_index_word() -> None:
    assert "august" in index_words(piece(1), "", (), datetime(2024, 8, 7, tzinfo=UTC))


def test_a_list_of_a_thousand_recipients_is_cut() -> None:
    assert len(index_words(piece(0), "", tuple(f"p{i}@x.org" for i in range(1000)), None)) < 1000
