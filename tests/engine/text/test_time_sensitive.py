"""What questions move with, over a written set in six languages, and in any wording that dates are read from."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text import dates
from engine.text.dates import NEAR_WORDS
from engine.text.question import understand
from engine.text.time_sensitive import PhraseIndex, is_timeless, moment, time_sensitivity, word_lists
from tests.effort import examples

SET = Path(__file__).parents[2] / "data" / "deictic_questions.txt"
NOW = datetime(2024, 6, 19, 8, 5, 30, tzinfo=UTC)
UNITS = ["week", "month", "year"]
RELATIVE = [
    *(
        f"{which} {unit}"
        for which in ("last", "past", "previous", "this", "next", "coming")
        for unit in (*UNITS, "weekend")
    ),
    *(
        f"{which} {day}"
        for which in ("last", "past", "previous", "this", "next", "coming", "on")
        for day in dates.WEEKDAYS
    ),
    *(f"{count} {unit}s ago" for count in ("2", "a", "ten") for unit in ("day", *UNITS)),
    *(
        f"{which} {count} {unit}s"
        for which in ("last", "past", "previous")
        for count in ("3", "six")
        for unit in ("day", *UNITS)
    ),
    *("today", "tonight", "yesterday", "tomorrow"),
]


def written(half: str) -> Iterator[tuple[str, str]]:
    """Yield kind and question of one half of the set."""
    for line in SET.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            own, _, kind, question = line.split(maxsplit=3)
            if own == half:
                yield kind, question


@pytest.mark.parametrize("half", ["tune", "judge"])
def test_nearly_all_questions_that_move_are_known_and_few_others(half: str) -> None:
    moving = [time_sensitivity(question) is not None for kind, question in written(half) if kind != "timeless"]
    fixed = [time_sensitivity(question) is not None for kind, question in written(half) if kind == "timeless"]
    assert (len(moving), len(fixed)) == (84, 48)
    assert moving.count(True) >= 0.95 * len(moving)
    assert fixed.count(True) <= 0.05 * len(fixed)


@pytest.mark.parametrize("half", ["tune", "judge"])
def test_questions_that_move_are_not_shown_to_be_timeless(half: str) -> None:
    moving = [is_timeless(question) for kind, question in written(half) if kind != "timeless"]
    assert moving.count(True) <= 0.05 * len(moving)


@pytest.mark.parametrize("word", NEAR_WORDS)
def test_every_day_near_today_that_texts_resolve_is_time_sensitive(word: str) -> None:
    assert time_sensitivity(f"Regatta Ann {word}?")


@pytest.mark.parametrize("said", RELATIVE)
def test_every_relative_date_is_time_sensitive(said: str) -> None:
    assert time_sensitivity(f"What did Ann write {said}?")


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("When is my next meeting?", "clock"),
        ("What is on next week?", "day"),
        ("Who sits next to Ann?", None),
        ("What else is left to do today?", "clock"),
        ("What did I do today?", "day"),
        ("Wer war hier?", None),  # French for yesterday
        ("Qui est venu hier ?", "day"),
    ],
)
def test_the_longer_phrase_counts_in_the_language_of_the_question(text: str, moves: str | None) -> None:
    assert time_sensitivity(text) == moves


def test_a_writer_that_is_told_the_date_reads_it_unless_a_question_is_about_the_past() -> None:
    asked = ("When is my next call?", "What is due today?", "Who has the key?", "Who had the key?")
    assert [moment(text, NOW, dated=True) for text in asked] == ["2024-06-19T08:05+00:00", *["2024-06-19"] * 2, None]
    assert [moment(text, NOW, dated=False) for text in asked[2:]] == [None, None]


words = st.sampled_from(
    [*RELATIVE, "next", "upcoming", "our coming", "die", "der", "hier", "when is", "in May", "2023"]
)


@examples(200)
@given(st.lists(words | st.text(max_size=8), max_size=6).map(" ".join), st.timedeltas(timedelta(0), timedelta(800)))
def test_a_question_that_does_not_move_is_understood_alike_at_any_time(text: str, later: timedelta) -> None:
    if moment(text, NOW, dated=False) == moment(text, NOW + later, dated=False):
        first, then = understand(text, NOW), understand(text, NOW + later)
        spans = [
            [
                (days.first.replace(year=2000), days.last.month, days.yearly) if days.yearly else days
                for days in one.dates
            ]
            for one in (first, then)
        ]
        assert spans[0] == spans[1]
        assert (first.coming, first.clock) == (then.coming, then.clock)
        assert not (first.coming and first.day != then.day)


_ENGLISH = word_lists("deictic")["en"]["day"]


@given(st.lists(st.sampled_from(sorted({word.strip("*") for phrase in _ENGLISH for word in phrase})), max_size=8))
def test_the_index_finds_what_each_phrase_alone_finds(tokens: list[str]) -> None:
    alone = [found for phrase in _ENGLISH for found in PhraseIndex([phrase]).find(tokens)]
    assert sorted(PhraseIndex(_ENGLISH).find(tokens)) == sorted(alone)


def test_a_phrase_is_found_at_every_place() -> None:
    index = PhraseIndex([("next", "week"), ("to*",), ("in", "..", "$"), ("_", "ago")])
    assert sorted(index.find(["next", "week", "or", "next", "week"])) == [(0, 2), (3, 5)]
    assert sorted(index.find(["tonight", "in", "spring"])) == [(0, 1), (1, 3)]
    assert list(index.find(["years", "ago"])) == [(0, 2)]
    assert not list(index.find(["next"]))
