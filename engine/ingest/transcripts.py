"""Transcripts into documents: format, title, date, turns. Whisper's JSON is read here, the rest by sibling modules.

Given the name and content of a file; opens none.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import accumulate, groupby
from pathlib import PurePosixPath

from engine.ingest.dialogue import (
    ChatMessage,
    Lines,
    chat_cues,
    dialogue_cues,
    exported_messages,
    heading,
    heads_attendees,
    is_chat,
    is_export,
    merge_cues,
    separate_cues,
    split_head,
    with_speakers,
)
from engine.ingest.headers import clean, decode_text, tidy
from engine.ingest.html import html_text, is_page
from engine.ingest.subtitles import Cue, cues, header_title, is_subtitles, name_above
from engine.ingest.types import ZONE_HOURS, ParseLimits, UnreadableItem, content_id, in_users_zone, item_or_bug
from engine.text.dates import ENGLISH_MONTH, MONTHS
from store.types import LONGEST_SPEAKER, Document, DocumentPassage, ParsedItem

# Dates in titles, first lines and file names, with their times. engine.text.dates has no clock times.

_NAME = rf"(?P<name>{ENGLISH_MONTH})\b\.?"
_YEAR, _MONTH, _DAY = r"(?P<year>(?:19|20)\d\d)", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_DATES = [
    re.compile(rf"(?<!\d){pattern}(?!\d)", re.IGNORECASE)
    for pattern in (
        rf"{_YEAR}(?P<sep>[-/._]){_MONTH}(?P=sep){_DAY}",
        rf"{_DAY}(?:st|nd|rd|th)?[ -]+(?:of +)?{_NAME},?[ -]+{_YEAR}",
        rf"\b{_NAME} +{_DAY}(?:st|nd|rd|th)?,? +{_YEAR}",
        rf"{_DAY}\.{_MONTH}\.{_YEAR}",
        rf"{_MONTH}/{_DAY}/{_YEAR}",
        r"(?P<year>(?:19|20)\d\d)(?P<month>[01]\d)(?P<day>[0-3]\d)",
    )
]
_TIME = re.compile(
    r"(?<![\d:])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?(?:[:.](?P<second>\d\d)(?:\.\d+)?)? ?(?P<half>[ap])\.?m\b\.?"
    r"|(?<![\d:])(?P<hour24>\d{1,2}):(?P<minute24>\d\d)(?::(?P<second24>\d\d)(?:\.\d+)?)?",
    re.IGNORECASE,
)
_STAMP = re.compile(r"[-_ T]*(?P<hour>[0-2]\d)[-_.:h]?(?P<minute>[0-5]\d)(?:[-_.:m]?(?P<second>[0-5]\d))?(?!\d)")
# A bare offset must follow seconds, else 10:00-11:00 would contain one.
_OFFSET = re.compile(
    r"(?:\b(?:UTC|GMT)|(?<=:\d\d:\d\d)|(?<=\.\d\d\d)) ?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?\b"
)
FLOATING = timezone(timedelta(0), "floating")  # of a date without a zone: its day is as written
_ZONE = re.compile(rf"\b(?:{'|'.join(ZONE_HOURS)}|UTC|GMT)\b|(?<=\d)Z\b")
_FILLER = re.compile(
    r"\b(?:date|when|time|on|at|of|from|recorded|held|start(?:ed)?|mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?"
    r"|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?|o'clock|hrs?)\b",
    re.IGNORECASE,
)


def date_line(line: str) -> datetime | None:
    """Return the date of a line that contains nothing else; None for any other line."""
    found = _split_date(line) if len(line) <= 120 else None
    if found is None:
        return None
    rest = _ZONE.sub("", _OFFSET.sub(" ", found[1]))
    more = len(_TIME.findall(rest)) > 1 or re.search(r"\w", _FILLER.sub("", _TIME.sub(" ", rest)))
    return None if more else _with_time(*found)


def date_within(line: str) -> datetime | None:
    """Return the first date in a line, with the first time of day."""
    found = _split_date(line[:300])
    return _with_time(*found) if found else None


def date_in_name(name: str) -> datetime | None:
    """Return the date in a file's name, with the time that follows it, if any."""
    if (match := _find_date(name)) is None or (day := _to_date(match)) is None:
        return None
    stamp = _STAMP.match(name, match.end())
    if stamp and int(stamp["hour"]) < 24:
        day = day.replace(tzinfo=UTC) if name[: match.start()].endswith("GMT") else day
        return day.replace(hour=int(stamp["hour"]), minute=int(stamp["minute"]), second=int(stamp["second"] or 0))
    return day


def without_date(name: str) -> str:
    """Return a file's name without its date and time."""
    if (match := _find_date(name)) is None:
        return name
    stamp = _STAMP.match(name, match.end())
    return f"{name[: match.start()].removesuffix('GMT')} {name[stamp.end() if stamp else match.end() :]}"


def _find_date(text: str) -> re.Match[str] | None:
    found = (match for pattern in _DATES if (match := pattern.search(text)) and _to_date(match))
    return next(found, None)


def _split_date(line: str) -> tuple[datetime, str] | None:
    """Return the first date in a line, and the line without it."""
    if (match := _find_date(line)) is None or (day := _to_date(match)) is None:
        return None
    return day, f"{line[: match.start()]} {re.sub(r'^T(?=[0-9])', '', line[match.end() :])}"


def _to_date(match: re.Match[str]) -> datetime | None:
    parts = match.groupdict()
    month = MONTHS.index(parts["name"][:3].lower()) + 1 if parts.get("name") else int(parts["month"])
    try:
        return datetime(int(parts["year"]), month, int(parts["day"]), tzinfo=FLOATING)
    except ValueError:  # no such day
        return None


def _with_time(day: datetime, rest: str) -> datetime:
    if (time := _TIME.search(rest)) is None:
        return day
    hour = int(time["hour"] or time["hour24"])
    if time["half"]:
        hour = hour % 12 + (12 if time["half"].lower() == "p" else 0)
    minute, second = int(time["minute"] or time["minute24"] or 0), int(time["second"] or time["second24"] or 0)
    try:
        return day.replace(hour=hour, minute=minute, second=second, tzinfo=_zone(rest))
    except ValueError:  # no such time
        return day


def _zone(rest: str) -> timezone:
    if match := _OFFSET.search(rest):
        shift = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        shift = -shift if match["sign"] == "-" else shift
    else:
        named = _ZONE.search(rest)
        if named is None:
            return FLOATING
        shift = timedelta(hours=ZONE_HOURS.get(named[0], 0))
    return timezone(shift) if shift and abs(shift) < timedelta(hours=24) else UTC


# Front matter: title and date in the first lines.

_MOST = 8  # lines that may be front matter
_LONG = 160  # characters: longer lines are no titles
_WHEN = re.compile(r"\W*(?:date|when|time)\b", re.IGNORECASE)
_TITLE = re.compile(r"(?:title|meeting|subject|topic)[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE)
_ENDINGS = re.compile(r"(?:\.(?:vtt|srt|sbv|json|txt|html?|md|markdown|text|transcript|[a-z]{2}))+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Title and date from the first lines of a text, and the other lines."""

    title: str
    date: datetime | None
    rest: Lines


def front_matter(lines: Lines) -> FrontMatter:
    """Return the title and date in the first lines; lines that contain nothing else are removed from the rest."""
    title, date, taken = "", None, set[int]()
    filled = [place for place, (_, line) in enumerate(lines[:200]) if line.strip()][:_MOST]
    for place in filled:
        line, after = lines[place][1].strip(), lines[place + 1][1] if place + 1 < len(lines) else ""
        named = _TITLE.match(line.strip("*"))
        if (found := date_line(line.strip("*# "))) and date is None:
            date = found
        elif len(line) > _LONG:
            break
        elif not title and (mark := heading(line) or (named and named[1])):
            if name_above(mark) or [other for _, other in lines].count(line) > 1:  # the name of a speaker
                break
            title = mark
        elif not title and taken.issuperset(filled[: filled.index(place)]) and _is_title(line, after):
            title = line
        elif _WHEN.match(line):
            date = date or date_within(line)
            continue
        elif split_head(line):
            break
        else:
            continue
        taken.add(place)
    rest = [pair for place, pair in enumerate(lines) if place not in taken]
    return FrontMatter(title, date or date_within(title), rest)


def _is_title(line: str, after: str) -> bool:
    alone = not after.strip() or date_line(after.strip()) is not None or heads_attendees(after)
    shaped = len(line.split()) <= 12 and line[0] not in "-*[" and line[-1] not in ".?!:,;]"
    return alone and shaped and not split_head(line) and not name_above(line)


def title_from_name(file: str) -> str:
    """Return a title made of a file's name, without its date and endings."""
    stem = _ENDINGS.sub("", file)
    words = re.sub(r"[_\W]+", " ", without_date(stem)).strip()
    return words or stem


# Whisper's JSON, in the forms of openai-whisper, whisper.cpp, WhisperX and others.

_LISTS = ("segments", "transcription", "utterances", "chunks")
_WHISPER_START = re.compile(
    r'"(?:segments|transcription|utterances|chunks)"\s*:\s*\[|^\s*\{\s*"text"\s*:\s*"'
    r'|^\s*\[\s*\{\s*"(?:start|end|text|id|speaker)"'
)


def is_whisper(head: str) -> bool:
    """Return whether a JSON file looks like output of Whisper, judging by its first characters."""
    return bool(_WHISPER_START.search(head.lstrip("\ufeff")))


def whisper_cues(text: str) -> list[Cue]:
    """Return one cue per segment, or per run of words of one speaker; raises UnreadableItem for other JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise UnreadableItem("broken JSON") from None
    cues = [cue for segment in _segments(data) for cue in _segment_cues(segment)]
    if not cues and isinstance(data, dict):
        cues = list(_segment_cues(data))
    if not cues:
        raise UnreadableItem("JSON without the segments of a transcript")
    return cues


def _segments(data: object) -> Iterator[Mapping[str, object]]:
    lists = [data] if isinstance(data, list) else []
    if isinstance(data, dict):
        lists = [data[key] for key in _LISTS if isinstance(data.get(key), list)][:1]
    for segment in lists[0] if lists else []:
        if isinstance(segment, dict):
            yield segment


def _segment_cues(segment: Mapping[str, object]) -> Iterator[Cue]:
    at, until = _times(segment)
    said, words = _text(segment.get("text")), _words(segment.get("words"))
    speakers = list(dict.fromkeys(word.speaker for word in words if word.speaker))
    all_said = _without_spaces(said) == _without_spaces("".join(word.text for word in words))
    # Words replace their segment only if they add something: several speakers, or any text.
    if words and (not said or (len(speakers) > 1 and all_said)):
        for _, group in groupby(words, key=lambda word: word.speaker):
            run = list(group)
            yield Cue(" ".join(word.text for word in run), 1, 1, run[0].speaker, run[0].at, run[-1].until)
    elif said:
        yield Cue(said, 1, 1, _text(segment.get("speaker")) or (speakers[0] if speakers else None), at, until)


def _words(value: object) -> list[Cue]:
    """Return a cue per word; a word without a speaker (a number, a sign) takes that of the word before."""
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


def _without_spaces(text: str) -> str:
    return "".join(text.split())


# The document.

_SUBTITLES, _TEXTS = frozenset({".vtt", ".srt", ".sbv"}), frozenset({".txt", ".md", ".markdown", ".text"})
_PAGES = frozenset({".html", ".htm"})
_ATTENDEES = 1000


def may_be_transcript(name: str, head: str) -> bool:
    """Return whether a file may be a transcript, from its name and first characters."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix == ".json":
        return is_whisper(head)
    if suffix in _SUBTITLES or is_subtitles(head):
        return True
    return suffix in _TEXTS | _PAGES and _is_prose(head)


def read_transcripts(name: str, raw: bytes, limits: ParseLimits) -> list[ParsedItem]:
    """Return the transcripts in a file: one, or one a day of an exported chat; raises UnreadableItem."""
    text, offset = _text_of(name, raw, limits)
    lines = list(enumerate(text.split("\n"), 1))
    is_json = PurePosixPath(name).suffix.lower() == ".json"
    if is_json or not is_export(lines) or not (messages := exported_messages(lines)):
        return [_read_one(name, text, offset, limits)]
    days = [list(day) for _, day in groupby(messages, key=lambda message: message.sent.date())]
    title = next((one.group for one in messages if one.group), "") or title_from_name(PurePosixPath(name).name)
    return [item_or_bug(item, partial(_read_day, item, title, lines, day, limits)) for item, day in enumerate(days)]


def _text_of(name: str, raw: bytes, limits: ParseLimits) -> tuple[str, int | None]:
    """Return the text of a file, and 0 where its lines are those of the file."""
    if len(raw) > limits.file_bytes:
        raise UnreadableItem(f"larger than {limits.file_bytes >> 20} MB")
    text = _decoded(raw)
    if PurePosixPath(name).suffix.lower() not in _PAGES and not is_page(text):
        return text, 0
    if not (shown := html_text(text)).strip():
        raise UnreadableItem("empty")
    return shown, None


def _read_day(item: int, title: str, lines: Lines, day: Sequence[ChatMessage], limits: ParseLimits) -> ParsedItem:
    """Return the messages of one day as a document, so that "tomorrow" in them is the day after."""
    before = day[0].first - 1
    text = "\n".join(line for _, line in lines[before : day[-1].last])
    problem = None if len(text) <= limits.text_chars else _cut_problem(limits)
    cut = text[: limits.text_chars].count("\n") + 1
    turns = [
        DocumentPassage(one.text, one.first - before, one.last - before, "body", one.speaker)
        for one in day
        if one.text and one.last - before <= cut
    ]
    document = _document("", text[: limits.text_chars], turns, title, day[0].sent.replace(tzinfo=FLOATING))
    return ParsedItem(item, document, before, problem)


def _read_one(name: str, text: str, offset: int | None, limits: ParseLimits) -> ParsedItem:
    if PurePosixPath(name).suffix.lower() == ".json":
        return _read_json(name, text, limits)
    cut = len(text) if len(text) <= limits.text_chars else text.rfind("\n", 0, limits.text_chars)
    problem = None if cut == len(text) else _cut_problem(limits)
    return ParsedItem(0, _read_text(name, text[: cut if cut > 0 else limits.text_chars]), offset, problem)


def _read_json(name: str, text: str, limits: ParseLimits) -> ParsedItem:
    turns = [
        replace(turn, first=line, last=line)
        for line, turn in enumerate(merge_cues(with_speakers(whisper_cues(text))), 1)
    ]
    lines = [f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text for turn in turns]
    kept = sum(chars <= limits.text_chars for chars in accumulate(len(line) + 1 for line in lines))
    problem = None if kept == len(lines) else _cut_problem(limits)
    return ParsedItem(0, _document(name, "\n".join(lines[:kept]), turns[:kept], "", None), None, problem)


def _read_text(name: str, text: str) -> Document:
    lines = text.split("\n")
    numbered = list(enumerate(lines, 1))
    if is_subtitles(text[:2000]) or PurePosixPath(name).suffix.lower() in _SUBTITLES:
        shown = cues(lines)
        if shown or lines[0].startswith("WEBVTT"):
            return _document(name, text, merge_cues(with_speakers(shown)), header_title(lines), None)
    if is_chat(numbered):
        return _document(name, text, separate_cues(chat_cues(numbered)), "", None)
    front = front_matter(numbered)
    return _document(name, text, merge_cues(dialogue_cues(front.rest)), front.title, front.date)


def _cut_problem(limits: ParseLimits) -> str:
    return f"read up to {limits.text_chars} characters only"


def _decoded(raw: bytes) -> str:
    if not raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) and raw.count(0, 0, 4096) * 4 > len(raw[:4096]):
        raise UnreadableItem("not a text")
    wide = raw.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff"))
    text = raw.decode("utf-32", "replace") if wide else decode_text(raw)
    # Only the line ends of the file may end a line, so that line numbers match.
    text = tidy(text.removeprefix("\ufeff").replace("\u2028", " ").replace("\u2029", " "))
    if not text.strip():
        raise UnreadableItem("empty")
    return text


def _is_prose(head: str) -> bool:
    letters = sum(letter.isalpha() or letter.isspace() for letter in head[:4000])
    return "\0" not in head and letters >= 0.4 * len(head[:4000])


def _on_its_clock(date: datetime) -> datetime:
    """Return a date in the zone it was written in; in the user's, where that is unknown or the UTC of a machine."""
    if date.tzinfo is FLOATING:
        return in_users_zone(date)
    return date if date.utcoffset() else date.astimezone()


def _speaker(name: str | None) -> str | None:
    return clean(name or "")[:LONGEST_SPEAKER].rstrip(": ") or None


def _document(name: str, text: str, turns: Sequence[DocumentPassage], title: str, date: datetime | None) -> Document:
    turns = [replace(turn, speaker=_speaker(turn.speaker)) for turn in turns]
    file = PurePosixPath(name).name
    title, date = title or title_from_name(file), date or date_in_name(file)
    speakers = list(dict.fromkeys(turn.speaker for turn in turns if turn.speaker))
    return Document(
        # The same in every zone of a user.
        id=content_id("transcript", title, date.isoformat() if date else "", text),
        kind="transcript",
        title=title,
        sender="",
        recipients=tuple(speakers[:_ATTENDEES]),
        date=date and _on_its_clock(date),
        message_id=None,
        text=text,
        passages=tuple(turns),
    )
