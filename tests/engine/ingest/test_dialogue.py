"""Plain-text transcripts of every form: turns, speakers and times, without losing a word."""

import re
from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.transcripts import may_be_transcript, read_transcripts
from engine.ingest.types import ParseLimits, UnreadableItem
from store.types import Document, DocumentPassage
from tests.effort import examples


def document(name: str, text: str) -> Document:
    found = read_transcripts(name, text.encode(), ParseLimits())[0].document
    assert found
    return found


def said(document: Document) -> list[tuple[str | None, float | None, str]]:
    return [(passage.speaker, passage.at, passage.text) for passage in document.passages]


def words(passages: tuple[DocumentPassage, ...]) -> Counter[str]:
    return Counter(re.findall(r"\w+", " ".join(f"{passage.speaker or ''} {passage.text}" for passage in passages)))


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("Ann Lee: Hello.\nBob: Hi: you.\n", [("Ann Lee", None, "Hello."), ("Bob", None, "Hi: you.")]),
        ("**Ann Lee:** Hello.\n**Bob**: Hi.\n", [("Ann Lee", None, "Hello."), ("Bob", None, "Hi.")]),
        ("- **Ann:** Hello.\n- Bob: Hi.\n", [("Ann", None, "Hello."), ("Bob", None, "Hi.")]),
        ("[00:12:03] Ann: Hello.\n[00:12:10] Bob: Hi.\n", [("Ann", 723, "Hello."), ("Bob", 730, "Hi.")]),
        ("Ann (00:12): Hello.\nBob [01:00:00]: Hi.\n", [("Ann", 12, "Hello."), ("Bob", 3600, "Hi.")]),
        ("00:00:12 Ann: Hello.\n0:15 Bob: Hi.\n", [("Ann", 12, "Hello."), ("Bob", 15, "Hi.")]),
        ("Ann Lee  0:03\nHello.\n\nBob  1:00:02\nHi.\n", [("Ann Lee", 3, "Hello."), ("Bob", 3602, "Hi.")]),
        ("Ann Lee  0:03\n\nHello.\n\nBob  0:09\n\nHi.\n", [("Ann Lee", 3, "Hello."), ("Bob", 9, "Hi.")]),
        ("[Ann Lee] 11:02:09\nHello.\n\n[Bob]\nHi.\n", [("Ann Lee", 39729, "Hello."), ("Bob", None, "Hi.")]),
        ("Ann:\nHello.\nBob:\nHi.\n", [("Ann", None, "Hello."), ("Bob", None, "Hi.")]),
        ("王伟：今天开会。\n李娜：好的。\n", [("王伟", None, "今天开会。"), ("李娜", None, "好的。")]),
        (">> ANN: Hello.\n>> BOB: Hi.\n", [("ANN", None, "Hello."), ("BOB", None, "Hi.")]),
    ],
)
def test_the_forms_of_a_dialogue_give_speakers_and_times(
    text: str, turns: list[tuple[str | None, float | None, str]]
) -> None:
    assert may_be_transcript("call.txt", text)
    assert said(document("call.txt", text)) == turns


def test_names_that_come_back_in_front_of_wrapped_text_are_speakers_and_so_are_their_peers() -> None:
    text = "Ann: word\nword\nword\nBob: word\nword\nword\n" * 3 + "Cy: word\nword\n"
    assert [passage.speaker for passage in document("a.txt", text).passages] == ["Ann", "Bob"] * 3 + ["Cy"]


def test_paragraphs_of_a_block_stay_with_the_name_above_them() -> None:
    text = f"Ann Lee  0:03\n{'word ' * 90}\n\n{'more ' * 90}\n\nBob  1:02\nHi.\n"
    assert [passage.speaker for passage in document("a.txt", text).passages] == ["Ann Lee", "Ann Lee", "Bob"]


def test_a_paragraph_behind_an_empty_line_is_not_the_last_speakers() -> None:
    text = "Ann: I will.\nBob: Good.\n\nThe next meeting is on Friday.\n"
    assert said(document("a.txt", text))[-1] == (None, None, "The next meeting is on Friday.")


def test_markdown_minutes_keep_headings_bullets_and_times_of_day() -> None:
    text = (
        "# Weekly sync\n\nDate: Friday 3 May 2024, 19:00\n\n## Agenda\n"
        "- 10:30 Coffee\n- 11:00 Budget: approved\n\nWe agreed.\nAll of us.\n"
    )
    found = document("notes.md", text)
    assert (found.title, found.date) == ("Weekly sync", datetime(2024, 5, 3, 19, tzinfo=UTC))
    assert [(passage.text, passage.first, passage.last) for passage in found.passages] == [
        ("Agenda", 5, 5),
        ("- 10:30 Coffee", 6, 6),
        ("- 11:00 Budget: approved", 7, 7),
        ("We agreed.\nAll of us.", 9, 10),
    ]


def test_a_word_with_a_colon_in_prose_is_no_speaker() -> None:
    text = "We talked for long.\nOne thing: cake.\nThen we left.\n"
    assert [passage.speaker for passage in document("a.txt", text).passages] == [None]


def test_a_name_above_nothing_is_text() -> None:
    assert words(document("a.txt", "Lunch 12:30\nDinner 18:00\n").passages) == Counter(
        ["Lunch", "12", "30", "Dinner", "18", "00"]
    )


def test_zoom_chat_messages_keep_their_replies_and_other_lines() -> None:
    text = '00:04:36\tAnn Lee:\tgm\r\n00:05:00\tBob | X:\tReplying to "gm"\r\n\r\n hello\r\n'
    text += "00:05:09\tAnn Lee:\tReacted\r\n"
    found = document("2024-05-03_chat.txt", text)
    assert said(found) == [
        ("Ann Lee", 276, "gm"),
        ("Bob | X", 300, 'Replying to "gm"\nhello'),
        ("Ann Lee", 309, "Reacted"),
    ]
    assert [(passage.first, passage.last) for passage in found.passages] == [(1, 1), (2, 4), (5, 5)]


def test_zoom_chat_lines_of_the_older_form_are_read() -> None:
    text = "14:03:22\t From Ann Lee to Everyone:\n\thello all\n14:03:25 From  Bob : old\n"
    text += "14:03:29 From Bo to Ann(Direct Message): psst\n"
    assert [(speaker, text) for speaker, _, text in said(document("chat.txt", text))] == [
        ("Ann Lee", "hello all"),
        ("Bob", "old"),
        ("Bo", "psst"),
    ]


LINES = st.lists(
    st.sampled_from(
        [
            *(
                "",
                "Ann: yes",
                "Bob Ray: no: maybe",
                "**Ann:** ok",
                "- point one",
                "# Head",
                "## Head: two",
                "plain words",
            ),
            *("[00:01] Ann: x", "Ann Lee 0:05", "[Cy] 00:00:09", "10:30 tea", "Ann:", "2024-05-03", "Date: 3 May 2024"),
            *("1", "00:00:01,000 --> 00:00:02,000", "00:00:03.000 --> 00:00:04.000 align:start", "<v Dan>well</v>"),
            *(
                "00:00:01\tAnn:\thi",
                "\tmore",
                "WEBVTT",
                "NOTE x",
                "日本：語。",
                "---",
                "a" * 300,
                "Title: This",
                "  deep",
            ),
        ]
    ),
    max_size=25,
)


@given(LINES, st.sampled_from(["txt", "md", "vtt", "srt", "sbv", "json"]))
@examples(400)
def test_any_lines_give_passages_on_their_lines_in_order(lines: list[str], suffix: str) -> None:
    try:
        found = document(f"a.{suffix}", "\n".join(lines))
    except UnreadableItem:
        return
    last = found.text.count("\n") + 1
    places = [(passage.first, passage.last) for passage in found.passages]
    assert all(1 <= first <= end <= last for first, end in places)
    assert places == sorted(places)
    assert all(passage.text.strip() for passage in found.passages)
    assert set(found.recipients) == {passage.speaker for passage in found.passages if passage.speaker}


@given(LINES)
@examples(400)
def test_plain_text_loses_no_word_but_time_codes_date_and_title(lines: list[str]) -> None:
    text = "\n".join(["Ann: one", "Bob: two", *lines])
    if "-->" in text or "\t" in text:
        return
    found = document("a.txt", text)
    timeless = re.sub(r"(?m)^\[\d\d:\d\d\] |^(Ann Lee) 0:05$|^(\[Cy\]) 00:00:09$", r" \1\2 ", text)
    lost = Counter(re.findall(r"[^\W\d]+", timeless)) - words(found.passages)
    heads = Counter(
        {"Ann": text.count("Ann"), "Bob": text.count("Bob"), "Ray": text.count("Ray"), "Lee": text.count("Lee")}
    )
    consumed = words((DocumentPassage(f"{found.title} Cy Date May Title 日本", 1, 1),))
    assert not (lost - heads).keys() - consumed.keys()
