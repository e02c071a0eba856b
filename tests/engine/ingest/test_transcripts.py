"""Every form of transcript gives its turns, speakers, times, title and date, without losing a word."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.transcripts import may_be_transcript, read_transcripts
from engine.ingest.types import ParseLimits, UnreadableItem
from store.types import Document, ParsedItem
from tests.effort import examples

TURNS = [("Ann Lee", "Shall we begin?"), ("Bob", "Yes: at 10:30."), ("Ann Lee", "Good."), ("Ann Lee", "Next.")]


def reading(name: str, text: str | bytes, limits: ParseLimits | None = None) -> ParsedItem:
    return read_transcripts(name, text if isinstance(text, bytes) else text.encode(), limits or ParseLimits())[0]


def document(name: str, text: str | bytes) -> Document:
    found = reading(name, text).document
    assert found
    return found


def said(document: Document) -> list[tuple[str | None, float | None, str]]:
    return [(passage.speaker, passage.at, passage.text) for passage in document.passages]


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


def test_an_unknown_date_is_none() -> None:
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
    with pytest.raises(UnreadableItem):
        reading("a.txt", raw)


def test_prose_in_a_subtitle_file_is_not_lost() -> None:
    assert said(document("a.srt", "Nobody timed this.\n")) == [(None, None, "Nobody timed this.")]


def test_a_json_beyond_the_limit_is_cut_between_turns() -> None:
    found = reading(
        "a.json", forms([("Ann", "one"), ("Bob", "two"), ("Ann", "three")])["json"], ParseLimits(text_chars=20)
    )
    assert found.document
    assert found.document.text == "Ann: one\nBob: two"
    assert found.problem == "read up to 20 characters only"


def test_text_beyond_the_limit_is_named() -> None:
    found = reading("a.txt", "Ann: Hello.\n" * 100, ParseLimits(text_chars=600))
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
    assert may_be_transcript(name, head) is is_one


@given(
    st.binary(max_size=400) | st.text(max_size=300).map(str.encode), st.sampled_from(["txt", "vtt", "srt", "json", ""])
)
@examples(300)
def test_any_bytes_are_read_or_unreadable(raw: bytes, suffix: str) -> None:
    try:
        found = document(f"a.{suffix}", raw)
    except UnreadableItem:
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
