"""Splits a mail's text into passages and labels each as body, quote, forward or signature, in linear time.

A quoted or forwarded passage has the date in its own header lines; where that cannot be read it has none, since that of
the mail around it would be wrong.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo

from engine.ingest.headers import parse_addresses
from engine.ingest.types import ZONE_HOURS, in_users_zone
from store.types import DocumentPassage, Role

# Marks: lines at which a quote, a forwarded message or a signature starts.

_RULE = r"[\s=*]*+[-_]{2,}+[-_=*\s]*+"

ORIGINAL = re.compile(
    _RULE + r"(?:Original (?:Message|Appointment|Mail)|Reply (?:Separator|Message)"
    r"|Ursprüngliche (?:Nachricht|E-Mail)|Original-Nachricht|Message d['’]origine|Message original"
    r"|Mensaje original|Messaggio originale|Mensagem original|Oorspronkelijk bericht"
    r"|Oprindelig meddelelse|Ursprungligt meddelande|Opprinnelig melding|Alkuperäinen viesti"
    r"|Исходное сообщение|Wiadomość oryginalna|原始邮件|原始郵件|元のメッセージ)\b.{0,60}$",
    re.IGNORECASE,
)
FORWARDED = re.compile(
    _RULE + r"(?:Forwarded (?:by|message|mail)|Forward Header|Weitergeleitete Nachricht|Message transféré"
    r"|Mensaje reenviado|Messaggio inoltrato|Mensagem encaminhada|Doorgestuurd bericht|Videresendt|Vidarebefordrat"
    r"|Пересылаемое сообщение|转发邮件|転送メッセージ)\b"
    r"|(?:Begin forwarded message|Anfang der weitergeleiteten (?:Nachricht|E-Mail)"
    r"|Début du (?:message )?(?:transféré|réexpédié)|Inicio del mensaje reenviado|Inizio messaggio inoltrato"
    r"|Begin doorgestuurd bericht|Início da mensagem reencaminhada)\b.{0,20}$",
    re.IGNORECASE,
)
FIELD = re.compile(  # groups: 1 from, 2 to, 3 cc, 4 date, 5 subject
    r"[*\s]{0,12}(?:(from|von|de|da|van|från|fra|od|от|发件人|寄件者|差出人)"
    r"|(to|an|à|para|aan|till|til|a|do|кому|收件人|宛先)"
    r"|(cc|kopie|копия|抄送)"
    r"|(sent|date|gesendet|datum|envoyé|enviado(?: el)?|fecha|data|inviato|verzonden|skickat|sendt|dato|wysłano"
    r"|дата|отправлено|发送时间|日期|送信日時|日時)"
    r"|(subject|re|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|emne|temat|тема|主题|主旨|件名)"
    r")[*\s]{0,4}[:：]",
    re.IGNORECASE,
)
STARTS = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu|Dnia|Dne|På|Pe|In|At|Quoting|Citat|В|Пн|Вт|Ср|Чт|Пт|Сб|Вс|在|于|\d{4})\b",
    re.IGNORECASE,
)
WROTE_END = re.compile(
    r"(?:wrote|writes|said|schrieb|a écrit|escribió|ha scritto|schreef|escreveu|skrev|napisała?|пишет|написала?"
    r"|kirjoitti|yazdı|写道|寫道|のメール)(?:\s.{0,80})?\s{0,5}[:：]$",
    re.IGNORECASE,
)
ADDRESS_END = re.compile(r"[^\s<>@]{1,80}@[^\s<>@]{1,120}>?\s{0,5}[:：]$")
DATED = re.compile(r"\d{1,4}[./:年-]\s?\d{1,2}|@|\b(?:19|20)\d\d\b")

_WHEN = r"\d{1,2}/\d{1,2}/(?:19|20)?\d\d\s{1,3}\d{1,2}:\d\d(?::\d\d)?\s?(?:[AP]M)?"
NOTES_DATE = re.compile(rf"(?:{_WHEN}|\d{{1,2}}:\d\d(?::\d\d)? [AP]M)$", re.IGNORECASE)
NOTES_ON = re.compile(rf".{{2,120}} on (?:{_WHEN}|\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d)$", re.IGNORECASE)

SENT_FROM = re.compile(
    r"(?:Sent|Send) (?:from|via|with|using|wirelessly)(?: (?:my|the|a|via|Yahoo|Outlook|Mail|Gmail))?\b"
    r"[\w .+&®™'-]{0,60}$"
    r"|(?:Von meine[mr]|Gesendet (?:von|mit)|Envoyé (?:de|depuis|à partir)|Enviado (?:desde|do|de|a partir)"
    r"|Inviato da(?:l mio)?|Verzonden (?:vanaf|met|van)|Skickat från|Sendt fra|Wysłane z|Отправлено (?:с|из)"
    r"|Get Outlook for)\b[^.?!]{1,60}\.?$"
    r"|(?:發自|发自)我的.{1,30}$",
    re.IGNORECASE,
)
SIGNED_STARTS = frozenset(  # the first four letters of everything that SENT_FROM matches
    (
        *("sent", "send", "von ", "gese", "envo", "envi", "invi"),
        *("verz", "skic", "wysł", "отпр", "get ", "發自我的", "发自我的"),
    )
)
MOBILE = re.compile(r"desk|office|home|car\b|bed\b|account", re.IGNORECASE)
LIST_FOOTER = re.compile(
    r"mailing list|mailingliste|unsubscribe|liste de diffusion|listinfo|yahoogroups|groups\.google", re.IGNORECASE
)
LEGAL = re.compile(
    r"confidential|privileged|intended (?:only |solely |exclusively )?(?:for|recipient)|notify the sender"
    r"|unauthori[sz]ed|disclaim|received this .{0,40}in error|vertraulich|destinataire|confidencial",
    re.IGNORECASE,
)
LEGAL_HINTS = ("onfiden", "ntended", "ertraulich", "isclaim", "ONFIDENTIAL", "estinataire", "rivileged")
PHONE = re.compile(r"(?:\+|\(|\b)\d[\d ()./-]{6,20}\d\b")
CONTACT = re.compile(r"(?:https?://|www\.)\S{3}|\S@\S{3}")


_COLONS = frozenset(":：")
_RULES = frozenset("-_=*—")
_WIDEST = 400  # characters of a line that are matched


def may_mark(line: str) -> bool:
    """Return whether a stripped line can be a mark at all; most lines cannot, and skip the patterns."""
    return (
        line[0] in _RULES
        or line[-1] in _COLONS
        or ":" in line[:20]
        or "：" in line[:20]
        or (len(line) <= 90 and line[:4].lower() in SIGNED_STARTS)
    )


def is_forward_mark(line: str) -> bool:
    """Return whether a stripped line announces a forwarded message."""
    return FORWARDED.match(line[:_WIDEST]) is not None


def is_original_mark(line: str) -> bool:
    """Return whether a stripped line announces the original message."""
    return ORIGINAL.match(line[:_WIDEST]) is not None


def starts_header_block(lines: Sequence[str], at: int) -> bool:
    """Return whether a quoted header starts here: From or To, and at least two more of five fields close by."""
    first = FIELD.match(lines[at][:_WIDEST])
    if first is None or first.lastindex in (3, 5):
        return False
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
    return len(seen) >= 3 and bool(seen & {1, 2}) and bool(seen & {4, 5})


def lines_above_header(lines: Sequence[str], at: int) -> int:
    """Return the number of lines above a header block that belong to it: a rule, or Notes' writer and date."""
    above = at - 1
    while above >= 0 and at - above < 4 and not lines[above].strip():
        above -= 1
    if above < 0:
        return 0
    text = lines[above].strip()[:_WIDEST]
    if NOTES_ON.match(text) or (len(text) >= 5 and not text.strip("-_=*")):
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
    if not _ends_attribution(lines[at], lines, at + 1):
        return 0
    text = ""
    for begin in range(at, max(at - 4, -1), -1):
        line = lines[begin].strip()
        text = f"{line} {text}"
        if not line or line[0] == ">" or len(text) > _WIDEST:
            break
        if STARTS.match(line.lstrip("*_- ")) and DATED.search(text):
            return at - begin + 1
    return int(next_is_quoted(lines, at + 1))


def is_sent_from(line: str) -> bool:
    """Return whether a line is the signature of a phone or mail program."""
    text = line.strip()
    return len(text) <= 90 and SENT_FROM.match(text) is not None and not MOBILE.search(text)


def starts_list_footer(lines: Sequence[str], at: int) -> bool:
    """Return whether a mailing list's footer starts here: a rule, then the list's name or how to unsubscribe."""
    rule = lines[at].strip()
    if len(rule) < 20 or rule.strip("_-=*") or len(rule) > 120:
        return False
    return any(LIST_FOOTER.search(line[:_WIDEST]) for line in lines[at + 1 : at + 4])


def _ends_attribution(text: str, lines: Sequence[str], behind: int) -> bool:
    tail = text[-200:].rstrip()
    if tail[-1:] not in _COLONS:
        return False
    if WROTE_END.search(tail):
        return True
    return ADDRESS_END.search(tail) is not None and next_is_quoted(lines, behind)


def next_is_quoted(lines: Sequence[str], at: int) -> bool:
    """Return whether the first non-blank line of the next three starts with `>`."""
    behind = next((line.lstrip() for line in lines[at : at + 3] if line.strip()), "")
    return behind.startswith(">")


# The date in a header line of a quoted message, as common mail programs write it.

_MONTH_NAMES = (  # their first letters, without accents
    *("jan gen sty ene янв", "feb fev lut фев", "mar mrt maa мар", "apr avr abr kwi апр"),
    *("may mai maj mei mag май мая", "jun juin giu cze июн", "jul juil lug lip июл", "aug aou ago sie авг"),
    *("sep set wrz сен", "oct okt ott out paz окт", "nov lis ноя", "dec dez dic des gru дек"),
)
_MONTHS = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
_NAME, _YEAR = r"(?P<name>[^\W\d_]{3,12})", r"(?P<y>(?:19|20)\d\d)"
_DAYS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<y>(?:19|20)\d\d)\s?[-/.年]\s?(?P<m>\d{1,2})\s?[-/.月]\s?(?P<d>\d{1,2})(?!\d)",
        rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|º)?[.\s-]{{1,3}}(?:(?:de|of)\s)?{_NAME}[.,]?[\s,-]{{1,3}}(?:de\s)?{_YEAR}",
        rf"\b{_NAME}\.?\s{{1,3}}(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s{{1,3}}{_YEAR}",
        r"(?<![\d.])(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>(?:19|20)?\d\d)(?!\d)",
        r"(?<![\d/-])(?P<a>\d{1,2})([/-])(?P<b>\d{1,2})\2(?P<y>(?:19|20)?\d\d)(?!\d)",
    )
)
_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2})([:.h])(\d\d)(?:[:.](\d\d))?(?!\d)(?:\s?([ap])\.?m\b)?", re.IGNORECASE)
_AFTERNOON = re.compile(r"下午|晚上|午後")
_OFFSET = re.compile(r"\s*(?:GMT|UTC)?\s?([+-])(\d\d):?(\d\d)\b")
_ZONE = re.compile(rf"\s*\(?({'|'.join(ZONE_HOURS)}|GMT|UTC|Z)\b")
_NEAR = timedelta(days=14)  # a message of 3/6 is mostly quoted by one of the same days
_SKEW = timedelta(days=1)  # between the clocks of writer and quoter


def date_in_header(text: str, sent: datetime | None) -> datetime | None:
    """Return the date in a header line of a message that was quoted in one sent then; None if it is not clear.

    A time without an offset is one of the zone of `sent`: mail programs write it on the clock of who quotes.
    """
    text, zone = text[:_WIDEST], sent.tzinfo if sent else None
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
        size = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-size if offset[1] == "-" else size) if size < timedelta(hours=24) else None
    named = _ZONE.match(rest, at)
    return timezone(timedelta(hours=ZONE_HOURS.get(named[1], 0))) if named else None


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
    return _label_signatures(text, paragraphs(lines, line_roles(lines, quotes), first_line, sent))


def line_roles(lines: Sequence[str], quotes: QuoteRoles = IN_REPLY) -> list[Role]:
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
        elif is_forward_mark(text):
            state = "forward"
            roles.append(state)
        elif state == "quote":
            roles.append(state)
        else:
            state = _mark_line(lines, at, state, quotes, roles)
            attributed = attributed or roles[-1] == quotes.below
    return roles


def _mark_line(lines: Sequence[str], at: int, state: Role, quotes: QuoteRoles, roles: list[Role]) -> Role:
    """Set the role of a line outside quotes that may be a mark, and of lines above it; return the next state."""
    text = lines[at].strip()
    if is_original_mark(text):
        return _start_quote(lines, at, 0, quotes, roles)
    if starts_header_block(lines, at):
        return _start_quote(lines, at, lines_above_header(lines, at), quotes, roles)
    if count := attribution_lines(lines, at):
        roles[at - count + 1 :] = [quotes.below] * count
        return state if next_is_quoted(lines, at + 1) else quotes.below
    if _begins_signature(lines, at):
        roles.append("signature")
        return "signature"
    roles.append("signature" if is_sent_from(text) else state)
    return state


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
_BLOCK, _ABOVE = 24, 10  # lines of a header, and above its first field


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
    bare = _without_marks(lines[at], depth).strip()
    if not bare or not may_mark(bare):
        return
    first = max(0, at - _ABOVE)
    window, here = [_without_marks(line, depth) for line in lines[first : at + _BLOCK]], min(at, _ABOVE)
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
    return is_forward_mark(line) or is_original_mark(line)


def _opens_header(window: Sequence[str], at: int) -> bool:
    """Return whether a header starts here, and not only its second field or a later one."""
    return starts_header_block(window, at) and (at == 0 or not FIELD.match(window[at - 1][:_WIDEST]))


def _header_origin(window: Sequence[str], at: int, sent: datetime | None) -> Origin:
    return Origin(_header_date(window, at, sent), _header_author(window, at))


def _header_author(window: Sequence[str], at: int) -> str:
    """Return the author that the header below names: in its From field, or as Notes writes it, above the date."""
    for place, line in enumerate(window[at : at + _BLOCK], at):
        text, field = line.strip()[:_WIDEST], FIELD.match(line[:_WIDEST])
        if field and field.lastindex == 1:
            return _person(line[field.end() :] if line[field.end() :].strip(" *") else "".join(window[place + 1 :][:1]))
        if NOTES_ON.match(text):
            return _person(text.rpartition(" on ")[0])
        if NOTES_DATE.match(text):
            above = (one.strip() for one in reversed(window[max(0, place - 3) : place]))
            return _person(next(filter(None, above), ""))
    return ""


_VERB = re.compile(
    r"\b(?:wrote|writes|said|schrieb|a écrit|escribió|ha scritto|schreef|escreveu|skrev|napisała?|пишет|написала?)\b"
    r"|写道|寫道",
    re.IGNORECASE,
)
_WHEN_SAID = re.compile(
    r".*(?:\d\d?(?:[:.h]\d\d)+(?:\s?[AP]\.?M\.?)?|\b\d{4}\b|\b(?:Quoting|Uhr|\w{3,6}day)\b)", re.IGNORECASE | re.DOTALL
)
_IN_BRACKETS = re.compile(r"[<\[(](?:mailto:)?([^\s<>@]{1,80}@[^\s<>@]{1,120}?)[>\])]")


def _attributed_to(text: str) -> str:
    """Return whom an attribution names ("On Friday at 10:00 Ann Whitlock <ann@example.org> wrote:")."""
    address, verb = _IN_BRACKETS.search(text), _VERB.search(text)
    if address:
        before, behind = text[: address.start()], ""
        if verb and verb.end() < address.start():
            before = text[verb.end() : address.start()]
    else:
        before, behind = (text[: verb.start()], text[verb.end() :]) if verb else (text, "")
    named = _WHEN_SAID.sub("", before).strip(" ,;:-([])\t\n")
    if not address and (not any(c.isalpha() for c in named) or named.lower() in ("am", "on", "le", "el")):
        named = behind
    return _person(f"{named} <{address[1]}>" if address else named)


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
        if field and field.lastindex == 4:
            rest = line[field.end() :].strip() or "".join(window[place + 1 : place + 2])
            return date_in_header(rest, sent) or notes
        fields += field is not None
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
    marks = re.match(rf"(?:\s*+> ?){{{depth}}}", line)
    return line[marks.end() :] if marks else ""


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
    """Return the passages with disclaimers and the final contact block labelled as signatures."""
    own = [at for at, passage in enumerate(passages) if passage.role == "body"]
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
    return (
        named
        and numbers <= 4
        and numbers + contacts >= 1
        and not any(line.endswith((".", "?", "!")) for line in lines[1:])
    )
