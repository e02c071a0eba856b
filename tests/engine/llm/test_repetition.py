"""Where a generated text begins to repeat itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.llm.repetition import repeats_from, settled

WORDS = st.lists(st.sampled_from(["The", "key", "is", "with", "Gus", "from", "May", ".", "\n", "on"]), max_size=60)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("The key is with Gus. The key is with Gus.", "The key is with Gus. "),
        ("- the key is here\n- the hat is there\n- the key is here\n", "- the key is here\n- the hat is there\n"),
        ("from Ann to Bob, from Ann to Bob, from Ann to Bob,", "from Ann to Bob, from Ann to Bob, "),
        ("From a.b@c.org, May\n | From a.b@c.org, May\n", "From a.b@c.org, May\n "),
        (
            "".join(f"The fair is on {n} May.\n" for n in (4, 5, 6, 7)),
            "".join(f"The fair is on {n} May.\n" for n in (4, 5, 6)),
        ),
        ("yes yes yes yes yes yes", "yes yes yes yes yes "),
    ],
)
def test_what_comes_again_is_found_where_it_begins(text: str, rest: str) -> None:
    start = repeats_from(text)
    assert start is not None
    assert text[:start] == rest


@pytest.mark.parametrize(
    "text",
    [
        "He came. He came. He left.",
        "No, no, no.",
        "The key is with Gus. The key is with Gus since May",
        "At 6.30 pm on Friday, at 6.30 pm on Sunday, at 7 pm on Monday.",
        "1, 2, 3, 4, 5, 6, 7, 8",
    ],
)
def test_an_answer_may_say_short_things_again(text: str) -> None:
    assert repeats_from(text) is None


@given(WORDS)
def test_what_is_shown_grows(found: list[str]) -> None:
    shown = ""
    for count in range(len(found) + 1):
        text = " ".join(found[:count])
        if (start := repeats_from(text)) is not None:
            assert text[:start].startswith(shown) or shown.startswith(text[:start])
            return
        assert settled(text).startswith(shown.rstrip()) or len(settled(text)) < len(shown)
        shown = max(shown, settled(text), key=len)
        assert text.startswith(shown)
