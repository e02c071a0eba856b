"""Splits a mail's text into passages and labels each as body, quote, forward or signature, in linear time.

A quoted or forwarded passage has the date in its own header lines; where that cannot be read it has none, since that of
the mail around it would be wrong.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import takewhile

from engine.ingest.headers import parse_addresses
from engine.ingest.types import in_users_zone, named_zone
from prompts import word_patterns
from store.types import DocumentPassage, Role

# Marks: lines at which a quote, a forwarded message or a signature starts.

_WORDS = word_patterns("mail_programs")
_RULE = r"[\s=*]*+[-_]{2,}+[-_=*\s]*+"
ORIGINAL = re.compile(rf"{_RULE}(?:{_WORDS['original']})\b.{{0,60}}$", re.IGNORECASE)
FORWARDED = re.compile(rf"{_RULE}(?:{_WORDS['forwarded']})\b|(?:{_WORDS['announced']})\b.{{0,20}}$", re.IGNORECASE)
_NAMES = "|".join(f"({_WORDS[kind]})" for kind in ("from", "to", "cc", "date", "subject"))
FIELD = re.compile(rf"[*\s]{{0,12}}(?:{_NAMES})[*\s]{{0,4}}[:：]", re.IGNORECASE)
WROTE_END = re.compile(rf"(?:{_WORDS['wrote']})(?:\s.{{0,80}})?\s{{0,5}}[:：]$", re.IGNORECASE)
# In any language, a header is lines of a label and a value, and an attribution has an address and a time.
_LABELLED = re.compile(r"[*\s]{0,12}[^\W\d_][^\d:：<>@|,;!?]{0,24}[*\s]{0,4}[:：][*\s|]*(.*)")
_PERSON = re.compile(
    r"(?:[^<>@]{1,80}[<\[(]\s?(?:mailto:)?)?[^\s<>@\[\]()]{1,80}@[^\s<>@]{1,120}[>\])]*(?:\s*[,;].*)?$"
)
_IN_BRACKETS = re.compile(r"[<\[(]\s?(?:mailto:)?([^\s<>@]{1,80}@[^\s<>@]{1,120}?)[>\])]")
_BARE_ADDRESS = re.compile(r"[^\s<>@,:]{1,80}@[^\s<>@,:]{1,120}")
_TITLED_RULE = re.compile(r"[-_=*\s]{3,}[^\W\d_][^-_=]{2,60}?[-_=*\s]{3,}$")
_DATED = re.compile(r"(?<!\d)(?:(?:19|20)\d\d|\d\d?([./-])\d\d?\1\d\d)(?!\d)")
_EARLY = 40  # characters of a line that are before the date of an attribution that begins it

_WHEN = r"\d{1,2}/\d{1,2}/(?:19|20)?\d\d\s{1,3}\d{1,2}:\d\d(?::\d\d)?\s?(?:[AP]M)?"
NOTES_DATE = re.compile(rf"(?:{_WHEN}|\d{{1,2}}:\d\d(?::\d\d)? [AP]M)$", re.IGNORECASE)
NOTES_ON = re.compile(rf".{{2,120}} on (?:{_WHEN}|\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d)$", re.IGNORECASE)

SENT_FROM = re.compile(
    r"(?:Sent|Send) (?:from|via|with|using|wirelessly)(?: (?:my|the|a|via|Yahoo|Outlook|Mail|Gmail))?\b"
    r"[\w .+&®™'-]{0,60}$"
    rf"|(?:{_WORDS['signed']})\b[^.?!]{{1,60}}\.?$"
    r"|(?:發自|发自)我的.{1,30}$",
    re.IGNORECASE,
)
# The first four letters of what SENT_FROM matches.
SIGNED_STARTS = {"sent", "send", "發自我的", "发自我的", *(words[:4].lower() for words in _WORDS["signed"].split("|"))}
_LINKED = re.compile(r"\s?[(<\[]\s?https?://[^\s()<>]+\s?[)>\]]$")
MOBILE = re.compile(r"desk|office|home|car\b|bed\b|account", re.IGNORECASE)
LIST_FOOTER = re.compile(_WORDS["footer"], re.IGNORECASE)
LEGAL, BANNER = re.compile(_WORDS["legal"], re.IGNORECASE), re.compile(_WORDS["banner"])
LEGAL_HINTS = ("onfiden", "ntended", "ertraulich", "isclaim", "ONFIDENTIAL", "estinataire", "rivileged")
PHONE = re.compile(r"(?:\+|\(|\b)\d[\d ()./-]{6,20}\d\b")
CONTACT = re.compile(r"(?:https?://|www\.)\S{3}|\S@\S{3}")


_COLONS = frozenset(":：")
_RULES = frozenset("-_=*—")
_WIDEST, _BLOCK = 400, 24  # characters of a line that are matched, and lines of a header


def may_mark(line: str) -> bool:
    """Return whether a stripped line can be a mark at all; most lines cannot, and skip the patterns."""
    return (
        line[0] in _RULES
        or line[-1] in _COLONS
        or ":" in line[:26]
        or "：" in line[:26]
        or (len(line) <= 90 and line[:4].lower() in SIGNED_STARTS)
    )


def starts_header_block(lines: Sequence[str], at: int) -> bool:
    """Return whether a quoted header starts here: From or To, and at least two more of five fields close by.

    Fields of languages that are not known have the shape of one.
    """
    first = FIELD.match(lines[at][:_WIDEST])
    if first is None or first.lastindex in (3, 5):
        return _has_shape_of_header(lines, at)
    seen, misses = {first.lastindex}, 0
    for line in lines[at + 1 : at + 24]:
        found = FIELD.match(line[:_WIDEST])
        if found is not None:
            seen.add(found.lastindex)
            misses = 0
        elif line.strip():
            misses += 1
        if misses > (6 if found is None and line[:1].isspace() else 3) or len(seen) >= 4:
            break
    return (len(seen) >= 3 and bool(seen & {1, 2}) and bool(seen & {4, 5})) or _has_shape_of_header(lines, at)


def _has_shape_of_header(lines: Sequence[str], at: int) -> bool:
    """Return whether three labelled lines or more start here: a named sender and a time, or two people and a time."""
    values, others = list[str](), 0
    if "@" not in "".join(lines[at : at + 8]):
        return False
    for line in lines[at : at + _BLOCK]:
        found = _LABELLED.match(line[:_WIDEST])
        others += found is None
        if not line.strip() or not (found or values) or others > 2:
            break
        values += [found[1].strip()] if found else []
    if len(values) < 3 or not any(_DATED.search(value) and _CLOCK.search(value) for value in values):
        return False
    people = [_PERSON.match(value) is not None for value in values]
    return (people[0] and not _BARE_ADDRESS.match(values[0])) or (len(values) > 3 and sum(people) > 1)


def lines_above_header(lines: Sequence[str], at: int) -> int:
    """Return the number of lines above a header block that belong to it: a rule, or Notes' writer and date."""
    above = at - 1
    while above >= 0 and at - above < 4 and not lines[above].strip():
        above -= 1
    if above < 0:
        return 0
    text = lines[above].strip()[:_WIDEST]
    if NOTES_ON.match(text) or (len(text) >= 5 and not text.strip("-_=*")) or _TITLED_RULE.match(text):
        return at - above
    if not NOTES_DATE.match(text):
        return 0
    for name in range(above - 1, max(above - 4, -1), -1):
        line = lines[name].strip()
        if 0 < len(line) <= 120 and not line.startswith("Sent by:"):
            return at - name
    return at - above


def attribution_lines(lines: Sequence[str], at: int) -> int:
    """Return the number of lines of an attribution ("On Monday Ann wrote:") that ends here, 0 if none does."""
    tail = lines[at][-200:].strip()
    if tail[-1:] not in _COLONS and not (tail[-2:] == "--" and lines[at].lstrip()[:2] == "--"):
        return 0
    quoted, verb = next_is_quoted(lines, at + 1), WROTE_END.search(tail) is not None
    text, ends = "", not "".join(lines[at + 1 : at + 2]).strip()
    if not (quoted or verb or (ends and "@" in "".join(lines[max(at - 3, 0) : at + 1]))):
        return 0
    for begin in range(at, max(at - 4, -1), -1):
        line = lines[begin].strip()
        if not line or line[0] == ">" or len(text) > _WIDEST or (text and _LABELLED.match(line[:_WIDEST])):
            break
        text = f"{line} {text}"
        if not _DATED.search(text):
            continue
        first = begin == 0 or not lines[begin - 1].strip(" >") or _DATED.search(line[:_EARLY])
        if first and (quoted or verb or (ends and _CLOCK.search(text) and _IN_BRACKETS.search(text))):
            return at - begin + 1
    introduces = verb or _BARE_ADDRESS.search(tail) or _CLOCK.search(tail)
    return int(bool(quoted and introduces))


def is_sent_from(line: str) -> bool:
    """Return whether a line is the signature of a phone or mail program."""
    text = line.strip()
    text = _LINKED.sub("", text) if text[-1:] in ")>]" else text
    return len(text) <= 90 and SENT_FROM.match(text) is not None and not MOBILE.search(text)


def starts_list_footer(lines: Sequence[str], at: int) -> bool:
    """Return whether a mailing list's footer starts here: a rule, then the list's name or how to unsubscribe."""
    rule = lines[at].strip()
    if len(rule) < 20 or rule.strip("_-=*") or len(rule) > 120:
        return False
    return any(LIST_FOOTER.search(line[:_WIDEST]) for line in lines[at + 1 : at + 4])


def next_is_quoted(lines: Sequence[str], at: int) -> bool:
    """Return whether the first non-blank line of the next three starts with `>`."""
    behind = next((line.lstrip() for line in lines[at : at + 3] if line.strip()), "")
    return behind.startswith(">")


# The date in a header line of a quoted message, as common mail programs write it.

_MONTHS = {name: number for number, names in enumerate(_WORDS["month"].split("|"), 1) for name in names.split()}
_NAME, _YEAR = r"(?P<name>[^\W\d_]{3,12})", r"(?P<y>(?:19|20)\d\d)"
_DAYS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<y>(?:19|20)\d\d)\s?[-/.年년]\s?(?P<m>\d{1,2})\s?[-/.月월]\s?(?P<d>\d{1,2})(?!\d)",
        rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|º)?[.\s-]{{1,3}}(?:(?:de|of)\s)?{_NAME}[.,]?[\s,-]{{1,3}}(?:de\s)?{_YEAR}",
        rf"\b{_NAME}\.?\s{{1,3}}(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s{{1,3}}{_YEAR}",
        r"(?<![\d.])(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>(?:19|20)?\d\d)(?!\d)",
        r"(?<![\d/-])(?P<a>\d{1,2})([/-])(?P<b>\d{1,2})\2(?P<y>(?:19|20)?\d\d)(?!\d)",
        rf"{_YEAR}\.?\s{{1,3}}{_NAME}\.?\s{{1,3}}(?P<d>\d{{1,2}})(?!\d)",
        rf"\b{_NAME}\s{{1,3}}(?P<d>\d{{1,2}})(?=\s{{1,3}}\d\d?:\d\d.{{0,24}}\b{_YEAR})",
    )
)
_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2})([:.h])(\d\d)(?:[:.](\d\d))?(?!\d)(?:\s?([ap])\.?m\b)?", re.IGNORECASE)
_AFTERNOON = re.compile(r"下午|晚上|午後|오후")
_OFFSET = re.compile(r"\s*\(?(?:(?:GMT|UTC)\s?([+-])(\d\d?)(?::?(\d\d))?|([+-])(\d\d):?(\d\d))\b")
_ZONE = re.compile(r"\s*\(?(Z|[A-Z]{3,5})\b")
_NEAR = timedelta(days=14)  # a message of 3/6 is mostly quoted by one of the same days
_SKEW = timedelta(days=1)  # between the clocks of writer and quoter


def date_in_header(text: str, sent: datetime | None, zone: tzinfo | None = None) -> datetime | None:
    """Return the date in a header line of a message that was quoted in one sent then; None if it is not clear.

    A time without an offset is one of the zone of `sent`: mail programs write it on the clock of who quotes.
    """
    text, zone = text[:_WIDEST], sent.tzinfo if sent else zone
    for pattern in _DAYS:
        for match in pattern.finditer(text):
            rest = f"{text[: match.start()]} \0 {text[match.end() :]}"
            read = [_at(day, rest, zone) for day in _days(match)]
            found = [one for one in read if one and (sent is None or one <= sent + _SKEW)]
            if len(found) > 1:
                found = [one for one in found if sent and sent - one < _NEAR]
            if read:
                return found[0] if len(found) == 1 else None
    return None


def _days(match: re.Match[str]) -> list[datetime]:
    """Return the days that a date may mean: 3/6 is one of two."""
    parts = match.groupdict()
    year = int(parts["y"]) + (2000 if len(parts["y"]) == 2 else 0)
    if parts.get("a"):
        pairs = dict.fromkeys(((int(parts["a"]), int(parts["b"])), (int(parts["b"]), int(parts["a"]))))
    else:
        pairs = {(_month(parts["name"]) if parts.get("name") else int(parts["m"]), int(parts["d"])): None}
    return [day for month, number in pairs if (day := _day(year, month, number))]


def _day(year: int, month: int, number: int) -> datetime | None:
    try:
        return datetime(year, month, number)
    except ValueError:  # no such day
        return None


def _month(name: str) -> int:
    """Return the number of a month in any of the languages, 0 for another word."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", name.lower()) if not unicodedata.combining(c))
    cyrillic = name.lower()[:3]  # й is a letter of its own
    return _MONTHS.get(plain[:4]) or _MONTHS.get(plain[:3]) or _MONTHS.get(cyrillic) or 0


def _at(day: datetime, rest: str, zone: tzinfo | None) -> datetime | None:
    """Return a day at the time of day in the rest of its line, in the zone named there, else in this one."""
    found = sorted(_CLOCK.finditer(rest), key=lambda match: match[2] != ":")
    try:
        if found:
            day = day.replace(hour=_hour(found[0], rest), minute=int(found[0][3]), second=int(found[0][4] or 0))
            zone = _zone(rest, found[0].end()) or zone
        return day.replace(tzinfo=zone) if zone else in_users_zone(day)
    except (ValueError, OverflowError):  # no such time
        return None


def _hour(clock: re.Match[str], rest: str) -> int:
    hour, half = int(clock[1]), (clock[5] or ("p" if _AFTERNOON.search(rest) else "")).lower()
    return hour % 12 + 12 * (half == "p") if half else hour


def _zone(rest: str, at: int) -> timezone | None:
    """Return the zone that is named right behind a time."""
    if offset := _OFFSET.match(rest, at):
        sign, hours, minutes = offset.groups()[:3] if offset[1] else offset.groups()[3:]
        size = timedelta(hours=int(hours), minutes=int(minutes or 0))
        return timezone(-size if sign == "-" else size) if size < timedelta(hours=24) else None
    named = _ZONE.match(rest, at)
    return named_zone(named[1]) if named else None


# Passages and their roles.


@dataclass(frozen=True, slots=True)
class QuoteRoles:
    """The role of a message quoted below the mail's own text or with an attribution, and of one without either."""

    below: Role = "quote"
    alone: Role = "quote"


IN_REPLY = QuoteRoles()
IN_NEW_MAIL = QuoteRoles(alone="forward")  # a subject without a reply mark: what it quotes is forwarded
IN_FORWARD = QuoteRoles("forward", "forward")


def passages_of(
    text: str, quotes: QuoteRoles = IN_REPLY, first_line: int = 1, sent: datetime | None = None
) -> tuple[DocumentPassage, ...]:
    """Return the paragraphs of a mail's text with their roles; lines count from `first_line`.

    Every non-blank line is in exactly one passage. `sent` is the date of the mail.
    """
    lines = text.split("\n")
    return _label_signatures(text, paragraphs(lines, line_roles(lines, quotes, sent), first_line, sent))


def line_roles(lines: Sequence[str], quotes: QuoteRoles = IN_REPLY, sent: datetime | None = None) -> list[Role]:
    """Return the role of each line; blank lines take that of the line above."""
    roles: list[Role] = []
    state: Role = "body"
    attributed = False
    for at, line in enumerate(lines):
        text = line.strip()
        if not text or state == "forward":
            roles.append(state)
        elif text[0] == ">" and not (line[0] != ">" and text[1:2].isdigit()):  # indented: "more than 40"
            roles.append(quotes.below if attributed else quotes.alone)
            state = "body" if state == "signature" else state
        elif not may_mark(text):
            roles.append(state)
        elif FORWARDED.match(text[:_WIDEST]):
            state = "forward"
            roles.append(state)
        elif state == "quote":
            roles.append(state)
        else:
            state = _mark_line(lines, at, state, quotes, roles, sent)
            attributed = attributed or roles[-1] == quotes.below
    return roles


def _mark_line(
    lines: Sequence[str], at: int, state: Role, quotes: QuoteRoles, roles: list[Role], sent: datetime | None
) -> Role:
    """Set the role of a line outside quotes that may be a mark, and of lines above it; return the next state."""
    text, header = lines[at].strip(), starts_header_block(lines, at)
    if ORIGINAL.match(text[:_WIDEST]):
        return _start_quote(lines, at, 0, quotes, roles)
    count = 0 if header else attribution_lines(lines, at)
    # A new mail, or what tells times to come, has forms of its own, shaped as headers are.
    reply = (header or count) and quotes != IN_NEW_MAIL and not _is_to_come(lines[at : at + 6], sent)
    if header and (reply or FIELD.match(text) or lines_above_header(lines, at)):
        return _start_quote(lines, at, lines_above_header(lines, at), quotes, roles)
    if count and (reply or next_is_quoted(lines, at + 1) or WROTE_END.search(text)):
        roles[at - count + 1 :] = [quotes.below] * count
        return state if next_is_quoted(lines, at + 1) else quotes.below
    state = "signature" if _begins_signature(lines, at) else state
    roles.append("signature" if is_sent_from(text) else state)
    return state


def _is_to_come(lines: Sequence[str], sent: datetime | None) -> bool:
    """Return whether all times in a block of lines are after the mail was sent, as those of a meeting are."""
    times = [date_in_header(line, None, sent.tzinfo) for line in takewhile(str.strip, lines) if sent]
    return sent is not None and min(filter(None, times), default=sent) > sent + _SKEW


def _start_quote(lines: Sequence[str], at: int, above: int, quotes: QuoteRoles, roles: list[Role]) -> Role:
    """Start a quoted message `above` lines above this one; return the next state."""
    own = any(line.strip() for line in lines[: at - above])
    quoted = quotes.below if own else quotes.alone
    roles[at - above :] = [quoted] * (above + 1)
    return quoted


def _begins_signature(lines: Sequence[str], at: int) -> bool:
    if lines[at].lstrip()[0] not in "-_=*—":
        return False
    if lines[at] == "-- ":
        return True
    if lines[at].rstrip() in ("--", "—"):
        rest = [line for line in lines[at + 1 : at + 40] if line.strip() and not line.lstrip().startswith(">")]
        return len(rest) <= 12
    return starts_list_footer(lines, at)


# Who wrote the message of each quoted line, and when, as its header says.

_QUOTE_MARKS = re.compile(r"\s{0,3}(?:>\s?)+")
_ABOVE = 10  # lines above the first field of a header


@dataclass(frozen=True, slots=True)
class Origin:
    """The date and author of a quoted message, as its header says; None and empty if it does not."""

    date: datetime | None = None
    author: str = ""


_UNKNOWN = Origin()


def origins(lines: Sequence[str], roles: Sequence[Role], sent: datetime | None) -> list[Origin]:
    """Return the origin of the quoted or forwarded message of each line, an unknown one for other lines."""
    found = [_UNKNOWN] * len(lines)
    known: dict[int, Origin] = {}  # by depth of quotation
    if not {"quote", "forward"} & set(roles):
        return found
    for at, line in enumerate(lines):
        if roles[at] not in ("quote", "forward"):
            continue
        depth = _depth(line)
        if not line.strip():
            found[at] = found[at - 1] if at else _UNKNOWN
            continue
        for begin, level, origin in _headers(lines, at, depth, sent):
            known = {one: value for one, value in known.items() if one < level} | {level: origin}
            found[begin:at] = [origin] * (at - begin)
            depth = level
        found[at] = known.get(depth, _UNKNOWN)
    return found


def _headers(lines: Sequence[str], at: int, depth: int, sent: datetime | None) -> Iterator[tuple[int, int, Origin]]:
    """Yield the first line, the depth of the message and its origin, where a header starts or an attribution ends."""
    bare = (_without_marks(lines[at], depth) if depth else lines[at]).strip()
    if not bare or not may_mark(bare):
        return
    first = max(0, at - _ABOVE)
    window, here = list(lines[first : at + _BLOCK]), min(at, _ABOVE)
    window = [_without_marks(line, depth) for line in window] if depth else window
    if _is_mark(bare):
        yield at, depth, _header_origin(window, here + 1, sent)
    elif _opens_header(window, here):
        above = lines_above_header(window, here)
        origin = _header_origin(window, here - above, sent)
        if origin.date or not any(
            _is_mark(line.strip()) for line in window[:here]
        ):  # else the mark's date is the header's
            yield at - above, depth, origin
    elif count := attribution_lines(window, here):
        text = " ".join(window[here - count + 1 : here + 1])
        origin = Origin(date_in_header(text, sent), _attributed_to(text))
        yield at - count + 1, depth + next_is_quoted(window, here + 1), origin


def _is_mark(line: str) -> bool:
    return (FORWARDED.match(line[:_WIDEST]) or ORIGINAL.match(line[:_WIDEST])) is not None


def _opens_header(window: Sequence[str], at: int) -> bool:
    """Return whether a header starts here, and not only its second field or a later one."""
    above = _LABELLED.match(window[at - 1][:_WIDEST]) if at else None
    follows = above is not None and (FIELD.match(above[0]) or _PERSON.match(above[1].strip()))
    return not follows and starts_header_block(window, at)


def _header_origin(window: Sequence[str], at: int, sent: datetime | None) -> Origin:
    return Origin(_header_date(window, at, sent), _header_author(window, at))


def _header_author(window: Sequence[str], at: int) -> str:
    """Return the author that the header below names: in its From field, or as Notes writes it, above the date.

    In a language that is not known, it is the first person.
    """
    for place, line in enumerate(window[at : at + _BLOCK], at):
        text, field = line.strip()[:_WIDEST], FIELD.match(line[:_WIDEST])
        if field and field.lastindex == 1:
            named = line[field.end() :].strip(" *|")
            return _person(named or "".join(window[place + 1 :][:1]))
        if NOTES_ON.match(text):
            return _person(text.rpartition(" on ")[0])
        if NOTES_DATE.match(text):
            above = (one.strip() for one in reversed(window[max(0, place - 3) : place]))
            return _person(next(filter(None, above), ""))
    unknown = (line for line in takewhile(str.strip, window[at : at + _BLOCK]) if not FIELD.match(line[:_WIDEST]))
    values = (found[1].strip() for line in unknown if (found := _LABELLED.match(line[:_WIDEST])))
    return next((_person(value) for value in values if _PERSON.match(value)), "")


_OTHER = re.compile(r"[^\w'’.-]|[\d_]")  # is in no name
_WHEN_SAID = re.compile(
    r".*(?:\d\d?(?:[:.h]\d\d)+(?:\s?[AP]\.?M\.?)?|\b\d{4}\b[\d./-]*|\b(?:Quoting|Uhr|\w{3,6}day)\b)",
    re.IGNORECASE | re.DOTALL,
)


def _attributed_to(text: str) -> str:
    """Return whom an attribution names ("On Friday at 10:00 Ann Whitlock <ann@example.org> wrote:")."""
    if address := _IN_BRACKETS.search(text):
        return _person(f"{_name(_WHEN_SAID.sub('', text[: address.start()]))} <{address[1]}>")
    if bare := _BARE_ADDRESS.search(text):
        return bare[0]
    time, verb = _WHEN_SAID.match(text), WROTE_END.search(text.rstrip())
    start = time.end() if time else 0
    named = _name(text[start : verb.start()]) if verb else ""
    named = named if any(c.isalpha() for c in named) else _run(_name(text[start:]))
    before = _run(text)  # "Ann Whitlock wrote on Friday at 10:00", unlike "On Friday at 10:00"
    by_first = not any(c.isalpha() for c in named) and _is_lower(text[len(before) :].lstrip())
    return _person(before if by_first else named)


def _name(text: str) -> str:
    """Return a text from its first word on that is not in lower case, as names begin; all of it if there is none."""
    words = text.strip(" ,;:-([])\t\n").split()
    names = (at for at, word in enumerate(words) if not _is_lower(word) and _script(word) == _script(words[-1]))
    return " ".join(words[next(names, 0) :])


def _run(text: str) -> str:
    """Return the words at the start of a text that are not in lower case and hold no digits."""
    return " ".join(takewhile(lambda word: not _is_lower(word) and not _OTHER.search(word), text.split()))


def _script(word: str) -> str:
    return next((unicodedata.name(c, "").split(" ")[0] for c in word if c.isalpha()), "")


def _is_lower(word: str) -> bool:
    return word.lstrip("\"'(«„“")[:1].islower()


def _person(text: str) -> str:
    """Return the person that a part of a line names, empty if it names none."""
    found = parse_addresses(text.strip(" *:：\t")[:_WIDEST].replace("[mailto:", "<").replace("]", ">"))
    shown = str(found[0]) if found else ""
    return shown if any(c.isalpha() for c in shown) else ""


def _header_date(window: Sequence[str], at: int, sent: datetime | None) -> datetime | None:
    """Return the date of the header below: of its date field, or as Notes writes it, behind or below the name."""
    fields, notes = 0, None
    for place, line in enumerate(window[at : at + _BLOCK], at):
        text, field = line.strip()[:_WIDEST], FIELD.match(line[:_WIDEST])
        labelled = _LABELLED.match(text)
        if (field and field.lastindex == 4) or (labelled and _DATED.search(labelled[1]) and _CLOCK.search(labelled[1])):
            rest = line.partition(":" if ":" in line else "：")[2].strip() or "".join(window[place + 1 : place + 2])
            return date_in_header(rest, sent) or notes
        fields += bool(field or labelled)
        if NOTES_DATE.match(text) or NOTES_ON.match(text) or (field and field.lastindex == 1):
            notes = notes or date_in_header(text, sent)
        if not text and fields > 1:
            break
    return notes


_DEEPEST = 64  # quotations in quotations that are told apart


def _depth(line: str) -> int:
    marks = _QUOTE_MARKS.match(line)
    return min(marks.group().count(">"), _DEEPEST) if marks else 0


def _without_marks(line: str, depth: int) -> str:
    """Return a line without its first `depth` quote marks; empty if it has fewer."""
    marks = re.match(rf"(?:\s*+> ?){{{depth}}}", line) if depth else None
    return line[marks.end() :] if marks else "" if depth else line


def paragraphs(
    lines: Sequence[str], roles: Sequence[Role], first_line: int, sent: datetime | None = None
) -> list[DocumentPassage]:
    """Return the passages of some lines, split at blank lines and where the role or origin of a quote changes."""
    passages: list[DocumentPassage] = []
    known = [*origins(lines, roles, sent), _UNKNOWN]
    begin = -1
    for at, line in enumerate([*lines, ""]):
        blank = not line or line.isspace()
        changes = blank or roles[at] != roles[begin] or known[at] != known[begin]
        if begin >= 0 and (changes or _ends_quoted(lines, begin, at - 1)):
            text = "\n".join(lines[begin:at]).strip()
            place = (begin + first_line, at - 1 + first_line)
            origin = known[begin]
            passages.append(DocumentPassage(text, *place, roles[begin], written=origin.date, author=origin.author))
            begin = -1
        if begin < 0 and not blank:
            begin = at
    return passages


def _ends_quoted(lines: Sequence[str], begin: int, last: int) -> bool:
    """Return whether the paragraph ends with a bare quote mark that did not also start it."""
    return _is_bare_quote(lines[last]) and not _is_bare_quote(lines[begin])


def _is_bare_quote(line: str) -> bool:
    return line[-1:] in "> " and ">" in line and not line.strip(" \t>")


def _label_signatures(text: str, passages: list[DocumentPassage]) -> tuple[DocumentPassage, ...]:
    """Return the passages with banners of servers, disclaimers and the final contact block labelled as signatures."""
    own = [at for at, passage in enumerate(passages) if passage.role == "body"]
    if len(own) > 1 and len(set(BANNER.findall(passages[own[0]].text[:400].lower()))) > 3:
        passages[own[0]] = replace(passages[own[0]], role="signature")
        own = own[1:]
    if any(hint in text for hint in LEGAL_HINTS):
        legal = {at for at in own[1:] if len({one.lower() for one in LEGAL.findall(passages[at].text[:3000])}) > 1}
        passages = [replace(one, role="signature") if at in legal else one for at, one in enumerate(passages)]
        own = [at for at in own if at not in legal]
    if len(own) > 1 and _is_contact_block(passages[own[-1]].text):
        passages[own[-1]] = replace(passages[own[-1]], role="signature")
    return tuple(passages)


def _is_contact_block(text: str) -> bool:
    lines = [line.strip() for line in text.split("\n")[:10]]
    if not 2 <= len(lines) <= 8 or any(len(line) > 60 for line in lines):
        return False
    named = not any(char.isdigit() or char in "@:" for char in lines[0])
    numbers = sum(bool(PHONE.search(line)) for line in lines)
    contacts = sum(bool(CONTACT.search(line)) for line in lines)
    told = any(line.endswith((".", "?", "!")) for line in lines[1:])
    return named and numbers <= 4 and numbers + contacts >= 1 and not told
