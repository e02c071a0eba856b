"""Answers as JSON: equal after a round trip, with every documented key."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import STAGES, Answer, Evidence, Passage, Source
from store.types import replace
from tests.engine.ask.passages import of_text

SOURCE = Source("/mail/1.eml", "1@example.org", "Notes", "2024-05-03T10:00:00+00:00", (3, 4), 1.5, "at seven")
ANSWER = Answer("When?", "at seven", "full", "quote", None, (SOURCE,), {"total": 12.0}, highlight=(3, 8))
TEXT = st.text() | st.just("\udcff of a file name")
PLACES = st.tuples(st.integers(0), st.integers(0))
NUMBERS = st.floats(0, 1e9)
SOURCES = st.builds(Source, path=TEXT, lines=PLACES, score=st.floats(-9, 9))
ANSWERS = st.builds(
    Answer,
    sources=st.lists(SOURCES, max_size=3).map(tuple),
    ms=st.dictionaries(st.sampled_from(STAGES), NUMBERS),
    highlight=st.none() | PLACES,
    similarity=st.none() | st.floats(0, 1),
    age_s=st.none() | NUMBERS,
    tokens=st.none() | st.dictionaries(st.text(), st.integers()),
)


@given(ANSWERS)
def test_an_answer_comes_back_from_json_as_it_was(answer: Answer) -> None:
    line = json.dumps(answer.to_json())
    line.encode("utf-8")
    back = Answer.from_json(json.loads(line))
    assert back == answer
    assert json.dumps(back.to_json()) == line
    assert back.answered == (answer.text is not None)


@pytest.mark.parametrize("values", [{}, {"schema": 1}, ANSWER.to_json() | {"schema": 5}])
def test_json_of_another_schema_is_no_answer(values: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError)):
        Answer.from_json(values)


def test_a_cached_answer_is_served_as_an_exact_hit() -> None:
    cached = replace(ANSWER, tokens={"prompt": 9})
    served = cached.served("when", {"total": 1.0}, 60.0, stale=False)
    assert served == replace(ANSWER, question="when", tier="exact", ms={"total": 1.0}, age_s=60.0)


def read(path: str, copies: int = 0) -> Passage:
    places = tuple(replace(SOURCE, path=f"{path}{number or ''}", copy=bool(number)) for number in range(copies + 1))
    return replace(of_text("", "", None, "", 1.0), sources=places)


@given(st.lists(st.integers(0, 2), max_size=4), st.integers(0, 3))
def test_sources_that_moved_keep_their_order_and_their_quotes(copies: list[int], lead: int) -> None:
    lead = min(lead, max(0, len(copies) - 1))
    before, after = (
        Evidence(tuple(read(f"/{folder}/{rank}.", more) for rank, more in enumerate(copies)), (), 1.0)
        for folder in ("old", "new")
    )
    quotes = [f"quote {rank}" for rank in range(len(copies))]
    cached = replace(ANSWER, sources=before.sources(quotes, lead), lead=lead)
    moved = cached.relocate(after.sources)
    assert [(one.path.replace("new", "old"), one.quote) for one in moved.sources] == [
        (one.path, one.quote) for one in cached.sources
    ]
    if copies:
        assert moved.sources[0].quote == quotes[lead]


def test_every_stage_is_there_and_null_where_it_did_not_happen() -> None:
    row = ANSWER.to_json()
    assert (list(row["ms"]), row["ms"]["total"], row["ms"]["embed"]) == (list(STAGES), 12.0, None)


def test_the_highlighted_span_is_a_part_of_the_text() -> None:
    assert (ANSWER.span, replace(ANSWER, text=None, highlight=None).span) == ("seven", "")
