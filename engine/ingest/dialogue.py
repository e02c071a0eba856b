"""Plain-text transcripts into turns: `Speaker: text`, blocks under a name and a time, chat logs, minutes, prose.

Every word that is not a speaker's name or a time code ends up in a turn. Knows no files and no documents.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from itertools import chain, dropwhile, pairwise, takewhile

from engine.ingest.chunking import UNSPACED
from engine.ingest.subtitles import CLOCK, Cue, seconds
from engine.text.dates import DAY_NAMES, MONTH_NAMES
from engine.text.label import is_everyday_word
from engine.text.words import FUNCTION_WORDS, words
from store.types import LONGEST_SPEAKER, DocumentPassage

# Speakers in front of a line.

# A name may hold brackets without a time: "Ann [PM]". A colon needs no blank where the script has none.
_NAME = r"(?:[^:：\n*\[]|\[[^\[\]:：\n]{0,40}\]){0,99}?"
_COLON = rf"(?::(?=\s|$|[{UNSPACED}])|：)"
_AT = rf"(?:[\[(](?P<at>{CLOCK})[\])]\s*)?"
_PLAIN = re.compile(rf"(?:[-*•]\s+)?(?:>>\s*)?(?P<name>[^\s:：*\[(#]{_NAME})\s*{_AT}{_COLON}\s*")
_BOLD = re.compile(
    rf"(?:[-*•]\s+)?(?P<mark>\*\*|__)(?P<name>[^\s:：*_\[]{_NAME})\s*{_AT}"
    rf"(?:(?P=mark)\s*(?:[\[(](?P<at2>{CLOCK})[\])]\s*)?[:：]|[:：]\s*(?P=mark))\s*"
)
_BRACKETED = re.compile(
    rf"(?:[-*•]\s+)?[\[(<](?P<name>[^\s\[\]()<>:：*][^\[\]()<>:：\n*]{{0,79}})[\])>]\s*{_AT}{_COLON}\s*"
)
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>")
_SENTENCE = re.compile(r"[?!;\"“”…]|\w{5,}\.\s|\.$(?<!\w\w\w\w\.)")
_PROPER = re.compile(r"[^\W\d_a-z]")  # a capital, or a letter of a script without capitals
_DAY = (
    rf"(?:{'|'.join(DAY_NAMES).lower()})|(?:{'|'.join(DAY_NAMES + MONTH_NAMES).lower()})\W+\d+"  # not April, May, June
)
_LABEL = re.compile(
    r"actions?(?: items?)?|address|agenda|also|anyway|asap|attachments?|attendees|author|b?cc|background|blockers?"
    r"|comments?|conclusions?|cons|contact|content-type|cost|date|deadline|decisions?|details|dial-in|done"
    r"|due(?: date)?|duration|e-?mail|error|example|fax|finally|first(?:ly)?|from|ftp|fyi|goals?|how|https?"
    r"|in progress|info|invited|lastly|links?|location|mailto|meeting|meeting id|message-id|nb|next(?: steps)?"
    r"|notes?|organi[sz]er|outcomes?|owner|participants|pass(?:code|word)|phone|place|present|price|priority|pros"
    r"|p\.?s\.?|re|reason|recording|reminder|reply-to|results?|risks?|room|rsvp|second(?:ly)?|sent(?: from)?"
    r"|source|status|subject|summary|tel|time|title|tl;?dr|to|to-?do|today|tomorrow|topics?|total|transcript"
    r"|update|url|venue|version|warning|website|what|when|where|who|why|with|yesterday"
    rf"|(?:agenda|chapter|day|item|option|part|section|step|table|topic|version|week) (?:\d+|[a-z])|{_DAY}"
)
_FRONT = 200  # characters at the start of a line that may contain a name
MIN_SHARE, MIN_USES = 0.5, 3  # share of lines with a name that makes a dialogue; uses of a name in other texts


@dataclass(frozen=True, slots=True)
class Head:
    """What may be a speaker's name in front of a text, the time that stands beside it, and the text."""

    name: str
    at: float | None
    text: str


def split_head(text: str) -> Head | None:
    """Return speaker, time and rest of a text that starts with a possible speaker's name and a colon."""
    front = text[:_FRONT]
    match = _BOLD.match(front) or _PLAIN.match(front) or _BRACKETED.match(front)
    if match is None or not _may_be_name(match["name"]):
        return None
    clock = match["at"] or match.groupdict().get("at2")
    return Head(" ".join(match["name"].split()), seconds(clock) if clock else None, text[match.end() :].lstrip())


@dataclass(frozen=True, slots=True)
class _Opening:
    """The head of a line, if it has one, and whether the line begins a paragraph or has a time in front of it."""

    head: Head | None
    begins: bool = True
    timed: bool = False


def speakers_of(openings: Iterable[_Opening], attendees: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the names that are speakers, given the opening of each line, and the names of those who took part.

    Where most lines, paragraphs or timed lines have a head, all its names are, but for words and phrases that do not
    come back. Elsewhere names that come back are; and if two do, all proper names.
    """
    lines = list(openings)
    views = [lines, [one for one in lines if one.begins], [one for one in lines if one.timed]]
    uses = Counter(one.head.name for one in lines if one.head)
    found = attendees & uses.keys()
    for view in views:
        found |= _named_in(view, uses)
    return found | _frequent(uses)


def _named_in(view: Sequence[_Opening], uses: Counter[str]) -> frozenset[str]:
    """Return the speakers among the heads of some lines, if these are a dialogue."""
    heads = [one.head.name for one in view if one.head]
    if not heads or len(heads) < max(min(2, len(view)), MIN_SHARE * len(view)):
        return frozenset()
    whole = len(heads) == len(view)
    return frozenset(name for name in heads if _is_likely(name, uses[name]) or (whole and not _is_phrase(name)))


def _is_phrase(name: str) -> bool:
    """Return whether a label is words of a sentence: "the point is", "so"."""
    return name[0].islower() and not FUNCTION_WORDS.isdisjoint(words(_bare(name)))


def _is_likely(name: str, count: int) -> bool:
    """Return whether a label is a name. Rare words such as "potuz" are; "so" and "the point" must recur."""
    if is_proper_name(name):
        return True
    return count >= (MIN_USES if _is_everyday(name) else 2 if " " in name else 1)


def _frequent(uses: Counter[str]) -> frozenset[str]:
    proper = frozenset(name for name in uses if is_proper_name(name))
    handles = frozenset(name for name in uses.keys() - proper if " " not in name and not _is_everyday(name))
    frequent = frozenset(name for name in proper | handles if uses[name] >= MIN_USES)
    return frequent | proper if len(frequent) > 1 else frequent


def _is_everyday(name: str) -> bool:
    return all(is_everyday_word(word) for word in words(name))


@lru_cache(maxsize=1024)
def is_proper_name(name: str) -> bool:
    """Return whether a text is a proper name: at most five words, each capitalised."""
    found = [word for word in _bare(name).split() if word[0].isalpha() and len(word) > 3]
    return (
        _may_be_name(name) and len(name.split()) <= 5 and all(_PROPER.match(word) for word in found or name.split()[:1])
    )


@lru_cache(maxsize=1024)
def _may_be_name(name: str) -> bool:
    bare = _bare(name)
    label = _LABEL.fullmatch(name.casefold().strip(" *_-"))
    return not label and len(bare.split()) <= 6 and any(map(str.isalpha, name)) and not _SENTENCE.search(bare)


def _bare(name: str) -> str:
    """Return a name without what stands in brackets."""
    return _BRACKETS.sub(" ", _BRACKETS.sub(" ", name))


# Lines into cues.

Lines = Sequence[tuple[int, str]]  # line number, line

_TIMED = re.compile(
    rf"\s*(?:[\[(]({CLOCK})(?:\s*-+>?\s*{CLOCK})?[\])]|(\d{{1,2}}:\d\d:\d\d(?:[.,]\d{{1,3}})?)(?=\s|$))\s*(?:[-–—]\s)?\s*"
)
_BARE_TIME = re.compile(rf"\s*({CLOCK})[ \t]+(?:[-–—][ \t]+)?")  # a time only if a name follows
_BLOCK = re.compile(
    rf"\s*(?:\*\*)?([^\s\[\](){{}}<>:：*](?:[^\[\]<>:：\t*]|\[[^\[\]:：]{{0,40}}\]){{0,80}}?(?: <[^<>\s]{{1,99}}>)?)"
    rf"(?:\*\*)?,?[ \t]+[\[(]?({CLOCK})[\])]?\s*$"
)
_SQUARE = re.compile(rf"\s*\[([^\[\]:]{{1,80}})\][ \t]*({CLOCK})?\s*$")
_CHAT = re.compile(
    r"(\d{1,2}:\d\d:\d\d)(?:\t(?![ \t]*From\s)([^\t]{1,100})\t"
    r"|[ \t]+From[ \t]+([^:]{1,200}?)(?:[ \t]+to[ \t]+[^:]{1,100})?[ \t]*:)[ \t]*"
)
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s+(?=\S)")
_LONG = 200  # characters: longer lines are no names
_RULE = re.compile(r"[\s\-=_*#~]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(\S.*)$")


def heading(line: str) -> str | None:
    """Return the text of a markdown heading, None for any other line."""
    match = _HEADING.match(line)
    return match[1].rstrip().rstrip("#").rstrip() if match else None


def is_chat(lines: Lines) -> bool:
    """Return whether some lines are a meeting's chat log."""
    return any(_CHAT.match(line) for line in [line for _, line in lines[:50] if line.strip()][:5])


def chat_cues(lines: Lines) -> list[Cue]:
    """Return one cue per message of a chat log, with all its lines."""
    builder = _CueBuilder()
    for number, line in lines:
        match = _CHAT.match(line)
        if match:
            builder.start_turn((number, line), " ".join((match[2] or match[3]).split()).rstrip(":"), seconds(match[1]))
        builder.add(number, line[match.end() :].strip() if match else line.strip())
    builder.start_turn()
    return builder.cues


# Exports of messengers: "[03/05/2024, 19:00:12] Ann: text" and "03/05/2024, 19:00 - Ann: text".

_UNSEEN = "[\u200e\u200f\u202a-\u202e\ufeff]*"  # marks of direction, in front of some lines and names
_BLANK = "[ \u00a0\u202f]"
_STAMPED = re.compile(
    rf"{_UNSEEN}(?P<open>\[)?(?P<a>\d{{1,4}})(?P<sep>[./-])(?P<b>\d{{1,2}})(?P=sep)(?P<c>\d{{1,4}})"
    rf"(?:,?{_BLANK}+(?:at )?|T)(?P<hour>\d{{1,2}})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?"
    rf"(?:{_BLANK}?(?P<half>[ap])\.?{_BLANK}?m\b\.?)?(?(open)\]{_BLANK}?|{_BLANK}[-–]{_BLANK}){_UNSEEN}",
    re.IGNORECASE,
)
_SENDER = re.compile(rf"{_UNSEEN}(?:~{_BLANK}?)?([^:\n]{{1,{LONGEST_SPEAKER}}}):(?: |$)(\u200e)?")
_NOTICE = re.compile(r"[\"“”]")  # in a line without a sender: Ann changed the subject to "Choir: spring"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of an exported chat: the sender's local time, its line numbers and the speaker.

    `speaker` is None for a notice of the messenger. `group` is set on a notice that names the chat.
    """

    sent: datetime
    first: int
    last: int
    speaker: str | None
    text: str
    group: str = ""


def is_export(lines: Lines) -> bool:
    """Return whether some lines are a messenger's export: stamped from the first, one in five of them with a sender."""
    head = [line for _, line in lines[:50] if line.strip()]
    stamped = [line[match.end() :] for line in head if (match := _STAMPED.match(line))]
    named = sum(_SENDER.match(line) is not None for line in stamped)
    return bool(head) and _STAMPED.match(head[0]) is not None and named > 0 and 5 * named >= len(stamped)


def exported_messages(lines: Lines) -> list[ChatMessage]:
    """Return the messages of a messenger's export, each with all its lines; none if no date in it is valid.

    A message without a valid date has that of the one before.
    """
    stamps = [(place, match) for place, (_, line) in enumerate(lines) if (match := _STAMPED.match(line))]
    order = _date_order([match for _, match in stamps])
    moments = [_moment(match, order) for _, match in stamps]
    sent = next((moment for moment in moments if moment), None)
    found, ends = list[ChatMessage](), [*(place for place, _ in stamps[1:]), len(lines)]
    for (place, match), end, moment in zip(stamps, ends, moments, strict=True):
        sent = moment or sent
        if sent is not None:
            found.append(_message(lines[place:end], match, sent))
    return found


def _message(lines: Lines, stamp: re.Match[str], sent: datetime) -> ChatMessage:
    first, others = lines[0][1][stamp.end() :], [line for _, line in lines[1:]]
    last = max(number for number, line in lines if line.strip())
    sender = _SENDER.match(first)
    if sender is None or _NOTICE.search(sender[1]):
        return ChatMessage(sent, lines[0][0], last, None, "\n".join([first, *others]).strip())
    name, text = " ".join(sender[1].split()), "\n".join([first[sender.end() :], *others]).strip()
    if sender[2] and "end-to-end" in text:
        return ChatMessage(sent, lines[0][0], last, None, text, name)
    return ChatMessage(sent, lines[0][0], last, name, text)


_Order = tuple[str, str, str]  # the names of the groups that hold year, month and day
_DAY_FIRST: _Order = ("c", "b", "a")
_MONTH_FIRST: _Order = ("c", "a", "b")


def _date_order(stamps: Sequence[re.Match[str]]) -> _Order:
    """Return how the dates of a file are written: as no date contradicts, then as they ascend, then by the clock."""
    if any(len(one["a"]) == 4 for one in stamps):
        return "a", "b", "c"
    if any(int(one["a"]) > 12 for one in stamps) or all(one["sep"] == "." for one in stamps):
        return _DAY_FIRST
    if any(int(one["b"]) > 12 for one in stamps):
        return _MONTH_FIRST
    # Without zeros and with "PM" they are written so in the United States.
    american = any(one["half"] in ("A", "P") for one in stamps) and any(len(one["a"]) == 1 for one in stamps)
    likely, other = (_MONTH_FIRST, _DAY_FIRST) if american else (_DAY_FIRST, _MONTH_FIRST)
    return min((likely, other), key=lambda order: _disorder(stamps, order))


def _disorder(stamps: Sequence[re.Match[str]], order: _Order) -> tuple[int, int]:
    """Return how often time runs backwards between messages, and how many days the longest pause between two has."""
    days = [moment.date().toordinal() for one in stamps if (moment := _moment(one, order))]
    steps = [after - before for before, after in pairwise(days)]
    return sum(step < 0 for step in steps), max(steps, default=0)


def _moment(stamp: re.Match[str], order: _Order) -> datetime | None:
    year, month, day = (int(stamp[part]) for part in order)
    year += 2000 * (year < 100)
    hour = int(stamp["hour"])
    if half := stamp["half"]:
        hour = hour % 12 + (12 if half in "pP" else 0)
    try:
        moment = datetime(year, month, day, hour, int(stamp["minute"]), int(stamp["second"] or 0))
    except ValueError:  # no such day, or no such time
        return None
    return moment if year >= 1900 else None


def dialogue_cues(lines: Lines) -> list[Cue]:
    """Return one cue per speaker's line; without a speaker, one per paragraph, bullet or heading."""
    shapes = [_shape(line) for _, line in lines]
    attendees = _attendees(lines)
    blocks, alone = _block_names(shapes), _names_alone(lines, shapes, attendees)
    names = speakers_of(_openings(shapes), attendees)
    builder = _CueBuilder()
    for (number, line), sign in zip(lines, shapes, strict=True):
        if not sign.filled:
            builder.end_paragraph()
        elif sign.block and sign.block[0] in blocks:
            builder.start_turn((number, line), *sign.block, block=True)
        elif number in alone:
            builder.start_turn((number, line), alone[number], block=True)
        elif sign.head and sign.head.name in names:
            builder.start_turn((number, line), sign.head.name, sign.at if sign.head.at is None else sign.head.at)
            builder.add(number, sign.head.text)
        else:
            _add_line(builder, number, line)
    builder.start_turn()
    return builder.cues


def _add_line(builder: "_CueBuilder", number: int, line: str) -> None:
    """Add a line that names no speaker: a heading, a time alone, or text."""
    title = heading(line)
    if title is not None or _MEET_NOTICE.match(line):
        builder.start_turn()
        builder.add(number, title or line)
        builder.start_turn()
        return
    at, text = _split_time(line)
    if at is not None and not text.strip():
        builder.clock = at
    if at is not None or _BULLET.match(line):
        builder.flush()
        builder.at = builder.at if at is None else at
    builder.add(number, text)


_ATTENDED = re.compile(r"[\s*_#]*(?:attendees|participants|present|invited)[\s*_]*:?[\s*_]*(.*)$", re.IGNORECASE)
_MEET_NOTICE = re.compile(r"\s*(?:transcription ended after|this editable transcript was)\b", re.IGNORECASE)
_ALONE = 60  # characters of a line that is a name


def heads_attendees(line: str) -> bool:
    """Return whether a line begins the list of attendees."""
    return _ATTENDED.match(line) is not None


def _attendees(lines: Lines) -> frozenset[str]:
    """Return the names in the first list of attendees, behind its heading or on the line below."""
    texts = [line for _, line in lines[:50] if line.strip()]
    for line, after in pairwise([*texts, ""]):
        if match := _ATTENDED.match(line):
            names = (" ".join(name.split()) for name in re.split(r"[,;•]", match[1] or after))
            return frozenset(name for name in names if name and is_proper_name(name))
    return frozenset()


_PRESENT = re.compile(
    r"[\s*_#]*(?:attendees|attended|participants|(?:those )?present|in attendance)[\s*_]*(?::[\s*_]*(.*)|)$",
    re.IGNORECASE,
)


def listed_attendees(text: str) -> tuple[str, ...]:
    """Return whom a transcript lists as present near its beginning, as they are written there; none without a list.

    The list stands behind its heading, or on the lines below it up to an empty one.
    """
    lines = text.splitlines()[:50]
    for number, line in enumerate(lines, 1):
        if match := _PRESENT.match(line):
            below = takewhile(str.strip, dropwhile(lambda one: not one.strip(), lines[number:]))
            found = re.split(r"[,;•]", match[1]) if match[1] else chain(*(re.split(r"[,;•]", one) for one in below))
            return tuple(name for one in found if (name := " ".join(one.strip(" \t-*_–.").split())))
    return ()


def _block_names(shapes: Sequence["_LineShape"]) -> frozenset[str]:
    """Return the names that stand above turns, with a time: proper ones, those that come back, and their peers."""
    uses = Counter(sign.block[0] for sign in shapes if sign.block)
    sure = frozenset(name for name in uses if is_proper_name(name) or uses[name] > 1)
    peers = frozenset(name for name in uses if sure and " " not in name and not _is_everyday(name))
    found = sure | peers
    return found if sum(uses[name] for name in found) > 1 else frozenset()


def _names_alone(lines: Lines, shapes: Sequence["_LineShape"], attendees: frozenset[str]) -> dict[int, str]:
    """Return the names that stand alone above turns, by line: those of attendees, or two and more that come back."""
    found, opens = dict[int, str](), 0
    for place, (number, line) in enumerate(lines):
        name = " ".join(line.split()).strip("* ")
        if not shapes[place].filled or (place and shapes[place - 1].filled and not shapes[place - 1].is_clock):
            continue
        opens += 1
        below = place + 1 < len(lines) and shapes[place + 1].filled
        if below and len(name) <= _ALONE and ":" not in name and not _BULLET.match(line) and _may_be_name(name):
            found[number] = name
    uses = Counter(found.values())
    known = frozenset(name for name in uses if name in attendees or uses[name] > 1)
    listed = bool(known & attendees)
    if not listed and (len(known) < 2 or 2 * sum(uses[name] for name in known) < opens):
        return {}
    return {number: name for number, name in found.items() if name in known or (not listed and is_proper_name(name))}


def _openings(shapes: Sequence["_LineShape"]) -> Iterator[_Opening]:
    before = _EMPTY
    for sign in shapes:
        if sign.filled and not sign.block:
            timed = sign.timed or (sign.head is not None and sign.head.at is not None)
            yield _Opening(sign.head, not before.filled, timed)
        before = sign


@dataclass(frozen=True, slots=True)
class _LineShape:
    """What a line may be, seen alone: a name above a turn, or a time and a name in front of one."""

    filled: bool
    block: tuple[str, float | None] | None = None
    at: float | None = None
    head: Head | None = None
    timed: bool = False  # in brackets or with seconds, as recordings are and agendas are not
    is_clock: bool = False  # nothing but a time


_EMPTY = _LineShape(False)


def _shape(line: str) -> _LineShape:
    if not line.strip():
        return _EMPTY
    if block := _block_head(line):
        return _LineShape(True, block)
    at, text = _split_time(line)
    timed = at is not None
    if at is None and (match := _BARE_TIME.match(line)):
        at, text = seconds(match[1]), line[match.end() :]
    return _LineShape(True, None, at, split_head(text), timed, timed and not text.strip())


@dataclass(slots=True)
class _CueBuilder:
    """Builds cues line by line; mutable."""

    cues: list[Cue] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    above: tuple[int, str] | None = None  # the line with the speaker's name, until some text follows
    speaker: str | None = None
    at: float | None = None
    block: bool = False  # the name was on a line above, so an empty line does not end the turn
    clock: float | None = None  # of a line that held nothing else, until a turn follows

    def start_turn(
        self,
        above: tuple[int, str] | None = None,
        speaker: str | None = None,
        at: float | None = None,
        block: bool = False,
    ) -> None:
        """End the turn and start another; a name without text below it becomes text."""
        self.flush()
        if self.above and self.speaker:
            self.cues.append(Cue(self.above[1].strip(), self.above[0], self.above[0], None, None))
        self.above, self.speaker, self.block = above, speaker or None, block
        self.at = self.clock if at is None else at
        self.clock = None if speaker else self.clock

    def end_paragraph(self) -> None:
        """End the paragraph, and the turn too unless its speaker was named on a line above."""
        self.flush()
        if not self.block and not self.above:
            self.speaker, self.at = None, None

    def add(self, number: int, text: str) -> None:
        """Add a line to the turn."""
        if text.strip() and (self.speaker or not _RULE.fullmatch(text)):
            self.lines.append((number, text.rstrip()))

    def flush(self) -> None:
        """End the paragraph."""
        if self.lines:
            text = "\n".join(text for _, text in self.lines).strip()
            self.cues.append(Cue(text, self.lines[0][0], self.lines[-1][0], self.speaker, self.at))
            self.lines, self.above = [], None


def _split_time(line: str) -> tuple[float | None, str]:
    match = _TIMED.match(line)
    return (seconds(match[1] or match[2]), line[match.end() :]) if match else (None, line)


def name_above(line: str) -> tuple[str, float | None] | None:
    """Return (name, seconds) of a line that names the speaker of the lines below it."""
    found = _block_head(line)
    return found if found and (_SQUARE.match(line) or is_proper_name(found[0])) else None


def _block_head(line: str) -> tuple[str, float | None] | None:
    """Return (name, seconds) of a line that may name the speaker of the lines below it."""
    if len(line) > _LONG:
        return None
    if match := _SQUARE.match(line):
        return " ".join(match[1].split()), seconds(match[2]) if match[2] else None
    match = _BLOCK.match(line)
    return (" ".join(match[1].split()), seconds(match[2])) if match and _may_be_name(match[1]) else None


# Cues into turns.

TURN, PAUSE = 100, 15.0  # most words of a merged turn; seconds of silence that end it


def with_speakers(found: Sequence[Cue]) -> list[Cue]:
    """Return the cues, with unknown speakers taken from "Name:" at the start of a line of the text."""
    heads = [[split_head(line) if cue.speaker is None else None for line in cue.text.split("\n")] for cue in found]
    voices = frozenset(cue.speaker for cue in found if cue.speaker)
    names = speakers_of(
        [_Opening(head) for cue, each in zip(found, heads, strict=True) if not cue.speaker for head in each], voices
    )
    known = list[Cue]()
    for cue, each in zip(found, heads, strict=True):
        for place, (line, head) in enumerate(zip(cue.text.split("\n"), each, strict=True)):
            if head and head.name in names and head.text.strip():
                known.append(replace(cue, speaker=head.name, text=head.text.strip()))
            elif place:
                known[-1] = replace(known[-1], text=f"{known[-1].text} {line}")
            else:
                known.append(replace(cue, text=line))
    return known


def separate_cues(found: Sequence[Cue]) -> list[DocumentPassage]:
    """Return a turn per cue: messages of a chat are no sentences of one text."""
    return [DocumentPassage(cue.text, cue.first, cue.last, "body", cue.speaker, cue.at) for cue in found]


def merge_cues(found: Sequence[Cue]) -> list[DocumentPassage]:
    """Return turns: consecutive cues of one speaker without a long pause, up to about 100 words."""
    turns, words, until = list[DocumentPassage](), 0, None
    for cue in found:
        more, before = len(cue.text.split()), turns[-1] if turns else None
        if before and _continues_turn(before, cue, words + more, until):
            turns[-1] = replace(before, text=f"{before.text} {cue.text}", last=max(before.last, cue.last))
            words += more
        else:
            turns.append(DocumentPassage(cue.text, cue.first, cue.last, "body", cue.speaker, cue.at))
            words = more
        until = cue.until
    return turns


def _continues_turn(turn: DocumentPassage, cue: Cue, words: int, until: float | None) -> bool:
    spoken = turn.speaker is not None or cue.until is not None
    silent = cue.at is not None and until is not None and cue.at - until > PAUSE
    return spoken and turn.speaker == cue.speaker and words <= TURN and not silent
