"""The text of PDF files and of documents, sheets and slides of office programs, each parsed in a child process.

The child can open no file, no socket and no process, and has so much memory and processor time for a file; a file that
it fails on costs its own text. Entities, links, macros and formulas are not followed. If the user wants that, tesseract
reads pages that are pictures. Knows nothing of mail.
"""

import os
import re
import struct
import sys
import time
import zipfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from importlib import import_module
from io import BytesIO
from itertools import islice
from posixpath import basename, dirname, join, normpath
from shutil import which
from signal import SIGKILL, SIGXCPU
from threading import Timer
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from msgspec import DecodeError, json

from store.types import FilePart, FileText, replace

if TYPE_CHECKING:
    from subprocess import Popen

_SECONDS, _PATIENCE, _MEMORY = 10, 60, 1 << 30  # of the processor, and by the clock, for one file; bytes of the child
_PAGES, _CHARS, _XML = 2000, 1_000_000, 256 << 20  # read of one file; bytes of a part of it that is XML
_KEPT, _REPLY = 200, 64 << 20  # files, as one may be in several messages; bytes of a text that a child sends
_REQUEST, _FULL = struct.Struct(">QI"), 3  # length and page, 0 for its text; how a child without memory ends
_TOO_LONG = f"took longer than {_SECONDS} seconds"
_READING, _DPI, _SIDE = 300, 200, 4000  # seconds for the pictures of a file; their pixels an inch, and of a side
# A shell limits tesseract: blocks written, seconds of the processor for a picture, KB of memory.
_LIMITED = f'ulimit -c 0; ulimit -f 8192; ulimit -t 60; ulimit -v {_MEMORY >> 10}; exec "$@"'
_PASSED = ("PATH", "LD_LIBRARY_PATH", "TESSDATA_PREFIX")
_ENDS = {_FULL: f"needs more than {_MEMORY >> 20} MB of memory", -SIGKILL: _TOO_LONG, -SIGXCPU: _TOO_LONG}


class OfficeFiles:
    """Reads files in a child process, started with the first one, and again after it failed. Mutable."""

    def __init__(self, ocr: str = "") -> None:
        self._child: Popen[bytes] | None = None
        self._ocr = ocr  # the languages in which tesseract reads pages that are pictures, if it does
        self._known = dict[bytes, FileText]()

    def text_of(self, data: bytes) -> FileText:
        """Return the text of a file; where it could not be read, `problem` says why."""
        key = blake2b(data, digest_size=16).digest()
        if key not in self._known:
            found = self._asked(data)
            found = self._recognized(data, found) if self._ocr and b"%PDF-" in data[:1024] else found
            self._known = {**dict([*self._known.items()][-_KEPT:]), key: found}
        return self._known[key]

    def close(self) -> None:
        """End the child process, if there is one."""
        if child := self._child:
            child.kill()
            child.communicate()
            self._child = None

    def _recognized(self, data: bytes, found: FileText) -> FileText:
        """Return the text of a PDF with that of its pages that are pictures."""
        parts, ends, problem = {int(one.place[5:]): one for one in found.parts}, time.monotonic() + _READING, ""
        for number in (number for number in range(1, _PAGES + 1) if number not in parts):
            drawn = self._asked(data, number)
            if not drawn.parts:
                problem = drawn.problem
                break
            text, problem = recognized(b64decode(drawn.parts[0].text), self._ocr, ends)
            if problem:
                break
            parts |= {number: FilePart(f"page {number}", text)} if text else {}
        found = replace(found, problem="; ".join(filter(None, (found.problem, problem))))
        return replace(found, parts=tuple(parts[one] for one in sorted(parts)), unread="" if parts else found.unread)

    def _asked(self, data: bytes, page: int = 0) -> FileText:
        if self._child is None:
            from subprocess import DEVNULL, PIPE, Popen  # slow to load

            needed = {key: os.environ[key] for key in ("PYTHONPATH", *_PASSED) if key in os.environ}
            # -P: a folder named engine in the working directory must not shadow ours
            words = [sys.executable, "-P", "-m", __name__]
            self._child = Popen(words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=needed, start_new_session=True)
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        (ending := Timer(_PATIENCE, child.kill)).start()  # broken into, it may read nothing and send anything
        try:
            child.stdin.write(_REQUEST.pack(len(data), page) + data)
            child.stdin.flush()
            return json.decode(child.stdout.readline(_REPLY), type=FileText)
        except (BrokenPipeError, DecodeError):
            end = child.wait()
        finally:
            ending.cancel()
        self.close()
        return FileText(problem=_ENDS.get(end, "its parser failed"))


def recognized(picture: bytes, languages: str, ends: float) -> tuple[str, str]:
    """Return the text that tesseract reads in a picture, and why it could not, until a time of the monotonic clock."""
    from subprocess import DEVNULL, Popen, TimeoutExpired  # slow to load
    from tempfile import TemporaryFile

    if not (program := which("tesseract")):
        return "", "pictures are not read: install tesseract"
    words = ["/bin/sh", "-c", _LIMITED, "sh", program, "stdin", "stdout", "-l", languages]
    env = {**{key: os.environ[key] for key in _PASSED if key in os.environ}, "OMP_THREAD_LIMIT": "1"}
    with TemporaryFile() as read, TemporaryFile() as text:  # without a name
        read.write(picture)
        read.seek(0)
        child = Popen(words, stdin=read, stdout=text, stderr=DEVNULL, env=env, start_new_session=True)
        with suppress(TimeoutExpired):
            child.wait(ends - time.monotonic())
        with suppress(ProcessLookupError):
            os.killpg(child.pid, SIGKILL)  # and what it may have started
        if child.wait():
            return "", "tesseract failed or took too long: see tesseract --list-langs"
        text.seek(0)
        return text.read(_CHARS).decode(errors="replace").strip(), ""


_DATE = re.compile(r"(?:D:)?(\d{4})-?(\d\d)-?(\d\d)(?:T?(\d\d):?(\d\d))?[\d.:]*(?:([+-]\d\d)[':]?(\d\d))?")
_DAMAGE = (
    *(ElementTree.ParseError, zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError),
    *(RuntimeError, ValueError, LookupError, OverflowError),
)


def _serve() -> None:
    import resource

    # Before no file can be opened any more.
    for needed in ("pypdfium2", "python_calamine", "encodings.cp437", "encodings.utf_16_le"):
        import_module(needed)
    limits = {"AS": _MEMORY, "CORE": 0, "FSIZE": 0, "NPROC": 0, "NOFILE": 3}
    for name, most in limits.items():
        with suppress(ValueError, OSError):  # a system limits what it can
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
    with os.fdopen(0, "rb") as files, os.fdopen(1, "wb") as texts:
        while len(head := files.read(_REQUEST.size)) == _REQUEST.size:
            length, page = _REQUEST.unpack(head)
            used = int(time.process_time())
            resource.setrlimit(resource.RLIMIT_CPU, (used + _SECONDS, resource.getrlimit(resource.RLIMIT_CPU)[1]))
            try:
                data = files.read(length)
                reply = json.encode(picture_of(data, page) if page else parse(data))
            except MemoryError:
                os._exit(_FULL)
            texts.write(reply + b"\n")
            texts.flush()


def parse(data: bytes) -> FileText:
    """Return the text of a file, by what it holds, not by its name; a library may end the process on a damaged one."""
    from python_calamine import CalamineError, PasswordError

    try:
        if b"%PDF-" in data[:1024]:
            return _pdf_text(data)
        if not data.startswith(b"PK"):
            return _bounded(_sheets(data))
        return _zipped_text(zipfile.ZipFile(BytesIO(data)), data)
    except PasswordError:
        return FileText(unread="encrypted")
    except (CalamineError, *_DAMAGE):
        return FileText(problem="damaged")


def _bounded(parts: Iterable[FilePart], date: str = "") -> FileText:
    """Return a text with as many parts as the limits allow, without empty ones, and the date that it gives itself."""
    kept, left, moment = list[FilePart](), _CHARS, None
    if found := _DATE.match(date):  # in the form of PDF or of ISO; UTC where it names no zone
        year, month, day, hour, minute, ahead, more = found.groups("00")
        with suppress(ValueError):
            moment = datetime.fromisoformat(f"{year}-{month}-{day}T{hour}:{minute}{ahead.rjust(3, '+')}:{more}")
    for number, part in enumerate(parts):
        if number == _PAGES:
            return FileText(tuple(kept), moment, problem=f"pages beyond the first {number} were not read")
        kept += [replace(part, text=text)] if (text := part.text[:left].strip()) else []
        left -= len(part.text)
        if left < 0:
            return FileText(tuple(kept), moment, problem=f"text beyond {_CHARS} characters was not read")
    return FileText(tuple(kept), moment)


_BREAKS = re.compile("\r(?=\n)|[\x02\ufffe]\r?\n?|\0")  # the latter in a word that goes on in the next line


def _pdf_text(data: bytes) -> FileText:
    from pypdfium2 import PdfDocument, PdfiumError

    try:
        pdf = PdfDocument(data)
    except PdfiumError as error:
        if getattr(error, "err_code", 0) == 4:  # it has a password
            return FileText(unread="encrypted")
        raise
    about = pdf.get_metadata_dict()
    texts = enumerate((page.get_textpage().get_text_range() for page in pdf), 1)
    parts = (FilePart(f"page {number}", _BREAKS.sub("", text)) for number, text in texts)
    found = _bounded(parts, about.get("ModDate", "") or about.get("CreationDate", ""))
    return found if found.parts or found.problem else replace(found, unread="pictures without text")


def picture_of(data: bytes, number: int) -> FileText:
    """Return a page of a PDF as a gray picture, PGM in base64; no part behind the last page, or if it is damaged."""
    from pypdfium2 import PdfDocument, PdfiumError

    with suppress(PdfiumError, *_DAMAGE):  # of its list of pages, too
        page = PdfDocument(data)[number - 1]
        drawn = page.render(scale=min(_DPI / 72, _SIDE / max(1, *page.get_size())), grayscale=True)
        pixels, width, step = bytes(drawn.buffer), drawn.width, drawn.stride
        rows = (pixels[at : at + width] for at in range(0, len(pixels), step))
        picture = b64encode(b"P5 %d %d 255\n" % (width, drawn.height) + b"".join(rows))
        return FileText((FilePart("", picture.decode()),))
    return FileText()


def _sheets(data: bytes) -> Iterator[FilePart]:
    from python_calamine import SheetTypeEnum, SheetVisibleEnum, load_workbook

    book = load_workbook(BytesIO(data))
    for about in book.sheets_metadata:
        if about.visible == SheetVisibleEnum.Visible and about.typ == SheetTypeEnum.WorkSheet:
            rows = islice(book.get_sheet_by_name(about.name).iter_rows(), _CHARS // 2)
            cells = ([int(one) if isinstance(one, float) and one.is_integer() else one for one in row] for row in rows)
            lines = (" | ".join(" ".join(str(one).split()) for one in row).rstrip(" |") for row in cells)
            yield FilePart(f"sheet {' '.join(about.name.split())}", "\n".join(filter(None, lines)))


# Zipped XML: OOXML (ECMA-376), and OpenDocument.

_WORD = tuple(f"word/{name}.xml" for name in ("document", "footnotes", "endnotes", "comments"))
# What is there twice or was deleted; where tabs are. A paragraph that is shorter is a heading, and stays with the next.
_SKIPPED, _LONG = frozenset(("Fallback", "tracked-changes", "forms", "scripts", "tabs")), 80
_SIGNS = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "s": " ", "noBreakHyphen": "-"}


def _zipped_text(archive: zipfile.ZipFile, data: bytes) -> FileText:
    names = archive.namelist()
    if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        return FileText(unread="encrypted")
    about = next((one for one in ("docProps/core.xml", "meta.xml") if one in names), "")
    told = {_name(one): one.text for one in _root(archive, about).iter() if one.text} if about else {}
    date = next((told[one] for one in ("modified", "date", "created") if one in told), "")
    if "ppt/presentation.xml" in names:
        return _bounded(_slides(archive), date)
    kind = archive.read("mimetype") if "mimetype" in names else b""
    if b"opendocument.spreadsheet" in kind or any(name.startswith("xl/") for name in names):
        return _bounded(_sheets(data), date)
    roots = [_root(archive, name) for name in ("content.xml", *_WORD) if name in names]
    pages = [one for root in roots for one in root.iter() if _name(one) == "page"]  # slides in OpenDocument
    parts = (FilePart(f"slide {number}", _shown(page)) for number, page in enumerate(pages, 1))
    return _bounded(parts if pages else [FilePart("", "\n".join(map(_shown, roots)))], date)


def _root(archive: zipfile.ZipFile, name: str) -> ElementTree.Element:
    """Return the root of a part; ValueError if it is too large, or declares an entity or anything else."""
    with archive.open(name) as file:
        data = file.read(_XML + 1)
    if len(data) > _XML or re.search(rb"<!(?!--|\[CDATA\[)", data):
        raise ValueError(name)
    return ElementTree.fromstring(data, ElementTree.XMLParser(encoding="utf-8"))  # whatever it says itself


def _name(one: ElementTree.Element) -> str:
    return str(one.tag).rpartition("}")[2]


def _slides(archive: zipfile.ZipFile) -> Iterator[FilePart]:
    """Yield the slides in the order in which they are shown, each with its notes."""
    source = "ppt/presentation.xml"
    slides = _related(archive, source, "/slide")
    ids = (id for one in _root(archive, source).iter() if _name(one) == "sldId" for id in one.attrib.values())
    for number, slide in enumerate((slides[id] for id in ids if id in slides), 1):
        parts = [slide, *_related(archive, slide, "/notesSlide").values()]
        yield FilePart(f"slide {number}", "\n".join(_shown(_root(archive, part)) for part in parts))


def _related(archive: zipfile.ZipFile, source: str, kind: str) -> dict[str, str]:
    folder, names = dirname(source), frozenset(archive.namelist())
    if (listed := f"{folder}/_rels/{basename(source)}.rels") not in names:
        return {}
    found = [one for one in _root(archive, listed) if one.get("Type", "").endswith(kind)]
    places = {one.get("Id", ""): normpath(join("/", folder, one.get("Target", ""))).lstrip("/") for one in found}
    return {one: place for one, place in places.items() if place in names}


def _shown(one: ElementTree.Element, reads: bool = False) -> str:
    """Return the text that is shown of an element: in OOXML what is in `t`, in OpenDocument all of a paragraph."""
    space, _, name = str(one.tag).rpartition("}")
    if name in _SKIPPED or (name == "r" and one.find("{*}rPr/{*}vanish") is not None):
        return ""
    reads = reads or name == "t" or (name in ("p", "h") and space.endswith(":text:1.0"))
    pieces = [_SIGNS.get(name, ""), (one.text or "") if reads else ""]
    for inner in one:
        pieces += [_shown(inner, reads), (inner.tail or "") if reads else ""]
    text = "".join(pieces)
    if name in ("p", "h"):
        return text + ("\n\n" if len(text) > _LONG else "\n")
    if name in ("tc", "table-cell"):
        return f"{' '.join(text.split())} | "
    return f"{text.rstrip(' |')}\n" if name in ("tr", "table-row") else text


if __name__ == "__main__":
    _serve()
