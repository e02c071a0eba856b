"""Every form of transcript gives its turns, speakers, times, title and date, and loses no word."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.ingest.limits import Limits, Unreadable
from engine.ingest.transcripts import read_transcript, sniff
from store.records import Document, Passage, Reading

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TURNS = [("Ann Lee", "Shall we begin?"), ("Bob", "Yes: at 10:30."), ("Ann Lee", "Good."), ("Ann Lee", "Next.")]


def reading(name: str, text: str | bytes, limits: Limits | None = None) -> Reading:
    return read_transcript(name, text if isinstance(text, bytes) else text.encode(), NOW, limits or Limits())


def document(name: str, text: str | bytes) -> Document:
    found = reading(name, text).document
    assert found
    return found


def said(document: Document) -> list[tuple[str | None, float | None, str]]:
    return [(passage.speaker, passage.at, passage.text) for passage in document.passages]


def words(passages: tuple[Passage, ...]) -> Counter[str]:
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
    assert sniff("call.txt", text)
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


def stamp(value: int) -> str:
    return f"00:00:{value:02}.000"


def forms(turns: list[tuple[str, str]]) -> dict[str, str]:
    spoken = [f"{speaker}: {text}" for speaker, text in turns]
    cues = [f"{stamp(place)} --> {stamp(place + 1)}\n{text}\n" for place, text in enumerate(spoken)]
    segments = [{"start": place, "end": place + 1, "text": f" {text}"} for place, text in enumerate(spoken)]
    return {
        "vtt": "WEBVTT\n\n" + "\n".join(cues),
        "srt": "\n".join(f"{number}\n{cue.replace('.000', ',000')}" for number, cue in enumerate(cues, 1)),
        "json": json.dumps({"text": " ".join(spoken), "segments": segments}),
        "txt": "\n".join(spoken),
    }


@pytest.mark.parametrize("form", ["vtt", "srt", "json", "txt"])
def test_the_forms_of_one_call_give_the_same_turns(form: str) -> None:
    found = document(f"call_2024-05-03.{form}", forms(TURNS)[form])
    assert [(passage.speaker, passage.text) for passage in found.passages] == [*TURNS[:2], ("Ann Lee", "Good. Next.")]
    assert found.recipients == ("Ann Lee", "Bob")
    assert (found.title, found.date) == ("call", datetime(2024, 5, 3, tzinfo=UTC))
    assert reading(f"call.{form}", forms(TURNS)[form]).offset == (None if form == "json" else 0)


def test_the_lines_of_a_json_transcript_are_those_of_its_decoded_text() -> None:
    found = document("call.json", forms(TURNS)["json"])
    lines = found.text.split("\n")
    assert [lines[passage.first - 1] for passage in found.passages] == [
        f"{passage.speaker}: {passage.text}" for passage in found.passages
    ]


def test_a_long_pause_ends_a_turn_and_so_do_a_hundred_words() -> None:
    cues = [(0, "one"), (1, "two"), (40, "three"), (41, "word " * 99), (42, "four")]
    text = "WEBVTT\n\n" + "\n".join(f"{stamp(at)} --> {stamp(at + 1)}\n<v Ann>{said}\n" for at, said in cues)
    assert [(passage.at, len(passage.text.split())) for passage in document("a.vtt", text).passages] == [
        (0, 2),
        (40, 100),
        (42, 1),
    ]


def test_a_first_line_with_a_date_is_a_date_and_no_turn() -> None:
    found = document("session_01.txt", "1:56 pm on 8 May, 2023\nAnn: Hello.\nBob: Hi.\n")
    assert (found.title, found.date) == ("session 01", datetime(2023, 5, 8, 13, 56, tzinfo=UTC))
    assert [(passage.text, passage.first) for passage in found.passages] == [("Hello.", 2), ("Hi.", 3)]


def test_a_title_line_is_a_title_and_its_date_the_date() -> None:
    found = document("x.txt", "Sync with Ann (2024-05-03 10:00 GMT+2)\n\nAnn: Hello.\nBob: Hi.\n")
    assert found.title == "Sync with Ann (2024-05-03 10:00 GMT+2)"
    assert found.date == datetime(2024, 5, 3, 8, tzinfo=UTC)


def test_the_range_of_a_meetings_time_is_not_lost() -> None:
    found = document("x.md", "# Sync\nWhen: 3 May 2024, 19:00-20:00\n\nAnn came.\n")
    assert found.date == datetime(2024, 5, 3, 19, tzinfo=UTC)
    assert "20:00" in found.passages[0].text


def test_an_unknown_date_is_none_and_the_files_time_is_no_date() -> None:
    found = document("call.txt", "Ann: Hello.\nBob: Hi.\n")
    assert (found.title, found.date) == ("call", None)


def test_a_recorders_file_name_gives_title_and_date() -> None:
    found = document("GMT20240503-170000_Team-sync.transcript.vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n")
    assert (found.title, found.date) == ("Team sync", datetime(2024, 5, 3, 17, tzinfo=UTC))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings_and_line_ends_give_the_same_document(encoding: str) -> None:
    text = "Zoë: Grüße aus Köln.\nBob: Schön, daß Sie da sind.\n"
    plain, other = document("a.txt", text), document("a.txt", text.replace("\n", "\r\n").encode(encoding))
    assert (other.id, other.passages) == (plain.id, plain.passages)


def test_a_document_is_known_by_its_content() -> None:
    one, copy = document("a_2024-05-03.txt", "Ann: Hello."), document("b/a_2024-05-03.txt", "Ann: Hello.")
    assert copy.id == one.id
    assert len({one.id, document("b_2024-05-03.txt", "Ann: Hello.").id, document("a.txt", "Ann: Hello!").id}) == 3


@pytest.mark.parametrize("raw", [b"", b" \n\t\n", bytes(5000), b"\x89PNG\r\n\x1a\n" + bytes(900)])
def test_what_is_no_text_is_unreadable(raw: bytes) -> None:
    with pytest.raises(Unreadable):
        reading("a.txt", raw)


def test_prose_in_a_subtitle_file_is_not_lost() -> None:
    assert said(document("a.srt", "Nobody timed this.\n")) == [(None, None, "Nobody timed this.")]


def test_a_json_beyond_the_limit_is_cut_between_turns() -> None:
    found = reading("a.json", forms([("Ann", "one"), ("Bob", "two"), ("Ann", "three")])["json"], Limits(text_chars=20))
    assert found.document
    assert found.document.text == "Ann: one\nBob: two"
    assert found.problem == "read up to 20 characters only"


def test_text_beyond_the_limit_is_named() -> None:
    found = reading("a.txt", "Ann: Hello.\n" * 100, Limits(text_chars=600))
    assert found.document
    assert found.problem == "read up to 600 characters only"
    assert found.document.passages[-1].last == 50


@pytest.mark.parametrize(
    ("name", "head", "is_one"),
    [
        ("a.vtt", "", True),
        ("a.SRT", "1\n00:00", True),
        ("a", "WEBVTT\n", True),
        ("a.md", "# Notes\nWe met.", True),
        ("a.txt", "1,2,3,4\n5,6,7,8\n9,10,11", False),
        ("a.json", '{"dependencies": {}}', False),
        ("a.json", '{"segments": [', True),
        ("a.py", "import re", False),
    ],
)
def test_files_are_taken_for_transcripts_by_name_and_beginning(name: str, head: str, is_one: bool) -> None:
    assert sniff(name, head) is is_one


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
@settings(max_examples=400, deadline=None)
def test_any_lines_give_passages_on_their_lines_in_order(lines: list[str], suffix: str) -> None:
    try:
        found = document(f"a.{suffix}", "\n".join(lines))
    except Unreadable:
        return
    last = found.text.count("\n") + 1
    places = [(passage.first, passage.last) for passage in found.passages]
    assert all(1 <= first <= end <= last for first, end in places)
    assert places == sorted(places)
    assert all(passage.text.strip() for passage in found.passages)
    assert set(found.recipients) == {passage.speaker for passage in found.passages if passage.speaker}


@given(LINES)
@settings(max_examples=400, deadline=None)
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
    consumed = words((Passage(f"{found.title} Cy Date May Title 日本", 1, 1),))
    assert not (lost - heads).keys() - consumed.keys()


@given(
    st.binary(max_size=400) | st.text(max_size=300).map(str.encode), st.sampled_from(["txt", "vtt", "srt", "json", ""])
)
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_read_or_unreadable(raw: bytes, suffix: str) -> None:
    try:
        found = document(f"a.{suffix}", raw)
    except Unreadable:
        return
    assert found.kind == "transcript"
    assert found.date is None or found.date.utcoffset() is not None


def test_all_real_files_are_read(shared: Path) -> None:
    folders = ["torture/subs", "torture/replies", "zoom", "locomo/conv-26", "qmsum/icsi-Bro"]
    files = [path for folder in folders for path in (shared / "data" / folder).rglob("*") if path.is_file()]
    texts = [path for path in files if path.parent.name == "docs" or "torture" in path.parts]
    assert len(texts) > 100
    for path in texts:
        assert reading(path.name, path.read_bytes()).problem is None


def test_real_calls_keep_their_speakers_and_days(shared: Path) -> None:
    path = shared / "data/zoom/focil/docs/focil_2026-08-04_039.srt"
    found = document(path.name, path.read_bytes())
    assert found.recipients == ("Justin Traglia", "Jihoon", "Nico Flaig", "Fabio Di Fabio", "Mehdi Aouadi", "Marc")
    assert found.date
    assert found.date - datetime(2026, 8, 4, tzinfo=UTC) == timedelta()
