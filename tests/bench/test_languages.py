"""The questions in six languages: the set is whole, and answers by words stay as good as they were."""

from collections import Counter
from pathlib import Path

import pytest

from tests.bench.languages import DATA, measure, questions, table


def test_the_set_has_a_hundred_questions_in_six_languages_and_two_halves() -> None:
    asked = list(questions())
    assert len(asked) == len({one.text for one in asked}) == 100
    assert Counter(one.wording for one in asked) == {"words": 48, "meaning": 34, "none": 18}
    assert {one.half for one in asked} == {"dev", "held"}
    assert len({one.language for one in asked}) == 6


def test_the_documents_hold_the_answers() -> None:
    for one in questions():
        lines = (DATA / f"{one.language}.txt").read_text("utf-8").splitlines()
        texts = [line for line in lines if line.split(" ")[1] in one.documents and line[0] in "MT"]
        assert len(texts) == len(one.documents)
        assert one.wording == "none" or one.judged(" ".join(texts)) == "right"


@pytest.mark.slow
def test_answers_by_words_stay_right_and_what_is_not_there_is_declined(tmp_path: Path) -> None:
    results = measure(tmp_path, list(questions()))
    counts = Counter((one.asked.wording, one.verdict) for one in results)
    assert counts["words", "right"] >= 45, "\n".join(table(results))
    assert counts["none", "right"] == 18
    assert sum(one.verdict == "wrong" for one in results) <= 2
