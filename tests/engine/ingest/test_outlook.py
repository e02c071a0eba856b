"""Messages of Outlook, in `.msg` files and in `winmail.dat`, are read as any other mail is."""

import base64
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.ingest.files import UNKNOWN, read
from engine.ingest.mail import read_mail
from engine.ingest.outlook import as_mime, unpack_rtf
from engine.ingest.types import ParseLimits, UnreadableItem
from store.types import Document, ParsedItem, replace
from tests.engine.ingest.archive_files import message, zipped
from tests.engine.ingest.box import Box
from tests.engine.ingest.outlook_files import (
    ADDRESS,
    ALL_DAY,
    ARRIVED,
    BODY,
    CLASS,
    DATA,
    ENDS,
    FLAGS,
    FROM,
    FROM_ADDRESS,
    FROM_SMTP,
    FROM_TYPE,
    HEADERS,
    HTML,
    KIND,
    LONG_NAME,
    MADE,
    MAIL_PAGE,
    MIME,
    NAME,
    NOON,
    PAGE,
    PATTERN,
    PLACE,
    RTF,
    SENDER,
    SENDER_ADDRESS,
    SENDER_SMTP,
    SENT,
    SMTP,
    START,
    SUBJECT,
    Sent,
    Value,
    attribute,
    compound,
    compressed,
    msg,
    tnef,
)

LIMITS = ParseLimits()
INSIDE = "/O=CHOIR/OU=EXCHANGE/CN=RECIPIENTS/CN=ANN"
ANN: dict[int, Value] = {FROM: "Ann Bell", FROM_TYPE: "SMTP", FROM_ADDRESS: "ann@x.org"}
PLAIN: dict[int, Value] = {**ANN, SUBJECT: "Tonight", SENT: NOON, BODY: "Bring the oars.\r\n"}


def item(folder: Path, raw: bytes, name: str = "a.msg", limits: ParseLimits = LIMITS) -> ParsedItem:
    path = folder / name
    path.write_bytes(raw)
    (found,) = read(path, limits)
    return found


def document(sent: Sent) -> Document:
    found = read_mail(as_mime(msg(sent), LIMITS), LIMITS)
    assert found.problem is None
    assert found.document
    return found.document


def of(more: dict[int, Value], *attachments: Sent, charset: str = "") -> Document:
    return document(Sent({**PLAIN, **more}, (), attachments, charset=charset))


def text_of(values: dict[int, Value]) -> str:
    return document(Sent({**ANN, SENT: NOON, **values})).text


# The envelope.


def test_a_msg_file_is_one_message(tmp_path: Path) -> None:
    people: list[dict[int, Value]] = [
        {NAME: "Bob", ADDRESS: "bob@x.org", KIND: 1},
        {NAME: "'cid@x.org'", ADDRESS: "cid@x.org", KIND: 2},
        {NAME: 'Dee "D" Lee, MA', ADDRESS: "dee@x.org", KIND: 3},
        {NAME: "Boathouse", KIND: 1 | 0x10000000},
        {NAME: "Ann Bell", ADDRESS: "ann@x.org", KIND: 0},  # the sender, among those of some programs
    ]
    more: dict[int, Value] = {0x1035: "<1@x.org>", 0x1042: "<0@x.org>", 0x1039: "<a@x.org> <0@x.org>"}
    found = item(tmp_path, msg(Sent({**PLAIN, **more}, people)))
    assert (found.problem, found.offset, found.kinds) == (None, None, ())
    assert found.document
    one = found.document
    assert (one.sender, one.title, one.message_id) == ("Ann Bell <ann@x.org>", "Tonight", "1@x.org")
    assert one.recipients == (
        "Bob <bob@x.org>",
        "Boathouse",
        "cid@x.org",
        'Dee "D" Lee, MA <dee@x.org>',
    )
    assert (one.date, one.text) == (NOON, "Bring the oars.")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({FROM: "Ann", FROM_TYPE: "EX", FROM_ADDRESS: INSIDE, FROM_SMTP: "ann@x.org"}, "Ann <ann@x.org>"),
        (
            {FROM: "Ann", FROM_TYPE: "EX", FROM_ADDRESS: INSIDE, SENDER: "Ann", SENDER_SMTP: "ann@x.org"},
            "Ann <ann@x.org>",
        ),
        ({FROM: "Ann", FROM_TYPE: "EX", FROM_ADDRESS: INSIDE, SENDER: "Bob", SENDER_SMTP: "bob@x.org"}, "Ann"),
        ({SENDER: "Ann", SENDER_ADDRESS: "ann@x.org"}, "Ann <ann@x.org>"),
        ({SENDER: "Ann", SENDER_ADDRESS: INSIDE, 0x5D0A: "ann@x.org"}, "Ann <ann@x.org>"),
        ({FROM: "'ann@x.org'", FROM_ADDRESS: "Ann@X.org"}, "Ann@X.org"),
        ({FROM: "Bell, Ann\r\nBcc: bob@x.org", FROM_ADDRESS: "ann@x.org>\r\n"}, "Bell, Ann Bcc: bob@x.org <ann@x.org>"),
    ],
)
def test_a_sender_has_an_address_that_others_can_write_to_or_none(values: dict[int, Value], shown: str) -> None:
    one = document(Sent({SUBJECT: "Tonight", SENT: NOON, BODY: "Come.", **values}))
    assert (one.sender, one.recipients) == (shown, ())


def test_a_recipient_within_an_organization_has_the_address_beside_it() -> None:
    people: list[dict[int, Value]] = [{NAME: "Bob", ADDRESS: INSIDE, SMTP: "bob@x.org", KIND: 1}]
    assert document(Sent(PLAIN, people)).recipients == ("Bob <bob@x.org>",)


def test_recipients_that_are_not_listed_are_those_shown() -> None:
    assert of({0xE04: "Bob Low; Lee, Cid", 0xE03: "Dee"}).recipients == ("Bob Low", "Lee, Cid", "Dee")


def test_the_header_that_came_with_a_message_is_its_header(tmp_path: Path) -> None:
    header = (
        "Microsoft Mail Internet Headers Version 2.0\r\nReceived: from a by b;\r\n\tFri, 3 May 2024 10:00:09 +0200\r\n"
        "From: =?utf-8?q?Ann_B=C3=A9ll?= <ann@x.org>\r\nTo: choir@list.org\r\nSubject: Tonight\r\n"
        "Date: Fri, 3 May 2024 10:00:00 +0200\r\nMessage-ID: <9@x.org>\r\nX-Spam-Flag: YES\r\nMIME-Version: 1.0\r\n"
        'Content-Type: multipart/mixed;\r\n\tboundary="b"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    )
    people: list[dict[int, Value]] = [{NAME: "Bob", ADDRESS: "bob@x.org", KIND: 3}]
    found = item(tmp_path, msg(Sent({**PLAIN, HEADERS: header}, people)), limits=replace(LIMITS, leave_out=frozenset()))
    assert found.document
    one = found.document
    assert (one.sender, one.recipients) == ("Ann Béll <ann@x.org>", ("choir@list.org", "Bob <bob@x.org>"))
    assert one.date == datetime(2024, 5, 3, 10, 0, tzinfo=UTC) - timedelta(hours=2)
    assert one.date.utcoffset() == timedelta(hours=2)
    assert one.received == one.date + timedelta(seconds=9)
    assert (one.message_id, one.text) == ("9@x.org", "Bring the oars.")
    assert "it is marked as spam" in one.warnings


def test_a_header_that_names_people_without_their_addresses_gets_those_that_are_known() -> None:
    people: list[dict[int, Value]] = [{NAME: "Bob", ADDRESS: INSIDE, SMTP: "bob@x.org", KIND: 1}]
    one = document(Sent({**PLAIN, HEADERS: 'From: cid@x.org\nTo: "Bob"\nSubject: From above\n'}, people))
    assert (one.sender, one.recipients, one.title) == ("cid@x.org", ("Bob <bob@x.org>",), "From above")


def test_a_message_and_its_copy_in_another_form_are_one_document(box: Box) -> None:
    (box.mail / "a.msg").write_bytes(msg(Sent({**PLAIN, 0x1035: "<1@x.org>"})))
    head = "From: Ann Bell <ann@x.org>\nDate: Fri, 3 May 2024 12:00:00 +0000\nSubject: Tonight\nMessage-ID: <1@x.org>\n"
    (box.mail / "b.eml").write_text(f"{head}\nBring the oars.\n", "utf-8")
    (box.mail / "c.zip").write_bytes(zipped({"in/c.msg": msg(Sent({**PLAIN, BODY: "Bring the boat."}))}))
    summary = box.ingest()
    assert (summary.kept, summary.duplicates, box.texts()) == (2, 1, ["Bring the boat.", "Bring the oars."])


@pytest.mark.parametrize(
    ("times", "date"),
    [
        ({SENT: NOON, ARRIVED: NOON + timedelta(hours=1)}, NOON),
        ({ARRIVED: NOON, MADE: NOON + timedelta(days=1)}, NOON),
        ({MADE: NOON}, NOON),
        ({ARRIVED: datetime(4501, 1, 1, tzinfo=UTC)}, None),  # stands for none
        ({ARRIVED: datetime(9999, 1, 1, tzinfo=UTC)}, None),
        ({0x40: NOON}, None),
    ],
)
def test_a_message_was_written_when_it_was_sent_or_else_came_or_else_was_made(
    times: dict[int, Value], date: datetime | None
) -> None:
    assert document(Sent({**ANN, BODY: "Come.", **times})).date == date


@pytest.mark.parametrize(("more", "kinds"), [({}, ("drafts",)), ({ARRIVED: NOON}, ())])
def test_a_message_that_was_never_sent_is_a_draft(
    tmp_path: Path, more: dict[int, Value], kinds: tuple[str, ...]
) -> None:
    draft: dict[int, Value] = {**ANN, SUBJECT: "Tonight", BODY: "Come.", FLAGS: 8, MADE: NOON, **more}
    found = item(tmp_path, msg(Sent(draft)))
    assert (found.kinds, found.document is None) == (kinds, bool(kinds))


# Texts and their charsets.


@pytest.mark.parametrize(
    ("charset", "pages", "text"),
    [
        ("cp1251", {PAGE: 1251}, "Собрание в восемь."),
        ("cp932", {MAIL_PAGE: 50220}, "集まりは八時です。"),
        ("cp1251", {MAIL_PAGE: 20866}, "Собрание в восемь."),
        ("utf-8", {PAGE: 65001, MAIL_PAGE: 1252}, "Café um acht."),
        ("iso-8859-2", {MAIL_PAGE: 28592}, "Zażółć gęślą jaźń."),
        ("cp1252", {}, "Café um acht."),
    ],
)
def test_texts_are_in_the_code_page_of_the_message(charset: str, pages: dict[int, Value], text: str) -> None:
    one = of({SUBJECT: text, BODY: text, **pages}, charset=charset)
    assert (one.title, one.text) == (text, text)


@pytest.mark.parametrize(
    ("html", "page"),
    [
        ("<p>Собрание <b>в</b> восемь.</p>".encode("koi8-r"), 20866),
        ("<p>Собрание <b>в</b> восемь.</p>".encode(), 65001),
        ('<meta charset="koi8-r"><p>Собрание <b>в</b> восемь.</p>'.encode("koi8-r"), 0),
        ("<p>Собрание <b>в</b> восемь.</p>", 1252),
    ],
)
def test_html_is_in_the_charset_of_the_mail(html: Value, page: int) -> None:
    assert text_of({HTML: html, MAIL_PAGE: page}) == "Собрание в восемь."


def test_the_better_of_a_plain_text_and_html_is_read_as_in_any_mail() -> None:
    html = "<p>Bring the oars.</p><p style='display:none'>Hidden words here.</p>"
    assert text_of({BODY: "Bring the oars.\r\n", HTML: html}) == "Bring the oars."
    assert text_of({BODY: " \r\n", HTML: html}) == "Bring the oars."
    assert text_of(
        {BODY: "See the web.", HTML: "<p>The boat leaves from the pier at eight tonight, bring oars.</p>"}
    ) == ("The boat leaves from the pier at eight tonight, bring oars.")


# Compressed RTF. The first two are the examples of MS-OXRTFCP 4.1.


@pytest.mark.parametrize(
    ("coded", "text"),
    [
        (
            "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0",
            rb"{\rtf1\ansi\ansicpg1252\pard hello world}" + b"\r\n",
        ),
        ("1a0000001c0000004c5a4675e2d44b51410004205758595a0d6e7d010eb0", rb"{\rtf1 WXYZWXYZWXYZWXYZWXYZ}"),
        ("0f000000030000004d454c4100000000616263", b"abc"),
        (compressed(b"{\\rtf1 " + b"0123456789" * 999 + b"}").hex(), b"{\\rtf1 " + b"0123456789" * 999 + b"}"),
        ("00000000000000004c5a46750000000001fff0", b""),  # from a place where nothing was written
        ("00000000000000004c5a467500000000026100", b"a"),  # cut off in a place
        ("", b""),
    ],
)
def test_compressed_rtf_is_as_it_was(coded: str, text: bytes) -> None:
    assert unpack_rtf(bytes.fromhex(coded)) == text


@given(st.binary(max_size=200))
def test_compressed_rtf_gives_nine_times_its_size_at_most(data: bytes) -> None:
    assert len(unpack_rtf(b"\0" * 16 + data)) <= 9 * len(data)
    assert unpack_rtf(compressed(data)).removesuffix(b"\0") == data.removesuffix(b"\0")


IN_HTML = (
    rb"{\rtf1\ansi\ansicpg1251\fromhtml1 \deff0{\fonttbl{\f0\fswiss Arial;}{\f1\fcharset128 X;}}"
    rb"{\colortbl\red0\green0\blue0;}\uc1\pard{\*\htmltag64 <p>}\htmlrtf {\f0 \htmlrtf0 \'d1\'eb\'e5\'e2\'e0 "
    rb"{\*\htmltag84 <b>}\htmlrtf {\b \htmlrtf0 A{\*\htmltag84 &amp;}\htmlrtf &\htmlrtf0 B\htmlrtf }\htmlrtf0 "
    rb"{\*\htmltag92 </b>}{\*\mhtmltag84 <i>}\f1 \'8f\'57\'82\'dc\'82\'e8\htmlrtf\par\htmlrtf0}"
    rb"{\*\htmltag72 </p>}{\*\htmltag64 <p style='display:none'>}hidden{\*\htmltag72 </p>}}"
)


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        (rb"{\rtf1\ansi\ansicpg1252 Caf\'e9 \emdash  \ldblquote eight\rdblquote\par\u8364? 5, \u-10179?\u-8704?}",
         "Café — “eight”\n€ 5, 😀"),
        (IN_HTML, "Слева A&B集まり"),
        (rb"{\rtf1\ansi{\fonttbl{\f0\fcharset0 A;}{\f4\fcharset204 B;}}\f0 a {\f4 \'e4\'e0} \'e9t\'e9}", "a да été"),
        (rb"{\rtf1\ansicpg932{\mmathPr\mmathFont34}\f0 \'83\'65\'83X\'83g}", "テスト"),
        (rb"{\rtf1\ansi \'e9}}}} t}{\'e8", "é tè"),
        (rb"{\rtf1\ansi\ansicpg99999 a\'e9}", "aé"),
    ],
)  # fmt: skip
def test_a_body_of_rtf_is_read_with_its_fonts_charsets_and_html(rtf: bytes, text: str) -> None:
    assert text_of({RTF: compressed(rtf)}) == text


def test_a_plain_text_stands_for_the_rtf_that_says_the_same() -> None:
    assert (
        text_of({BODY: "Bring the oars.\r\n", RTF: compressed(rb"{\rtf1 Bring the oars.\par }")}) == "Bring the oars."
    )


# Attachments.


OLD = Sent({FROM: "Bob", FROM_ADDRESS: "bob@x.org", SUBJECT: "Old", SENT: NOON, BODY: "Which oars?"})
FORWARD = (
    "---------- Forwarded message ----------\nFrom: Bob <bob@x.org>\nDate: 2024-05-03 12:00+00:00\nSubject: Old\n\n"
    "Which oars?"
)


def test_attachments_are_read_as_in_any_mail() -> None:
    one = of(
        {},
        Sent({LONG_NAME: "pläne,;'.txt", DATA: b"Row at ten.\r\n"}),
        Sent({0x3704: "PHOTO.JPG", DATA: b"\xff\xd8"}),
        Sent({LONG_NAME: "page", MIME: "text/html", DATA: b"<p>Row <b>on</b>.</p>"}),
        Sent({NAME: "Old"}, message=OLD),
        Sent({NAME: "drawing"}),
    )
    parts = ["Bring the oars.", "[attachment: pläne,;'.txt]\nRow at ten.", "[attachment: page]\nRow on.", FORWARD]
    assert one.text == "\n\n".join([*parts, "[attachment: PHOTO.JPG]\n[attachment: drawing]"])
    assert {passage.role for passage in one.passages} == {"body", "attachment", "forward"}


ENCLOSED = (
    "From: ann@x.org\nDate: 3 May 2024 10:00:00 +0000\nSubject: Tonight\nContent-Type: multipart/mixed; boundary=b\n\n"
    "--b\n\n{}\n--b\nContent-Type: {}\nContent-Transfer-Encoding: base64\n"
    'Content-Disposition: attachment; filename="{}"\n\n{}\n--b--\n'
)


def enclosed(file: bytes, kind: str, name: str, text: str = "See below.") -> ParsedItem:
    return read_mail(ENCLOSED.format(text, kind, name, base64.encodebytes(file).decode()).encode(), LIMITS)


@pytest.mark.parametrize(
    ("kind", "name"), [("application/vnd.ms-outlook", "Old"), ("application/octet-stream", "Old.MSG")]
)
def test_a_msg_file_in_a_mail_is_an_attached_message(kind: str, name: str) -> None:
    found = enclosed(msg(OLD), kind, name)
    assert found.problem is None
    assert found.document
    assert found.document.text == f"See below.\n\n{FORWARD}"


def test_a_signed_message_is_its_one_attachment() -> None:
    signed = b'Content-Type: multipart/signed; boundary="s"\r\n\r\n--s\r\n\r\nBring the boat.\r\n--s--\r\n'
    one = of(
        {CLASS: "IPM.Note.SMIME.MultipartSigned"}, Sent({NAME: "smime.p7m", MIME: "multipart/signed", DATA: signed})
    )
    assert one.text == "Bring the boat."


# Meetings.

MEETING: dict[int, Value] = {
    CLASS: "IPM.Schedule.Meeting.Request",
    SUBJECT: "Rehearsal, all",
    START: NOON,
    ENDS: NOON + timedelta(hours=1, minutes=30),
    PLACE: "Boathouse; pier",
    PATTERN: "every Friday",
}


@pytest.mark.parametrize(
    ("more", "first"),
    [
        ({}, "Invitation: Rehearsal, all"),
        ({CLASS: "IPM.Schedule.Meeting.Canceled"}, "Cancelled: Rehearsal, all"),
        ({CLASS: "IPM.Schedule.Meeting.Resp.Pos"}, "Reply to invitation: Rehearsal, all"),
        ({CLASS: "IPM.Appointment"}, "Event: Rehearsal, all"),
    ],
)
def test_a_meeting_is_read_as_an_event(more: dict[int, Value], first: str) -> None:
    one = of({**MEETING, **more})
    lines = [first, "When: Friday 3 May 2024, 12:00 to 13:30 (UTC)", "Where: Boathouse; pier", "Notes: every Friday"]
    assert one.text == "\n".join(["Bring the oars.", "", *lines])
    assert [passage.role for passage in one.passages] == ["body", "event"]


@pytest.mark.parametrize("offset", [-8, 0, 9])
def test_a_whole_day_begins_at_midnight_of_whoever_wrote_it(offset: int) -> None:
    begin = datetime(2024, 5, 3, tzinfo=UTC) - timedelta(hours=offset)
    one = of({**MEETING, START: begin, ENDS: begin + timedelta(days=1), ALL_DAY: 1})
    assert "When: Friday 3 May 2024 (all day)" in one.text


def test_a_time_of_something_else_makes_no_event() -> None:
    assert of({**MEETING, CLASS: "IPM.Task"}).text == "Bring the oars."


# TNEF.

HELD: dict[int, Value] = {SUBJECT: "Inside", BODY: "Bring the oars."}
TNEF_TYPES = [("application/ms-tnef", "winmail.dat"), ("application/octet-stream", "Winmail.dat")]


@pytest.mark.parametrize(("kind", "name"), TNEF_TYPES)
def test_what_winmail_dat_holds_belongs_to_its_mail(kind: str, name: str) -> None:
    file = tnef(Sent({}, (), [Sent({LONG_NAME: "plan.txt", DATA: b"Row at ten."}), Sent({NAME: "Old"}, message=OLD)]))
    found = enclosed(file, kind, name)
    assert (found.problem, found.kinds) == (None, ())
    assert found.document
    assert (found.document.sender, found.document.title) == ("ann@x.org", "Tonight")
    assert found.document.text == f"See below.\n\n[attachment: plan.txt]\nRow at ten.\n\n{FORWARD}"


@pytest.mark.parametrize(
    ("outside", "inside", "shown"),
    [
        ("Bring the oars.", {RTF: compressed(rb"{\rtf1 Bring the {\b oars}.}")}, "Bring the oars."),
        ("This mail needs Outlook.", {BODY: "This mail needs Outlook. Bring both oars."},
         "This mail needs Outlook. Bring both oars."),
        ("Your program shows nothing.", {HTML: b"<p>Bring the oars tonight.</p>"},
         "Your program shows nothing.\n\nBring the oars tonight."),
        ("", {RTF: compressed(IN_HTML)}, "Слева A&B集まり"),
    ],
)  # fmt: skip
def test_the_text_in_winmail_dat_is_read_where_the_mail_does_not_say_the_same(
    outside: str, inside: dict[int, Value], shown: str
) -> None:
    found = enclosed(tnef(Sent(inside)), *TNEF_TYPES[0], text=outside)
    assert found.document
    assert found.document.text == shown


def test_a_mail_of_nothing_but_tnef_is_read() -> None:
    head = b"From: ann@x.org\nDate: 3 May 2024 10:00:00 +0000\nSubject: Tonight\nContent-Type: application/ms-tnef\n"
    found = read_mail(head + b"Content-Transfer-Encoding: binary\n\n" + tnef(Sent(HELD)), LIMITS)
    assert found.document
    assert found.document.text == "Bring the oars."


def test_texts_in_tnef_are_in_its_code_page(tmp_path: Path) -> None:
    sent = Sent({**PLAIN, SUBJECT: "Собрание", BODY: "Собрание в восемь."}, charset="cp1251")
    (found,) = read_all(tmp_path, tnef(sent, page=1251), "winmail.dat")
    assert found.document
    one = found.document
    assert (one.sender, one.title, one.text) == ("Ann Bell <ann@x.org>", "Собрание", "Собрание в восемь.")


def test_tnef_without_properties_has_a_subject_and_a_text(tmp_path: Path) -> None:
    raw = tnef(Sent({}))[:6] + attribute(1, 0x18004, b"Tonight\0") + attribute(1, 0x2800C, b"Bring the oars.\0")
    (found,) = read_all(tmp_path, raw, "old.dat")
    assert found.document
    assert (found.document.title, found.document.text) == ("Tonight", "Bring the oars.")


# Files that are damaged, or made to cost too much.


def read_all(folder: Path, raw: bytes, name: str = "a.msg", limits: ParseLimits = LIMITS) -> list[ParsedItem]:
    path = folder / name
    path.write_bytes(raw)
    return list(read(path, limits))


WHOLE = msg(Sent({**PLAIN, BODY: "Bring the oars. " * 400}, [], [Sent({LONG_NAME: "a.txt", DATA: b"x" * 9000})]))


def changed(raw: bytes, place: int, *numbers: int) -> bytes:
    return raw[:place] + struct.pack(f"<{len(numbers)}I", *numbers) + raw[place + 4 * len(numbers) :]


def table_of(raw: bytes) -> int:
    return 512 * (1 + int.from_bytes(raw[76:80], "little"))


def entry_of(raw: bytes, name: str) -> int:
    return raw.index(name.encode("utf-16-le"), 512 * (1 + int.from_bytes(raw[48:52], "little")))


DIRECTORY = int.from_bytes(WHOLE[48:52], "little")
BODY_STREAM = "__substg1.0_1000001F"
DAMAGED = {
    "cut off": WHOLE[: len(WHOLE) // 2],
    "a header alone": WHOLE[:512],
    "less than a header": WHOLE[:20],
    "sectors in a circle": changed(WHOLE, table_of(WHOLE), *[0] * 9),
    "a stream that ends too early": changed(WHOLE, table_of(WHOLE), 0xFFFFFFFE),
    "a stream beyond the file": changed(WHOLE, entry_of(WHOLE, BODY_STREAM) + 120, 0x7FFFFFFF),
    "a directory in a circle": changed(WHOLE, table_of(WHOLE) + 4 * DIRECTORY, DIRECTORY),
    "short streams in a circle": changed(
        changed(WHOLE, entry_of(WHOLE, "Root Entry") + 116, 0, 0xFFFFFFFF), table_of(WHOLE), 0
    ),
    "no directory": changed(WHOLE, 48, 0xFFFFFFFE),
    "a sector that is not there": changed(WHOLE, entry_of(WHOLE, BODY_STREAM) + 116, 0x00FFFFFF),
}


@pytest.mark.parametrize("raw", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_file_is_named_and_the_rest_is_read(tmp_path: Path, raw: bytes) -> None:
    found = read_all(tmp_path, zipped({"in/a.msg": raw, "b.eml": message(1), "c.msg": msg(Sent(PLAIN))}), "a.zip")
    assert [one.problem for one in found] == ["damaged (in/a.msg)", None, None]


def test_tables_that_the_header_has_no_room_for_are_listed_elsewhere(tmp_path: Path) -> None:
    last = len(WHOLE) // 512 - 1
    raw = changed(WHOLE, 68, last, 1, 0xFFFFFFFF) + WHOLE[76:80] + b"\xff" * 504 + b"\xfe\xff\xff\xff"
    assert item(tmp_path, raw) == item(tmp_path, WHOLE)


@pytest.mark.parametrize("offset", [68, 72, 76])
def test_entries_and_tables_in_a_circle_are_read_once(tmp_path: Path, offset: int) -> None:
    last = entry_of(WHOLE, "__attach_version1.0_#00000000")
    found = item(
        tmp_path, changed(WHOLE, last + offset, int(offset < 76))
    )  # 76: what it holds; the others stand beside
    assert found.document
    assert found.document.title == "Tonight"
    assert item(tmp_path, changed(WHOLE, 68, DIRECTORY, 1)).document


def test_streams_that_share_their_sectors_are_damage_and_not_read_again_and_again(tmp_path: Path) -> None:
    first = Sent({**PLAIN, 0x6600: b"x" * 60_000, 0x6601: b"y" * 60_000, 0x6602: b"z" * 60_000})
    raw = msg(first)
    places = [entry_of(raw, f"__substg1.0_{number:04X}0102") for number in (0x6600, 0x6601, 0x6602)]
    size = len(raw) - 1000
    for place in places:
        raw = changed(raw, place + 116, 0, size)
    assert item(tmp_path, raw).problem == "damaged"


@pytest.mark.parametrize("name", ["report.doc", "report.msg"])
def test_a_compound_file_of_another_program_is_no_message(tmp_path: Path, name: str) -> None:
    problem = UNKNOWN if name.endswith(".doc") else "not a message of Outlook"
    assert item(tmp_path, compound({"WordDocument": b"text"}), name).problem == problem


def test_a_file_that_is_named_msg_and_is_a_mail_is_a_mail(tmp_path: Path) -> None:
    found = item(tmp_path, message(1))
    assert found.document
    assert found.document.text == "word1"


def test_a_file_larger_than_a_message_may_be_is_not_read(tmp_path: Path) -> None:
    raw = msg(Sent({**PLAIN, 0x6600: bytes(1 << 20)}))
    assert item(tmp_path, raw, limits=replace(LIMITS, message_bytes=1 << 20)).problem == "larger than 1 MB"


def nested(levels: int) -> Sent:
    inner = Sent({**PLAIN, BODY: "Deep."})
    for level in range(levels):
        inner = Sent({**PLAIN, BODY: f"Level {level}."}, (), [Sent({NAME: "inner"}, message=inner)])
    return inner


@pytest.mark.parametrize("write", [msg, tnef])
@pytest.mark.parametrize("levels", [3, 40])
def test_messages_in_messages_are_read_to_a_depth(tmp_path: Path, levels: int, write: Callable[[Sent], bytes]) -> None:
    found = item(tmp_path, write(nested(levels)))
    assert found.document
    assert ("Deep." in found.document.text) == (levels == 3)
    assert (found.problem is None) == (levels == 3)


def test_recipients_beyond_the_limit_are_not_read(tmp_path: Path) -> None:
    many: list[dict[int, Value]] = [{NAME: f"P{number}", KIND: 1} for number in range(4000)]
    found = item(tmp_path, tnef(Sent(PLAIN, many)))
    assert found.problem == "recipients beyond the first 1000 of a field were not read"
    assert len(as_mime(tnef(Sent({}, many)), LIMITS)) < 3000 * 10


@pytest.mark.parametrize("write", [msg, tnef])
def test_attachments_beyond_the_limit_of_parts_are_not_read(tmp_path: Path, write: Callable[[Sent], bytes]) -> None:
    many = Sent(PLAIN, (), [Sent({LONG_NAME: f"{number}.txt", DATA: b"x"}) for number in range(9)])
    found = item(tmp_path, write(many), limits=replace(LIMITS, parts=5))
    assert found.problem == "parts beyond the first 5 were not read"


@pytest.mark.parametrize(
    "raw",
    [
        tnef(Sent(HELD))[:60],
        b"\x78\x9f\x3e\x22" + b"\xff" * 60,
        tnef(Sent({}))[:6] + attribute(1, 0x69003, b"\xff" * 9),
        tnef(Sent({}))[:6] + attribute(1, 0x69003, struct.pack("<IHHI", 1, 0x101F, 0x37, 0xFFFFFFFF)),
    ],
)
def test_a_damaged_winmail_dat_is_named_and_its_mail_is_read(raw: bytes) -> None:
    found = enclosed(raw, *TNEF_TYPES[0])
    assert found.document
    assert found.document.text in ("See below.", "See below.\n\n[attachment: winmail.dat]")
    assert (found.problem == "damaged (winmail.dat)") == ("winmail" in found.document.text)


CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=4)), max_size=9)
SMALL = Sent({**PLAIN, **MEETING, RTF: compressed(IN_HTML)}, [{NAME: "Bob", KIND: 1}], [Sent({NAME: "n"}, message=OLD)])
FILES = {"a.msg": msg(SMALL), "winmail.dat": tnef(SMALL)}


@pytest.mark.parametrize("name", FILES)
@given(CHANGES, st.integers(0, 1 << 16))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_damage_gives_a_document_or_a_problem(
    tmp_path: Path, name: str, changes: list[tuple[int, bytes]], cut: int
) -> None:
    raw = bytearray(FILES[name])
    for place, content in changes:
        at = 8 + place % (len(raw) - 8)
        raw[at : at + len(content)] = content
    del raw[max(cut, 8) :]
    for found in read_all(tmp_path, bytes(raw), name):
        assert found.document or found.problem
        assert not (found.problem or "").startswith("bug")


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for start in (b"", b"\x78\x9f\x3e\x22", WHOLE[:512], WHOLE[:1024]):
        with suppress(UnreadableItem):
            assert isinstance(as_mime(start + data, LIMITS), bytes)
