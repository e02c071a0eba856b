"""From ranked chunks to sources; when in a recording a source is said."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.retrieval.evidence import timed
from engine.retrieval.retrieve import fold, join
from engine.types import Source
from store.types import Chunk, Hit, replace

PLACES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), unique=True)


def scored(document: str, position: int, score: float = 1.0, text: str | None = None) -> Hit:
    words = f"{document} {position}" if text is None else text
    chunk = Chunk(f"{document}{position}", document, position, "", words, 10 * position + 1, 10 * position + 10)
    return Hit(chunk, "", None, None, "", (), "", score)


def ranked(places: list[tuple[str, int]]) -> list[Hit]:
    return [scored(document, position, -float(rank)) for rank, (document, position) in enumerate(places)]


@given(PLACES, st.integers(1, 6), st.integers(1, 4))
def test_no_source_is_over_long_out_of_order_or_one_too_many(places: list[tuple[str, int]], k: int, most: int) -> None:
    sources = join(ranked(places), k, most)
    assert len(sources) <= k
    for source in sources:
        positions = [chunk.position for chunk in source.chunks]
        assert positions == list(range(positions[0], positions[0] + len(positions)))
        assert len(positions) <= most
        assert {chunk.document for chunk in source.chunks} == {source.document}


@given(PLACES, st.integers(1, 6), st.integers(1, 4))
def test_sources_come_best_first_and_start_with_the_best_chunk(
    places: list[tuple[str, int]], k: int, most: int
) -> None:
    found = ranked(places)
    sources = join(found, k, most)
    assert [source.score for source in sources] == sorted((source.score for source in sources), reverse=True)
    assert not sources or found[0].chunk in sources[0].chunks


@given(PLACES)
def test_with_sources_of_one_chunk_the_ranking_is_cut_at_k(places: list[tuple[str, int]]) -> None:
    found = ranked(places)
    assert [source.chunks for source in join(found, 3, 1)] == [(each.chunk,) for each in found[:3]]


def test_neighbours_become_one_source_with_the_better_rank_and_all_lines() -> None:
    sources = join([scored("a", 4, 3.0), scored("b", 1, 2.0), scored("a", 5, 1.0)], 2, 3)
    assert [(source.document, *source.lines, source.score) for source in sources] == [
        ("a", 41, 60, 3.0),
        ("b", 11, 20, 2.0),
    ]


def test_a_gap_between_two_chunks_keeps_them_apart() -> None:
    assert len(join([scored("a", 1), scored("a", 3)], 5, 3)) == 2


def test_the_same_text_in_another_document_is_folded_in_and_named() -> None:
    sources = join([scored("a", 0, 2.0, "see  you"), scored("b", 7, 1.0, "see you"), scored("c", 0, 0.5, "no")], 5, 3)
    assert [(source.document, [copy.chunk.document for copy in source.copies]) for source in sources] == [
        ("a", ["b"]),
        ("c", []),
    ]


def test_folding_keeps_the_better_of_two_equals() -> None:
    assert [kept.chunk.document for kept, _ in fold([scored("b", 0, 2.0, "x"), scored("a", 0, 1.0, "x")])] == ["b"]


def quoted(folder: Path, text: str, quote: str) -> Source:
    """Return the source of a quote in a file with this text."""
    (folder / "call.txt").write_text(text)
    last = text.count("\n") + 1
    return timed(Source(str(folder / "call.txt"), None, "Call", None, (1, last), 1.0, quote))


@pytest.mark.parametrize(
    ("text", "lines", "at"),
    [
        ("WEBVTT\n\n7\n00:01:02.500 --> 00:01:05.000\n<v Ann>Fine. We rent the\nblue tent.</v>\n", (5, 6), "1:02"),
        ("1\n01:00:02,500 --> 01:00:05,000\nAnn: We rent the blue tent.\n", (3, 3), "1:00:02"),
        ("0:00:07.100,0:00:09.000\nWe rent the blue tent.\n", (2, 2), "0:07"),
        ("[00:12:30] Ann: We rent the blue tent.", (1, 1), "12:30"),
        ("Ann Lee (12:30): We rent the blue tent.", (1, 1), "12:30"),
        ("Ann Lee  12:30\nFine.\nWe rent the blue tent.", (3, 3), "12:30"),
        ("Ann: The fair is at 14:30.\nAnn: We rent the blue tent.", (1, 2), ""),
        ("Date: Monday 11 March 2024, 19:45\nAnn: We rent the blue tent.", (1, 2), ""),
        ("00:01:02.500 --> 00:01:05.000\nAnn: It is changed.", (1, 2), ""),
    ],
)
def test_a_source_in_a_recording_has_the_lines_and_the_time_of_its_quote(
    tmp_path: Path, text: str, lines: tuple[int, int], at: str
) -> None:
    found = quoted(tmp_path, text, "We rent the blue tent.")
    assert (found.lines, found.at) == (lines, at)


def test_a_source_in_a_file_that_is_gone_or_decoded_has_no_time(tmp_path: Path) -> None:
    source = Source(str(tmp_path / "none.vtt"), None, "Call", None, (1, 2), 1.0, "We rent it.")
    assert timed(source) == source
    decoded = replace(quoted(tmp_path, "[00:12] We rent it.", "We rent it."), own_lines=False, at="")
    assert timed(decoded) == decoded


@given(st.text("aB .:[]()<>-,0123\n"), st.text("aB 01:."))
def test_lines_of_a_time_are_within_those_of_the_source(text: str, quote: str) -> None:
    with TemporaryDirectory() as folder:
        found = quoted(Path(folder), text, quote)
    first, last = found.lines
    assert 1 <= first <= last <= text.count("\n") + 1
