"""WebVTT, SubRip and SBV subtitles into cues, and the line shape that recurs in a file, around names and times.

Lenient: any line that is not a time line is text.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import unescape
from itertools import pairwise

from msgspec import Struct


class Cue(Struct, frozen=True):
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
_ARROW = re.compile(rf"\s*({CLOCK})\s*-->\s*({CLOCK})(?:\s+\w+[:=].*)?\s*$")
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
    return bool(lines) and (lines[0].startswith("WEBVTT") or any(map(_timing, lines[:2])))


def cues(lines: Sequence[str]) -> list[Cue]:
    """Return the cues in a file's lines, in order, without markup; a cue with several voices becomes several."""
    vtt = bool(lines) and lines[0].startswith("WEBVTT")
    blocks = [one for one in _blocks(lines, vtt) if one[2]]
    said = [_plain("\n".join(line for _, line in block)).split() for *_, block in blocks]
    again = [_repeated(*pair) for pair in pairwise([[], *said])]
    rolls = sum(size > 0 and one != other for size, (one, other) in zip(again[1:], pairwise(said), strict=True))
    rolling = any(map(_STAMP.search, lines)) or (rolls > 2 and 2 * rolls > len(again))
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
    """Return the lines of a block without its first words."""
    kept = _Block()
    for number, line in block:
        words = _plain(line).split()
        if first < len(words):
            kept.append((number, " ".join(words[first:]) if first else line))
        first = max(first - len(words), 0)
    return kept


def header_title(lines: Sequence[str]) -> str:
    """Return the title on the WEBVTT line, or ""."""
    match = re.match(r"WEBVTT[ \t]+(?:-[ \t]*)?(.{1,200})$", lines[0]) if lines else None
    return match[1].strip() if match and "-->" not in match[1] else ""


_Times = tuple[float | None, float | None]
_Block = list[tuple[int, str]]  # line number, line


def _blocks(lines: Sequence[str], vtt: bool) -> Iterator[tuple[_Times, str, _Block]]:
    """Yield each time line, the identifier above it, and the lines under it."""
    times: _Times | None = None
    label, block, comment = "", _Block(), False
    for number, line in enumerate(lines, 1):
        timing = _timing(line)
        if timing:
            kept = _without_identifier(block, vtt)
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


def _without_identifier(block: _Block, vtt: bool) -> _Block:
    """Drop the last line if it identifies the next cue: a number, or in WebVTT any line after an empty one."""
    if not block:
        return block
    alone = len(block) == 1 or not block[-2][1].strip()
    identifies = block[-1][1].strip().isdecimal() or (vtt and alone and len(block) > 1)
    return block[:-1] if identifies else block


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


# The line shape that recurs: signs and times around a part that is one of a few names.


class Lead(Struct, frozen=True):
    """A name in front of a text or above it, the time beside it, the text on its line, and the lines it takes."""

    name: str
    at: float | None
    text: str
    above: bool = False
    used: int = 1


_SIGN = r"(?:[\[\](){}<>|:：*#=~`\"“”•·→/\\,;–—@\0]|(?<![^\W_])[-_]|[-_](?![^\W_]))"
_TIME = re.compile(
    r"(?P<day>(?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\b[^\W\d_]{3,9}\.? \d{1,2}, \d{4})[T,]?[ ]{0,2})?(?<![\d:.])"
    rf"(?P<first>(?<=\[)[^\W\d_]{{2,3}} )?(?P<clock>{CLOCK})(?::\d\d)?(?!:?\d)(?P<half>[ \u202f]?[ap]\.?m\b\.?)?Z?",
    re.IGNORECASE,
)
_FRONT = re.compile(rf"(?:\d{{1,4}}[.)]?(?=\s))?(?:{_SIGN}|\s)*")
_GAP = re.compile(rf"\s*(?:(?:{_SIGN}|\t|[ ]{{2}})(?:{_SIGN}|\s)*|$)")
_ASIDE = re.compile(r"\s*(?:\([^()\0]{1,60}\)|<[^<>\0]{1,60}>|\[[^\[\]\0]{1,60}\])")
_ABOVE = re.compile(r"[^\w\0]*N[^\0]*\0|\[N\]")
_NO_NAME = re.compile(r"[?!…]|\w{5,}\.\s|(?<!\w\w\w)\w{4,}\.$|^[\W\d]*$|(?:\S+\s+){6}")
_SAMPLE, _WIDTH, _NAME = 500, 160, 60  # lines that show the shape; characters of a line, and of a name


def leads(lines: Sequence[str], captions: bool = False) -> dict[int, Lead]:
    """Return the names in front of texts or above them, by place, where most stand in one shape.

    Such a shape has a part that is one of few names, and a time or signs that set it apart. Captions have a time.
    """
    shapes = defaultdict[str, dict[int, Lead]](dict)
    for place in range(min(len(lines), _SAMPLE)):
        for shape, lead in _leads(lines, place):
            shapes[shape].setdefault(place, lead)
    weights = {shape: _weight(shape, found, lines, captions) for shape, found in shapes.items()}
    best = max(weights, key=lambda shape: weights[shape], default="")
    if not best or not weights[best][0]:
        return {}
    found = {at: next((lead for shape, lead in _leads(lines, at) if shape == best), None) for at in range(len(lines))}
    return {at: lead for at, lead in found.items() if lead}


def name_above(line: str) -> Lead | None:
    """Return the name and time on a line that holds nothing else, the name first or in brackets."""
    here = _on_line(line) if len(line) <= _WIDTH and line.rstrip()[-1:] in "0123456789)]*mM" else ()
    found = [lead for shape, lead in here if lead.above and _ABOVE.match(shape) and not {*":："} & {*lead.name}]
    return found[-1] if found else None


def _leads(lines: Sequence[str], place: int) -> Iterator[tuple[str, Lead]]:
    """Yield what may be a name on a line, or beside a line that is a time, each with its shape."""
    line, below = lines[place], lines[place + 1] if place + 1 < len(lines) else ""
    if _is_time(line) or _is_time(below):
        name, time = (below, line) if _is_time(line) else (line, below)
        yield from ((f"\0{time is line}{shape}", lead) for shape, lead in _on_line(name, time) if lead.above)
    yield from _on_line(line)


def _is_time(line: str) -> bool:
    return _TIME.search(line) is not None and not re.search(r"\w", _ASIDE.sub("", _TIME.sub("", line)))


def _on_line(line: str, beside: str = "") -> Iterator[tuple[str, Lead]]:
    canon = _TIME.sub(lambda found: "\0" * len(found[0]), line[:_WIDTH])
    start = place = front.end() if (front := _FRONT.match(canon)) else 0
    time = _TIME.search(beside or line)
    at = seconds(time["clock"]) if time and not (time["day"] or time["half"] or time["first"]) else None
    while (gap := _GAP.search(canon, place)) and gap.start() - start <= _NAME:
        aside = _ASIDE.match(canon, gap.start())
        behind = _GAP.match(canon, aside.end()) if aside else None
        ends = [(gap.start(), gap, "")]
        if aside and behind:
            ends = [(gap.start(), behind, aside[0].strip()[0]), (aside.end(), behind, "")]
        for end, tail, extra in ends:
            name, text = " ".join(line[start:end].split()), line[tail.end() :].strip()
            shape = f"{canon[:start]}N{extra}{tail[0]}".rstrip(" ") + ("" if text else "$")
            if not _NO_NAME.search(name):
                shape = re.sub(r"\d+", "0", re.sub(r"(\0)\0+|( ) +", r"\1\2", shape))
                yield shape, Lead(name, at, text.rstrip(" |") if shape[0] == "|" else text, not text, 1 + bool(beside))
        place = ends[-1][1].end()
        if place >= len(canon):
            return


def _weight(shape: str, found: Mapping[int, Lead], lines: Sequence[str], captions: bool) -> tuple[int, ...]:
    """Return how likely a shape of names is, 0 first if it is not one."""
    uses = Counter(lead.name for lead in found.values())
    again = [name for name in uses if uses[name] > 1]
    known = sum(uses[name] for name in again)
    filled = sum(map(bool, map(str.strip, lines[:_SAMPLE])))
    apart = (
        (2 * len(found) >= filled and (shape[-1] == "$" or not set(":,;.") & set(shape)))
        if captions
        else _sets_apart(shape, found, lines)
    )
    if not apart or len(again) < 2 or len(found) < 3 or known < 0.6 * len(found):
        return (0,)
    return known, -odd(again), sum(map(len, again)), len(shape)


def odd(names: Iterable[str]) -> int:
    """Return how many signs and digits there are in some names."""
    return sum(len(re.findall(r"[^\w\s.'’]|\d", name)) for name in names)


def _sets_apart(shape: str, found: Mapping[int, Lead], lines: Sequence[str]) -> bool:
    """Return whether the signs or times of a shape tell names from words: minutes and lists come back, too."""
    ats = [lead.at for lead in found.values() if lead.at is not None]
    texts = [lead.text for lead in found.values()]
    spoken = 2 * sum(sum(map(str.isalpha, text)) > 8 for text in texts) > len(texts)
    if "\0" in shape:  # in a timetable, what is behind the name is short
        most = 4 if shape[0] == "\0" else 10  # in a chat of days, times fall at midnight
        return (spoken or shape[-1] == "$") and most * sum(one > other for one, other in pairwise(ats)) <= len(ats)
    places = [place for place in range(min(len(lines), _SAMPLE)) if lines[place].strip()]
    if shape[-1] == "$":
        below = [lines[after] for place, after in pairwise(places) if place in found]
        alike = sum(lines[place][0] == shape[0] for place in places)
        told = sum(re.match(r"[^\W\d_]|[\"“(]", line) is not None for line in below)
        return shape[0] in "#*_" and len(found) > 3 and alike <= len(found) + 2 and told > 0.7 * len(found)
    apart = shape[shape.index("N") + 1 :].strip(" *_")[:1]
    full = 2 * sum(" " in lead.name for lead in found.values()) > len(found)  # a dash sets apart names, not items
    told = apart in (">|}\t—–-" if full else ">|}\t") or shape.startswith("0")
    return len(found) > 3 and 2 * len(found) > len(places) and spoken and told
