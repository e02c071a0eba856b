"""Transcripts into documents: format, title, date, turns of subtitles; sibling modules read texts and data.

Given the name and content of a file; opens none.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from itertools import groupby, pairwise
from pathlib import PurePosixPath
from typing import Any

from engine.ingest import dialogue
from engine.ingest.dialogue import CLOCK, Cue, leads, name_above, seconds
from engine.ingest.headers import FLOATING, clean, date_line, decode_text, find_date, tidy
from engine.ingest.html import html_text, is_page
from engine.ingest.records import spoken
from engine.ingest.types import ParseLimits, UnreadableItem, content_id, in_users_zone, item_or_bug
from engine.text.people import PRESENT
from store.types import LONGEST_SPEAKER, Document, DocumentPassage, ParsedItem, replace

_STAMP = re.compile(r"[-_ T]*(?P<hour>[0-2]\d)[-_.:h]?(?P<minute>[0-5]\d)(?:[-_.:m]?(?P<second>[0-5]\d))?(?!\d)")


def date_within(line: str) -> datetime | None:
    """Return the first date in a line, with the first time of day."""
    found = find_date(line[:300])
    return found.moment if found else None


def date_in_name(name: str) -> tuple[datetime | None, str]:
    """Return the date in a file's name, with the time that follows it, if any; and the name without them."""
    if (found := find_date(name)) is None:
        return None, name
    day, stamp = found.moment.replace(hour=0, minute=0, second=0, tzinfo=FLOATING), _STAMP.match(name, found.end)
    if stamp and int(stamp["hour"]) < 24:
        day = day.replace(tzinfo=UTC) if name[: found.start].endswith("GMT") else day
        day = day.replace(hour=int(stamp["hour"]), minute=int(stamp["minute"]), second=int(stamp["second"] or 0))
    return day, f"{name[: found.start].removesuffix('GMT')} {name[stamp.end() if stamp else found.end :]}"


_MOST = 8  # lines that may be front matter
_LONG = 160  # characters: longer lines are not titles
_WHEN = re.compile(r"\W*(?:date|when|time)\b", re.IGNORECASE)
_TITLE = re.compile(r"(?:title|meeting|subject|topic)[ \t]*:[ \t]*(\S.*)$", re.IGNORECASE)
_ENDINGS = re.compile(r"(?:\.(?:vtt|srt|sbv|json|txt|html?|md|markdown|text|transcript|[a-z]{2}))+$", re.IGNORECASE)


def front_matter(lines: dialogue.Lines) -> tuple[str, datetime | None, dialogue.Lines]:
    """Return the title and date in the first lines, and all lines but those that contain nothing else."""
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
    return title, date or date_within(title), rest


def _is_title(line: str, after: str) -> bool:
    alone = not after.strip() or date_line(after.strip()) is not None or PRESENT.match(after) is not None
    shaped = len(line.split()) <= 12 and line[0] not in "-*[" and line[-1] not in ".?!:,;]"
    return alone and shaped and not dialogue.split_head(line) and not name_above(line)


def title_from_name(file: str) -> str:
    """Return a title made of a file's name, without its date and endings."""
    stem = _ENDINGS.sub("", file)
    return re.sub(r"[_\W]+", " ", date_in_name(stem)[1]).strip() or stem


# WebVTT, SubRip and SBV subtitles into cues. Lenient: any line that is not a time line is text.

_ARROW = re.compile(rf"\s*({CLOCK})\s*-->\s*({CLOCK})(?:\s+\w+[:=].*)?\s*$")
_SBV = re.compile(rf"\s*({CLOCK}),({CLOCK})\s*$")
_COMMENT = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{0,100})?[ \t]+([^<>]{1,200})>")
_LABELLED = re.compile(r"[^\s:：][^:：]{0,99}(?::(?=\s|$)|：)")
_WORD_TIME = re.compile(r"<(?:\d{1,4}:)?\d{1,2}:\d{1,2}[.,]\d{1,9}>")
_TAG = re.compile(
    r"</?(?:[biuscv]|ruby|rt|rp|br)(?:\.[^\s<>]{0,100})?\s?/?>|</?(?:font|span|lang)(?:\s[^<>]{0,200})?>|\{\\[^{}]{0,200}\}",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,30});", re.IGNORECASE)


def is_subtitles(head: str) -> bool:
    """Return whether a file starts like a subtitle file."""
    lines = [line for line in head.lstrip("\ufeff").split("\n", 12)[:12] if line.strip()]
    return bool(lines) and (lines[0].startswith("WEBVTT") or any(map(_timing, lines[:2])))


def cues(lines: Sequence[str]) -> list[Cue]:
    """Return the cues in a file's lines, in order, without markup; a cue with several voices becomes several."""
    vtt = bool(lines) and lines[0].startswith("WEBVTT")
    blocks = [one for one in _blocks(lines, vtt) if one[2]]
    said = [_plain("\n".join(line for _, line in block)).split() for *_, block in blocks]
    again = [_repeated(*pair) for pair in pairwise([[], *said])]
    rolls = sum(size > 0 and one != other for size, (one, other) in zip(again[1:], pairwise(said), strict=True))
    rolling = any(map(_WORD_TIME.search, lines)) or (rolls > 2 and 2 * rolls > len(again))
    labels = leads([label for _, label, _ in blocks], captions=True)
    firsts = ["" if _VOICE.search(block[0][1]) else _plain(block[0][1]) for *_, block in blocks]
    below = [any(line.strip() for _, line in block[1:]) for *_, block in blocks]
    heads, found = labels or leads(firsts, captions=True), list[Cue]()
    empty = [place for place, head in heads.items() if not labels and not head.text and not below[place]]
    heads = {} if 4 * len(empty) > len(heads) else {at: head for at, head in heads.items() if at not in empty}
    for place, ((times, _, whole), repeated) in enumerate(zip(blocks, again, strict=True)):
        block, head = _from_word(whole, repeated) if rolling else whole, heads.get(place)
        if head and block and not labels:
            block = [(block[0][0], head.text), *block[1:]]
        found += _voices(block, *times, head.name if head else None) if block else ()
    return found


def _repeated(before: Sequence[str], words: Sequence[str]) -> int:
    """Return how many of the first words are the last of the cue before; one word is chance."""
    most = min(len(before), len(words))
    overlaps = (size for size in range(most, 0, -1) if before[len(before) - size :] == words[:size])
    size = next(overlaps, 0)
    return size if size > 1 or size == most else 0


def _from_word(block: "_Block", first: int) -> "_Block":
    kept = _Block()
    for number, line in block:
        words = _plain(line).split()
        if first < len(words):
            kept.append((number, " ".join(words[first:]) if first else line))
        first = max(first - len(words), 0)
    return kept


_Times = tuple[float | None, float | None]
_Block = list[tuple[int, str]]  # line number, line


def _blocks(lines: Sequence[str], vtt: bool) -> Iterator[tuple[_Times, str, _Block]]:
    """Yield each time line, the identifier above it, and the lines under it."""
    times: _Times | None = None
    label, block, comment = "", _Block(), False
    for number, line in enumerate(lines, 1):
        timing = _timing(line)
        if timing:
            # The last line may identify the next cue: a number, or in WebVTT any line after an empty one.
            alone = vtt and len(block) > 1 and not block[-2][1].strip()
            kept = block[:-1] if block and (alone or block[-1][1].strip().isdecimal()) else block
            if times:
                yield times, label, kept
            label = block[-1][1] if kept is not block else ""
            times, block, comment = timing, [], False
        elif vtt and _COMMENT.match(line) and (not block or not block[-1][1].strip()):
            comment = True
        elif comment:
            comment = bool(line.strip())
        elif times or (vtt and not line.strip()):
            times = times or (None, None)  # behind the header: text without a time
            block.append((number, line))
    if times:
        yield times, label, block


def _timing(line: str) -> _Times | None:
    match = _ARROW.match(line) or _SBV.match(line)
    return (seconds(match[1]), seconds(match[2])) if match else None


def _voices(block: _Block, at: float | None, until: float | None, speaker: str | None) -> Iterator[Cue]:
    parts = _VOICE.split("\n".join(line for _, line in block))
    line = block[0][0]
    numbers = [number for number, _ in block]
    row = 0
    for place, part in enumerate(parts):
        if place % 2:
            speaker = " ".join(unescape(part).split())
            continue
        lead = len(part) - len(part.lstrip())
        first = row + part.count("\n", 0, lead)
        row += part.count("\n")
        last = row - part.count("\n", len(part.rstrip()))
        # A line that may name another speaker stays a line, others are wrapped.
        lines = (" ".join(line.split()) for line in _plain(part).split("\n") if line.strip())
        if text := "".join(f"\n{line}" if _LABELLED.match(line) else f" {line}" for line in lines).strip():
            line = numbers[first]
            yield Cue(text, line, max(line, numbers[max(last, first)]), speaker, at, until)


def _plain(text: str) -> str:
    without = _TAG.sub(" " if "<br" in text else "", _WORD_TIME.sub("", text))
    return _ENTITY.sub(lambda match: unescape(match[0]), without)


TURN, PAUSE = 100, 15.0  # most words of a merged turn; seconds of silence that end it


def with_speakers(found: Sequence[Cue]) -> list[Cue]:
    """Return the cues, with unknown speakers taken from "Name:" at the start of a line of the text."""
    lines = [(cue, line) for cue in found for line in cue.text.split("\n")]
    heads = [None if cue.speaker else dialogue.split_head(line) for cue, line in lines]
    voices = frozenset(cue.speaker for cue in found if cue.speaker)
    unsaid = [head for (cue, _), head in zip(lines, heads, strict=True) if not cue.speaker]
    names, known, before = dialogue.speakers_of(unsaid, voices), list[Cue](), None
    for (cue, line), head in zip(lines, heads, strict=True):
        if head and head.name in names and head.text.strip():
            known.append(replace(cue, speaker=head.name, text=head.text.strip()))
        elif cue is before:
            known[-1] = replace(known[-1], text=f"{known[-1].text} {line}")
        else:
            known.append(replace(cue, text=line))
        before = cue
    return known


def merge_cues(found: Sequence[Cue]) -> list[DocumentPassage]:
    """Return turns: consecutive cues of one speaker without a long pause, up to about 100 words."""
    turns, words, until = list[DocumentPassage](), 0, None
    for cue in found:
        more, before = len(cue.text.split()), turns[-1] if turns else None
        spoken = before is not None and (before.speaker is not None or cue.until is not None)
        silent = cue.at is not None and until is not None and cue.at - until > PAUSE
        if before and spoken and before.speaker == cue.speaker and words + more <= TURN and not silent:
            turns[-1] = replace(before, text=f"{before.text} {cue.text}", last=max(before.last, cue.last))
            words += more
        else:
            turns.append(DocumentPassage(cue.text, cue.first, cue.last, "body", cue.speaker, cue.at))
            words = more
        until = cue.until
    return turns


def turns_to_read(text: str) -> list[dict[str, Any]] | None:
    """Return the turns of subtitles as people read them, each with its lines of the file; None of any other text."""
    found = merge_cues(with_speakers(cues(text.split("\n")))) if is_subtitles(text[:_HEAD]) else ()
    clocks = [str(timedelta(seconds=int(one.at or 0))).removeprefix("0:") for one in found]
    said = [f"{one.speaker}: {one.text}" if one.speaker else one.text for one in found]
    rows = zip(found, clocks, said, strict=True)
    return [{"lines": [one.first, one.last], "text": f"{clock}  {line}"} for one, clock, line in rows] or None


_HEAD = 2000  # characters of a file that show whether it has subtitles
_SUBTITLES, _TEXTS = frozenset({".vtt", ".srt", ".sbv"}), frozenset({".txt", ".md", ".markdown", ".text", ".lrc"})
_PAGES, _TABLES = frozenset({".html", ".htm"}), frozenset({".tsv", ".csv"})
_DATA = _TABLES | {".json", ".jsonl", ".ndjson", ".xml", ".ttml", ".dfxp"}
_LISTS = re.compile(r'\[\s*(?:\{|$)|^\s*\{\s*"text"\s*:\s*"')
_SHORT = 4000  # characters of a file that show whether it has lists
_ATTENDEES = 1000
_DAY_ALONE = re.compile(r"\W*(?:[^\W\d_]{1,12}\W*)?")  # the rest of its line: a weekday, in any language, and rules


def may_be_transcript(name: str, head: str) -> bool:
    """Return whether a file may be a transcript, from its name and first characters."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in _DATA:
        return suffix != ".json" or len(head) > _SHORT or _LISTS.search(head.lstrip("\ufeff")) is not None
    if suffix in _SUBTITLES or is_subtitles(head):
        return True
    letters = sum(letter.isalpha() or letter.isspace() for letter in head[:_SHORT])
    return suffix in _TEXTS | _PAGES and "\0" not in head and letters >= 0.4 * len(head[:_SHORT])


def read_transcripts(name: str, raw: bytes, limits: ParseLimits) -> list[ParsedItem]:
    """Return the transcripts in a file: one, or one a day of an exported chat; raises UnreadableItem."""
    text, offset = _text_of(name, raw, limits)
    lines = list(enumerate(text.split("\n"), 1))
    if PurePosixPath(name).suffix.lower() in _DATA:
        return [_read_data(name, text, limits)]
    group, messages = dialogue.exported_messages(lines)
    if not (messages := messages or _daily_messages(lines)):
        text, problem = _cut(text, limits)
        return [ParsedItem(0, _read_text(name, text), offset, problem)]
    days = [list(day) for _, day in groupby(messages, key=lambda message: message[0].date())]
    title = group or title_from_name(PurePosixPath(name).name)
    return [item_or_bug(item, partial(_read_day, item, title, lines, day, limits)) for item, day in enumerate(days)]


def _text_of(name: str, raw: bytes, limits: ParseLimits) -> tuple[str, int | None]:
    """Return the text of a file, and 0 where its lines are those of the file."""
    if len(raw) > limits.file_bytes:
        raise UnreadableItem(f"larger than {limits.file_bytes >> 20} MB")
    if not raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) and raw.count(0, 0, 4096) * 4 > len(raw[:4096]):
        raise UnreadableItem("not a text")
    wide = raw.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff"))
    text = raw.decode("utf-32", "replace") if wide else decode_text(raw)
    # Only the line ends of the file may end a line, so that line numbers match.
    text = tidy(text.removeprefix("\ufeff").replace("\u2028", " ").replace("\u2029", " "))
    suffix = PurePosixPath(name).suffix.lower()
    is_text = suffix in _DATA or (suffix not in _PAGES and not is_page(text))
    if not (shown := text if is_text else html_text(text)).strip():
        raise UnreadableItem("empty")
    return shown, 0 if is_text else None


def _daily_messages(lines: dialogue.Lines) -> list[dialogue.Message]:
    """Return the messages of a chat whose days stand on lines of their own, above those of its speakers."""
    dated = ((number, find_date(line)) for number, line in lines if len(line) < 80)
    days = {number: day.moment for number, day in dated if day and _DAY_ALONE.fullmatch(day.rest)}
    found = dialogue.dialogue_cues([(one, "" if one in days else line) for one, line in lines]) if len(days) > 1 else []
    said, last = sum(cue.speaker is not None for cue in found), max((cue.at or 0 for cue in found), default=0)
    if said < max(3, len(days)) or 2 * said < len(found) - len(days) or last >= 86400:
        return []
    messages, day, unit = list[dialogue.Message](), next(iter(days.values())), 60 if last < 1440 else 1  # 10:15
    for cue in found:
        day = next((days[number] for number in sorted(days, reverse=True) if number < cue.first), day)
        sent = day.replace(tzinfo=None) + timedelta(seconds=unit * (cue.at or 0))
        messages.append((sent, cue))
    return messages


def _read_day(
    item: int, title: str, lines: dialogue.Lines, day: Sequence[dialogue.Message], limits: ParseLimits
) -> ParsedItem:
    """Return the messages of one day as a document, so that "tomorrow" in them is the day after."""
    before = day[0][1].first - 1
    text, problem = _cut("\n".join(line for _, line in lines[before : day[-1][1].last]), limits)
    count = text.count("\n") + 1
    turns = [
        DocumentPassage(one.text, one.first - before, one.last - before, "body", one.speaker)
        for _, one in day
        if one.text and one.last - before <= count
    ]
    document = _document("", text, turns, title, day[0][0].replace(tzinfo=FLOATING))
    return ParsedItem(item, document, before, problem)


def _read_data(name: str, text: str, limits: ParseLimits) -> ParsedItem:
    found = spoken(text, table=PurePosixPath(name).suffix.lower() in _TABLES)
    cues = [replace(cue, speaker=limits.names.get(cue.speaker or "", cue.speaker)) for cue in found.cues]
    turns = [replace(turn, first=line, last=line) for line, turn in enumerate(merge_cues(with_speakers(cues)), 1)]
    lines = [f"{turn.speaker}: {turn.text}" if turn.speaker else turn.text for turn in turns]
    text, problem = _cut("\n".join(lines), limits)
    return ParsedItem(0, _document(name, text, turns[: text.count("\n") + 1], "", found.start), None, problem)


def _read_text(name: str, text: str) -> Document:
    lines = text.split("\n")
    numbered = list(enumerate(lines, 1))
    if is_subtitles(text[:_HEAD]) or PurePosixPath(name).suffix.lower() in _SUBTITLES:
        shown = cues(lines)
        if shown or lines[0].startswith("WEBVTT"):
            titled = re.match(r"WEBVTT[ \t]+(?:-[ \t]*)?(.{1,200})$", lines[0])
            title = titled[1].strip() if titled and "-->" not in titled[1] else ""
            return _document(name, text, merge_cues(with_speakers(shown)), title, None)
    if said := dialogue.chat_cues(numbered):  # messages of a chat are not sentences of one text
        turns = [DocumentPassage(cue.text, cue.first, cue.last, "body", cue.speaker, cue.at) for cue in said]
        return _document(name, text, turns, "", None)
    title, date, rest = front_matter(numbered)
    return _document(name, text, merge_cues(dialogue.dialogue_cues(rest)), title, date)


def _cut(text: str, limits: ParseLimits) -> tuple[str, str | None]:
    """Return as many lines of a text as the limits allow, and the problem if that is not all of it."""
    if len(text) <= limits.text_chars:
        return text, None
    kept = text[: limits.text_chars]
    return kept.rpartition("\n")[0] or kept, f"read up to {limits.text_chars} characters only"


def _document(name: str, text: str, turns: Sequence[DocumentPassage], title: str, date: datetime | None) -> Document:
    named = (clean(turn.speaker or "")[:LONGEST_SPEAKER].rstrip(": ") for turn in turns)
    turns = [replace(turn, speaker=name or None) for turn, name in zip(turns, named, strict=True)]
    file = PurePosixPath(name).name
    title, date = title or title_from_name(file), date or date_in_name(file)[0]
    speakers = list(dict.fromkeys(turn.speaker for turn in turns if turn.speaker))
    local = date
    if date and not date.utcoffset():  # without a zone, or the UTC of a machine: in the user's
        local = in_users_zone(date) if date.tzinfo is FLOATING else date.astimezone()
    # The id must not depend on the time zone of the user.
    id_ = content_id("transcript", title, date.isoformat() if date else "", text)
    return Document(id_, "transcript", title, "", tuple(speakers[:_ATTENDEES]), local, None, text, tuple(turns))
