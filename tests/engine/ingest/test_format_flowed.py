"""format=flowed text: soft line breaks are joined and nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.mime import unflow


@pytest.mark.parametrize(
    ("flowed", "text"),
    [
        ("one \ntwo\nthree", "one two\nthree"),
        ("> a \n> b\n>> c", "> a b\n>> c"),
        (" >not a quote", ">not a quote"),
        (" From here", "From here"),
        ("body \n-- \nAnn", "body \n-- \nAnn"),
        ("> a \nb", "> a\nb"),
        ("a\n\nb", "a\n\nb"),
    ],
)
def test_soft_line_ends_join(flowed: str, text: str) -> None:
    assert unflow(flowed, delete_space=False) == text


def test_the_soft_space_can_be_no_part_of_the_text() -> None:
    assert unflow("日本 \n語", delete_space=True) == "日本語"


@given(st.text(alphabet="a> \n-", max_size=100), st.booleans())
def test_no_word_is_lost(text: str, delete_space: bool) -> None:
    assert unflow(text, delete_space).count("a") == text.count("a")
