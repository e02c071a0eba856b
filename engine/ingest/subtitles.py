"""WebVTT, SubRip and SBV subtitles into cues. Lenient: a cue with a broken time keeps its words and has no time."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape


@dataclass(frozen=True, slots=True)
class Cue:
    """One subtitle: its text, its first and last line in the file (from 1), its speaker, its start in seconds.

    A line of the text may be another speaker's, where a name stands in front of it.
    """

    text: str
    first: int
    last: int
    speaker: str | None = None
    at: float | None = None
    until: float | None = None


CLOCK = r"(?:\d{1,4}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,9})?"
_ARROW = re.compile(rf"\s*({CLOCK})?[^\n]*?-->\s*({CLOCK})?")
_SUBRIP = re.compile(r"\s*\d[\d:.,]*\s*-->\s*\d")
_SBV = re.compile(rf"\s*({CLOCK}),({CLOCK})\s*$")
_COMMENT = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
_VOICE = re.compile(r"<v(?:\.[^\s<>]{0,100})?[ \t]+([^<>]{1,200})>")
_LABELLED = re.compile(r"[^\s:：][^:：]{0,99}(?::(?=\s|$)|：)")
_STAMP = re.compile(r"<(?:\d{1,4}:)?\d{1,2}:\d{1,2}[.,]\d{1,9}>")
_TAG = re.compile(
    r"</?(?:[biuscv]|ruby|rt|rp|br)(?:\.[^\s<>]{0,100})?\s?/?>|</?(?:font|span|lang)(?:\s[^<>]{0,200})?>|\{\\[^{}]{0,200}\}",
    re.IGNORECASE,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z]\w{1,30});", re.IGNORECASE)


def seconds(clock: str) -> float:
    """Return the seconds of `h:mm:ss.mmm`, `mm:ss,mmm` or `mm:ss`."""
    total = 0.0
    for part in clock.replace(",", ".").split(":"):
        total = total * 60 + float(part)
    return round(total, 3)


def is_subtitles(head: str) -> bool:
    """Return whether a file starts like a subtitle file."""
    lines = [line for line in head.lstrip("\ufeff").split("\n", 12)[:12] if line.strip()]
    return bool(lines) and (lines[0].startswith("WEBVTT") or any(_timing(line, False) for line in lines[:2]))


def cues(lines: Sequence[str]) -> list[Cue]:
    """Return the cues in a file's lines, in order, without markup; a cue with several voices becomes several."""
    vtt = bool(lines) and lines[0].startswith("WEBVTT")
    rolling = any(_STAMP.search(line) for line in lines)
    found, shown = list[Cue](), ""
    for (start, end), block in _blocks(lines, vtt):
        if rolling:  # live captions repeat the previous line in each cue
            block = [pair for pair in block if _plain(pair[1]).strip() != shown or _STAMP.search(pair[1])]
        if block:
            shown = _plain(block[-1][1]).strip() or shown
            found += _voices(block, start, end)
    return found


def header_title(lines: Sequence[str]) -> str:
    """Return the title on the WEBVTT line, or ""."""
    match = re.match(r"WEBVTT[ \t]+(?:-[ \t]*)?(.{1,200})$", lines[0]) if lines else None
    return match[1].strip() if match and "-->" not in match[1] else ""


_Times = tuple[float | None, float | None]
_Block = list[tuple[int, str]]  # line number, line


def _blocks(lines: Sequence[str], vtt: bool) -> Iterator[tuple[_Times, _Block]]:
    """Yield the lines under each time line, without the number or identifier of the next cue."""
    times: _Times | None = None
    block, comment = _Block(), False
    for number, line in enumerate(lines, 1):
        timing = _timing(line, vtt)
        if timing:
            if times:
                yield times, _without_identifier(block, vtt)
            times, block, comment = timing, [], False
        elif vtt and _COMMENT.match(line) and (not block or not block[-1][1].strip()):
            comment = True
        elif comment:
            comment = bool(line.strip())
        elif times:
            block.append((number, line))
    if times:
        yield times, block


def _timing(line: str, vtt: bool) -> _Times | None:
    arrow = "-->" in line and (vtt or _SUBRIP.match(line))
    match = _ARROW.match(line) if arrow else _SBV.match(line)
    if match is None:
        return None
    return (seconds(match[1]) if match[1] else None, seconds(match[2]) if match[2] else None)


def _without_identifier(block: _Block, vtt: bool) -> _Block:
    """Drop the last line if it identifies the next cue: a number, or in WebVTT any line after an empty one."""
    if not block:
        return block
    alone = len(block) == 1 or not block[-2][1].strip()
    identifies = block[-1][1].strip().isdecimal() or (vtt and alone and len(block) > 1)
    return block[:-1] if identifies else block


def _voices(block: _Block, at: float | None, until: float | None) -> Iterator[Cue]:
    parts = _VOICE.split("\n".join(line for _, line in block))
    line, speaker = block[0][0], None
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
        if text := _joined(_plain(part)):
            line = numbers[first]
            yield Cue(text, line, max(line, numbers[max(last, first)]), speaker, at, until)


def _joined(text: str) -> str:
    """Return a wrapped text on one line; a line that may name another speaker stays a line."""
    lines = [line for line in (" ".join(line.split()) for line in text.split("\n")) if line]
    return "".join(f"\n{line}" if _LABELLED.match(line) else f" {line}" for line in lines).strip()


def _plain(text: str) -> str:
    without = _TAG.sub(" " if "<br" in text else "", _STAMP.sub("", text))
    return _ENTITY.sub(lambda match: unescape(match[0]), without)
