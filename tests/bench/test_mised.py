"""Dialogs in the form in which MISeD publishes them become meetings, and the queries that stand alone a stream."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.files import read
from engine.ingest.types import ParseLimits
from tests.bench import mised
from tests.bench.corpus import Query

SEGMENTS = (
    {"text": "Shall we begin?", "speakerName": "Head"},
    {"text": "The jetty  is\ngreen.", "speakerName": "Crew"},
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


def turn(query: str, response: str = "It is green.", **marks: bool) -> dict[str, Any]:
    """Make a turn as proto3 writes one: what is false or zero is left out."""
    return {
        "query": query,
        "response": response,
        "responseAttribution": {"indexRanges": [{"startIndex": 1, "endIndex": 1}, {}]},
        "queryMetadata": {"queryType": "QUERY_TYPE_SPECIFIC", **marks},
    }


def row(meeting: str, turns: Sequence[object], segments: Sequence[object] = SEGMENTS) -> dict[str, Any]:
    """Make one line of the set."""
    meant = {"meetingId": meeting, "transcriptSegments": list(segments)}
    return {"dialogId": f"{meeting}-1", "meeting": meant, "dialog": {"dialogTurns": list(turns)}}


def put(file: Path, *rows: object) -> None:
    """Write a file of the set; what is text already stands as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows), "utf-8")


def test_a_meeting_is_a_user_and_its_dialogs_are_one_stream(tmp_path: Path) -> None:
    put(tmp_path / "in/mised/train.jsonl", row("B1", [turn("Which jetty?")]), row("A2", [turn("What colour?")]))
    put(tmp_path / "in/woz/woz.jsonl", row("B1", [turn("Is it green?", "Yes."), turn("Which jetty?")]))
    one, other = mised.users(tmp_path / "in", tmp_path / "out")
    assert (one.name, other.name) == ("A2", "B1")
    assert other.folders == (tmp_path / "out/B1/docs",)
    document = frozenset(("docs/B1.txt",))
    assert other.queries == (Query("Which jetty?", "It is green.", document), Query("Is it green?", "Yes.", document))


def test_a_query_that_depends_on_the_dialog_is_not_asked(tmp_path: Path) -> None:
    put(tmp_path / "in/a.jsonl", row("A", [turn("Why is that?", isContextDependent=True), turn("What colour?")]))
    (user,) = mised.users(tmp_path / "in", tmp_path / "out")
    assert [query.text for query in user.queries] == ["What colour?"]


def test_a_query_without_an_answer_has_none_whatever_the_response_says() -> None:
    line = json.dumps(row("A", [turn("Who pays?", "That was not discussed.", isUnanswerable=True)]))
    assert mised.dialog(line).queries == (Query("Who pays?", "", frozenset()),)


def test_the_transcript_is_ingested_with_its_speakers(tmp_path: Path) -> None:
    said = [*SEGMENTS, {"text": "Ten: past nine."}, {"speakerName": "Head"}, {"text": "Bye.", "speakerName": "PhD: C"}]
    put(tmp_path / "in/a.jsonl", row("ES/2a", [turn("What colour?")], said))
    (user,) = mised.users(tmp_path / "in", tmp_path / "out")
    (reading,) = read(user.folders[0] / "ES_2a.txt", None, ParseLimits())
    assert reading.problem is None
    assert reading.document is not None
    assert [(one.speaker, one.text) for one in reading.document.passages] == [
        ("Head", "Shall we begin?"),
        ("Crew", "The jetty is green."),
        ("Unknown", "Ten: past nine."),
        ("PhD C", "Bye."),
    ]


def test_a_bad_line_is_named_and_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in/a.jsonl"
    put(file, "{", "", row("A", [turn("What colour?")]), row("B", [{"response": "Secret."}]), row("C", [], []))
    assert [user.name for user in mised.users(tmp_path / "in", tmp_path / "out")] == ["A"]
    assert capsys.readouterr().err.splitlines() == [
        f"{file}, line 1: skipped: not JSON",
        f"{file}, line 4: skipped: no text in query",
        f"{file}, line 5: skipped: no transcript",
    ]


def test_a_dialog_on_another_transcript_of_the_same_meeting_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "in/a.jsonl", row("A", [turn("What colour?")]), row("A", [turn("Who pays?")], SEGMENTS[:1]))
    (user,) = mised.users(tmp_path / "in", tmp_path / "out")
    assert [query.text for query in user.queries] == ["What colour?"]
    assert "1 dialogs on other transcripts" in capsys.readouterr().err


def test_without_files_there_is_no_user(tmp_path: Path) -> None:
    assert mised.users(tmp_path / "nowhere", tmp_path / "out") == []


@given(st.text() | JUNK.map(json.dumps))
def test_whatever_a_line_holds_it_is_a_dialog_or_a_value_error(line: str) -> None:
    try:
        found = mised.dialog(line)
    except ValueError:
        return
    assert found.transcript != ""


@given(JUNK, JUNK, JUNK, JUNK)
def test_whatever_fields_hold_the_line_is_a_dialog_or_a_value_error(
    name: object, segment: object, marks: object, response: object
) -> None:
    asked = {"query": "What colour?", "response": response, "queryMetadata": marks}
    made = row("A", [asked], [*SEGMENTS, segment])
    made["meeting"]["meetingId"] = name
    try:
        found = mised.dialog(json.dumps(made))
    except ValueError:
        return
    assert "/" not in found.meeting
    assert all(": " in line for line in found.transcript.splitlines())
