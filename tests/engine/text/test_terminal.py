"""Text for a terminal: broken at its width, with nothing lost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.terminal import cells, duration, wrap

STYLE = re.compile(r"\x1b\[[\d;]*m")
WORDS = st.lists(st.text("abcé日本ö,.", min_size=1, max_size=12) | st.just("\x1b[1mbold\x1b[0m"), max_size=30)


@given(WORDS.map(" ".join), st.integers(20, 80), st.sampled_from(["", "    "]))
def test_no_line_is_wider_unless_it_is_one_word(text: str, width: int, indent: str) -> None:
    for line in wrap(text, width, indent).split("\n"):
        seen = STYLE.sub("", line)
        assert cells(seen) <= width or " " not in seen.strip()


@given(st.text("ab \n日\x1b[1m", max_size=80), st.integers(1, 30))
def test_only_white_space_is_added_or_lost(text: str, width: int) -> None:
    assert "".join(wrap(text, width, "  ").split()) == "".join(text.split())


def test_breaks_are_at_blanks_and_between_wide_characters() -> None:
    assert wrap("the concert is on 22 June", 12, "  ") == "the concert\n  is on 22\n  June"
    assert wrap("日本語の文章", 8) == "日本語の\n文章"
    assert wrap("a  b\n\n  c", 20) == "a  b\n\n  c"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (0.00214, "2.1 ms"),
        (0.0426, "43 ms"),
        (7.16, "7.2 s"),
        (42.4, "42 s"),
        (150.0, "2.5 min"),
        (2280.0, "38 min"),
        (4800.0, "1.3 h"),
        (3_600_000.0, "1,000 h"),
        (-5.8, "-5.8 s"),
    ],
)
def test_a_time_stands_with_the_unit_that_fits_it(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
