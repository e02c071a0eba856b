"""What counts as served unsafely, and real homes whose documents change under their caches."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.types import Answer
from tests.bench.metrics import terms
from tests.bench.unsafe import (
    COSINE,
    DRIFT,
    EXACT,
    PKB,
    SMALL,
    Person,
    Query,
    Remembering,
    Tally,
    add,
    ask_small,
    bases,
    by_cosine,
    by_words,
    change,
    drift,
    holds,
    opened,
    person,
    table,
)
from tests.engine.ask.small_home import WordEmbedder

FACTS = {"choir": "Friday at 7 pm", "band": "Saturday at noon", "chess": "Monday at 6 pm", "yoga": "Tuesday at 9 am"}
QUESTIONS = {name: f"When does the {name} meet?" for name in FACTS}


def answer(text: str | None) -> Answer:
    """Return an answer by quotes."""
    return Answer("?", text, "full", "quote", None, (), {"total": 1.0})


def written(folder: Path) -> Path:
    """Write a set of one user, a document a fact; returns the file of questions."""
    (folder / "docs").mkdir(parents=True)
    for name, when in FACTS.items():
        (folder / "docs" / f"{name}.txt").write_text(f"Ann: The {name} meets on {when} in the hall.\n", "utf-8")
    rows = [
        {"id": name, "question": QUESTIONS[name], "answer": when, "doc_ids": [f"docs/{name}.txt"]}
        for name, when in FACTS.items()
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return folder / "questions.jsonl"


@pytest.mark.parametrize(
    ("said", "gold", "held"),
    [
        ("It is on Friday at 7 pm.", "Friday at 7 pm", True),
        ("On Friday or at 7 pm", "Friday at 7 pm", False),
        ("", "Friday", False),
        ("Friday", "", False),
    ],
)
def test_an_answer_holds_the_words_of_a_gold_answer_together(said: str, gold: str, held: bool) -> None:
    assert holds(said, frozenset([terms(gold)]) - {()}) == held


def test_the_same_words_are_found_whatever_their_case() -> None:
    cache = by_words()
    cache.put("When is it?", answer("Friday"))
    assert cache.find("when is it") == answer("Friday")
    assert cache.find("When was it?") is None


def test_the_nearest_question_is_found_if_it_is_near_enough() -> None:
    cache = by_cosine(WordEmbedder())
    assert cache.find("a b c d") is None
    for number in range(100):
        cache.put(f"word{number} other{number} more{number}", answer(str(number)))
    assert cache.find("more7 word7 other7") == answer("7")
    assert cache.find("word7 different entirely") is None


def test_texts_are_embedded_once_and_all_ways_agree() -> None:
    embedder = Remembering(WordEmbedder())
    rows = embedder.embed(["a b", "c"])
    assert (embedder.embed_question("c") == rows[1]).all()
    assert embedder.embed([]).shape == (0, embedder.width)


def test_questions_are_first_ones_paraphrases_and_lookalikes(tmp_path: Path) -> None:
    file = written(tmp_path / "x")
    more: list[dict[str, Any]] = [
        {"of": "choir", "text": "When is choir?", "same": True},
        {"of": "band", "text": "When did the band meet?", "same": False},
        {"of": "nobody", "text": "Who?", "same": True},
    ]
    found = person("x", file, more)
    assert [row["id"] for row in found.firsts] == list(FACTS)
    assert [(text, row["id"]) for text, row in found.same] == [("When is choir?", "choir")]
    assert [(text, row["id"]) for text, row in found.other] == [("When did the band meet?", "band")]
    assert len(found.texts) == 6
    small = found.within(frozenset(("docs/band.txt",)))
    assert ([row["id"] for row in small.firsts], small.same, len(small.other)) == (["band"], (), 1)
    assert bases(found) == [frozenset(f"docs/{name}.txt" for name in FACTS)]


def test_documents_are_changed_by_turns(tmp_path: Path) -> None:
    row = {"question": "When?", "answer": "Friday"}
    files = [tmp_path / f"{number}.txt" for number in range(4)]
    for fate, file in enumerate(files):
        file.write_text("Ann: on Friday", "utf-8")
        change(file, fate, row, "Monday", tmp_path / "new.txt")
    assert [file.read_text("utf-8") if file.exists() else None for file in files] == [
        "Ann: on Monday", None, "Ann: on Friday", "Ann: on Friday",
    ]  # fmt: skip
    assert "Now it is: Monday" in (tmp_path / "new.txt").read_text("utf-8")


@pytest.mark.slow
def test_a_stale_answer_is_unsafe_and_pkb_serves_none(tmp_path: Path) -> None:
    about = person("x", written(tmp_path / "x"), [])
    with opened(tmp_path / "home", Remembering(WordEmbedder()), gptcache=False, show=False) as home:
        docs = tmp_path / "x" / "docs"
        home.ingest(docs)
        first = [home.ask(Query(text)).text or "" for text in QUESTIONS.values()]
        drift(home, about, [docs], 1)
    assert [FACTS[name] in said for name, said in zip(FACTS, first, strict=True)] == [True] * 4
    found = {name: home.tallies[DRIFT, name] for name in (PKB, EXACT, COSINE)}
    assert (found[PKB].asked, found[PKB].unsafe) == (4, 0)
    assert found[EXACT].served == 4
    assert found[EXACT].unsafe >= 2  # the band's document is changed, the chess club's is gone
    assert any(home.changed)


def test_of_a_small_base_all_that_is_asked_counts(tmp_path: Path) -> None:
    more = [{"of": "choir", "text": "When does the chess meet?", "same": False}]
    about = person("x", written(tmp_path / "x"), more)
    with opened(tmp_path / "home", Remembering(WordEmbedder()), gptcache=False, show=True) as home:
        home.ingest(tmp_path / "x" / "docs")
        ask_small(home, about)
    assert home.tallies[SMALL, PKB].asked == 9
    assert home.tallies[SMALL, PKB].served == 5
    assert home.tallies[SMALL, PKB].unsafe == 0
    assert isinstance(about, Person)


def test_the_table_adds_up_over_homes_and_regimes() -> None:
    whole: dict[tuple[str, str], Tally] = {}
    for _ in range(2):
        add(whole, {(DRIFT, PKB): Tally(50, 10, 2, 1, 1), (SMALL, PKB): Tally(100, 5)})
    *_, drifting, small, both = table(whole)
    assert drifting == "| document drift | pkb | 100 | 20 (0.200) | 4 | 2 | 0.0200 | 0.0616 | 2 |"
    assert small == "| small base | pkb | 200 | 10 (0.050) | 0 | 0 | 0.0000 | 0.0149 | 0 |"
    assert both.startswith("| all | pkb | 300 | 30 (0.100) | 4 | 2 |")
