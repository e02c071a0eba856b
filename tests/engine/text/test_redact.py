"""Masks: no digit, address or known name is left, the same text has the same mask, and no mask tells what it hides."""

import re

from hypothesis import example, given
from hypothesis import strategies as st

from engine.text.redact import Redactor

MASK = re.compile(r"\[(?:address|phone|number|person|message)-\d+\]")
PARTS = (
    *(
        "ann@example.org",
        "a.b+c@x-y.co.uk",
        "@",
        "+49 (30) 1234-567",
        "030/1234567",
        "2024-05-14",
        "19:30",
        "DE89 3704",
    ),
    *("Ann Lee", "ann", "LEE", "B2", "x_1", "٣٤", ".", ",", " ", " to ", "\n", "(", ")", "<", ">", "é", "日本", "…"),
)
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=30).map("".join)


def redactor() -> Redactor:
    made = Redactor("/home/ann")
    made.learn("Ann Lee <ann@example.org>")
    return made


@given(TEXTS)
@example("+49 (30) 1234-567…ann@example.org")
@example("19:30…ann@example.org")
def test_no_digit_address_or_known_name_is_left(text: str) -> None:
    left = MASK.sub("", redactor().text(text))
    assert re.search(r"\d", left) is None
    assert "ann@example.org" not in left
    assert re.search(r"(?<!\w)(?:Ann|Lee|LEE)(?!\w)", left) is None


@given(TEXTS, st.data())
def test_a_part_of_a_text_is_found_where_it_is_now(text: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(text)))
    last = data.draw(st.integers(first, len(text)))
    masked, span = redactor().spanned(text, (first, last))
    assert span is not None
    begin, end = span
    assert 0 <= begin <= end <= len(masked)
    if masked == text:
        assert span == (first, last)


@given(TEXTS)
def test_masks_do_not_depend_on_what_they_hide(text: str) -> None:
    renamed = text.translate(str.maketrans("1234567890", "2345678901"))
    if "2024-05-14" not in text and "DE" not in text:  # where other digits make no date
        assert redactor().text(renamed) == redactor().text(text)


def test_the_same_text_has_the_same_mask_everywhere() -> None:
    masks = redactor()
    assert masks.text("Write to ann@example.org or Ann@Example.org.") == "Write to [address-1] or [address-1]."
    assert masks.person("Ann Lee <ann@example.org>") == "[person-1] <[address-1]>"
    assert masks.text("Call +49 30 1234567 or 49301234567 by 19:30") == "Call [phone-1] or [phone-1] by [number-1]"
    assert masks.text("Ann Lee asked Ben. Ann paid 19:30") == "[person-1] asked Ben. [person-1] paid [number-1]"
    assert masks.text("an ann of ours") == "an ann of ours"
    assert masks.person("Ben") == "[person-2]"
    assert (masks.message_id("1@x"), masks.message_id("2@x"), masks.message_id("1@x")) == (
        "[message-1]", "[message-2]", "[message-1]",
    )  # fmt: skip
    assert masks.path("/home/ann/Mail/7.eml") == "~/Mail/[number-2].eml"
    assert masks.path("/home/annabel/x") == "/home/annabel/x"


def test_what_is_highlighted_stays_so() -> None:
    masked, span = redactor().spanned("Ann Lee is at ann@example.org on 3 May", (14, 29))
    assert span is not None
    assert (masked, masked[slice(*span)]) == ("[person-1] is at [address-1] on [number-1] May", "[address-1]")


def test_long_texts_take_linear_time() -> None:
    for text in ("a" * 200_000, "1-" * 100_000 + "a", "a@" * 100_000, "Ann " * 50_000, "(" * 200_000, "." * 200_000):
        redactor().text(text)
