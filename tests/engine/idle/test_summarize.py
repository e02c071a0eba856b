"""Summaries: which chunks form a batch, the prompt of the model, and which sentences are quoted."""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.summarize import batches, by_model, by_quotes, kind_of
from store.types import Hit
from tests.engine.idle.kit import DAY, Writes, chat, hit


def ids(found: Sequence[Sequence[Hit]]) -> list[list[str]]:
    return [[one.chunk.id for one in batch] for batch in found]


def document(name: str, chunks: int, day: int) -> list[Hit]:
    return [hit("text", name, position, date=DAY + timedelta(days=day)) for position in range(chunks)]


def test_the_chunks_of_a_document_stay_together_where_they_can() -> None:
    found = batches([*document("b", 2, 1), *document("a", 3, 0)], 4)
    assert ids(found) == [["a/0", "a/1", "a/2"], ["b/0", "b/1"]]


def test_small_documents_share_a_batch_in_order_of_date() -> None:
    found = batches([*document("b", 1, 1), *document("c", 1, 2), *document("a", 1, 0)], 2)
    assert ids(found) == [["a/0", "b/0"], ["c/0"]]


def test_a_document_that_is_too_long_is_split() -> None:
    assert ids(batches(document("a", 5, 0), 2)) == [["a/0", "a/1"], ["a/2", "a/3"], ["a/4"]]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9)), unique=True), st.integers(1, 5))
def test_every_chunk_is_in_one_batch_and_no_batch_is_too_long(places: list[tuple[str, int]], size: int) -> None:
    found = batches([hit("text", name, position) for name, position in places], size)
    assert sorted(one.chunk.id for batch in found for one in batch) == sorted(f"{n}/{p}" for n, p in places)
    assert all(0 < len(batch) <= size for batch in found)


def test_the_prompt_has_the_task_first_and_a_segment_for_each_chunk() -> None:
    write = Writes(" A \n B ")
    assert by_model([hit("We meet {kind} on Friday.\n"), hit("Fine.", "b")], "mail", write) == "A B"
    system, first, *_, cue = write.shown
    assert "one person's mail" in system
    assert (first, cue) == ("From: Ann Lee, rehearsal\nWe meet {kind} on Friday.\n", "Summary:")


def test_all_segments_but_the_last_end_in_one_newline() -> None:
    write = Writes()
    by_model([hit("We meet.\n\n")], "mail", write)
    assert [one.endswith("\n") and not one.endswith("\n\n") for one in write.shown] == [True, True, False]


def test_the_most_central_sentence_is_quoted_with_its_speaker_and_date() -> None:
    batch = [
        hit("The boiler in the church broke down again. I had soup today at noon.", "a"),
        hit("Can the boiler of the church be mended before winter? My cat says hello to you.", "b"),
    ]
    assert by_quotes(batch).startswith("Ann Lee, Friday 3 May 2024: The boiler in the church broke down again.")


def test_a_speaker_in_the_text_is_named() -> None:
    spoken = chat("Ann: The choir sings in Oslo.\nBob: The choir of Oslo sings very well.", "Ann", "Bob")
    assert "Bob, Friday 3 May 2024: The choir of Oslo sings very well." in by_quotes([spoken])


def test_sentences_that_say_the_same_are_quoted_once() -> None:
    batch = [hit("The choir sings in Oslo on Friday.", name) for name in "ab"]
    assert by_quotes(batch) == "Ann Lee, Friday 3 May 2024: The choir sings in Oslo on Friday."


def test_the_chunk_nearest_to_the_mean_is_preferred_where_all_are_embedded() -> None:
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    texts = ("Red roses are in my garden.", "Pale lilies are in my garden.", "Blue irises are in my garden.")
    batch = [hit(text, name, vector=row) for text, name, row in zip(texts, "abc", vectors, strict=True)]
    assert "Pale lilies" in by_quotes(batch)


def test_a_batch_without_a_sentence_is_summarized_by_its_header() -> None:
    assert by_quotes([hit("ok")]) == "From: Ann Lee, rehearsal"


@given(st.lists(st.text(max_size=200), min_size=1, max_size=4))
def test_any_chunks_are_summarized_on_one_line(texts: list[str]) -> None:
    text = by_quotes([hit(one, str(place)) for place, one in enumerate(texts)])
    assert text
    assert "\n" not in text


def test_a_collection_is_named_by_its_documents() -> None:
    assert (kind_of(3, 0), kind_of(0, 2), kind_of(1, 1)) == ("mail", "meeting notes", "mail and meeting notes")
