"""Parsed batches: each document once, each file complete in the last batch that it is in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.ingest import pipeline as module
from engine.ingest.pipeline import ParsedBatch, parse_batches
from store.types import FileState, ParsedItem
from tests.store.kit import document

_STATE = FileState(1, 1, 1)


def take(files: dict[str, list[ParsedItem]], known: set[str] | None = None) -> list[ParsedBatch | int]:
    def reader(path: Path) -> Iterator[ParsedItem]:
        yield from files[str(path)]

    return list(parse_batches({n.encode(): _STATE for n in files}, "Mail", reader, (known or set()).__contains__))


def only(found: list[ParsedBatch | int]) -> ParsedBatch:
    (batch,) = found
    assert isinstance(batch, ParsedBatch)
    return batch


def reading(item: int, name: str, text: str = "text") -> ParsedItem:
    return ParsedItem(item, document(name, text))


def test_a_document_in_two_files_is_one_document_at_two_places() -> None:
    batch = only(take({"/a": [reading(0, "d")], "/b": [reading(0, "d")]}))
    places = [place.path for file in batch.files for place in file.places]
    assert (list(batch.documents), places, batch.read) == (["d"], ["/a", "/b"], 2)


def test_a_known_document_only_adds_a_place() -> None:
    batch = only(take({"/a": [reading(0, "d")]}, {"d"}))
    assert (batch.documents, len(batch.files[0].places)) == ({}, 1)


def test_an_unreadable_item_is_a_problem_of_its_file() -> None:
    batch = only(take({"/a": [ParsedItem(0, None, problem="empty"), reading(1, "d")]}))
    problems = [(problem.path, problem.item, problem.reason) for problem in batch.files[0].problems]
    assert (problems, list(batch.documents)) == ([("/a", 0, "empty")], ["d"])


def test_a_document_with_a_problem_counts_as_both() -> None:
    batch = only(take({"/a": [ParsedItem(0, document("d"), problem="cut")]}))
    assert (len(batch.files[0].problems), list(batch.documents)) == (1, ["d"])


def test_a_file_larger_than_a_batch_is_complete_in_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_DOCUMENTS", 2)
    found = []
    files = {b"/a": _STATE}
    readings = [reading(n, f"d{n}") for n in range(5)]
    for batch in parse_batches(files, "Mail", lambda path: iter(readings), lambda name: False):
        assert isinstance(batch, ParsedBatch)
        found.append((len(batch.documents), batch.files[0].complete))
    assert found == [(2, False), (2, False), (1, True)]


def test_a_batch_is_also_full_at_a_number_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH_CHARS", 100)
    found = take({"/a": [reading(0, "d", "x" * 150)], "/b": [reading(0, "e")]})
    assert [list(batch.documents) for batch in found if isinstance(batch, ParsedBatch)] == [["d"], ["e"]]


def test_progress_is_reported_every_20_files() -> None:
    found = take({f"/{n:04}": [] for n in range(45)})
    assert [step for step in found if isinstance(step, int)] == [20, 40]


def test_files_are_read_in_order_of_their_names() -> None:
    batch = only(take({name: [reading(0, name)] for name in ("/c", "/a", "/b")}))
    assert list(batch.documents) == ["/a", "/b", "/c"]
