"""Questions parsed from a model's output: lists of any form, and nothing but questions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ask.keys import normalise
from engine.idle.predict import LONGEST, parse

TWO = ["When is the rehearsal?", "Who is bringing the cake?"]
FORMS = {
    "lines": "When is the rehearsal?\nWho is bringing the cake?",
    "numbers": "1. When is the rehearsal?\n2) Who is bringing the cake?",
    "numbers in brackets": "(1) When is the rehearsal?\n[2] Who is bringing the cake?",
    "bullets": "- When is the rehearsal?\n* Who is bringing the cake?",
    "typographic bullets": "• When is the rehearsal?\n– Who is bringing the cake?",
    "letters": "a) When is the rehearsal?\nb. Who is bringing the cake?",
    "labels": "Q1: When is the rehearsal?\nQuestion 2: Who is bringing the cake?",
    "bold": "**1. When is the rehearsal?**\n**Question 2:** Who is bringing the cake?",
    "quoted": '1. "When is the rehearsal?"\n2. “Who is bringing the cake?”',
    "quoted with commas": '"When is the rehearsal?",\n"Who is bringing the cake?"',
    "on one line": "1. When is the rehearsal? 2. Who is bringing the cake?",
    "json": json.dumps(TWO, indent=1),
    "json objects": json.dumps({"questions": [{"question": one, "why": "because it says so"} for one in TWO]}),
    "fenced json": f"```json\n{json.dumps(TWO)}\n```",
    "json in chatter": f"Here they are: {json.dumps(TWO)} I hope that helps!",
    "chatter": "Sure! Here are two questions:\n\n1. When is the rehearsal?\n\n2. Who is bringing the cake?\n\nEnjoy.",
    "markers": "When is the rehearsal?<|im_end|>\n<|im_start|>Who is bringing the cake?</s>",
    "terminal escapes": "When\x07 is the\x1b rehearsal?\r\nWho is bringing\u200b the cake?",
    "twice": "When is the rehearsal?\nwhen is  the REHEARSAL ?\nWho is bringing the cake?",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_list_gives_the_questions_alone(form: str) -> None:
    assert parse(FORMS[form], 9) == TWO


def test_the_number_of_questions_is_limited() -> None:
    assert (parse(FORMS["lines"], 1), parse(FORMS["lines"], 0)) == (TWO[:1], [])


@pytest.mark.parametrize(
    "written",
    [
        "", "Nothing comes to mind.", "?", "???", "Why?", "When is [event]?", "Who is <name>?", "What did ____ say?",
        "What happened to {person}?", "When is the...?", "What " + "very " * 60 + "long thing is it?", "[]", "{", '["',
        "12 34?", "The rehearsal is on Friday.", "When is the rehearsal.",
    ],
)  # fmt: skip
def test_lines_that_are_no_question_are_dropped(written: str) -> None:
    assert parse(written, 9) == []


def test_a_question_in_a_script_without_blanks_is_one() -> None:
    assert parse("1. 练习是什么时候？2. 谁带蛋糕？", 9) == ["练习是什么时候？", "谁带蛋糕？"]


def test_a_colon_or_a_time_within_a_question_stays() -> None:
    assert parse("- What is at 10:30 on 3. May?", 9) == ["What is at 10:30 on 3. May?"]


def test_brackets_without_end_are_read_as_lines() -> None:
    assert parse("[" * 10_000 + '"]\nWhen is the rehearsal?', 9) == TWO[:1]


@given(
    st.text(max_size=400)
    | st.lists(st.sampled_from([*FORMS.values(), "\x00", "\n", "[", '"']), max_size=6).map("".join)
)
def test_whatever_was_written_gives_short_clean_distinct_questions(written: str) -> None:
    found = parse(written, 50)
    assert all(one.isprintable() and len(one) <= LONGEST + 1 and one.endswith(("?", "？")) for one in found)
    assert len({normalise(one) for one in found}) == len(found)


@given(
    st.recursive(
        st.text(max_size=30) | st.none() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=8,
    )
)
def test_any_json_can_be_read(value: object) -> None:
    assert isinstance(parse(json.dumps(value), 9), list)
