"""JSON and tables give who, when and what by their values, and other data is no transcript."""

# ruff: noqa: E501 - a text a line

import json
from pathlib import Path

import pytest

from tests.engine.ingest.json_layouts import CHATS, SILENT, SPEAKERS
from tests.engine.ingest.layout_checks import check_captions, check_messages, check_turns, documents, turns


@pytest.mark.parametrize("layout", SPEAKERS)
def test_json_of_turns_gives_speakers_times_and_words(tmp_path: Path, layout: str) -> None:
    check_turns(tmp_path, layout, SPEAKERS)


@pytest.mark.parametrize("layout", CHATS)
def test_json_of_messages_gives_speakers_words_and_the_day(tmp_path: Path, layout: str) -> None:
    check_messages(tmp_path, layout, CHATS)


@pytest.mark.parametrize("layout", SILENT)
def test_json_without_speakers_gives_each_word_once(tmp_path: Path, layout: str) -> None:
    check_captions(tmp_path, layout, SILENT)


OTHER = {
    "package": {"name": "x", "version": "1.0", "description": "A library that paints", "authors": [{"name": "Mia Torres", "email": "a@x"}]},
    "tasks": [{"userId": n // 4, "id": n, "title": f"paint wall number {n} again", "completed": n % 2 == 0} for n in range(20)],
    "goods": [
        {"id": n, "text": f"A lamp with {n} arms for the hall", "kind": ["Garden Tools", "Kitchen"][n % 2], "price": n * 37 % 50, "brand": "Acme", "size": 3}
        for n in range(20)
    ],
    "bookmarks": {"children": [{"added": str(13300000000000000 + n), "id": str(n), "name": f"A page about sheds {n}"} for n in range(8)]},
    "lock": {"packages": [{"name": f"pkg-{n}", "version": f"1.{n}", "requires": ["a"]} for n in range(30)]},
    "reviews": [
        {"id": n, "author": ["Ann Lee", "Bob Roy", "Eve Poe"][n % 3], "title": f"The boat of year {n}", "text": f"I read the book number {n} in one night."}
        for n in range(20)
    ],
    "points": [{"t": n * 0.1, "value": n * n, "label": "a b c"} for n in range(50)],
}  # fmt: skip


@pytest.mark.parametrize("kind", OTHER)
def test_other_json_is_no_transcript(tmp_path: Path, kind: str) -> None:
    assert documents(tmp_path, "json", json.dumps(OTHER[kind])) == []


def test_a_table_with_seconds_is_a_transcript_and_one_with_days_is_none(tmp_path: Path) -> None:
    rows = "".join(f'{turn.name},{turn.at},{turn.end},"{turn.text}"\n' for turn in turns())
    (found,) = documents(tmp_path, "csv", f"Wer,Von,Bis,Was\n{rows}")
    assert [(one.speaker, one.at) for one in found.passages] == [(turn.name, turn.at) for turn in turns()]
    bank = "".join(f"2026-03-0{n},Shop number {n} in town,{n * 3}.50\n" for n in range(1, 9))
    assert documents(tmp_path, "csv", f"day,text,amount\n{bank}") == []


@pytest.mark.parametrize("head", ["id,customer,item,price", "group,name,notes,year"])
def test_a_table_that_tells_no_times_is_no_transcript(tmp_path: Path, head: str) -> None:
    people = ("Ann Lee", "Bob Roy", "Eve Poe")
    rows = [(f"{n}", people[n % 3], f"The boat number {n} with a new sail", 900 - n) for n in range(1, 25)]
    rows = rows if head.startswith("id") else [("Family", *row[1:]) for row in rows]
    text = "".join(f"{','.join(map(str, row))}\n" for row in rows)
    assert documents(tmp_path, "csv", f"{head}\n{text}") == []
