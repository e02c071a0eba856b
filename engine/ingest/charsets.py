"""Bytes to text: the declared charset, else UTF-8, else a guess; knows no format."""

import codecs
import re
from dataclasses import dataclass
from functools import lru_cache

SAMPLE = 4096  # bytes of unlabelled text that the guess is made from
_SUPERSETS = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "big5": "big5hkscs",
}
_NOT_CHARSETS = frozenset({"ascii", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf-8"})
_SHIFTING = ("iso2022", "hz", "utf-7")  # their text is ASCII bytes that do not mean ASCII
_WIDE = ("utf-16", "utf-32")
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_RUN = re.compile(rb"[\x80-\xff]{3,}")
_REPLACED = {"\x0b": " ", "\x0c": " ", "\u2028": "\n", "\u2029": "\n"}
_ASCII_CONTROL = dict.fromkeys((*range(9), *range(14, 32), 127)) | {11: " ", 12: " "}


def decode_text(data: bytes, declared: str = "") -> str:
    """Decode bytes that say, rightly, wrongly or not at all, what charset they are in; never fails."""
    codec = _codec(declared[:40])
    if data.isascii() and not codec.startswith(_SHIFTING):
        return data.decode("ascii")
    for mark, marked in _MARKS:
        if data.startswith(mark):
            return data.decode(marked, "replace")
    # Latin text is hardly ever valid UTF-8 by chance, and its codecs accept any bytes, so UTF-8 is asked first there.
    order = ("utf-8", codec) if codec.startswith("cp125") else (codec, "utf-8")
    for name in order:
        try:
            return data.decode(name)
        except (UnicodeError, LookupError):
            continue
    return data.decode(_guess(data), "replace") if b"\0" not in data or not codec else data.decode(codec, "replace")


def tidy(text: str) -> str:
    """Make every line end one newline and take out control characters but tab."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():  # the common case, five times faster than the pattern
        return text.translate(_ASCII_CONTROL)
    return _CONTROL.sub(lambda found: _REPLACED.get(found[0], ""), text)


@lru_cache(maxsize=256)
def _codec(declared: str) -> str:
    """Name Python's codec for a declared charset, "" for none that is worth trying first."""
    try:
        name = codecs.lookup(declared.strip().strip("\"'")).name
    except (LookupError, ValueError):
        return ""
    return "" if name in _NOT_CHARSETS or not _decodes_text(name) else _SUPERSETS.get(name, name)


def _decodes_text(name: str) -> bool:
    try:
        b"".decode(name)
    except LookupError:  # rot13, hex and the like
        return False
    except UnicodeError:
        return True
    return True


def _guess(data: bytes) -> str:
    """Guess a codec; single accented letters among ASCII are Western, runs of them are for charset-normalizer."""
    lines = [line for line in data[: 64 * SAMPLE].split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:SAMPLE]
    if 2 * sum(map(len, _RUN.findall(sample))) < sum(byte > 127 for byte in sample):
        return "cp1252"
    from charset_normalizer import from_bytes  # slow to import, and seldom needed

    best = from_bytes(sample).best()
    return best.encoding if best else "cp1252"


def unflow(text: str, delete_space: bool) -> str:
    """Join the lines that a trailing space marks as one; `delete_space` drops that space (DelSp=yes)."""
    out: list[str] = []
    pieces: list[str] = []
    depth = 0
    for line in text.split("\n"):
        content = line.lstrip(">")
        level = len(line) - len(content)
        content = content.removeprefix(" ")
        if pieces and (level != depth or content == "-- "):
            out.append(_paragraph(pieces, depth))
            pieces = []
        depth = level
        soft = content.endswith(" ") and content != "-- "
        pieces.append(content[:-1] if soft and delete_space else content)
        if not soft:
            out.append(_paragraph(pieces, depth))
            pieces = []
    if pieces:
        out.append(_paragraph(pieces, depth))
    return "\n".join(out)


def _paragraph(pieces: list[str], depth: int) -> str:
    text = "".join(pieces)
    return f"{'>' * depth} {text}".rstrip() if depth else text


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """The caps that keep one bad item from costing too much; what lies beyond them is named as a problem."""

    message_bytes: int = 64 << 20  # of one message, attachments included
    file_bytes: int = 256 << 20  # of one file read whole; mbox files are streamed and have no cap
    parts: int = 500  # MIME parts of one message
    depth: int = 20  # multiparts and messages inside each other
    header_bytes: int = 256 << 10  # of one message's own header
    text_chars: int = 2_000_000  # of one document's decoded text
    seconds: float = 10.0  # for one item


class UnreadableItem(Exception):
    """An item that cannot be read; the reason holds none of its content."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
