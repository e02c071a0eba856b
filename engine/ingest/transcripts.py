"""Transcripts into documents: format, title, date, turns; sibling modules read what was said in each format.

Given the name and content of a file; opens none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate, groupby
from pathlib import PurePosixPath

from engine.ingest import dialogue
from engine.ingest.headers import FLOATING, clean, date_line, decode_text, find_date, tidy
from engine.ingest.html import html_text, is_page
from engine.ingest.records import spoken
from engine.ingest.subtitles import cues, header_title, is_subtitles, name_above
from engine.ingest.types import ParseLimits, UnreadableItem, content_id, in_users_zone, item_or_bug
from store.types import LONGEST_SPEAKER, Document, DocumentPassage, ParsedItem, replace

# Dates in titles, first lines and file names, with their times.

_STAMP = re.compile(r"[-_ T]*(?P<hour>[0-2]\d)[-_.:h]?(?P<minute>[0-5]\d)(?:[-_.:m]?(?P<second>[0-5]\d))?(?!\d)")


def date_within(line: str) -> datetime | None:
    """Return the first date in a line, with the first time of day."""
    found = find_date(line[:300], FLOATING)
    return found.moment if found else None


def date_in_name(name: str) -> datetime | None:
    """Return the date in a file's name, with the time that follows it, if any."""
    if (found := find_date(name, FLOATING)) is None:
        return None
    day, stamp = found.moment.replace(hour=0, minute=0, second=0, tzinfo=FLOATING), _STAMP.match(name, found.end)
    if stamp and int(stamp["hour"]) < 24:
        day = day.replace(tzinfo=UTC) if name[: found.start].endswith("GMT") else day
        return day.replace(hour=int(stamp["hour"]), minute=int(stamp["minute"]), second=int(stamp["second"] or 0))
    return day


def without_date(name: str) -> str:
    """Return a file's name without its date and time."""
    if (found := find_date(name, FLOATING)) is None:
        return name
    stamp = _STAMP.match(name, found.end)
    return f"{name[: found.start].removesuffix('GMT')} {name[stamp.end() if stamp else found.end :]}"


# Front matter: title and date in the first lines.

_MOST = 8  # lines that may be front matter
_LONG = 160  # characters: longer lines are not titles
_WHEN = re.compile(r"\W*(?:date|when|time)\b", re.IGNORECASE)
_TITLE = re.compile(r"(?:title|meeting|subject|topic)[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE)
_ENDINGS = re.compile(r"(?:\.(?:vtt|srt|sbv|json|txt|html?|md|markdown|text|transcript|[a-z]{2}))+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """Title and date from the first lines of a text, and the other lines."""

    title: str
    date: datetime | None
    rest: dialogue.Lines


def front_matter(lines: dialogue.Lines) -> FrontMatter:
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
        elif not title and (mark := dialogue.heading(line) or (named and named[1])):
            if name_above(mark) or [other for _, other in lines].count(line) > 1:  # the name of a speaker
                break
            title = mark
        elif not title and taken.issuperset(filled[: filled.index(place)]) and _is_title(line, after):
            title = line
        elif _WHEN.match(line):
            date = date or date_within(line)
            continue
        elif dialogue.split_head(line):
            break
        else:
            continue
        taken.add(place)
    rest = [pair for place, pair in enumerate(lines) if place not in taken]
    return FrontMatter(title, date or date_within(title), rest)


def _is_title(line: str, after: str) -> bool:
    alone = not after.strip() or date_line(after.strip()) is not None or dialogue.heads_attendees(after)
    shaped = len(line.split()) <= 12 and line[0] not in "-*[" and line[-1] not in ".?!:,;]"
    return alone and shaped and not dialogue.split_head(line) and not name_above(line)


def title_from_name(file: str) -> str:
    """Return a title made of a file's name, without its date and endings."""
    stem = _ENDINGS.sub("", file)
    words = re.sub(r"[_\W]+", " ", without_date(stem)).strip()
    return words or stem


# The document.

_SUBTITLES, _TEXTS = frozenset({".vtt", ".srt", ".sbv"}), frozenset({".txt", ".md", ".markdown", ".text", ".lrc"})
_PAGES, _TABLES = frozenset({".html", ".htm"}), frozenset({".tsv", ".csv"})
_DATA = _TABLES | {".json", ".jsonl", ".ndjson", ".xml", ".ttml", ".dfxp"}
_LISTS = re.compile(r'\[\s*(?:\{|$)|^\s*\{\s*"text"\s*:\s*"')
_SHORT = 4000  # characters of a file that show whether it has lists
_ATTENDEES = 1000


def may_be_transcript(name: str, head: str) -> bool:
    """Return whether a file may be a transcript, from its name and first characters."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _DATA:
        return suffix != ".json" or len(head) > _SHORT or _LISTS.search(head.lstrip("\ufeff")) is not None
    if suffix in _SUBTITLES or is_subtitles(head):
        return True
    return suffix in _TEXTS | _PAGES and _is_prose(head)


def read_transcripts(name: str, raw: bytes, limits: ParseLimits) -> list[ParsedItem]:
    """Return the transcripts in a file: one, or one a day of an exported chat; raises UnreadableItem."""
    text, offset = _text_of(name, raw, limits)
    lines = list(enumerate(text.split("\n"), 1))
    is_data = PurePosixPath(name).suffix.lower() in _DATA
    found = dialogue.exported_messages(lines) if not is_data and dialogue.is_export(lines) else []
    if is_data or not (messages := found or _daily_messages(lines)):
        return [_read_one(name, text, offset, limits)]
    days = [list(day) for _, day in groupby(messages, key=lambda message: message.sent.date())]
    title = next((one.group for one in messages if one.group), "") or title_from_name(PurePosixPath(name).name)
    return [item_or_bug(item, partial(_read_day, item, title, lines, day, limits)) for item, day in enumerate(days)]


def _text_of(name: str, raw: bytes, limits: ParseLimits) -> tuple[str, int | None]:
    """Return the text of a file, and 0 where its lines are those of the file."""
    if len(raw) > limits.file_bytes:
        raise UnreadableItem(f"larger than {limits.file_bytes >> 20} MB")
    text = _decoded(raw)
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _DATA or (suffix not in _PAGES and not is_page(text)):
        return text, 0
    if not (shown := html_text(text)).strip():
        raise UnreadableItem("empty")
    return shown, None


def _daily_messages(lines: dialogue.Lines) -> list[dialogue.ChatMessage]:
    """Return the messages of a chat whose days stand on lines of their own, above those of its speakers."""
    days = {number: day for number, line in lines if len(line) < 80 and (day := _day_alone(line))}
    found = dialogue.dialogue_cues([(one, "" if one in days else line) for one, line in lines]) if len(days) > 1 else []
    said, last = sum(cue.speaker is not None for cue in found), max((cue.at or 0 for cue in found), default=0)
    if said < max(3, len(days)) or 2 * said < len(found) - len(days) or last >= 86400:
        return []
    messages, day, unit = list[dialogue.ChatMessage](), next(iter(days.values())), 60 if last < 1440 else 1  # 10:15
    for cue in found:
        day = next((days[number] for number in sorted(days, reverse=True) if number < cue.first), day)
        sent = day.replace(tzinfo=None) + timedelta(seconds=unit * (cue.at or 0))
        messages.append(dialogue.ChatMessage(sent, cue.first, cue.last, cue.speaker, cue.text))
    return messages


def _day_alone(line: str) -> datetime | None:
    """Return the day on a line that holds nothing else but its weekday, in any language, and rules."""
    found = find_date(line, FLOATING)
    return found.moment if found and re.fullmatch(r"\W*(?:[^\W\d_]{1,12}\W*)?", found.rest) else None


def _read_day(
    item: int, title: str, lines: dialogue.Lines, day: Sequence[dialogue.ChatMessage], limits: ParseLimits
) -> ParsedItem:
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
    if PurePosixPath(name).suffix.lower() in _DATA:
        return _read_data(name, text, limits)
    cut = len(text) if len(text) <= limits.text_chars else text.rfind("\n", 0, limits.text_chars)
    problem = None if cut == len(text) else _cut_problem(limits)
    return ParsedItem(0, _read_text(name, text[: cut if cut > 0 else limits.text_chars]), offset, problem)


def _read_data(name: str, text: str, limits: ParseLimits) -> ParsedItem:
    found = spoken(text, table=PurePosixPath(name).suffix.lower() in _TABLES)
    cues = [replace(cue, speaker=limits.names.get(cue.speaker or "", cue.speaker)) for cue in found.cues]
    turns = [
        replace(turn, first=line, last=line)
        for line, turn in enumerate(dialogue.merge_cues(dialogue.with_speakers(cues)), 1)
    ]
    lines = [f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text for turn in turns]
    kept = sum(chars <= limits.text_chars for chars in accumulate(len(line) + 1 for line in lines))
    problem = None if kept == len(lines) else _cut_problem(limits)
    return ParsedItem(0, _document(name, "\n".join(lines[:kept]), turns[:kept], "", found.start), None, problem)


def _read_text(name: str, text: str) -> Document:
    lines = text.split("\n")
    numbered = list(enumerate(lines, 1))
    if is_subtitles(text[:2000]) or PurePosixPath(name).suffix.lower() in _SUBTITLES:
        shown = cues(lines)
        if shown or lines[0].startswith("WEBVTT"):
            return _document(name, text, dialogue.merge_cues(dialogue.with_speakers(shown)), header_title(lines), None)
    if dialogue.is_chat(numbered):
        return _document(name, text, dialogue.separate_cues(dialogue.chat_cues(numbered)), "", None)
    front = front_matter(numbered)
    return _document(name, text, dialogue.merge_cues(dialogue.dialogue_cues(front.rest)), front.title, front.date)


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
