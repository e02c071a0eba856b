"""One MIME part: its header, its declared type, its bytes out of their transfer encoding; knows no other parts."""

import binascii
import re
from dataclasses import dataclass
from email.errors import MessageError
from email.message import Message
from functools import lru_cache

from engine.ingest.charsets import decode_text
from engine.ingest.headers import Headers, clean, decode_words, loose_base64, split_header
from engine.ingest.limits import Limits

_PARAMETERS = 4_000  # characters of a Content-Type; the standard library's parser is quadratic in them
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=\r\n]")
_UU_LINE = re.compile(rb"[ -`]{1,90}\r?$")


@dataclass(frozen=True, slots=True)
class ContentType:
    """A part's declared type and the parameters that matter."""

    name: str
    charset: str
    boundary: str
    filename: str
    flowed: bool
    delete_space: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A MIME part with its header read and its body still encoded."""

    headers: Headers
    body: bytes
    type: ContentType
    filename: str
    attached: bool

    @property
    def encoding(self) -> str:
        """Name the declared transfer encoding."""
        return self.headers.first("content-transfer-encoding").strip().lower().split(" ")[0].strip(";\"'")


def read_part(raw: bytes, limits: Limits, default: str = "text/plain") -> Part:
    """Split header and body of a message or part."""
    headers, start = split_header(raw, limits.header_bytes)
    return make_part(headers, raw[start:], default)


def make_part(headers: Headers, body: bytes, default: str = "text/plain") -> Part:
    """Read the fields that say what a body is."""
    kind = content_type(headers.first("content-type")[:_PARAMETERS], default)
    disposition = headers.first("content-disposition")[:_PARAMETERS]
    filename = (_disposed_name(disposition) if disposition else "") or kind.filename
    return Part(headers, body, kind, filename, disposition.strip().lower().startswith("attachment"))


def decode_transfer(body: bytes, encoding: str) -> bytes:
    """Undo a Content-Transfer-Encoding; what does not fit it is left as it is."""
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    if encoding == "base64":
        stray = len(_NOT_BASE64.findall(body))
        return body if stray * 20 > len(body) else loose_base64(body)
    if encoding in ("x-uuencode", "uuencode", "x-uue", "uue"):
        return _uudecoded(body)
    return body


@lru_cache(maxsize=512)
def content_type(value: str, default: str) -> ContentType:
    """Read a Content-Type field, RFC 2231 parameters included."""
    message = Message()
    message["Content-Type"] = value or default
    name = clean(message.get_content_type()) if "/" in value else default
    charset, boundary = _parameter(message, "charset"), _parameter(message, "boundary")
    flowed = _parameter(message, "format").lower() == "flowed"
    filename = clean(decode_words(_parameter(message, "name")))
    return ContentType(
        name, charset, boundary.rstrip(), filename, flowed, _parameter(message, "delsp").lower() == "yes"
    )


@lru_cache(maxsize=512)
def _disposed_name(disposition: str) -> str:
    message = Message()
    message["Content-Disposition"] = disposition
    return clean(decode_words(_parameter(message, "filename", "content-disposition")))


def _parameter(message: Message, name: str, header: str = "content-type") -> str:
    try:
        value = message.get_param(name, "", header)
    except (ValueError, IndexError, TypeError, LookupError, MessageError):  # the parser's own, for hostile text
        return ""
    if isinstance(value, tuple):
        charset, _, text = value
        return decode_text((text or "").encode("latin-1", "replace"), charset or "")
    return str(value or "")


def _uudecoded(body: bytes) -> bytes:
    out: list[bytes] = []
    for line in body.split(b"\n"):
        if line.startswith(b"begin ") or not _UU_LINE.match(line):
            continue
        if line.rstrip() == b"end":
            break
        try:
            out.append(binascii.a2b_uu(line))
        except binascii.Error:
            continue
    return b"".join(out)
