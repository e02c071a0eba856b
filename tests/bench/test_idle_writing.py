"""What idle writes is graded against the questions and gold answers of its documents."""

from pathlib import Path

import numpy as np
import pytest

from engine.idle.predict import Prediction
from tests.bench.idle_writing import Source, hit, predicted, sources, stretch
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
    found = [Prediction(text, "chunks/model") for text in (*source.past, *(f"Who is singer {n}?" for n in range(9)))]
    texts, _ = predicted(source, ("chunks/model",), lambda: found)
    assert texts == [f"Who is singer {n}?" for n in range(5)]  # none that was asked, and no more than an idle run
