"""Reads plain-text transcripts into cues: `Speaker: text`, blocks under a name and a time, chat logs, minutes, prose.

Names stand in the line shape that recurs in a file, or where people write them. Every word that is not a speaker's name
or a time code ends up in a cue. Knows no files and no documents.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from engine.ingest.chunking import UNSPACED
from engine.text.dates import DAY_NAMES, MONTH_NAMES
from engine.text.people import is_everyday_word, listed_attendees
from engine.text.words import FUNCTION_WORDS, words
from prompts import word_patterns
from store.types import LONGEST_SPEAKER, replace


class Cue(Struct, frozen=True):
    """A subtitle: its text (a line may begin with another speaker's name), its lines in the file (from 1), seconds."""

    text: str
    first: int
    last: int
    speaker: str | None = None
    at: float | None = None
    until: float | None = None


CLOCK = r"(?:\d{1,4}:)?\d{1,2}:\d{1,2}(?:[.,]\d{1,9})?"


def seconds(clock: str) -> float:
    """Return the seconds of `h:mm:ss.mmm`, `mm:ss,mmm` or `mm:ss`."""
    total = 0.0
    for part in clock.replace(",", ".").split(":"):
        total = total * 60 + float(part)
    return round(total, 3)


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
_INDENT = re.compile(rf"(?:\d{{1,4}}[.)]?(?=\s))?(?:{_SIGN}|\s)*")
_GAP = re.compile(rf"\s*(?:(?:{_SIGN}|\t|[ ]{{2}})(?:{_SIGN}|\s)*|$)")
_ASIDE = re.compile(r"\s*(?:\([^()\0]{1,60}\)|<[^<>\0]{1,60}>|\[[^\[\]\0]{1,60}\])")
_ABOVE = re.compile(r"[^\w\0]*N[^\0]*\0|\[N\]")
_NO_NAME = re.compile(r"[?!…]|\w{5,}\.\s|(?<!\w\w\w)\w{4,}\.$|^[\W\d]*$|(?:\S+\s+){6}")
_SAMPLE, _WIDTH, _LONGEST = 500, 160, 60  # lines that show the shape; characters of a line, and of a name


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
    start = place = front.end() if (front := _INDENT.match(canon)) else 0
    time = _TIME.search(beside or line)
    at = seconds(time["clock"]) if time and not (time["day"] or time["half"] or time["first"]) else None
    while (gap := _GAP.search(canon, place)) and gap.start() - start <= _LONGEST:
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
    plain = 2 * len(found) >= filled and (shape[-1] == "$" or not set(":,;.") & set(shape))
    apart = plain if captions else _sets_apart(shape, found, lines)
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
_LABEL = re.compile(f"{word_patterns('labels')['label']}|{_DAY}")
MIN_SHARE, MIN_USES = 0.5, 3  # share of lines with a name that makes a dialogue; uses of a name in other texts


def split_head(text: str) -> Lead | None:
    """Return speaker, time and rest of a text that starts with a possible speaker's name and a colon."""
    front = text[:200]  # that may contain a name
    match = _BOLD.match(front) or _PLAIN.match(front) or _BRACKETED.match(front)
    if match is None or not _may_be_name(match["name"]):
        return None
    clock = match["at"] or match.groupdict().get("at2")
    return Lead(" ".join(match["name"].split()), seconds(clock) if clock else None, text[match.end() :].lstrip())


def speakers_of(heads: Sequence[Lead | None], attendees: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the names that are speakers, given the heads of lines (None: no head) and those who took part.

    Where most lines have a head, all its names are, but for words and phrases that do not come back. Elsewhere names
    that come back are; and if two do, all proper names.
    """
    uses = Counter(head.name for head in heads if head)
    found, count = attendees & uses.keys(), uses.total()
    proper = frozenset(filter(is_proper_name, uses))
    handles = {name for name in uses.keys() - proper if " " not in name and not _is_everyday(name)}
    frequent = frozenset(name for name in proper | handles if uses[name] >= MIN_USES)
    if count >= max(min(2, len(heads)), MIN_SHARE * len(heads)):
        # "the point is" and "so" are words of a sentence.
        phrases = {name for name in uses if name[0].islower() and not FUNCTION_WORDS.isdisjoint(words(_bare(name)))}
        # Rare words such as "potuz" are names; "so" and "the point" must recur.
        least = {name: MIN_USES if _is_everyday(name) else 1 + (" " in name) for name in uses.keys() - proper}
        found |= proper.union(name for name in least if uses[name] >= least[name])
        found |= uses.keys() - phrases if count == len(heads) else set()
    return found | frequent | (proper if len(frequent) > 1 else frozenset())


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
    bare, label = _bare(name), _LABEL.fullmatch(name.casefold().strip(" *_-"))
    return not label and len(bare.split()) <= 6 and any(map(str.isalpha, name)) and not _SENTENCE.search(bare)


def _bare(name: str) -> str:
    return _BRACKETS.sub(" ", _BRACKETS.sub(" ", name))


Lines = Sequence[tuple[int, str]]  # line number, line

_TIMED = re.compile(
    rf"\s*(?:[\[(]({CLOCK})(?:\s*-+>?\s*{CLOCK})?[\])]|(\d{{1,2}}:\d\d:\d\d(?:[.,]\d{{1,3}})?)(?=\s|$))\s*(?:[-–—]\s)?\s*"
)
_BARE_TIME = re.compile(rf"\s*({CLOCK})[ \t]+(?![AaPp]\.?[Mm]\b)(?:[-–—][ \t]+)?")  # a time only if a name follows
_CHAT = re.compile(
    r"(\d{1,2}:\d\d:\d\d)(?:\t(?![ \t]*From\s|[\d:.]*\t)([^\t]{1,100})\t"
    r"|[ \t]+From[ \t]+([^:]{1,200}?)(?:[ \t]+to[ \t]+[^:]{1,100})?[ \t]*:)[ \t]*"
)
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s+(?=\S)")
_RULE = re.compile(r"[\s\-=_*#~|:]*")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(\S.*)$")


def heading(line: str) -> str | None:
    """Return the text of a markdown heading, None for any other line."""
    match = _HEADING.match(line)
    return match[1].rstrip().rstrip("#").rstrip() if match else None


def chat_cues(lines: Lines) -> list[Cue]:
    """Return one cue per message of a meeting's chat log, with all its lines; none of another text."""
    builder = _CueBuilder()
    if not any(map(_CHAT.match, [line for _, line in lines[:50] if line.strip()][:5])):
        return []
    for number, line in lines:
        match = _CHAT.match(line)
        if match:
            name = " ".join((match[2] or match[3]).split()).rstrip(":")
            builder.start_turn((number, line), Lead(name, seconds(match[1]), ""))
        builder.add(number, line[match.end() :].strip() if match else line.strip())
    builder.start_turn()
    return builder.cues


# Exports of messengers: "[03/05/2024, 19:00:12] Ann: text" and "03/05/2024, 19:00 - Ann: text".

_UNSEEN = "[\u200e\u200f\u202a-\u202e\ufeff]*"  # marks of direction, in front of some lines and names
_BLANK = "[ \u00a0\u202f]"
_DATED = rf"(?P<a>\d{{1,4}}){_UNSEEN}(?P<sep>[./-]){_BLANK}?(?P<b>\d{{1,2}}){_UNSEEN}(?P=sep){_BLANK}?(?P<c>\d{{1,4}})"
_CLOCKED = (
    rf"(?P<hour>\d{{1,2}})[:.](?P<minute>\d\d)(?:[:.](?P<second>\d\d))?(?:{_BLANK}?(?P<half>[ap])\.?{_BLANK}?m\b\.?)?"
)
_WORD = r"[^\d\n:\[\]–-]"  # of a language: between day and time, or behind them
_STAMPED, _CLOCK_FIRST = (
    re.compile(
        rf"{_UNSEEN}(?P<open>\[)?{pattern}(?(open){_WORD}{{0,9}}\]{_BLANK}?|(?:{_WORD}{{0,9}}{_BLANK}[-–]|:|,){_BLANK}){_UNSEEN}",
        re.IGNORECASE,
    )
    for pattern in (rf"{_DATED}{_WORD}{{1,12}}{_CLOCKED}", rf"{_CLOCKED},?{_BLANK}{_DATED}")
)
_SENDER = re.compile(rf"{_UNSEEN}(?:~{_BLANK}?)?([^:\n]{{1,{LONGEST_SPEAKER}}}):(?: |$)(\u200e)?")
_NOTICE = re.compile(r"[\"“”„«»]")  # in a line without a sender: Ann changed the subject to "Choir: spring"
_FIRST = 50  # lines that show whether a text is a chat


def _stamp(line: str) -> re.Match[str] | None:
    return _STAMPED.match(line) or _CLOCK_FIRST.match(line)


Message = tuple[datetime, Cue]  # with the sender's local time; a notice of the messenger has no speaker


def _senders(lines: Sequence[str]) -> dict[int, Lead]:
    """Return who wrote, by the place of the message: the name in front of a colon, or in the shape that recurs."""
    found = dict[int, Lead]()
    for place, line in enumerate(lines):
        stamp = _stamp(line)
        sender = _SENDER.match(line, stamp.end()) if stamp else None
        if sender and not _NOTICE.search(sender[1]):
            text = line[sender.end() :]
            found[place] = Lead(" ".join(sender[1].split()), None, text, above=sender[2] is not None)
    induced = {} if found else leads(lines)
    return found or {place: lead for place, lead in induced.items() if _stamp(lines[place])}


def exported_messages(lines: Lines) -> tuple[str, list[Message]]:
    """Return the name of a chat, if it is told, and its messages, each with all its lines; none of another text.

    In an export, many lines begin with a date and a time, and these with a name. A message without a valid date has
    that of the one before.
    """
    head = [line for _, line in lines if line.strip()][:_FIRST]
    first = {place: stamp for place, line in enumerate(head) if (stamp := _stamp(line))}
    named, begins = len(_senders(head)), bool(first) and (0 in first or 5 * len(first) >= len(head) > 5)
    prose = any(stamp[0].rstrip()[-1:] == ":" for stamp in first.values())  # or a chat of 2012
    if not (begins and 0 < len(first) <= (1 if prose else 5) * named):
        return "", []
    stamps = [(place, match) for place, (_, line) in enumerate(lines) if (match := _stamp(line))]
    # Without zeros and with "PM" they are written so in the United States.
    marked = any(match["half"] in ("A", "P") for _, match in stamps)
    american = marked and any(len(match["a"]) == 1 for _, match in stamps)
    orders = ("cab", "cba", "abc") if american else ("cba", "cab", "abc")  # the groups of year, month and day
    dated = {order: [_moment(match, order) for _, match in stamps] for order in orders}
    days = {order: [moment.date() for moment in found if moment] for order, found in dated.items()}
    # As most are valid, then as they ascend, then by the clock.
    order = min(days, key=lambda order: (-len(days[order]), sum(one > other for one, other in pairwise(days[order]))))
    moments = dated[order]
    sent = next(filter(None, moments), None)
    if sent is None:
        return "", []
    senders = _senders([line for _, line in lines])
    found, ends = list[Message](), [*(place for place, _ in stamps[1:]), len(lines)]
    if above := "\n".join(line for _, line in lines[: stamps[0][0]]).strip():
        found.append((sent, Cue(above, lines[0][0], lines[stamps[0][0] - 1][0])))
    group = ""
    for (place, match), end, moment in zip(stamps, ends, moments, strict=True):
        sent = moment or sent
        sender = senders.get(place) or Lead("", None, lines[place][1][match.end() :])
        text = "\n".join([sender.text, *(line for _, line in lines[place + 1 : end])]).strip()
        last = max(number for number, line in lines[place:end] if line.strip())
        # The messenger itself speaks first, behind a mark, in the name of the chat.
        notice = sender.above and sender.text and place == stamps[0][0]
        group = sender.name if notice else group
        found.append((sent, Cue(text, lines[place][0], last, None if notice else sender.name or None)))
    return group, found


def _moment(stamp: re.Match[str], order: str) -> datetime | None:
    year, month, day = (int(stamp[part]) for part in order)
    year += 2000 * (year < 100) - 543 * (year > 2400)  # the Buddhist era
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
    written, induced = _heads(lines), leads([line for _, line in lines])
    ranks = [
        (len(found), -odd(one.name for one in found.values()), sum(one.at is not None for one in found.values()))
        for found in (written, induced)
    ]
    heads = written if ranks[0] >= ranks[1] else induced
    builder, until = _CueBuilder(), 0
    for place, (number, line) in enumerate(lines):
        head = heads.get(place) if place >= until else None
        if head:
            until = place + head.used
            builder.start_turn((number, lines[until - 1][1] if head.used > 1 else line), head)
            builder.add(number, head.text)
        elif not line.strip():
            builder.flush()
            if not builder.block and not builder.above:  # else the turn goes on
                builder.speaker = builder.at = None
        elif place >= until and not (heads is induced and line.strip().isdecimal() and place + 1 in heads):
            _add_line(builder, number, line)
    builder.start_turn()
    return builder.cues


def _heads(lines: Lines) -> dict[int, Lead]:
    """Return the names that stand in front of texts or above them as people write them, by place."""
    texts = [line for _, line in lines]
    above, front, opening = dict[int, Lead](), dict[int, Lead | None](), list[int]()
    begins = True  # a paragraph, or what is below a time
    for place, line in enumerate(texts):
        if not line.strip():
            begins = True
            continue
        opening += [place] if begins else []
        begins = False
        if (name := name_above(line)) and _may_be_name(name.name):
            above[place] = name
        else:
            at, text = _split_time(line)
            begins = at is not None and not text.strip()
            if at is None and (match := _BARE_TIME.match(line)):
                at, text = seconds(match[1]), line[match.end() :]
            head = split_head(text)
            front[place] = replace(head, at=at) if head and head.at is None else head
    attendees = frozenset(filter(is_proper_name, listed_attendees(texts)))
    found = _names_alone(texts, opening, attendees)
    names = speakers_of([*front.values()], attendees)
    heads = {place: head for place, head in front.items() if head and head.name in names}
    # Above turns, with a time, stand proper names, and those that come back.
    uses = Counter(name.name for name in above.values())
    known = frozenset(name for name in uses if is_proper_name(name) or uses[name] > 1)
    if sum(uses[name] for name in known) > 1:
        found |= {place: name for place, name in above.items() if name.name in known}
    return heads | found


def _add_line(builder: "_CueBuilder", number: int, line: str) -> None:
    if title := heading(line):
        builder.start_turn()
        builder.add(number, title)
        builder.start_turn()
        return
    at, text = _split_time(line)
    if at is not None and not text.strip():
        builder.clock = at
    if at is not None or _BULLET.match(line):
        builder.flush()
        builder.at = builder.at if at is None else at
    builder.add(number, text)


def _names_alone(lines: Sequence[str], opening: Sequence[int], attendees: frozenset[str]) -> dict[int, Lead]:
    """Return the names that stand alone above turns, by place: those of attendees, or two and more that come back."""
    found = dict[int, str]()
    for place in opening:
        name, below = " ".join(lines[place].split()).strip("* "), "".join(lines[place + 1 : place + 2])
        fits = len(name) <= 60 and ":" not in name and not _BULLET.match(lines[place]) and _may_be_name(name)
        found |= {place: name} if below.strip() and fits else {}
    uses = Counter(found.values())
    known = frozenset(name for name in uses if name in attendees or uses[name] > 1)
    listed = bool(known & attendees)
    if not listed and (len(known) < 2 or 2 * sum(uses[name] for name in known) < len(opening)):
        return {}
    named = {place: name in known or (not listed and is_proper_name(name)) for place, name in found.items()}
    return {place: Lead(name, None, "", above=True) for place, name in found.items() if named[place]}


_NOBODY = Lead("", None, "")


class _CueBuilder(Struct):
    cues: list[Cue] = []
    lines: list[tuple[int, str]] = []
    above: tuple[int, str] | None = None  # the line with the speaker's name, until some text follows
    speaker: str | None = None
    at: float | None = None
    block: bool = False  # the name was on a line above, so an empty line does not end the turn
    clock: float | None = None  # of a line that held nothing else, until a turn follows

    def start_turn(self, line: tuple[int, str] | None = None, head: Lead = _NOBODY) -> None:
        """End the turn and start another; a name without text below it becomes text."""
        self.flush()
        if self.above and self.speaker:
            self.cues.append(Cue(self.above[1].strip(), self.above[0], self.above[0], None, None))
        self.above, self.speaker, self.block = line, head.name or None, head.above
        self.at = self.clock if head.at is None else head.at
        self.clock = None if head.name else self.clock

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
