"""What the reader learns from: answers stand where they are said to, and lookalikes ask for something else."""

from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer

from engine.models.lookup import TOKENS, find_weights
from engine.models.minilm import MOST, SpanReader
from engine.models.types import open_tokenizer
from store.errors import NoModel
from tests.reader.examples import Example, Public, Reading, Window, headers, made, places
from tests.reader.lookalikes import Vocabulary, lookalike
from tests.reader.measure import auc, f1
from tests.reader.windows import batch, rows

MAIL = "The rehearsal is on Friday at 19:30. Bring 12 blue scores to the old town hall.\nBest wishes, Ann"
SET = [
    Reading("a", "When is the rehearsal of Ann?", MAIL, (20, 35)),
    Reading("a", "How many scores does Ben bring?", MAIL, (43, 45)),
    Reading("b", "Where is the parade of Ben?", "The parade of 14 bands passes the old town hall.", None),
]


def examples(count: int = 40) -> list[Example]:
    rng = Random(3)
    return [one for _ in range(count) for one in made(rng)]


def test_made_up_answers_stand_where_they_are_said_to() -> None:
    found = examples()
    assert sum(one.is_answered for one in found) > len(found) / 3
    assert any(not one.is_answered for one in found)
    for one in found:
        held = {window.text[start:end] for window in one.windows for start, end in window.answers}
        assert len(held) <= 1


def test_the_same_seed_makes_the_same_examples() -> None:
    assert examples(4) == examples(4)


def test_a_lookalike_differs_by_a_word_and_never_has_a_word_of_the_answer() -> None:
    words, rng = Vocabulary(one.question for one in SET), Random(1)
    for row in SET * 20:
        answer = row.passage[slice(*row.span)] if row.span else ""
        other = lookalike(rng, row.question, row.passage, answer, words)
        if other:
            assert other != row.question
            assert set(other.lower().split()) - set(row.question.lower().split()) <= {
                one.lower() for text in SET for one in (*text.question.split(), *text.question.rstrip("?").split())
            }


def test_a_public_example_has_its_passage_and_others_without_the_answer() -> None:
    public, rng = Public(SET, headers(Random(0), 2)), Random(2)
    for _ in range(30):
        drawn = public.draw(rng)
        answered = [window for window in drawn.windows if window.answers]
        assert len(answered) <= 1
        for window in answered:
            assert window.text[slice(*window.answers[0])] in ("Friday at 19:30", "12")


@pytest.mark.parametrize(("text", "answer", "found"), [("a b a", "a", ((0, 1), (4, 5))), ("a", "", ()), ("a", "b", ())])
def test_all_places_of_an_answer_are_found(text: str, answer: str, found: tuple[tuple[int, int], ...]) -> None:
    assert places(text, answer) == found


def test_rows_hold_the_answer_and_its_sentence_whatever_the_length_of_the_text() -> None:
    tokenizer = _tokenizer()
    long = "Nothing else is said here, as it seems. " * 60
    for before, after in (("", ""), (long, ""), ("", long), (long, long)):
        text = before + MAIL + after
        at = text.index("Friday at 19:30")
        window = Window("From Ann\n", text, ((at, at + len("Friday at 19:30")),))
        (row,) = rows(tokenizer, Example("When is the rehearsal?", (window,)))
        assert len(row.ids) <= MOST
        assert tokenizer.decode(row.ids[row.answers[0][0] : row.answers[0][1] + 1]) == "friday at 19 : 30"
        assert row.sentences[0][0] <= row.answers[0][0] <= row.answers[0][1] <= row.sentences[0][1]


def test_a_batch_marks_what_rows_say() -> None:
    tokenizer, drawn = _tokenizer(), examples(2)[:3]
    found = [rows(tokenizer, one) for one in drawn]
    packed = batch(found)
    every = [row for one in found for row in one]
    assert packed.lengths.tolist() == [len(row.ids) for row in every]
    for place, row in enumerate(every):
        assert packed.ids[place, : len(row.ids)].tolist() == row.ids
        assert packed.starts[place].sum() == len({start for start, _ in row.answers})
        assert not packed.second[place, : row.text].any()
        assert packed.second[place].sum() == len(row.ids) - row.text - 1


def test_the_shipped_reader_reads_made_up_mail() -> None:
    _tokenizer()
    reader, right = SpanReader(), list[float]()
    for one in [one for one in examples(6) if one.is_answered][:20]:
        window = next(window for window in one.windows if window.answers)
        (found,) = reader.read(one.question, [(window.header, window.text)])
        marks = [mark for scored in found if (mark := scored.best(0, len(window.text)))]
        best = max(marks, key=lambda mark: mark.margin)
        right.append(f1(window.text[best.start : best.end], window.text[slice(*window.answers[0])]))
    assert sum(right) / len(right) > 0.6


def test_the_area_under_the_curve_counts_pairs() -> None:
    assert auc([3, 1], [0, 2]) == 0.75
    assert auc([], [1]) == 0


def _tokenizer() -> Tokenizer:
    try:
        folder: Path = find_weights()
    except NoModel:
        pytest.skip("the embedding model is not installed")
    tokenizer = open_tokenizer(folder / TOKENS)
    tokenizer.no_truncation()
    return tokenizer
