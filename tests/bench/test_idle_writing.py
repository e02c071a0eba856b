"""What idle writes is graded against the questions and gold answers of its documents."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.idle.predict import Prediction
from engine.idle.summarize import BATCH, by_quotes
from store.types import Chunk
from tests.bench.idle_writing import Source, hit, kept, predicted, sources, stretch, summaries, summarized
from tests.bench.indexed import load
from tests.bench.test_reading import MAIL

ROW = '{{"question": "{question}", "answer": "{answer}", "doc_ids": ["mail/{mail}.eml"]{more}}}\n'


@pytest.fixture
def source(tmp_path: Path) -> Source:
    texts = ("The rehearsal is on Friday at six in the parish hall.", "Please bring your folders to the rehearsal.")
    for name, text in enumerate(texts, 1):
        path = tmp_path / "choir" / "mail" / f"{name}.eml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MAIL.format(id=name, text=text))
    asked = (
        ROW.format(question="Where is the rehearsal?", answer="in the parish hall", mail=1, more=""),
        ROW.format(question="Who sings?", answer="", mail=1, more=', "unanswerable": true'),
        ROW.format(question="Where is the score of Ann Lee?", answer="", mail=3, more=""),
        ROW.format(question="Where is the score of Ben Day?", answer="", mail=3, more=""),
    )
    (tmp_path / "choir" / "questions.jsonl").write_text("".join(asked))
    (one,) = sources("choir", list(load(tmp_path, "choir")), 5, 8)
    return one


def test_a_source_answers_questions_and_knows_those_about_others(source: Source) -> None:
    assert [row["question"] for row in source.rows] == ["Where is the rehearsal?"]
    assert source.past == ("Where is the score of Ann Lee?", "Where is the score of Ben Day?")
    assert source.gold == {"parish", "hall"}


def test_a_summary_is_graded_by_the_gold_words_it_keeps(source: Source) -> None:
    def ask(chunks: Sequence[Chunk], request: str) -> str:
        return "Ann names the hall."

    found = summaries(source, ask, None)
    assert {label: one.shares for label, one in found.items()} == {
        "text": (1.0,), "quotes": (1.0,), "quotes, each chunk": (1.0,), "model, each chunk": (0.5,)
    }  # fmt: skip
    assert found["model, each chunk"].length == 4
    assert kept("", source.gold) == 0.0


def test_quotes_are_of_batches_that_hold_neighbouring_documents(source: Source) -> None:
    batch, alone = (summarized(source, by_quotes, size, None) for size in (BATCH, 1))
    assert batch.length > alone.length


def test_a_stretch_of_a_long_document_is_always_the_same(source: Source) -> None:
    hits = source.hits * 20
    found = stretch(hits, 8)
    assert found == stretch(hits, 8)
    assert len(found) in (8, 4)
    assert stretch(source.hits, 8) == source.hits


def test_a_question_is_hit_if_a_predicted_one_is_near() -> None:
    real, guessed = np.eye(2, dtype=np.float32), np.array([[0.8, 0.6]], np.float32)
    assert hit(real, guessed) == (0.0, 0.5)
    assert hit(real, guessed[:0]) == (0.0, 0.0)


def test_predicted_questions_are_chosen_as_idle_does(source: Source) -> None:
    found = [Prediction(text, "chunks", "model") for text in (*source.past, *(f"Who is singer {n}?" for n in range(9)))]
    texts, _ = predicted(source, ("chunks/model",), lambda: found)
    assert texts == [f"Who is singer {n}?" for n in range(5)]  # none that was asked, and no more than an idle run
