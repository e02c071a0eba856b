"""Output of models is parsed leniently, and the streamed text only grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.generate import ParsedAnswer, parse, visible

FRIDAY = "Friday at 6pm"
PIECES = (
    " Friday", "at 6pm", "[1]", "[", "]", "(", ")", "[1, 3]", "(source 2)", "\n", "Sources: 1, 2", "not found", "Not",
    "Answer:", "<think>", "</think>", "**", ".", "12", "source", " ", "<", "and", "é", "星期五", "No.", "[n]",
)  # fmt: skip


@pytest.mark.parametrize(
    ("written", "cited"),
    [
        (" Friday at 6pm [2]\n", (2,)),
        ("Friday at 6pm", ()),
        ("Friday at 6pm [1][3]", (1, 3)),
        ("Friday at 6pm [1, 3]", (1, 3)),
        ("Friday at 6pm [1] [1]", (1,)),
        ("Friday at 6pm [2-4]", (2, 3, 4)),
        ("[2] Friday at 6pm", (2,)),
        ("Friday at 6pm [[2]]", (2,)),
        ("Friday at 6pm [Source 2]", (2,)),
        ("Friday at 6pm [message 1, 2 and 3]", (1, 2, 3)),
        ("Friday at 6pm (source 2)", (2,)),
        ("Friday at 6pm (see messages 2 and 3)", (2, 3)),
        ("Friday at 6pm\nSources: 1, 2", (1, 2)),
        ("Friday at 6pm\n\nSource: [4].", (4,)),
        ("**Answer:** Friday at 6pm [2]", (2,)),
        ("answer: Friday at 6pm", ()),
        ("<think>\nIt was [7].\n</think>\n\nFriday at 6pm [2]", (2,)),
    ],
)
def test_the_answer_and_its_numbers_are_found_in_the_ways_models_write_them(
    written: str, cited: tuple[int, ...]
) -> None:
    assert parse(written) == ParsedAnswer(FRIDAY, cited)


def test_a_number_in_the_midst_of_an_answer_leaves_its_sentence_whole() -> None:
    assert parse("Friday [2], or Saturday [1].") == ParsedAnswer("Friday, or Saturday.", (2, 1))


def test_a_number_in_parentheses_is_part_of_the_answer() -> None:
    assert parse("the answer to all (42) [1]") == ParsedAnswer("the answer to all (42)", (1,))


@pytest.mark.parametrize(
    "written",
    [
        "not found", " Not found.\n", "**Not found**", "Answer: not found", "not-found: the messages do not say",
        "Not found. The messages speak of March.", "They do not say when. Not found.", "", " \n",
        "<think>It may be Friday.",
    ],
)  # fmt: skip
def test_not_found_and_nothing_are_no_answer(written: str) -> None:
    assert parse(written) == ParsedAnswer(None, ())


def test_a_number_alone_is_no_answer_and_keeps_its_number() -> None:
    assert parse(" [2]\n") == ParsedAnswer(None, (2,))


@pytest.mark.parametrize("written", ["The key was not found in the shed [1]", "Nothing is left [1]", "not founded yet"])
def test_an_answer_that_only_speaks_of_finding_is_one(written: str) -> None:
    assert parse(written).answer is not None


def test_a_range_without_end_does_not_fill_the_memory() -> None:
    assert len(parse("all of it [1-999]").cited) == 999


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=30))
def test_what_is_shown_only_grows_and_ends_as_the_answer(pieces: list[str]) -> None:
    written, shown = "", ""
    for piece in pieces:
        written += piece
        more = visible(written)
        assert more.startswith(shown)
        shown = more
    whole = visible(written, done=True)
    assert whole.startswith(shown)
    assert parse(written).answer in (None, whole)


@given(st.text())
def test_no_text_breaks_the_parser(written: str) -> None:
    assert all(number >= 0 for number in parse(written).cited)


def test_nothing_is_shown_while_it_may_still_become_not_found() -> None:
    assert [visible(text) for text in (" no", " not fo", " not founded")] == ["", "", "not founded"]
