"""Message headers: fields, encoded words (RFC 2047), address lists, dates; and bytes of any charset as text."""

import binascii
import codecs
import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from itertools import chain, groupby

from msgspec import Struct

from engine.ingest.scan import is_mail_field
from engine.ingest.types import in_users_zone, named_zone
from engine.text.people import person
from prompts import word_patterns

SAMPLE = 4096  # bytes of undeclared text that the charset is guessed from
_SUPERSETS = dict(pair.split() for pair in word_patterns("mail_programs")["charset"].split("|"))
_NOT_CHARSETS = frozenset({"ascii", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf_8"})
# Labels that only add to a name: x-mac-roman, iso-8859-8-i, _iso-2022-jp$sio; and numbers of code pages: windows-874.
_VARIANT = re.compile(r"^(?:x-|_)+|-(?:[ie]|ms)$|\$.*$")
_CODE_PAGE = re.compile(r"(?:x-)?(?:windows|win|dos|ibm|ms|cp)[-_]?(\d{3,5})$")
_SHIFTING = ("iso2022", "hz", "utf-7")  # encode other scripts in ASCII bytes
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Not seen, these cut a word in two or turn it round; joiners, of which letters and emoji are made, stay.
_UNSEEN = re.compile("[\xad\u034f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
_NON_ASCII_RUN = re.compile(rb"[\x80-\xff]{3,}")
_REPLACED = {"\x0b": " ", "\x0c": " ", "\u2028": "\n", "\u2029": "\n"}


def decode_text(data: bytes, declared: str = "") -> str:
    """Return the text of bytes whose declared charset may be right, wrong or missing; never fails."""
    codec = _codec(declared[:40])
    if data.isascii() and not (
        codec.startswith(_SHIFTING) or (codec.startswith("utf-16") and min(data, default=9) < 9)
    ):
        return data.decode("ascii")
    for mark, marked in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(marked, "replace")
    if codec == "iso2022_jp":  # with NEC's signs, as from Windows: JIS X 0213 has them in the same places
        with suppress(UnicodeError):
            return data.decode(codec)
        return data.replace(b"\x1b$B", b"\x1b$(Q").decode("iso2022_jp_2004", "replace")
    # Text in a Latin charset is hardly ever valid UTF-8 by chance, and Latin codecs accept any bytes: try UTF-8 first.
    order = ("utf-8", codec) if codec.startswith("cp125") else (codec, "utf-8")
    for name in order:
        with suppress(UnicodeError, LookupError):
            return data.decode(name)
    return data.decode(_guess(data), "replace") if b"\0" not in data or not codec else data.decode(codec, "replace")


def tidy(text: str) -> str:
    """Return the text with newlines as line ends, without control characters except tab."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub(lambda found: _REPLACED.get(found[0], ""), text)


def visible(text: str) -> str:
    """Return a text without characters that are not seen: soft hyphens, zero-width spaces, marks of direction."""
    return text if text.isascii() else _UNSEEN.sub("", text)


@lru_cache(maxsize=256)
def _codec(declared: str) -> str:
    """Return the name of Python's codec for a declared charset, "" if there is none to try first."""
    label = declared.strip().strip("\"'").lower()
    page = _CODE_PAGE.match(label)
    for known in (_SUPERSETS.get(label, label), _VARIANT.sub("", label), f"cp{page[1]}" if page else ""):
        with suppress(LookupError, ValueError):
            name = codecs.lookup(known).name
            with suppress(UnicodeError):
                b"a".decode(name)  # a LookupError for rot13, hex and the like; no codec is asked about no bytes
            return "" if name.replace("-", "_") in _NOT_CHARSETS else _SUPERSETS.get(name, name)
    return ""


def _guess(data: bytes) -> str:
    """Return a guessed codec: cp1252 for single accented letters in ASCII, else what charset-normalizer finds."""
    lines = [line for line in data[: 64 * SAMPLE].split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:SAMPLE]
    if 2 * sum(map(len, _NON_ASCII_RUN.findall(sample))) < sum(byte > 127 for byte in sample):
        return "cp1252"
    from charset_normalizer import from_bytes  # slow to import, and seldom needed

    best = from_bytes(sample).best()
    return best.encoding if best else "cp1252"


ENVELOPE, LONGEST_FROM = "from ", 300  # what a mailbox writes above a message: by whom, and when it arrived
_LEAD = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?:>?From(?: ([^\n]*)|\r?)\n)?(?:>From [^\n]*\n)?")
_FIELDS = re.compile(rb"(?:[!-9;-~]+[ \t]*:[^\n]*+(?:\n[ \t][^\n]*+)*+(?:\n|\Z))*+")
_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")
_HEADER_END = re.compile(rb"(\n)\r?\n")
_BLANK = re.compile(rb"[ \t]*\r?\n")
_FOLD = re.compile(r"\r?\n[ \t]+")
_ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*)\?=")
_ENCODED_WORDS = re.compile(f"(?:{_ENCODED_WORD.pattern})+")
_BETWEEN_WORDS = re.compile(r"(?<=\?=)\s+(?==\?[^?\s]{1,60}\?[bBqQ]\?)")
_ESCAPES = re.compile("\x1b(?:\\[[0-?]*+[ -/]*+[@-~]?|\\][^\x07\x1b]*+(?:\x07|\x1b\\\\)?)")
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]+")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]+")


class Headers(Struct, frozen=True):
    """Header fields by lower-case name; values in order, unfolded but still encoded."""

    fields: dict[str, list[str]]

    def first(self, name: str) -> str:
        """Return the first value of a field, "" if there is none."""
        values = self.fields.get(name)
        return values[0] if values else ""


def split_header(raw: bytes, limit: int) -> tuple[Headers, int]:
    """Return the header fields, read from at most `limit` bytes, and the offset of the first body byte."""
    lead = _LEAD.match(raw)
    start = lead.end() if lead else 0
    block = _FIELDS.match(raw, start)
    end = block.end() if block else start
    if end == start:  # no fields: everything after an optional blank line is body
        start = end = 0
    elif not _BLANK.match(raw, end) and (close := _HEADER_END.search(raw, end, start + limit)):
        lines = [line for line in raw[start : close.end(1)].splitlines() if not line[:1].isspace()]
        others = [line for line in lines if not _FIELD.match(line)]
        # A few lines that are no fields, up to a field above the first empty line, are skipped as mail readers do.
        skips = (
            4 * len(others) <= len(lines) and is_mail_field(lines[-1]) and not any(one[:2] == b"--" for one in others)
        )
        end = close.end(1) if skips else end
    blank = _BLANK.match(raw, end)
    headers = fields_of(raw[start : min(end, start + limit)])
    if lead and lead[1] and start:
        headers.fields[ENVELOPE] = [decode_text(lead[1][:LONGEST_FROM])]
    return headers, blank.end() if blank else end


def fields_of(block: bytes) -> Headers:
    """Return the fields of a block of header lines."""
    fields: dict[str, list[str]] = {}
    for line in _FOLD.sub(" ", decode_text(block)).split("\n"):
        name, colon, value = line.partition(":")
        if colon and " " not in name.rstrip():
            fields.setdefault(name.strip().lower(), []).append(value.strip())
    return Headers(fields)


def decode_words(value: str) -> str:
    """Return a value with its encoded words (RFC 2047) decoded, broken ones where possible."""
    if "=?" not in value:
        return value

    def decode(run: re.Match[str]) -> str:
        # One character may be split between two encoded words of the same charset.
        pieces, found = groupby(_ENCODED_WORD.findall(run[0]), lambda word: word[0].partition("*")[0].lower()), ""
        for charset, words in pieces:
            parts = ((encoding in "bB", text.encode("utf-8", "replace")) for _, encoding, text in words)
            data = (loose_base64(raw) if in_64 else binascii.a2b_qp(raw, header=True) for in_64, raw in parts)
            found += decode_text(b"".join(data), charset)
        return found

    return _ENCODED_WORDS.sub(decode, _BETWEEN_WORDS.sub("", value))


def clean(value: str) -> str:
    """Return a header value on one line, without control characters, terminal escapes or direction overrides."""
    if not (value.isascii() and value.isprintable()):
        value = _UNSAFE.sub(" ", _ESCAPES.sub(" ", value))
    return " ".join(value.split())


def loose_base64(data: bytes) -> bytes:
    """Decode base64, tolerating any line ends, padding and stray bytes; padding ends a piece of several."""
    pieces = (one[: len(one) - (len(one) % 4 == 1)] for one in _NOT_BASE64.sub(b"", data).split(b"="))
    return b"".join(binascii.a2b_base64(one + b"=" * (-len(one) % 4)) for one in pieces)


MOST_ADDRESSES = 1000  # of one field
LONGEST = 256_000  # characters of one field
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*+"?'  # quoted: commas inside do not separate addresses
    r"|<[^<>]*+>?"
    r"|\([^()]*+\)?"
    r"|=\?[^?\s]{1,60}\?[bBqQ]\?[^?]*+\?="
    r"|[,;:]"
    r"|[^\"<(=,;:]++"
    r"|.",
    re.DOTALL,
)
_STRUCTURED = re.compile(r"[\"<>():;=]")
_BACKSLASH = re.compile(r"\\(.)")
_EXCHANGE_NAME = re.compile(r"\s*(?:<|</O=|@ENRON\b).*", re.IGNORECASE | re.DOTALL)


class Address(Struct, frozen=True):
    """A display name and an address, either may be ""."""

    name: str
    address: str

    def __str__(self) -> str:
        return person(self.name, self.address)


@lru_cache(maxsize=256)
def parse_addresses(value: str) -> Sequence[Address]:
    """Return the addresses of a To-like field; groups are flattened, comments serve as names."""
    if not _STRUCTURED.search(value):
        plain = value.isascii() and value.isprintable()
        parts = (part.strip() if plain else clean(part) for part in value[:LONGEST].split(",")[:MOST_ADDRESSES])
        bare = (part.strip("'") for part in parts if part)
        return [Address("", one[:320]) if "@" in one and " " not in one else Address(one[:200], "") for one in bare]
    found, words = list[Address](), list[str]()
    addressed = loose = False  # whether the words since the last separator contain an address, those before it none
    tokens = _TOKEN.findall(value[:LONGEST])
    semicolons = ";" in tokens and ":" not in tokens  # Outlook separates names that contain commas by semicolons
    for token in (*tokens, ";"):
        if token == ":" and not addressed:
            words.clear()  # the name of a group
        elif token == "," and semicolons and not addressed:
            words.append(", ")
        elif token not in (",", ";"):
            words.append(token)
            addressed = addressed or "@" in token
        else:
            one, words, addressed = _address(words), [], False
            if loose and one.name and one.address:  # "Doe, Jane <jane@example.org>" without the quotes it should have
                one = Address(f"{found.pop().name}, {one.name}", one.address)
            if one.name or one.address:
                found.append(one)
                loose = token == "," and not one.address
        if len(found) >= MOST_ADDRESSES:
            break
    return found


def with_display_name(address: Address, display: str) -> Address:
    """Return an address with the display name from another field (Exchange exports), unless it has one."""
    name = clean(_EXCHANGE_NAME.sub("", display) if "<" in display or "@" in display else display).strip("\"' ")
    return Address(name[:100], address.address) if name and not address.name and "@" not in name else address


def _address(words: list[str]) -> Address:
    angled = [word for word in words if word.startswith("<")]
    unquoted = (_BACKSLASH.sub(r"\1", word[1:].removesuffix('"')) if word[0] == '"' else word for word in words)
    plain = "".join(bare for word, bare in zip(words, unquoted, strict=True) if word[0] not in "<(")
    if angled:
        address, name = angled[-1].strip("<> "), plain
    else:
        address, name = plain, " ".join(word.strip("()") for word in words if word.startswith("("))
        if "<" in plain and not name:  # after an unclosed quote
            name, _, address = plain.partition("<")
            address = address.strip("<> ")
    address = clean(address).replace(" ", "").strip("'")
    if not angled and "@" not in address:
        address, name = "", f"{plain} {name}"
    return Address(clean(decode_words(name)).strip("' ,")[:200], address[:320])


WIDEST = 400  # characters of a line that are matched
SKEW = timedelta(days=1)  # between the clocks of writer and quoter
_NEAR = timedelta(days=14)  # a message of 3/6 is mostly quoted by one of the same days; with an unknown month, 7 days
_MONTHS = {
    name: number
    for number, names in enumerate(word_patterns("mail_programs")["month"].split("|"), 1)
    for name in names.split()
}
_NAME, _YEAR = r"(?P<name>[^\W\d_]{3,12})", r"(?P<y>(?:19|20)\d\d)"
_DAYS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<y>(?:19|20)\d\d)\s?[-/._年년]\s?(?P<m>\d{1,2})\s?[-/._月월]\s?(?P<d>\d{1,2})[일日]?(?!\d)",
        rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|º)?[.\s-]{{1,3}}(?:(?:de|of)\s)?{_NAME}[.,]?(?:\s(?P<m>\d{{1,2}}),?)?"
        rf"[\s,-]{{1,3}}(?:de\s)?{_YEAR}",
        rf"\b{_NAME}\.?\s{{1,3}}(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s{{1,3}}{_YEAR}",
        r"(?<![\d.])(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\.\s?(?P<y>(?:19|20)?\d\d)(?!\d)",
        r"(?<![\d/-])(?P<a>\d{1,2})([/-])(?P<b>\d{1,2})\2(?P<y>(?:19|20)?\d\d)(?!\d)",
        rf"{_YEAR}\.?\s{{1,3}}(?:[^\W\d_]{{1,2}}\.\s)?{_NAME}\.?\s{{1,3}}(?P<d>\d{{1,2}})(?!\d)",
        rf"{_YEAR}\.?\s[^\W\d_]{{1,6}}\.?\s(?P<d>\d{{1,2}})\.?\s{_NAME}",
        rf"\b{_NAME}\s{{1,3}}(?P<d>\d{{1,2}})(?=\s{{1,3}}\d\d?:\d\d.{{0,24}}\b{_YEAR})",
        r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<m>[01]\d)(?P<d>[0-3]\d)(?!\d)",
    )
)
CLOCK = re.compile(
    r"(?<![\d:.])(?=\d)(?<!GMT[+-])(?<!UTC[+-])(\d{1,2})(?:([:.h])(\d\d)(?:[:.](\d\d)(?:\.\d{1,9})?)?(?!\d)"
    r"(?:\s?([ap])\.?m\b\.?)?|\s?([ap])\.?m\b\.?)",
    re.IGNORECASE,
)
_AFTERNOON, _ZONE = re.compile(r"下午|晚上|午後|오후|μ\.?μ\b"), re.compile(r"\s*\(?(Z|[A-Z]{3,5})\b")
_OFFSET = re.compile(r"(?:\s+\d{4}\b)?\s*\(?(?:(?:GMT|UTC)\s?([+-])(\d\d?)(?::?(\d\d))?|([+-])(\d\d?):?(\d\d))(?!\d)")
_SPAN = re.compile(r"(?<!:\d\d)(:\d\d)-(?=\d)")  # 10:00-11:00 has no offset
_TIMED = re.compile(f"{CLOCK.pattern}(?:{_OFFSET.pattern})?", re.IGNORECASE)


class FoundDate(Struct, frozen=True):
    """A date in a text, where it stands there, and the text without it and its time, but for the name of a zone."""

    moment: datetime
    start: int
    end: int
    rest: str


def find_date(text: str) -> FoundDate | None:
    """Return the first date with all digits of its year, of 5/3 that in May; without a zone it floats."""
    for match in (found for pattern in _DAYS for found in pattern.finditer(text)):
        rest = _SPAN.sub(r"\1 - ", f"{text[: match.start()]} \0 {text[match.end() :]}")
        moment = next((_at(day, rest, FLOATING) for day in _days(match, known=True) if len(match["y"]) == 4), None)
        if moment:
            return FoundDate(moment, *match.span(), _TIMED.sub(" ", rest, count=1))
    return None


FLOATING = timezone(timedelta(0), "floating")  # of a date without a zone: its day is as written
_FILLER = re.compile(
    r"\b(?:date|when|time|t|on|at|of|from|recorded|held|start(?:ed)?|mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?"
    r"|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?|o'clock|hrs?)\b",
    re.IGNORECASE,
)


def date_line(line: str) -> datetime | None:
    """Return the date of a line that contains nothing else; None for any other line."""
    found = find_date(line) if len(line) <= 120 else None
    return found.moment if found and all(map(named_zone, re.findall(r"\w+", _FILLER.sub("", found.rest)))) else None


def date_in_header(text: str, sent: datetime | None, zone: tzinfo | None = None) -> datetime | None:
    """Return the date in a header line of a message that was quoted in one sent then; None if it is not clear.

    A time without an offset is one of the zone of `sent`: mail programs write it on the clock of who quotes. A month in
    a language that is not known is the one that lies shortly before.
    """
    text, zone = text[:WIDEST], sent.tzinfo if sent else zone
    unknown = list[re.Match[str]]()
    for match in chain((found for pattern in _DAYS for found in pattern.finditer(text)), unknown):
        rest, known = f"{text[: match.start()]} \0 {text[match.end() :]}", match not in unknown
        read = [_at(day, rest, zone) for day in _days(match, known)]
        found = [one for one in read if one and (sent is None or one <= sent + SKEW)]
        if len(found) > 1 or not known:
            found = [one for one in found if sent and -SKEW * known <= sent - one < (_NEAR if known else _NEAR / 2)]
        if read:
            return found[0] if len(found) == 1 else None
        unknown += [match] if known else []
    return None


def _days(match: re.Match[str], known: bool) -> list[datetime]:
    """Return the days that a date may mean: 3/6 is one of two, and one of twelve if its month is a word not `known`."""
    parts = match.groupdict()
    year, day = int(parts["y"]) + (2000 if len(parts["y"]) == 2 else 0), int(parts["d"] if "d" in parts else parts["a"])
    if "a" in parts:
        pairs = dict.fromkeys(((day, int(parts["b"])), (int(parts["b"]), day)))
    elif parts.get("m"):
        pairs = {(int(parts["m"]), day): None}
    else:
        name = parts["name"].lower()
        plain = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
        month = next((_MONTHS[one] for one in (plain[:4], plain[:3], name[:3]) if one in _MONTHS), 0)  # й is a letter
        pairs = dict.fromkeys((one, day) for one in ([month] if known else () if month else range(1, 13)))
    found = list[datetime]()
    for month, number in pairs:
        with suppress(ValueError):  # no such day
            found.append(datetime(year, month, number))
    return found


def _at(day: datetime, rest: str, zone: tzinfo | None) -> datetime | None:
    """Return a day at the time of day in the rest of its line, in the zone named there, else in this one."""
    clock = min(CLOCK.finditer(rest), key=lambda match: match[2] != ":", default=None)
    with suppress(ValueError, OverflowError):  # no such time
        if clock:
            hour, half = int(clock[1]), (clock[5] or clock[6] or ("p" if _AFTERNOON.search(rest) else "")).lower()
            hour = hour % 12 + 12 * (half == "p") if half else hour
            day = day.replace(hour=hour, minute=int(clock[3] or 0), second=int(clock[4] or 0))
            if offset := _OFFSET.match(rest, clock.end()):
                sign, hours, minutes = offset.groups()[:3] if offset[1] else offset.groups()[3:]
                size = timedelta(hours=int(hours), minutes=int(minutes or 0))
                zone = timezone(-size if sign == "-" else size) if size < timedelta(hours=24) else zone
            elif named := _ZONE.match(rest, clock.end()):
                zone = named_zone(named[1]) or zone
        return day.replace(tzinfo=zone) if zone else in_users_zone(day)
    return None
