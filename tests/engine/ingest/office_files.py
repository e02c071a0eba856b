"""Files of office programs, written by hand: as little of each format as a program reads."""

import zlib
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from html import escape

from tests.engine.ingest.archive_files import zipped

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDES = "http://schemas.openxmlformats.org/presentationml/2006/main"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
DOCUMENT = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATED = "http://schemas.openxmlformats.org/package/2006/relationships"
CORE = (
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
)
OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
TEXT, TABLE, DRAW = (OFFICE.replace("office:1.0", f"{name}:1.0") for name in ("text", "table", "drawing"))
TYPES = {"[Content_Types].xml": b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'}


def pdf(*pages: str, title: str = "", changed: str = "", more: Sequence[bytes] = ()) -> bytes:
    """Return a PDF with a line of text on each page; an empty text is a page without any."""
    kids = " ".join(f"{5 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        f"<</Title({title})/ModDate({changed})>>".encode(),
    ]
    for number, text in enumerate(pages):
        shown = zlib.compress(f"BT /F 12 Tf 72 700 Td ({text}) Tj ET".encode("cp1252") if text else b"")
        about = f"/Parent 2 0 R/MediaBox[0 0 600 800]/Contents {6 + 2 * number} 0 R/Resources<</Font<</F 3 0 R>>>>"
        objects += [f"<</Type/Page{about}>>".encode(), stream(shown, "/Filter/FlateDecode")]
    return written([*objects, *more])


def stream(data: bytes, about: str = "") -> bytes:
    return f"<</Length {len(data)}{about}>>stream\n".encode() + data + b"\nendstream"


def written(objects: Sequence[bytes], trailer: str = "/Root 1 0 R/Info 4 0 R") -> bytes:
    """Return a PDF of these objects, numbered from 1."""
    out, places = bytearray(b"%PDF-1.5\n"), list[int]()
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        bytes(out)
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
            f"trailer<</Size {len(objects) + 1}{trailer}>>\nstartxref\n{len(out)}\n%%EOF\n"
        ).encode()
    )


def properties(title: str, changed: str) -> dict[str, bytes]:
    body = f"<dc:title>{escape(title)}</dc:title><dcterms:modified>{changed}</dcterms:modified>"
    return {"docProps/core.xml": f"<cp:coreProperties {CORE}>{body}</cp:coreProperties>".encode()}


def docx(body: str, title: str = "", changed: str = "", **parts: str) -> bytes:
    """Return a document of Word with a body of XML, or of a paragraph for each line, and further parts."""
    body = body if body.startswith("<") else paragraphs(body)
    content = {"document": body, **parts}
    texts = {
        f"word/{name}.xml": f'<w:{name} xmlns:w="{WORD}"><w:body>{xml}</w:body></w:{name}>'
        for name, xml in content.items()
    }
    return zipped(TYPES | properties(title, changed) | {name: xml.encode() for name, xml in texts.items()})


def paragraphs(text: str, more: str = "") -> str:
    return "".join(
        f"<w:p><w:r>{more}<w:t xml:space='preserve'>{escape(line)}</w:t></w:r></w:p>" for line in text.split("\n")
    )


def pptx(*slides: str, notes: Mapping[int, str] | None = None, order: Sequence[int] = ()) -> bytes:
    """Return slides with a line each, and notes to some by their number, shown in an order of the numbers from 1."""
    numbers = range(1, len(slides) + 1)
    listed = "".join(f'<p:sldId id="{255 + one}" r:id="r{one}"/>' for one in order or numbers)
    files = {
        "ppt/presentation.xml": f'<p:presentation xmlns:p="{SLIDES}" xmlns:r="{DOCUMENT}">{listed}</p:presentation>'
    }
    files["ppt/_rels/presentation.xml.rels"] = related(
        {f"r{one}": ("slide", f"slides/slide{one}.xml") for one in numbers}
    )
    for one, text in zip(numbers, slides, strict=True):
        files[f"ppt/slides/slide{one}.xml"] = shown(text)
        if said := (notes or {}).get(one):
            files[f"ppt/slides/_rels/slide{one}.xml.rels"] = related({"n": ("notesSlide", "../notesSlides/n.xml")})
            files["ppt/notesSlides/n.xml"] = shown(said)
    return zipped(TYPES | {name: xml.encode() for name, xml in files.items()})


def shown(text: str) -> str:
    return f'<p:sld xmlns:p="{SLIDES}" xmlns:a="{DRAWING}"><a:p><a:r><a:t>{escape(text)}</a:t></a:r></a:p></p:sld>'


def related(parts: Mapping[str, tuple[str, str]]) -> str:
    rows = (f'<Relationship Id="{id}" Type="{DOCUMENT}/{kind}" Target="{at}"/>' for id, (kind, at) in parts.items())
    return f'<Relationships xmlns="{RELATED}">{"".join(rows)}</Relationships>'


def xlsx(sheets: Mapping[str, Sequence[Sequence[object]]], hidden: str = "") -> bytes:
    """Return a workbook of sheets by name, of which one may be hidden."""
    listed = ""
    for at, name in enumerate(sheets, 1):
        state = "hidden" if name == hidden else "visible"
        listed += f'<sheet name="{escape(name)}" sheetId="{at}" r:id="r{at}" state="{state}"/>'
    files = {"xl/workbook.xml": f'<workbook xmlns="{SHEETS}" xmlns:r="{DOCUMENT}"><sheets>{listed}</sheets></workbook>'}
    files["_rels/.rels"] = related({"r": ("officeDocument", "xl/workbook.xml")})
    places = {f"r{at}": ("worksheet", f"worksheets/sheet{at}.xml") for at in range(1, len(sheets) + 1)}
    files["xl/_rels/workbook.xml.rels"] = related(places)
    for at, rows in enumerate(sheets.values(), 1):
        data = "".join(f'<row r="{number}">{"".join(map(_cell, row))}</row>' for number, row in enumerate(rows, 1))
        files[f"xl/worksheets/sheet{at}.xml"] = f'<worksheet xmlns="{SHEETS}"><sheetData>{data}</sheetData></worksheet>'
    return zipped(TYPES | {name: xml.encode() for name, xml in files.items()})


def _cell(value: object) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return "<c/>" if value is None else f"<c><v>{value}</v></c>"


def opendocument(body: str, kind: str = "text", title: str = "", changed: str = "") -> bytes:
    """Return a document of OpenOffice with a body of XML, in which `text` and others are namespaces."""
    spaces = f'xmlns:office="{OFFICE}" xmlns:text="{TEXT}" xmlns:table="{TABLE}" xmlns:draw="{DRAW}"'
    content = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
    dc = 'xmlns:dc="http://purl.org/dc/elements/1.1/"'
    meta = f"<office:m xmlns:office='{OFFICE}' {dc}><dc:title>{title}</dc:title><dc:date>{changed}</dc:date></office:m>"
    manifest = f'<m:manifest xmlns:m="{OFFICE.replace("office:1.0", "manifest:1.0")}"/>'
    files = {"mimetype": f"application/vnd.oasis.opendocument.{kind}", "content.xml": content, "meta.xml": meta}
    return zipped({name: text.encode() for name, text in (files | {"META-INF/manifest.xml": manifest}).items()})


def mail(*files: tuple[str, bytes], body: str = "see attached", day: int = 1, name: str = "1", kind: str = "") -> bytes:
    """Return a message with attached files, by name."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann Lee <ann@x.org>", "bob@x.org", f"Papers {name}"
    message["Date"], message["Message-ID"] = f"{day} May 2024 10:00:00 +0000", f"<{name}@x.org>"
    message.set_content(body)
    for file, data in files:
        main, _, sub = (kind or "application/octet-stream").partition("/")
        message.add_attachment(data, maintype=main, subtype=sub, filename=file)
    return message.as_bytes()
