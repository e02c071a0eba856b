"""Subtitle cues keep every word, with its speaker, time and lines."""

from collections import Counter
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path

import pysubs2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.dialogue import Cue, seconds
from engine.ingest.transcripts import cues, is_subtitles, read_transcripts
from engine.ingest.types import ParseLimits
from tests.effort import examples

VTT = """WEBVTT - Weekly sync
X-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:900000

NOTE
nobody says this

STYLE
::cue { color: red }

REGION
id:here

intro
00:01.000 --> 00:02.500 align:start
<v Ann Lee>Hello &amp; <i>welcome</i></v>

00:00:02.500 --> 00:00:03.000
<v.loud Bob>Hi</v> <v Ann Lee>again, <c.red>a</c> < b</v>
"""


def read(text: str) -> list[Cue]:
    return cues(text.split("\n"))


def test_webvtt_gives_words_voices_times_and_lines_without_markup() -> None:
    assert read(VTT) == [
        Cue("Hello & welcome", 15, 15, "Ann Lee", 1.0, 2.5),
        Cue("Hi", 18, 18, "Bob", 2.5, 3.0),
        Cue("again, a < b", 18, 18, "Ann Lee", 2.5, 3.0),
    ]


def test_the_title_behind_webvtt_is_found() -> None:
    for text, title in ((VTT, "Weekly sync"), (VTT.replace(" - Weekly sync", ""), "a")):
        (item,) = read_transcripts("a.vtt", text.encode(), ParseLimits())
        assert item.document
        assert item.document.title == title


def test_subrip_may_lack_numbers_and_use_dots() -> None:
    text = "00:00:01,000 --> 00:00:02,000\nOne\n\n00:00:02.500 --> 00:00:03.000\n<b>Two</b> {\\an8}three\n"
    assert read(text) == [Cue("One", 2, 2, None, 1.0, 2.0), Cue("Two three", 5, 5, None, 2.5, 3.0)]


def test_an_empty_line_inside_a_subrip_cue_loses_nothing() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nOne\n\nstill one\n\n2\n00:00:03,000 --> 00:00:04,000\nTwo\n"
    assert [(cue.text, cue.first, cue.last) for cue in read(text)] == [("One still one", 3, 5), ("Two", 9, 9)]


def test_overlapping_cues_stay_in_the_order_of_the_file() -> None:
    text = "1\n00:00:05,000 --> 00:00:09,000\nlate\n\n2\n00:00:01,000 --> 00:00:08,000\nearly\n"
    assert [(cue.text, cue.at) for cue in read(text)] == [("late", 5.0), ("early", 1.0)]


def test_a_cue_with_a_broken_time_keeps_its_words() -> None:
    text = "soon --> later\nstill here"
    assert [(cue.text, cue.at) for cue in read(f"WEBVTT\n\n{text}\n")] == [("soon --> later still here", None)]


def test_sbv_is_read() -> None:
    text = "0:00:00.599,0:00:04.160\nHello\nthere\n\n0:00:04.160,0:00:06.770\nyou\n"
    assert read(text) == [Cue("Hello there", 2, 3, None, 0.599, 4.16), Cue("you", 6, 6, None, 4.16, 6.77)]


def test_lines_that_live_captions_show_again_are_said_once() -> None:
    text = (
        "WEBVTT\n\n00:00.100 --> 00:02.000\n \nhello<00:00:00.480><c> my</c><c> friends</c>\n\n"
        "00:02.000 --> 00:02.010\nhello my friends\n \n\n"
        "00:02.010 --> 00:04.000\nhello my friends\nand<00:00:02.480><c> others</c>\n"
    )
    assert " ".join(cue.text for cue in read(text)) == "hello my friends and others"


def test_a_repeated_line_of_ordinary_captions_is_said_twice() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nYes.\n\n2\n00:00:02,000 --> 00:00:03,000\nYes.\n"
    assert [cue.text for cue in read(text)] == ["Yes.", "Yes."]


def test_words_in_angle_brackets_that_are_no_markup_are_kept() -> None:
    assert read("WEBVTT\n\n00:01.000 --> 00:02.000\nwell <laughs> a<b\n")[0].text == "well <laughs> a<b"


@pytest.mark.parametrize(
    ("clock", "value"), [("00:00:01.500", 1.5), ("01:02", 62.0), ("1:00:00,25", 3600.25), ("60:00", 3600.0)]
)
def test_clocks_are_read_in_seconds(clock: str, value: float) -> None:
    assert seconds(clock) == value


def test_prose_is_no_subtitle_file() -> None:
    assert not is_subtitles("Ann: hello\nBob: 10:30 --> 11:00 is free\n")
    assert is_subtitles("WEBVTT\n")
    assert is_subtitles("\n1\n00:00:01,000 --> 00:00:02,000\nHello\n")
    assert is_subtitles("0:00:00.599,0:00:04.160\nHello\n")


@dataclass(frozen=True, slots=True)
class Said:
    """What a generated cue says."""

    lines: list[str]
    start: int
    length: int
    speaker: str | None


WORDS = st.lists(
    st.sampled_from(["hello", "wörld", "12:30", "a<b", "R&D", "日本語", "x.", "->"]), min_size=1, max_size=5
)
SAID = st.builds(  # each begins with a number: beginnings that come back are speakers, or captions that roll
    Said,
    st.lists(WORDS.map(" ".join), min_size=1, max_size=3),
    st.integers(0, 20_000),
    st.integers(0, 30),
    st.sampled_from([None, "Ann Lee", "Bob"]),
)


def numbered(said: list[Said]) -> list[Said]:
    return [replace(one, lines=[f"n{at} {one.lines[0]}", *one.lines[1:]]) for at, one in enumerate(said)]


def clock(value: int, mark: str) -> str:
    return f"{value // 3600:02}:{value // 60 % 60:02}:{value % 60:02}{mark}000"


@given(st.lists(SAID, min_size=1, max_size=8), st.booleans(), st.sampled_from(["", "7\n", "name\n", "NOTE a b\n\n9\n"]))
@examples(100)
def test_webvtt_says_what_was_written_into_it(said: list[Said], gap: bool, before: str) -> None:
    blocks, said = [], numbered(said)
    for cue in said:
        text = "\n".join(cue.lines).replace("&", "&amp;").replace("<", "&lt;")
        voice = f"<v {cue.speaker}>" if cue.speaker else ""
        blocks.append(f"{before}{clock(cue.start, '.')} --> {clock(cue.start + cue.length, '.')}\n{voice}{text}\n")
    found = read("WEBVTT\n\n" + ("\n\n" if gap else "\n").join(blocks))
    assert [cue.text for cue in found] == [" ".join(" ".join(cue.lines).split()) for cue in said]
    assert [(cue.speaker, cue.at) for cue in found] == [(cue.speaker, cue.start) for cue in said]


@given(
    st.lists(SAID, min_size=1, max_size=8), st.booleans(), st.sampled_from([",", "."]), st.sampled_from(["\n", "\n\n"])
)
@examples(100)
def test_subrip_says_what_was_written_into_it(said: list[Said], counted: bool, mark: str, gap: str) -> None:
    text, said = "", numbered(said)
    for number, cue in enumerate(said, 1):
        times = f"{clock(cue.start, mark)} --> {clock(cue.start + cue.length, mark)}"
        text += (f"{number}\n" if counted else "") + f"{times}\n" + "\n".join(cue.lines) + "\n" + gap
    found = read(text)
    assert [cue.text for cue in found] == [" ".join(cue.lines) for cue in said]
    lines = text.split("\n")
    assert [" ".join(lines[cue.first - 1 : cue.last]) for cue in found] == [cue.text for cue in found]


@given(st.text(st.sampled_from("<>v/c. \n-:0123456789,&;abWEBVTNO{}\\"), max_size=300))
@examples(300)
def test_any_text_gives_cues_on_its_own_lines(text: str) -> None:
    for head in ("", "WEBVTT\n\n", "00:00:01,000 --> 00:00:02,000\n"):
        lines = (head + text).split("\n")
        for cue in cues(lines):
            assert cue.text.strip()
            assert 1 <= cue.first <= cue.last <= len(lines)


def test_real_files_lose_no_word_that_pysubs2_finds(shared: Path) -> None:
    files = [*shared.glob("data/zoom/*/docs/*.vtt"), *shared.glob("data/zoom/*/docs/*.srt")]
    files += [shared / "data/torture/subs/pysrt/bom-utf-8.srt", shared / "data/torture/subs/pysrt/no-indexes.srt"]
    files += [shared / "data/torture/subs/webvtt-wpt" / f"{name}.vtt" for name in ("settings-align", "regions-lines")]
    for file in files:
        text = file.read_text("utf-8-sig")
        oracle = pysubs2.SSAFile.from_string(text, format_=file.suffix[1:])
        expected = Counter(unescape(" ".join(event.plaintext for event in oracle)).split())
        found = Counter(" ".join(cue.text for cue in read(text)).split())
        assert found == expected, file.name


def test_captions_of_few_words_that_come_back_are_all_read() -> None:
    said = ["hello", "hello", "hello hello", "hello hello", "No, not now.", "No, never.", "Yes, you do.", "Yes, we do."]
    found = read(
        "WEBVTT\n\n" + "\n\n".join(f"00:00:0{at}.000 --> 00:00:0{at}.900\n{one}\n" for at, one in enumerate(said))
    )
    assert [(cue.speaker, cue.text) for cue in found] == [(None, one) for one in said]
