"""MIME: the parts of a message in reading order, with their text decoded. Knows nothing of quotes or threads."""

import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from email.errors import MessageError
from email.message import Message
from functools import lru_cache
from html import unescape

from msgspec import Struct

from engine.ingest.headers import Headers, clean, decode_text, decode_words, loose_base64, split_header, tidy, visible
from engine.ingest.html import html_text, is_page
from engine.ingest.outlook import TYPES, as_mime
from engine.ingest.scan import COMPOUND, HEAD, TNEF, is_office
from engine.ingest.types import ParseLimits, UnreadableItem
from store.types import FilePart, FileText, replace

_LONGEST = 4_000  # characters of a Content-Type; the standard library's parser is quadratic in them
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=\r\n]")
_BASE64_RUN = re.compile(rb"\s*(?:[A-Za-z0-9+/]{2,}={0,2}[ \t]*\r?\n){1,}+(?=\s*.*[^A-Za-z0-9+/=\s])")
_BASE64_LEAST = 40  # bytes: a shorter line may be a word of a text that was never encoded
_UU_LINE = re.compile(rb"[ -`]{1,90}\r?$")  # no "begin 644 name", and no "end"
_BASE64_LINE = re.compile(rb"^[A-Za-z0-9+/]{40,}={0,2}\s*$", re.MULTILINE)


class MimePart(Struct, frozen=True):
    """A MIME part with its header read and its body still encoded; `parameters` are those of its type, "" if absent."""

    headers: Headers
    body: bytes
    kind: str
    parameters: Mapping[str, str]
    filename: str
    attached: bool

    @property
    def encoding(self) -> str:
        """Return the declared transfer encoding."""
        return self.headers.first("content-transfer-encoding").strip().lower().split(" ")[0].strip(";\"'")

    @property
    def is_flowed(self) -> bool:
        """Return whether lines end where the writer's program wrapped them (RFC 3676)."""
        return self.parameters["format"].lower() == "flowed"

    @property
    def data(self) -> bytes:
        """Return the decoded body."""
        return decode_transfer(self.body, self.encoding)


def read_part(raw: bytes, limits: ParseLimits, default: str = "text/plain") -> MimePart:
    """Return a message or part, split into header and body."""
    headers, start = split_header(raw, limits.header_bytes)
    declared, disposition = (headers.first(f"content-{one}")[:_LONGEST] for one in ("type", "disposition"))
    kind, parameters = clean(declared.partition(";")[0]).lower(), parameters_of(declared or default)
    filename = parameters_of(disposition)["filename"] or parameters["name"]
    attached = disposition.strip().lower().startswith("attachment")
    return MimePart(headers, raw[start:], kind if kind.count("/") == 1 else default, parameters, filename, attached)


def decode_transfer(body: bytes, encoding: str) -> bytes:
    """Return a body without its Content-Transfer-Encoding; a body that does not fit it is returned unchanged."""
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    if encoding == "base64":
        run = _BASE64_RUN.match(body)
        behind = body[run.end() :] if run else b""
        if run and len(run[0]) >= _BASE64_LEAST and behind.strip() and not _BASE64_LINE.search(behind):
            return loose_base64(run[0]) + b"\n" + behind  # a list's footer, which is not encoded
        stray = len(_NOT_BASE64.findall(body))
        return body if stray * 20 > len(body) else loose_base64(body)
    if encoding in ("x-uuencode", "uuencode", "x-uue", "uue"):
        found = bytearray()
        for line in (one for one in body.split(b"\n") if _UU_LINE.match(one)):
            with suppress(binascii.Error):
                found += binascii.a2b_uu(line)
        return bytes(found)
    return body


@lru_cache(maxsize=1024)
def parameters_of(field: str) -> Mapping[str, str]:
    """Return the parameters of a Content-Type or -Disposition that are used here, in the forms of RFC 2231 too."""
    message, found = Message(), dict[str, str]()
    message["Content-Type"] = field
    for name in ("charset", "boundary", "format", "delsp", "name", "filename"):
        value: object = ""
        with suppress(ValueError, IndexError, TypeError, LookupError, MessageError):  # the parser's, on hostile text
            value = message.get_param(name, "")
        if isinstance(value, tuple):
            charset, _, text = value
            value = decode_text((text or "").encode("latin-1", "replace"), charset or "")
        found[name] = str(value or "")
    return found | {name: clean(decode_words(found[name])) for name in ("name", "filename")}


_PLAIN_IS_ENOUGH = 1_000  # characters: a plain alternative this long is not a stub, so the HTML is not parsed
_READABLE = (".txt", ".csv", ".tsv", ".md", ".ics", ".vcf", ".log", ".rst", ".org", ".json", ".yaml", ".yml")
_RTF = re.compile(
    r"\\'([\da-fA-F]{2})|\\u(-?\d{1,6}) ?(?:\?|\\'..)?|\\([A-Za-z]{1,32})(-?\d{0,10}) ?|\\(.)|([{}])|[\r\n]+"
    r"|([^\\{}\r\n]+)"
)
_RTF_TAG = re.compile(r"\\\*\\htmltag\d{0,4} ?")  # before the HTML of which Outlook made RTF (MS-OXRTFEX)
_RTF_HIDDEN = frozenset(
    ("fonttbl", "colortbl", "stylesheet", "info", "pict", "header", "footer", "themedata", "fldinst")
)
_RTF_SIGNS = {"par": "\n", "line": "\n", "row": "\n", "tab": "\t", "cell": " | ", "emdash": "—", "endash": "–"}
_RTF_SIGNS |= {"bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”"}
_RTF_PAGES = {"128": "932", "129": "949", "134": "936", "136": "950", "161": "1253", "162": "1254", "163": "1258"}
_RTF_PAGES |= {"177": "1255", "178": "1256", "186": "1257", "204": "1251", "222": "874", "238": "1250"}
_PARAMETER = re.compile(r"<param>[^<>]*+</param>", re.IGNORECASE)  # a colour or a font of enriched text
_XML_TAG, _BETWEEN_TEXTS = re.compile(r"<[^<>]*+>"), re.compile(r"\s*\n\s*")
_UU_FILE = re.compile(r"^begin [0-7]{3,4} (\S.*)\n(?:[ -`]{1,90}\n)++end$", re.MULTILINE)
_PAGE_CHARSET = re.compile(rb"<meta\b[^<>]{0,200}?\bcharset\s*=\s*[\"']?([\w.:-]{2,40})", re.IGNORECASE | re.ASCII)
_BOUNDARY_END = re.compile(rb"(--)?[ \t]*+\r?(?:\n|\Z)")
_LIKELY_BOUNDARY = re.compile(rb"^--([^\s-][^\r\n]{0,69}?)[ \t]*\r?\nContent-", re.MULTILINE | re.IGNORECASE)
_BASE64 = re.compile(rb"\s*(?:[A-Za-z\d+/]{40,80}\r?\n)+[A-Za-z\d+/]{0,80}={0,2}\s*")
_WORD, _LINK = re.compile(r"\w+"), re.compile(r"https?:\S+|\(?\S+@\S+")
_SENTENCE_END = re.compile(r"\n|(?<=[.!?])\s+")
_MESSAGE = "message/rfc822"
_OUTLOOK = re.compile(r"ms-(?:tnef|outlook) |\.msg$|winmail\.dat$", re.IGNORECASE)
_FILES = re.compile(
    r"pdf|office|opendocument|ms-excel|msword|rtf|zip|\.(?:doc|dot|ppt|pps|xls|xlt|od|ott)\w?$", re.IGNORECASE
)
_PAGES = {"text/html", "text/x-amp-html", "text/enriched", "text/richtext", "application/xhtml+xml"}
_READ = {"message/delivery-status", "application/ics", "application/json", "application/xhtml+xml"}
_INLINE = ("text/plain", "text/html", "text/rtf")
_ALTERNATIVES = {*_INLINE, "text/enriched", "text/x-amp-html", "multipart/related", "multipart/mixed"}


class Leaf(Struct, frozen=True):
    """A part that is not a container of MIME, or an attached message; `text` is None if it has no readable text."""

    part: MimePart
    text: str | None
    file: FileText | None = None  # the text of a file of an office program
    within: Sequence["Leaf"] = ()  # the files in a zip file, the parts of a message
    is_message: bool = False


class Tree(Struct):
    """The tree of a message's parts while it is walked: how many there were, and what was not read. Mutable."""

    limits: ParseLimits
    out_of_time: Callable[[], bool]
    problems: list[str] = []
    parts: int = 0

    def problem(self, text: str) -> None:
        """Add a problem, once."""
        if text not in self.problems:
            self.problems.append(text)


def walk(part: MimePart, tree: Tree, depth: int = 0) -> list[Leaf]:
    """Return the leaves of a part in order, within the limits; what is skipped is added to the tree's `problems`."""
    tree.parts += 1
    limits, kind = tree.limits, part.kind
    if depth > limits.depth:
        tree.problem(f"parts nested deeper than {limits.depth} were not read")
    elif tree.parts > limits.parts:
        tree.problem(f"parts beyond the first {limits.parts} were not read")
    elif tree.out_of_time():
        tree.problem(f"parts were not read after {limits.seconds:g} seconds")
    elif kind.startswith("multipart/"):
        return _walk_multipart(part, tree, depth)
    elif kind in (_MESSAGE, "message/global", "message/news") or part.filename.lower().endswith(".eml"):
        return [_message(read_part(part.data, limits), tree, depth)]
    elif _is_outlook(part):
        return _walk_outlook(part, tree, depth)
    elif kind.endswith("pkcs7-mime") and (signed := signed_content(part.data)):
        return walk(read_part(signed, limits), tree, depth + 1)
    else:
        return [_leaf(part, tree, depth)]
    return []


def _message(part: MimePart, tree: Tree, depth: int) -> Leaf:
    return Leaf(part, None, within=walk(part, tree, depth + 1), is_message=True)


def _leaf(part: MimePart, tree: Tree, depth: int) -> Leaf:
    """Return a part that is not a container of MIME, with the text of a file of an office program or in a zip file."""
    name, text, limits = part.filename, part_text(part, tree), tree.limits
    if name and limits.on_file:
        limits.on_file(name, part.data)
    if text is not None or not limits.text_of or not _FILES.search(f"{part.kind} {name}"):
        return Leaf(part, text)
    data, found = part.data, list[Leaf]()
    if is_office(name, data[:HEAD]):
        file = file_text(data, limits)
        if file.problem:
            tree.problem(f"{file.problem} ({name[:200] or part.kind})")
        return Leaf(part, None, file)
    inside = replace(tree, limits=replace(limits, members=None))
    try:
        for member, content in limits.members(data) if limits.members and data.startswith(b"PK") else ():
            kind = TYPES.guess_type(member)[0] or ""
            inner = MimePart(Headers({}), content, kind, parameters_of(kind), f"{name}/{member}", True)
            found += walk(inner, inside, depth + 1)
    except UnreadableItem as error:
        if str(error) == "encrypted":
            return Leaf(part, None, FileText(unread="encrypted"))
        tree.problem(f"{error} ({name[:200]})")
    tree.parts = inside.parts
    return Leaf(part, None, within=found)


def file_text(data: bytes, limits: ParseLimits) -> FileText:
    """Return the text of a file that `is_office`, with what could not be read; UnreadableItem where none is read."""
    if data.startswith(b"{\\rtf"):
        return FileText((FilePart("", _rtf_text(tidy(decode_text(data)))),))
    if limits.text_of is None:
        raise UnreadableItem("not read: see ingest.attachments")
    return limits.text_of(data)


def part_text(part: MimePart, tree: Tree) -> str | None:
    """Return the decoded text of a leaf, None if its type is not readable text."""
    kind = part.kind
    readable = kind.startswith("text/") or kind in _READ
    if not readable and not part.filename.lower().endswith(_READABLE):
        return None
    data = part.data
    if _BASE64.fullmatch(data):  # of text, undeclared
        with suppress(ValueError):
            found = binascii.a2b_base64(data)
            data = found if len(found.decode().split()) > 2 else data
    if len(data) > 4 * tree.limits.text_chars:
        data = data[: 4 * tree.limits.text_chars]
        tree.problem(f"text beyond {tree.limits.text_chars} characters was not read")
    page = _PAGE_CHARSET.search(data[:2048]) if kind == "text/html" and not part.parameters["charset"] else None
    text = tidy(decode_text(data, page[1].decode() if page else part.parameters["charset"]))
    if kind.endswith("xml") and kind not in _PAGES:
        text = _BETWEEN_TEXTS.sub("\n", unescape(_XML_TAG.sub("\n", text))).strip()
    elif kind == "text/plain" and "\nend" in text:
        text = _UU_FILE.sub(r"[attachment: \1]", text)
    elif text.startswith("{\\rtf"):
        return _rtf_text(text)
    if kind in _PAGES or (kind == "text/plain" and is_page(text)):
        return visible(html_text(_PARAMETER.sub("", text)))
    delete_space = part.parameters["delsp"].lower() == "yes"
    return visible(unflow(text, delete_space) if part.is_flowed else text)


def unflow(text: str, delete_space: bool) -> str:
    """Return format=flowed text (RFC 3676) with its soft line breaks joined; `delete_space` is DelSp=yes."""
    paragraphs, depth, goes_on = list[tuple[int, list[str]]](), 0, False
    for line in text.split("\n"):
        content = line.lstrip(">")
        level = len(line) - len(content)
        content = content.removeprefix(" ")
        if not goes_on or level != depth or content == "-- ":
            paragraphs.append((level, []))
        depth, goes_on = level, content.endswith(" ") and content != "-- "
        paragraphs[-1][1].append(content[:-1] if goes_on and delete_space else content)
    joined = ((level, "".join(pieces)) for level, pieces in paragraphs)
    return "\n".join(f"{'>' * level} {one}".rstrip() if level else one for level, one in joined)


def signed_content(der: bytes) -> bytes:
    """Return the signed content of an opaque S/MIME message (RFC 5652), whole or in pieces; b"" if it has none."""
    signed = bytes.fromhex("06092a864886f70d010701")  # the type of content that is signed, and not encrypted
    at, pieces = der.find(signed) + len(signed), list[bytes]()
    while signed in der[:at] and der[at : at + 1] in (b"\xa0", b"\x24", b"\x04") and at + 1 < len(der):
        is_text, size, at = der[at] == 4, der[at + 1], at + 2
        if size > 128:  # the length stands in as many bytes
            size, at = int.from_bytes(der[at : at + size - 128], "big"), at + size - 128
        pieces += [der[at : at + size]] if is_text else []
        at += size if is_text else 0
    return b"".join(pieces)


def _walk_multipart(part: MimePart, tree: Tree, depth: int) -> list[Leaf]:
    body, most, boundary = part.body, tree.limits.parts, part.parameters["boundary"].rstrip().encode("utf-8", "replace")
    bodies = _split_at(body, b"--" + boundary, most) if boundary else []
    if not bodies and (likely := _LIKELY_BOUNDARY.search(body)):
        bodies = _split_at(body, b"--" + likely[1], most)
    if not bodies:
        plain = replace(part, headers=Headers({}), kind="text/plain")
        return [Leaf(part, part_text(plain, tree))]
    default = _MESSAGE if part.kind == "multipart/digest" else "text/plain"
    children, found = [read_part(body, tree.limits, default) for body in bodies], list[Leaf]()
    if part.kind == "multipart/alternative":
        found, children = _walk_alternatives(children, tree, depth)
    for child in children:
        added = walk(child, tree, depth + 1)
        found = _with_outlooks(found, added) if _is_outlook(child) else [*found, *added]
    return found


def _rtf_text(source: str) -> str:
    """Return the text of RTF, without its control words and the groups that no reader shows; the HTML of HTML in it."""
    out, raw, groups = list[str](), bytearray(), list[tuple[bool, str]]()
    hidden, font, pages = False, "", {"": "1252"}
    for found in _RTF.finditer(_RTF_TAG.sub("", source) + "}"):
        code, number, word, value, sign, brace, plain = found.groups("")
        if code or (plain and plain.isascii()):  # a character may be two bytes, of which the second is a letter
            raw += b"" if hidden else bytes.fromhex(code) or plain.encode()
            continue
        if raw and (number or word or sign or brace or plain):
            out.append(decode_text(bytes(raw), f"cp{pages.get(font, pages[''])}"))
            raw.clear()
        if brace == "{":
            groups.append((hidden, font))
        elif brace:
            hidden, font = groups.pop() if groups else (False, "")
        elif word == "htmlrtf":  # for readers of RTF alone
            hidden = value != "0"
        elif word in _RTF_HIDDEN or sign == "*":
            hidden = True
        elif word == "f":
            font = value
        elif word == "ansicpg":
            pages[""] = value
        elif word == "fcharset":
            pages[font] = _RTF_PAGES.get(value, pages[""])
        elif not hidden:
            other = plain or _RTF_SIGNS.get(word) or (sign if sign in "{}\\" else "")
            out.append(chr(int(number) % 65_536) if number else other)
    said = tidy("".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip())
    return visible(html_text(said) if "\\fromhtml" in source[:1000] else said)


def _is_outlook(part: MimePart) -> bool:
    return bool(_OUTLOOK.search(f"{part.kind} {part.filename}")) and part.data.startswith((COMPOUND, TNEF))


def _walk_outlook(part: MimePart, tree: Tree, depth: int) -> list[Leaf]:
    """Return the message in a `.msg` file, or the text and the files in TNEF, which are those of the message itself."""
    try:
        inner = read_part(as_mime(part.data, tree.limits), tree.limits)
    except UnreadableItem as error:
        tree.problem(f"{error} ({part.filename[:200] or part.kind})")
        return [Leaf(part, None)]
    return [_message(inner, tree, depth)] if part.data.startswith(COMPOUND) else walk(inner, tree, depth + 1)


def _with_outlooks(others: list[Leaf], added: list[Leaf]) -> list[Leaf]:
    """Return the leaves of a message with those in its TNEF, of texts that say the same one."""
    said, more = ("\n".join(one.text or "" for one in found if _is_inline(one)) for found in (others, added))
    if said and not _lacking(said, more):
        added = [one for one in added if not _is_inline(one)]
    elif more and not _lacking(more, said):
        others = [one for one in others if not _is_inline(one)]
    return [*others, *added]


def _walk_alternatives(children: list[MimePart], tree: Tree, depth: int) -> tuple[list[Leaf], list[MimePart]]:
    """Return the best of the alternative texts, and what is left to walk: invitations, files, a single text."""
    texts = [child for child in children if child.kind in _ALTERNATIVES and not child.attached]
    plain = next((child for child in texts if child.kind == "text/plain"), None)
    rich = next((child for child in reversed(texts) if child is not plain), None)
    others = [child for child in children if child not in texts]
    if plain is None or rich is None:
        return [], [*texts[-1:], *others]
    text = part_text(plain, tree) or ""
    tree.parts += 1
    reads = rich.kind not in _INLINE[1:] or len(text) < _PLAIN_IS_ENOUGH
    found = walk(rich, tree, depth + 1) if reads else []
    said = "\n".join(leaf.text for leaf in found if _is_inline(leaf) and leaf.text)
    if text.strip() and 3 * len(text.split()) >= len(said.split()):  # not a stub such as "your program shows no HTML"
        if not _lacking(text, said):
            found = [Leaf(plain, text), *(leaf for leaf in found if not _is_inline(leaf))]
        elif rest := _lacking(said, text):
            found.append(Leaf(plain, rest))
    return found, others


def _lacking(text: str, other: str) -> str:
    """Return the sentences of another text most of whose words, two or more, a text lacks; links do not count."""
    known, found = set(_WORD.findall(text.casefold())), list[str]()
    for sentence in _SENTENCE_END.split(other):
        words = _WORD.findall(_LINK.sub("", sentence.casefold()))
        lacks = sum(word not in known for word in words)
        found += [sentence] if lacks > 1 and 2 * lacks > len(words) else []
    return "\n".join(found)


def _is_inline(leaf: Leaf) -> bool:
    return leaf.part.kind in _INLINE and not (leaf.part.attached or leaf.is_message)


def _split_at(body: bytes, line: bytes, most: int) -> list[bytes]:
    """Return the parts of a multipart body between lines that begin so; the last such line may be missing."""
    bodies, start, at = list[bytes](), -1, body.find(line)
    while at >= 0 and len(bodies) <= most:
        rest = _BOUNDARY_END.match(body, at + len(line))
        if rest is not None and (at == 0 or body[at - 1] == 10):
            if start >= 0:
                bodies.append(body[start:at].removesuffix(b"\n").removesuffix(b"\r"))
            if rest[1] is not None:  # the last one
                return bodies
            start = rest.end()
        at = body.find(line, at + len(line))
    return [*bodies, body[start:]] if start >= 0 and len(bodies) <= most else bodies
