"""Whisper's JSON: its several forms give the same cues, other JSON gives none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.dialogue import Cue
from engine.ingest.records import spoken
from engine.ingest.transcripts import may_be_transcript
from engine.ingest.types import UnreadableItem
from tests.effort import examples

SEGMENTS = [
    {"id": 0, "start": 0.0, "end": 1.5, "text": " Hello there.", "speaker": "SPEAKER_00"},
    {"id": 1, "start": 2, "end": 3, "text": " Hi.", "speaker": "SPEAKER_01"},
]
CUES = [Cue("Hello there.", 1, 1, "SPEAKER_00", 0.0, 1.5), Cue("Hi.", 1, 1, "SPEAKER_01", 2.0, 3.0)]


def cues(text: str) -> list[Cue]:
    return spoken(text).cues


def test_segments_are_cues() -> None:
    text = json.dumps({"text": " Hello there. Hi.", "segments": SEGMENTS, "language": "en"})
    assert may_be_transcript("a.json", text)
    assert cues(text) == CUES


def test_a_bare_list_of_segments_is_read() -> None:
    assert may_be_transcript("a.json", json.dumps(SEGMENTS))
    assert cues(json.dumps(SEGMENTS)) == CUES


def test_whisper_cpp_counts_milliseconds() -> None:
    text = json.dumps({"transcription": [{"offsets": {"from": 500, "to": 2000}, "text": " Hello."}]})
    assert may_be_transcript("a.json", text)
    assert cues(text) == [Cue("Hello.", 1, 1, None, 0.5, 2.0)]


def test_words_of_several_speakers_split_their_segment() -> None:
    words = [
        {"word": "Hello", "start": 0.0, "end": 0.4, "speaker": "A"},
        {"word": "7", "start": 0.5},
        {"word": "times.", "start": 0.6, "end": 0.9, "speaker": "B"},
    ]
    text = json.dumps({"segments": [{"start": 0, "end": 1, "text": " Hello 7 times.", "words": words}]})
    assert cues(text) == [Cue("Hello 7", 1, 1, "A", 0.0, 0.4), Cue("times.", 1, 1, "B", 0.6, 0.9)]


def test_words_that_do_not_say_all_of_a_segment_only_name_its_speaker() -> None:
    words = [{"word": "Hello", "speaker": "A"}, {"word": "times", "speaker": "B"}]
    text = json.dumps({"segments": [{"text": "Hello seven times", "words": words}]})
    assert cues(text) == [Cue("Hello seven times", 1, 1, "A", None, None)]


def test_text_without_segments_is_one_cue() -> None:
    assert cues('{"text": "Only\\n words \\ud800 here"}') == [Cue("Only words here", 1, 1)]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"a": 1}', "null", '{"segments": [1, null, {}]}', '{"segments": ' + "9" * 5000 + "}"],
)
def test_other_json_is_unreadable_and_the_reason_holds_none_of_it(text: str) -> None:
    with pytest.raises(UnreadableItem) as caught:
        cues(text)
    assert str(caught.value) in ("broken JSON", "JSON without the segments of a transcript")


def test_other_json_is_not_taken_for_a_transcript() -> None:
    assert not may_be_transcript("a.json", '{"name": "package", "version": "1.0"}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["text", "start", "end", "words", "word", "speaker", "offsets", "from"]), inner
        )
    ),
    max_leaves=12,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(("text", "segments", "transcription", "words"), JSON)))
@examples(300)
def test_any_json_gives_cues_with_words_and_real_times_or_is_unreadable(data: dict[str, object]) -> None:
    try:
        found = cues(json.dumps(data))
    except UnreadableItem:
        found = []
    for cue in found:
        assert cue.text == " ".join(cue.text.split()) != ""
        assert cue.at is None or 0 <= cue.at < 1e9
