"""Bytes to text: the declared charset, else UTF-8, else a guess; line ends, control characters and format=flowed."""

import codecs
import re
from functools import lru_cache

SAMPLE = 4096  # bytes of undeclared text that the charset is guessed from
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
_SHIFTING = ("iso2022", "hz", "utf-7")  # encode other scripts in ASCII bytes
_WIDE = ("utf-16", "utf-32")
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_NON_ASCII_RUN = re.compile(rb"[\x80-\xff]{3,}")
_REPLACED = {"\x0b": " ", "\x0c": " ", "\u2028": "\n", "\u2029": "\n"}
_ASCII_CONTROL = dict.fromkeys((*range(9), *range(14, 32), 127)) | {11: " ", 12: " "}


def decode_text(data: bytes, declared: str = "") -> str:
    """Return the text of bytes whose declared charset may be right, wrong or missing; never fails."""
    codec = _codec(declared[:40])
    if data.isascii() and not codec.startswith(_SHIFTING):
        return data.decode("ascii")
    for mark, marked in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(marked, "replace")
    # Text in a Latin charset is hardly ever valid UTF-8 by chance, and Latin codecs accept any bytes: try UTF-8 first.
    order = ("utf-8", codec) if codec.startswith("cp125") else (codec, "utf-8")
    for name in order:
        try:
            return data.decode(name)
        except (UnicodeError, LookupError):
            continue
    return data.decode(_guess(data), "replace") if b"\0" not in data or not codec else data.decode(codec, "replace")


def tidy(text: str) -> str:
    """Return the text with newlines as line ends and without control characters except tab."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():  # the common case, five times faster than the pattern
        return text.translate(_ASCII_CONTROL)
    return _CONTROL.sub(lambda found: _REPLACED.get(found[0], ""), text)


@lru_cache(maxsize=256)
def _codec(declared: str) -> str:
    """Return the name of Python's codec for a declared charset, "" if there is none to try first."""
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
    """Return a guessed codec: cp1252 for single accented letters in ASCII, else what charset-normalizer finds."""
    lines = [line for line in data[: 64 * SAMPLE].split(b"\n") if not line.isascii()]
    sample = b"\n".join(lines)[:SAMPLE]
    if 2 * sum(map(len, _NON_ASCII_RUN.findall(sample))) < sum(byte > 127 for byte in sample):
        return "cp1252"
    from charset_normalizer import from_bytes  # slow to import, and seldom needed

    best = from_bytes(sample).best()
    return best.encoding if best else "cp1252"


def unflow(text: str, delete_space: bool) -> str:
    """Return format=flowed text (RFC 3676) with its soft line breaks joined; `delete_space` is DelSp=yes."""
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
