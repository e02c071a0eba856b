"""The reader's spans and scores, its windows, and what it needs; skipped where the embedder is not installed."""

from pathlib import Path

import numpy as np
import pytest

from engine.models import lookup
from engine.models.lookup import MINILM_WEIGHTS, TOKENS, reader_version
from engine.models.minilm import KEPT, MOST, SPAN, SpanReader
from store.errors import NoModel
from tests.engine.models.test_minilm import find_weights_or_skip

MAIL = (
    "From: Ann Lee, Friday 3 May 2024, Rehearsal\n",
    "Hi all, rehearsal moves to Thursday at 7pm in the small hall. The fee is 12 pounds. Bob will lead.",
)
OTHER = ("From: Bob Roe, Saturday 4 May 2024\n", "The landlord wants the rent by Friday.")


@pytest.fixture(scope="module")
def reader() -> SpanReader:
    return SpanReader(find_weights_or_skip())


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When is rehearsal?", "Thursday at 7pm"),
        ("Where is rehearsal?", "the small hall"),
        ("Who will lead?", "Bob"),
        ("How much is the fee?", "12 pounds"),
    ],
)
def test_what_answers_is_marked_in_the_text_that_has_it(reader: SpanReader, question: str, answer: str) -> None:
    (right,), (wrong,) = reader.read(question, [MAIL, OTHER])
    mark, other = right.best(0, len(MAIL[1])), wrong.best(0, len(OTHER[1]))
    assert mark
    assert other
    assert MAIL[1][mark.start : mark.end].strip(".") == answer
    assert mark.margin > 0 > other.margin
    assert mark.score > other.score


def test_what_the_text_does_not_tell_is_less_likely_than_no_answer(reader: SpanReader) -> None:
    (scores,) = reader.read("When is the concert in Rome?", [MAIL])[0]
    mark = scores.best(0, len(MAIL[1]))
    assert mark
    assert mark.margin < 0


def test_a_span_in_the_header_has_negative_offsets(reader: SpanReader) -> None:
    (scores,) = reader.read("Who wrote about the rehearsal?", [MAIL])[0]
    mark = scores.best(-len(MAIL[0]), 0)
    assert mark
    assert MAIL[0][mark.start : len(MAIL[0]) + mark.end] == "Ann Lee"


def test_a_long_text_is_read_whole_in_windows_that_end_with_sentences(reader: SpanReader) -> None:
    text = "The boat is in the shed. " * 60 + "The key is behind the green door."
    windows = reader.read("Where is the key?", [("", text)])[0]
    ends = [int(window.spans[-1, 1]) for window in windows]
    assert len(windows) > 1
    assert all(len(window.spans) < MOST for window in windows)
    assert [text[end - 1] for end in ends] == ["."] * len(ends)
    assert ends[-1] == len(text)
    marks = [mark for window in windows if (mark := window.best(0, len(text)))]
    best = max(marks, key=lambda mark: mark.score)
    assert "green door" in text[best.start : best.end]
    assert best.end - best.start < 12 * SPAN


def test_scores_do_not_depend_on_what_else_is_read(reader: SpanReader) -> None:
    alone, together = reader.read("Who will lead?", [MAIL])[0][0], reader.read("Who will lead?", [OTHER, MAIL])[1][0]
    assert np.allclose(alone.start, together.start, atol=1e-3)
    assert abs(alone.null - together.null) < 1e-3


@pytest.mark.parametrize("text", ["", " \n ", "[SEP] [CLS]", "饺子摊的摊位是几号", "\x00\ufffd"])
def test_any_text_can_be_read(reader: SpanReader, text: str) -> None:
    assert len(reader.read(text, [("", text), MAIL])) == 2


def test_no_span_is_marked_where_no_token_is(reader: SpanReader) -> None:
    assert reader.read("Who?", [MAIL])[0][0].best(3, 3) is None


def test_other_weights_than_the_reader_was_trained_on_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (MINILM_WEIGHTS, TOKENS):
        (tmp_path / name).touch()
    monkeypatch.setenv(lookup.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(NoModel) as caught:
        reader_version(None)
    assert caught.value.next_step == f"unset {lookup.FOLDER_VARIABLE}"


def test_few_scores_are_kept_and_no_words() -> None:
    reader = SpanReader(find_weights_or_skip())
    for number in range(KEPT + 2):
        reader._kept[b"%d" % number] = []
    first, again = reader.read("Who will lead?", [MAIL]), reader.read("Who will lead?", [MAIL])
    assert first[0] is again[0]
    assert len(reader._kept) == 1
    assert b"lead" not in b"".join(reader._kept)
