"""Reads plain text as turns: `Speaker: text`, blocks under a name and a time, chat logs, minutes and prose.

Knows nothing about files or documents; every word that is not a name or a time code is in a turn.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.ingest.speakers import Head, is_proper, speakers_of, split_head
from engine.ingest.subtitles import CLOCK, Cue, seconds

Lines = Sequence[tuple[int, str]]  # number, line

_TIMED = re.compile(
    rf"\s*(?:[\[(]({CLOCK})(?:\s*-+>?\s*{CLOCK})?[\])]|(\d{{1,2}}:\d\d:\d\d(?:[.,]\d{{1,3}})?)(?=\s|$))\s*(?:[-–—]\s)?\s*"
)
_LOOSE = re.compile(rf"\s*({CLOCK})[ \t]+(?:[-–—][ \t]+)?")  # a time of day in minutes, unless a name follows
_BLOCK = re.compile(
    rf"\s*(?:\*\*)?([^\s\[\](){{}}<>:*][^\[\]<>:\t*]{{0,80}}?)(?:\*\*)?,?[ \t]+[\[(]?({CLOCK})[\])]?\s*$"
)
_SQUARE = re.compile(rf"\s*\[([^\[\]:]{{1,80}})\][ \t]*({CLOCK})?\s*$")
_CHAT = re.compile(
    r"(\d{1,2}:\d\d:\d\d)(?:\t(?![ \t]*From\s)([^\t]{1,100})\t"
    r"|[ \t]+From[ \t]+([^:]{1,200}?)(?:[ \t]+to[ \t]+[^:]{1,100})?[ \t]*:)[ \t]*"
)
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s+(?=\S)")
_LONG = 200  # characters of a line that is no name
_RULE = re.compile(r"[\s\-=_*#~]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(\S.*)$")


def heading(line: str) -> str | None:
    """Give the text of a markdown heading, None for any other line."""
    match = _HEADING.match(line)
    return match[1].rstrip().rstrip("#").rstrip() if match else None


def is_chat(lines: Lines) -> bool:
    """Tell whether lines are those of a meeting's chat log."""
    return any(_CHAT.match(line) for line in [line for _, line in lines[:50] if line.strip()][:5])


def chat_cues(lines: Lines) -> list[Cue]:
    """Give one cue per message of a chat log, with all of its lines."""
    page = _Page()
    for number, line in lines:
        match = _CHAT.match(line)
        if match:
            page.turn((number, line), " ".join((match[2] or match[3]).split()).rstrip(":"), seconds(match[1]))
        page.add(number, line[match.end() :].strip() if match else line.strip())
    page.turn()
    return page.cues


def dialogue_cues(lines: Lines) -> list[Cue]:
    """Give one cue per speaker's line, or paragraph, bullet and heading where nobody speaks."""
    signs = [_signs(line) for _, line in lines]
    above = [sign.block[0] for sign in signs if sign.block]
    blocks = frozenset(above if len(above) > 1 else ())
    names = speakers_of(sign.head for sign in signs if sign.filled and not sign.block)
    page = _Page()
    for (number, line), sign in zip(lines, signs, strict=True):
        if not sign.filled:
            page.paragraph()
        elif sign.block and sign.block[0] in blocks:
            page.turn((number, line), *sign.block, block=True)
        elif sign.head and sign.head[0] in names:
            name, at, text = sign.head
            page.turn((number, line), name, sign.at if at is None else at)
            page.add(number, text)
        elif (title := heading(line)) is not None:
            page.turn()
            page.add(number, title)
            page.turn()
        else:
            at, text = _timed(line)
            if at is not None or _BULLET.match(line):
                page.close()
                page.at = page.at if at is None else at
            page.add(number, text)
    page.turn()
    return page.cues


@dataclass(frozen=True, slots=True)
class _Signs:
    """What a line may be, judged alone: the name above a turn, or a time and a name in front of one."""

    filled: bool
    block: tuple[str, float | None] | None = None
    at: float | None = None
    head: Head | None = None


_NOTHING = _Signs(False)


def _signs(line: str) -> _Signs:
    if not line.strip():
        return _NOTHING
    if block := name_above(line):
        return _Signs(True, block)
    at, text = _timed(line)
    if at is None and (match := _LOOSE.match(line)):
        at, text = seconds(match[1]), line[match.end() :]
    return _Signs(True, None, at, split_head(text))


@dataclass(slots=True)
class _Page:
    """The turn being read, and the cues before it; mutable."""

    cues: list[Cue] = field(default_factory=list)
    lines: list[tuple[int, str]] = field(default_factory=list)
    above: tuple[int, str] | None = None  # the line that named the speaker, until something is said
    speaker: str | None = None
    at: float | None = None
    block: bool = False  # the speaker stood above, so an empty line does not end the turn

    def turn(
        self,
        above: tuple[int, str] | None = None,
        speaker: str | None = None,
        at: float | None = None,
        block: bool = False,
    ) -> None:
        """End the turn and begin another; a name under which nothing was said was no name."""
        self.close()
        if self.above and self.speaker:
            self.cues.append(Cue(self.above[1].strip(), self.above[0], self.above[0], None, None))
        self.above, self.speaker, self.at, self.block = above, speaker or None, at, block

    def paragraph(self) -> None:
        """End the paragraph, and with it the turn unless its speaker stood above."""
        self.close()
        if not self.block and not self.above:
            self.speaker, self.at = None, None

    def add(self, number: int, text: str) -> None:
        """Take one more line of the turn."""
        if text.strip() and (self.speaker or not _RULE.fullmatch(text)):
            self.lines.append((number, text.rstrip()))

    def close(self) -> None:
        """End the paragraph."""
        if self.lines:
            text = "\n".join(text for _, text in self.lines).strip()
            self.cues.append(Cue(text, self.lines[0][0], self.lines[-1][0], self.speaker, self.at))
            self.lines, self.above = [], None


def _timed(line: str) -> tuple[float | None, str]:
    match = _TIMED.match(line)
    return (seconds(match[1] or match[2]), line[match.end() :]) if match else (None, line)


def name_above(line: str) -> tuple[str, float | None] | None:
    """Give (name, seconds) of a line that may stand above what somebody said."""
    if len(line) > _LONG:
        return None
    if match := _SQUARE.match(line):
        return " ".join(match[1].split()), seconds(match[2]) if match[2] else None
    match = _BLOCK.match(line)
    return (" ".join(match[1].split()), seconds(match[2])) if match and is_proper(match[1]) else None
