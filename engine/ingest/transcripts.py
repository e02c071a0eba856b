"""Turns one file into a transcript: which format it is, and the document that comes of it.

The formats are read by subtitles, whisper and dialogue; nothing here opens a file.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b
from itertools import accumulate
from pathlib import PurePosixPath

from engine.ingest.charsets import decode_text, tidy
from engine.ingest.dates import date_in_name
from engine.ingest.dialogue import chat_cues, dialogue_cues, is_chat
from engine.ingest.front import front_of, readable
from engine.ingest.limits import Limits, Unreadable
from engine.ingest.subtitles import cues, header_title, is_subtitles
from engine.ingest.turns import joined, named
from engine.ingest.whisper import is_whisper, whisper_cues
from store.types import Document, Passage, Reading

_SUBTITLES, _TEXTS = frozenset({".vtt", ".srt", ".sbv"}), frozenset({".txt", ".md", ".markdown", ".text"})
_ATTENDEES = 50


def sniff(name: str, head: str) -> bool:
    """Tell from a file's name and beginning whether it may be a transcript."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".json":
        return is_whisper(head)
    if suffix in _SUBTITLES or is_subtitles(head):
        return True
    return suffix in _TEXTS and _is_prose(head)


def read_transcript(name: str, raw: bytes, modified: datetime, limits: Limits) -> Reading:
    """Read one file; `modified` is no meeting's date and is not used. Raises Unreadable."""
    if len(raw) > limits.file_bytes:
        raise Unreadable(f"larger than {limits.file_bytes >> 20} MB")
    text = _decoded(raw)
    if PurePosixPath(name).suffix.lower() == ".json":
        return _read_json(name, text, limits)
    cut = len(text) if len(text) <= limits.text_chars else text.rfind("\n", 0, limits.text_chars)
    problem = None if cut == len(text) else _beyond(limits)
    return Reading(0, _read_text(name, text[: cut if cut > 0 else limits.text_chars]), 0, problem)


def _read_json(name: str, text: str, limits: Limits) -> Reading:
    turns = [replace(turn, first=line, last=line) for line, turn in enumerate(joined(named(whisper_cues(text))), 1)]
    lines = [f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text for turn in turns]
    kept = sum(chars <= limits.text_chars for chars in accumulate(len(line) + 1 for line in lines))
    problem = None if kept == len(lines) else _beyond(limits)
    return Reading(0, _document(name, "\n".join(lines[:kept]), turns[:kept], "", None), None, problem)


def _read_text(name: str, text: str) -> Document:
    lines = text.split("\n")
    numbered = list(enumerate(lines, 1))
    if is_subtitles(text[:2000]) or PurePosixPath(name).suffix.lower() in _SUBTITLES:
        shown = cues(lines)
        if shown or lines[0].startswith("WEBVTT"):
            return _document(name, text, joined(named(shown)), header_title(lines), None)
    if is_chat(numbered):
        return _document(name, text, joined(chat_cues(numbered)), "", None)
    front = front_of(numbered)
    return _document(name, text, joined(dialogue_cues(front.rest)), front.title, front.date)


def _beyond(limits: Limits) -> str:
    return f"read up to {limits.text_chars} characters only"


def _decoded(raw: bytes) -> str:
    if not raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) and raw.count(0, 0, 4096) * 4 > len(raw[:4096]):
        raise Unreadable("not a text")
    wide = raw.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff"))
    text = raw.decode("utf-32", "replace") if wide else decode_text(raw)
    # Only what ends a line of the file may end one here.
    text = tidy(text.removeprefix("\ufeff").replace("\u2028", " ").replace("\u2029", " "))
    if not text.strip():
        raise Unreadable("empty")
    return text


def _is_prose(head: str) -> bool:
    letters = sum(letter.isalpha() or letter.isspace() for letter in head[:4000])
    return "\0" not in head and letters >= 0.4 * len(head[:4000])


def _document(name: str, text: str, turns: Sequence[Passage], title: str, date: datetime | None) -> Document:
    file = PurePosixPath(name).name
    title, date = title or readable(file), date or date_in_name(file)
    speakers = list(dict.fromkeys(turn.speaker for turn in turns if turn.speaker))
    digest = blake2b(digest_size=16)
    for part in ("transcript", title, date.isoformat() if date else "", text):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return Document(
        id=digest.hexdigest(),
        kind="transcript",
        title=title,
        sender="",
        recipients=tuple(speakers[:_ATTENDEES]),
        date=date,
        message_id=None,
        links=(),
        topic=title.casefold(),
        is_reply=False,
        text=text,
        passages=tuple(turns),
    )
