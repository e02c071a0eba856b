"""Sentence boundaries and speakers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.text.words import sentences, speaker_label

PIECES = [
    "Ann: ",
    "Mr. ",
    "e.g. ",
    "3.5 ",
    "U.S. ",
    "yes",
    "No",
    "? ",
    "! ",
    ". ",
    "... ",
    "。",
    "！",
    "\n",
    "\n\n",
    "- ",
    "5 p.m. ",
    "(",
    '"',
]


def said(text: str) -> list[str]:
    return [text[span.start : span.end] for span in sentences(text)]


def test_a_full_stop_before_a_capital_ends_a_sentence() -> None:
    assert said("We met. It rained! Did it? Yes.") == ["We met.", "It rained!", "Did it?", "Yes."]


def test_a_title_does_not_end_a_sentence() -> None:
    assert said("Ask Mr. Weiss or Dr. J. Smith. They know.") == ["Ask Mr. Weiss or Dr. J. Smith.", "They know."]


def test_a_decimal_an_address_and_a_country_do_not_end_a_sentence() -> None:
    assert said("It is 3.5 km. See http://a.b/c.html now. The U.S. Senate met.") == [
        "It is 3.5 km.",
        "See http://a.b/c.html now.",
        "The U.S. Senate met.",
    ]


def test_a_time_of_day_ends_a_sentence_only_before_a_capital() -> None:
    assert said("Be there at 5 p.m. sharp. I come at 6 p.m. Bring it.") == [
        "Be there at 5 p.m. sharp.",
        "I come at 6 p.m.",
        "Bring it.",
    ]


def test_an_ellipsis_before_a_small_letter_goes_on() -> None:
    assert said("Well... maybe later. Or... Never.") == ["Well... maybe later.", "Or...", "Never."]


def test_a_closing_quote_belongs_to_its_sentence() -> None:
    assert said('She said "Go." Then he left.') == ['She said "Go."', "Then he left."]


def test_chinese_stops_need_no_blank() -> None:
    assert said("今天下雨。明天呢？好！") == ["今天下雨。", "明天呢？", "好！"]


def test_a_wrapped_line_of_mail_continues_on_the_next() -> None:
    text = "In December I attended the conference in Oslo, where I met\nthe people from the institute.  They were kind."
    assert said(text) == [text.split("  ")[0], "They were kind."]


def test_a_short_line_ends_a_sentence() -> None:
    assert said("Best regards\nMartha\nRoom 12") == ["Best regards", "Martha", "Room 12"]


def test_each_item_of_a_list_is_a_sentence() -> None:
    text = "We need these things for the rehearsal on Saturday evening:\n- two drums, and a carrier\n2. a van"
    assert said(text)[1:] == ["- two drums, and a carrier", "2. a van"]


def test_a_blank_line_ends_a_sentence() -> None:
    assert len(said("This line is long enough to have been wrapped by a mailer\n\nand this is another paragraph")) == 2


def test_a_turn_names_its_speaker_and_leaves_the_name_out() -> None:
    text = "Ann: Hi there. All well?\nProject Manager: Yes."
    assert [(span.speaker, text[span.start : span.end]) for span in sentences(text)] == [
        ("Ann", "Hi there."),
        ("Ann", "All well?"),
        ("Project Manager", "Yes."),
    ]


def test_turns_are_numbered() -> None:
    assert [span.turn for span in sentences("Ann: One. Two.\nBen: Three.")] == [0, 0, 1]


def test_lines_before_any_turn_have_no_speaker() -> None:
    assert [span.speaker for span in sentences("It rained.\nAnn: It did.\nReally.")] == [None, "Ann", "Ann"]


def test_a_name_with_a_riding_in_brackets_is_a_speaker_label() -> None:
    assert speaker_label("The Chair (Hon. Anna Vey (North, Lib.)): Order.") == (
        "The Chair (Hon. Anna Vey (North, Lib.))",
        41,
    )


def test_words_before_a_colon_are_no_speaker_label() -> None:
    assert speaker_label("we agreed on this: never") is None


def test_a_web_address_is_no_speaker_label() -> None:
    assert speaker_label("http://example.org/page") is None


def test_nothing_has_no_sentences() -> None:
    assert sentences(" \n\t\n") == []


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_sentences_are_in_order_and_do_not_overlap(text: str) -> None:
    spans = sentences(text)
    assert all(span.start < span.end for span in spans)
    assert all(before.end <= after.start for before, after in pairwise(spans))


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_only_white_space_and_the_names_of_speakers_are_left_out(text: str) -> None:
    left, at = list[str](), 0
    for span in sentences(text):
        left.append(text[at : span.start])
        at = span.end
    rest = [line for part in (*left, text[at:]) for line in part.splitlines() if line.strip()]
    assert [line for line in rest if speaker_label(line.lstrip("\n") + " x") is None] == []


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_sentences_have_no_blanks_around_them(text: str) -> None:
    assert all(part == part.strip() for part in said(text))


def test_a_german_day_of_a_month_does_not_end_a_sentence() -> None:
    assert said("Abgabe ist der 30. Juni. Bis dann!") == ["Abgabe ist der 30. Juni.", "Bis dann!"]


def test_no_is_an_abbreviation_only_before_a_number() -> None:
    assert said("See No. 5 there. The reply is no. We go.") == ["See No. 5 there.", "The reply is no.", "We go."]


def test_a_bold_name_is_a_speaker() -> None:
    assert [(span.speaker, span.start) for span in sentences("**Ann Vey:** It is off.")] == [("Ann Vey", 13)]


def test_a_line_does_not_run_into_a_heading_that_had_room_in_it() -> None:
    text = f"Present were Ann Vey, Ben Orr, Cy Dole and all of their many cousins\nMoney\n{'word ' * 30}"
    assert said(text)[1] == "Money"
