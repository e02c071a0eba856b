"""Turns that programs write in their own layouts come back, each with its speaker, time and words."""

# ruff: noqa: E501 - a text a line

from pathlib import Path

import pytest

from engine.ingest.transcripts import cues
from tests.engine.ingest.layout_checks import (
    EXPECTED,
    check_captions,
    check_messages,
    check_turns,
    documents,
    of_turns,
    spoken,
    turns,
)
from tests.engine.ingest.layouts import CHATS, SILENT, SPEAKERS, UNTIMED


@pytest.mark.parametrize("layout", SPEAKERS)
def test_a_layout_of_turns_gives_speakers_times_and_words(tmp_path: Path, layout: str) -> None:
    check_turns(tmp_path, layout, SPEAKERS)


@pytest.mark.parametrize("layout", CHATS)
def test_a_layout_of_messages_gives_speakers_words_and_the_day(tmp_path: Path, layout: str) -> None:
    check_messages(tmp_path, layout, CHATS)


@pytest.mark.parametrize("layout", UNTIMED)
def test_a_layout_without_seconds_gives_speakers_and_words(tmp_path: Path, layout: str) -> None:
    ending, write = UNTIMED[layout]
    found = of_turns(spoken(documents(tmp_path, ending, write(turns()))))
    expected = [(who.split()[0].lower() if layout == "handles" else who, text) for who, _, text in EXPECTED]
    assert [(one[0], one[2]) for one in found] == expected


@pytest.mark.parametrize("layout", SILENT)
def test_captions_give_each_word_once_with_its_second(tmp_path: Path, layout: str) -> None:
    check_captions(tmp_path, layout, SILENT)


def weeks(form: str) -> str:
    return "# Notes\n\n" + "".join(form.format(n=n) for n in range(1, 7))


PROSE = {
    "minutes of weeks": ("md", weeks("## Week {n}\n\n### Roof\n\nIt has {n} holes.\n\n### Cellar\n\nIt is {n} feet deep.\n\n")),
    "lists under headings": ("md", weeks("## Roof\n\n- it has {n} holes\n\n## Cellar\n\n- it is {n} feet deep\n\n")),
    "lists under bold lines": ("md", weeks("**Roof**\n\n- it has {n} holes\n\n**Cellar**\n\n- it is {n} feet deep\n\n")),
    "programme": ("txt", weeks("Day {n}\n\n10:30 Coffee - in the foyer\n11:00 Talk - in the hall\n12:30 Lunch - outside\n\n")),
    "timetable": ("txt", weeks("10:30 Coffee\n11:00 Talk\n12:30 Lunch\n\n")),
    "lessons": ("txt", "".join(f"{n + 8:02}:00 {('Maths', 'English', 'Music')[n % 3]} - room {n}\n" for n in range(9))),
    "opening hours": ("txt", "Monday - 9:00\nTuesday - 10:00\nMonday - 14:00\nTuesday - 15:00\n"),
    "changes": ("md", weeks("- [Fix] The door number {n} closes\n- [New] A window number {n} for the cats\n")),
    "tasks": ("md", weeks("- [x] buy {n} litres of paint\n- [X] call the plumber again\n- [ ] sell the old bike\n")),
    "prices": ("txt", weeks("Apples | {n} | 4\nPears | {n} | 5\n")),
    "log": ("txt", weeks("2026-03-04 10:3{n}:00 INFO part {n} began\n2026-03-04 10:3{n}:30 WARN part {n} is slow\n")),
    "diary": ("txt", "2026-03-04, 10:30: Met Mia: she was fine.\n\nWe walked.\n\n2026-03-05, 11:00: Rain.\n\nNothing else.\n"),
    "poem": ("txt", "The rain, it falls,\nthe rain, it calls,\nand I, I wait\nbehind the gate,\nand I, I sing\nof everything.\n"),
}  # fmt: skip


@pytest.mark.parametrize("kind", PROSE)
def test_what_comes_back_in_prose_is_no_speaker(tmp_path: Path, kind: str) -> None:
    assert {who for who, _, _ in spoken(documents(tmp_path, *PROSE[kind]))} == {""}


def test_an_arrow_in_speech_is_speech() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nfrom the old --> to the new hall\n10:30 --> is when we leave\n"
    assert [(cue.text, cue.at) for cue in cues(text.split("\n"))] == [
        ("from the old --> to the new hall 10:30 --> is when we leave", 1.0)
    ]


def test_growing_captions_are_read_once() -> None:
    said = [
        "we have",
        "we have sold",
        "we have sold ninety",
        "ninety tickets and",
        "tickets and the hall",
        "the hall is full",
    ]
    blocks = [f"00:00:0{n}.000 --> 00:00:0{n + 1}.000\n{text}\n" for n, text in enumerate(said)]
    found = cues("\n".join(["WEBVTT", "", *blocks]).split("\n"))
    assert " ".join(cue.text for cue in found) == "we have sold ninety ninety tickets and the hall is full"


def test_messages_of_any_locale_keep_their_other_lines(tmp_path: Path) -> None:
    text = "4/3/2569 09:29 - Mia: One\n- two\n\nthree: four\n4/3/2569 09:30 - Jonas: Five\n5/3/2569 00:01 - Mia: Six\n"
    found = documents(tmp_path, "txt", text)
    assert [(one.speaker, one.text) for document in found for one in document.passages] == [
        ("Mia", "One\n- two\n\nthree: four"),
        ("Jonas", "Five"),
        ("Mia", "Six"),
    ]
    assert [document.date.isoformat()[:10] for document in found if document.date] == ["2026-03-04", "2026-03-05"]


def test_the_messengers_first_words_are_nobodys_in_any_language(tmp_path: Path) -> None:
    text = "[04/03/2026, 09:29:05] Clube: \u200eAs mensagens são protegidas.\n[04/03/2026, 09:30:00] Mia: Olá\n"
    (found,) = documents(tmp_path, "txt", text)
    assert (found.title, [one.speaker for one in found.passages]) == ("Clube", [None, "Mia"])


def test_lines_above_the_first_message_are_kept(tmp_path: Path) -> None:
    text = "Guild: Club\nChannel: shed\n\n" + "".join(
        f"[3/4/2026 9:3{n} AM] {who}\nWords {n}\n\n" for n, who in enumerate(["mia", "jonas"] * 3)
    )
    (found,) = documents(tmp_path, "txt", text)
    assert [one.speaker for one in found.passages] == [None, *["mia", "jonas"] * 3]
