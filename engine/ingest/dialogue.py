"""Plain-text transcripts into turns: `Speaker: text`, blocks under a name and a time, chat logs, minutes, prose.

Every word that is not a speaker's name or a time code ends up in a turn. Knows no files and no documents.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from engine.ingest.subtitles import CLOCK, Cue, seconds
from store.types import DocumentPassage

# Speakers in front of a line.

_PLAIN = re.compile(
    rf"(?:[-*•]\s+)?(?:>>\s*)?(?P<name>[^\s:：*\[(#][^:：\n*\[]{{0,99}}?)\s*(?:[\[(](?P<at>{CLOCK})[\])]\s*)?"
    r"(?::(?=\s|$)|：)\s*"
)
_BOLD = re.compile(
    rf"(?:[-*•]\s+)?(?P<mark>\*\*|__)(?P<name>[^\s:：*_\[][^:：\n*\[]{{0,99}}?)\s*(?:[\[(](?P<at>{CLOCK})[\])]\s*)?"
    rf"(?:(?P=mark)\s*(?:[\[(](?P<at2>{CLOCK})[\])]\s*)?[:：]|[:：]\s*(?P=mark))\s*"
)
_BRACKETS = re.compile(r"\([^()]*\)")
_SENTENCE = re.compile(r"[?!;\"“”…]|\w{5,}\.\s|\.$(?<!\w\w\w\w\.)")
_PROPER = re.compile(r"[^\W\d_a-z]")  # a capital, or a letter of a script without capitals
_LABEL = re.compile(
    r"actions?(?: items?)?|agenda|attachments?|attendees|author|b?cc|content-type|date|decisions?|duration|example|from"
    r"|location|meeting|message-id|next(?: steps)?|notes?|organizer|owner|participants|place|present|ps|re|reply-to"
    r"|sent(?: from)?|status|subject|summary|time|title|to|todo|topics?|update|warning|when|where|with"
)
_FRONT = 200  # characters at the start of a line that may contain a name
MIN_SHARE, MIN_USES = 0.5, 3  # share of lines with a name that makes a dialogue; uses of a name in other texts


Head = tuple[str, float | None, str]  # name, seconds, what follows


def split_head(text: str) -> Head | None:
    """Return speaker, time and rest of a text that starts with a possible speaker's name and a colon."""
    front = text[:_FRONT]
    match = _BOLD.match(front) or _PLAIN.match(front)
    if match is None or not _may_be_name(match["name"]):
        return None
    clock = match["at"] or match.groupdict().get("at2")
    return " ".join(match["name"].split()), seconds(clock) if clock else None, text[match.end() :].lstrip()


def speakers_of(heads: Iterable[Head | None]) -> frozenset[str]:
    """Return the names that are speakers, given the head of each text or None.

    If most texts have a head, all names are; if two names are frequent, all proper names; else only frequent ones.
    """
    names, total = Counter[str](), 0
    for head in heads:
        total += 1
        if head:
            names[head[0]] += 1
    if names.total() >= max(min(2, total), MIN_SHARE * total):
        return frozenset(names)
    proper = frozenset(name for name in names if is_proper_name(name))
    frequent = frozenset(name for name in proper if names[name] >= MIN_USES)
    return proper if len(frequent) > 1 else frequent


@lru_cache(maxsize=1024)
def is_proper_name(name: str) -> bool:
    """Return whether a text is a proper name: at most five words, each capitalised."""
    words = [word for word in _BRACKETS.sub(" ", name).split() if word[0].isalpha() and len(word) > 3]
    return (
        _may_be_name(name) and len(name.split()) <= 5 and all(_PROPER.match(word) for word in words or name.split()[:1])
    )


@lru_cache(maxsize=1024)
def _may_be_name(name: str) -> bool:
    bare = _BRACKETS.sub(" ", _BRACKETS.sub(" ", name))
    label = _LABEL.fullmatch(name.casefold().strip(" *_-"))
    return not label and len(bare.split()) <= 6 and any(map(str.isalpha, name)) and not _SENTENCE.search(bare)


# Lines into cues.

Lines = Sequence[tuple[int, str]]  # line number, line

_TIMED = re.compile(
    rf"\s*(?:[\[(]({CLOCK})(?:\s*-+>?\s*{CLOCK})?[\])]|(\d{{1,2}}:\d\d:\d\d(?:[.,]\d{{1,3}})?)(?=\s|$))\s*(?:[-–—]\s)?\s*"
)
_BARE_TIME = re.compile(rf"\s*({CLOCK})[ \t]+(?:[-–—][ \t]+)?")  # a time only if a name follows
_BLOCK = re.compile(
    rf"\s*(?:\*\*)?([^\s\[\](){{}}<>:*][^\[\]<>:\t*]{{0,80}}?)(?:\*\*)?,?[ \t]+[\[(]?({CLOCK})[\])]?\s*$"
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


def dialogue_cues(lines: Lines) -> list[Cue]:
    """Return one cue per speaker's line; without a speaker, one per paragraph, bullet or heading."""
    shapes = [_shape(line) for _, line in lines]
    above = [sign.block[0] for sign in shapes if sign.block]
    blocks = frozenset(above if len(above) > 1 else ())
    names = speakers_of(sign.head for sign in shapes if sign.filled and not sign.block)
    builder = _CueBuilder()
    for (number, line), sign in zip(lines, shapes, strict=True):
        if not sign.filled:
            builder.end_paragraph()
        elif sign.block and sign.block[0] in blocks:
            builder.start_turn((number, line), *sign.block, block=True)
        elif sign.head and sign.head[0] in names:
            name, at, text = sign.head
            builder.start_turn((number, line), name, sign.at if at is None else at)
            builder.add(number, text)
        elif (title := heading(line)) is not None:
            builder.start_turn()
            builder.add(number, title)
            builder.start_turn()
        else:
            at, text = _split_time(line)
            if at is not None or _BULLET.match(line):
                builder.flush()
                builder.at = builder.at if at is None else at
            builder.add(number, text)
    builder.start_turn()
    return builder.cues


@dataclass(frozen=True, slots=True)
class _LineShape:
    """What a line may be, seen alone: a name above a turn, or a time and a name in front of one."""

    filled: bool
    block: tuple[str, float | None] | None = None
    at: float | None = None
    head: Head | None = None


_EMPTY = _LineShape(False)


def _shape(line: str) -> _LineShape:
    if not line.strip():
        return _EMPTY
    if block := name_above(line):
        return _LineShape(True, block)
    at, text = _split_time(line)
    if at is None and (match := _BARE_TIME.match(line)):
        at, text = seconds(match[1]), line[match.end() :]
    return _LineShape(True, None, at, split_head(text))


@dataclass(slots=True)
class _CueBuilder:
    """Builds cues line by line; mutable."""

    cues: list[Cue] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    above: tuple[int, str] | None = None  # the line with the speaker's name, until some text follows
    speaker: str | None = None
    at: float | None = None
    block: bool = False  # the name was on a line above, so an empty line does not end the turn

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
        self.above, self.speaker, self.at, self.block = above, speaker or None, at, block

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
    if len(line) > _LONG:
        return None
    if match := _SQUARE.match(line):
        return " ".join(match[1].split()), seconds(match[2]) if match[2] else None
    match = _BLOCK.match(line)
    return (" ".join(match[1].split()), seconds(match[2])) if match and is_proper_name(match[1]) else None


# Cues into turns.

TURN, PAUSE = 100, 15.0  # most words of a merged turn; seconds of silence that end it


def with_speakers(found: Sequence[Cue]) -> list[Cue]:
    """Return the cues, with unknown speakers taken from "Name:" at the start of the text."""
    heads = [split_head(cue.text) if cue.speaker is None else None for cue in found]
    names = speakers_of(head for cue, head in zip(found, heads, strict=True) if cue.speaker is None)
    known = list[Cue]()
    for cue, head in zip(found, heads, strict=True):
        spoken = head and head[0] in names and head[2].strip()
        known.append(replace(cue, speaker=head[0], text=head[2].strip()) if head and spoken else cue)
    return known


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
