"""Finds what the first lines and the file's name say about a whole transcript: its title and its date."""

import re
from dataclasses import dataclass
from datetime import datetime

from engine.ingest.dates import date_line, date_within, without_date
from engine.ingest.dialogue import Lines, heading, name_above
from engine.ingest.speakers import split_head

_MOST = 8  # lines that may be the front
_LONG = 160  # characters of a line that is no title
_WHEN = re.compile(r"\W*(?:date|when|time)\b", re.IGNORECASE)
_TITLE = re.compile(r"(?:title|meeting|subject|topic)[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE)
_ENDINGS = re.compile(r"(?:\.(?:vtt|srt|sbv|json|txt|md|markdown|text|transcript|[a-z]{2}))+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Front:
    """What the first lines of a text say about the whole of it, and where the rest begins."""

    title: str
    date: datetime | None
    rest: Lines


def front_of(lines: Lines) -> Front:
    """Take title and date from the first lines; those that hold nothing else are no turns."""
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
            title = mark
        elif not title and place == filled[0] and _is_title(line, after):
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
    return Front(title, date or date_within(title), rest)


def _is_title(line: str, after: str) -> bool:
    alone = not after.strip() or date_line(after.strip()) is not None
    shaped = len(line.split()) <= 12 and line[0] not in "-*[" and line[-1] not in ".?!:,;]"
    return alone and shaped and not split_head(line) and not name_above(line)


def readable(file: str) -> str:
    """Give the words of a file's name, without its date and endings."""
    stem = _ENDINGS.sub("", file)
    words = re.sub(r"[_\W]+", " ", without_date(stem)).strip()
    return words or stem
