"""Reads the JSON of Whisper, WhisperX and whisper.cpp into cues; their lines are not the file's."""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby

from engine.ingest.headers import clean
from engine.ingest.limits import Unreadable
from engine.ingest.subtitles import Cue

_LISTS = ("segments", "transcription", "utterances", "chunks")
_KEY = re.compile(
    r'"(?:segments|transcription|utterances|chunks)"\s*:\s*\[|^\s*\{\s*"text"\s*:\s*"'
    r'|^\s*\[\s*\{\s*"(?:start|end|text|id|speaker)"'
)


def is_whisper(head: str) -> bool:
    """Tell whether a JSON file begins as Whisper's does."""
    return bool(_KEY.search(head.lstrip("\ufeff")))


def whisper_cues(text: str) -> list[Cue]:
    """Give one cue per segment, or per run of words of one speaker; raises Unreadable for other JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("broken JSON") from None
    cues = [cue for segment in _segments(data) for cue in _cues(segment)]
    if not cues and isinstance(data, dict):
        cues = list(_cues(data))
    if not cues:
        raise Unreadable("JSON without the segments of a transcript")
    return cues


def _segments(data: object) -> Iterator[Mapping[str, object]]:
    lists = [data] if isinstance(data, list) else []
    if isinstance(data, dict):
        lists = [data[key] for key in _LISTS if isinstance(data.get(key), list)][:1]
    for segment in lists[0] if lists else []:
        if isinstance(segment, dict):
            yield segment


def _cues(segment: Mapping[str, object]) -> Iterator[Cue]:
    at, until = _times(segment)
    said, words = _text(segment.get("text")), _words(segment.get("words"))
    speakers = list(dict.fromkeys(word.speaker for word in words if word.speaker))
    all_said = _letters(said) == _letters("".join(word.text for word in words))
    # Words are trusted over their segment only where they say more: several speakers, or the text at all.
    if words and (not said or (len(speakers) > 1 and all_said)):
        for _, group in groupby(words, key=lambda word: word.speaker):
            run = list(group)
            yield Cue(" ".join(word.text for word in run), 1, 1, run[0].speaker, run[0].at, run[-1].until)
    elif said:
        yield Cue(said, 1, 1, _text(segment.get("speaker")) or (speakers[0] if speakers else None), at, until)


def _words(value: object) -> list[Cue]:
    """Give a cue per word; a word without a speaker (a number, a sign) is the speaker's before it."""
    words = list[Cue]()
    for word in value if isinstance(value, list) else []:
        if isinstance(word, dict) and (text := _text(word.get("word")) or _text(word.get("text"))):
            speaker = _text(word.get("speaker")) or (words[-1].speaker if words else None)
            words.append(Cue(text, 1, 1, speaker, *_times(word)))
    return words


def _times(segment: Mapping[str, object]) -> tuple[float | None, float | None]:
    offsets, stamps = segment.get("offsets"), segment.get("timestamp")
    if isinstance(offsets, dict):  # whisper.cpp counts milliseconds
        return _seconds(offsets.get("from"), 1000), _seconds(offsets.get("to"), 1000)
    if isinstance(stamps, list) and len(stamps) == 2:
        return _seconds(stamps[0]), _seconds(stamps[1])
    return _seconds(segment.get("start")), _seconds(segment.get("end"))


def _seconds(value: object, unit: int = 1) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return round(value / unit, 3)
    return None


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # speakers are numbered in some files
    return clean(value) if isinstance(value, str) else ""


def _letters(text: str) -> str:
    return "".join(text.split())
