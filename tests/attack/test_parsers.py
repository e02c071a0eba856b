"""Files made to hang, crash or fill the memory: each is read or named, and the mail beside it is found."""

import base64
import gzip
import os
import resource
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.ingest.files import read
from engine.ingest.html import html_text
from engine.ingest.types import ParseLimits
from engine.llm.generate import ParsedAnswer, parse
from engine.settings import load
from engine.text.relative_dates import next_start
from store.errors import UsageError
from tests.attack.lab import NOW as IN_UTC
from tests.attack.lab import Lab, mail
from tests.engine.ingest.archive_files import tarred, zipped

LIMITS, NOW = ParseLimits(), IN_UTC.replace(tzinfo=None)
MANY = 100_000
_INVITE = (
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Picnic\nDTSTART;TZID={zone}:{start}\n{more}\nEND:VEVENT\nEND:VCALENDAR"
)


def calendar(more: str, zone: str = "America/New_York", start: str = "20240622T100000") -> bytes:
    return mail(_INVITE.format(zone=zone, start=start, more=more), "Content-Type: text/calendar")


def html(page: str) -> bytes:
    return mail(page, "Content-Type: text/html; charset=utf-8")


def charset(name: str, body: bytes = b"\xe9\0 cafe") -> bytes:
    return mail("", f"Content-Type: text/plain; charset={name}") + body


def parts(body: str, kind: str = "multipart/mixed; boundary=a") -> bytes:
    return mail(body, f"Content-Type: {kind}")


def layers(most: int) -> bytes:
    """Return an archive that holds sixteen of itself, so many deep, with a megabyte of zeros at the end."""
    inner = zipped({"0.mbox": bytes(1 << 20)})
    for _ in range(most):
        inner = zipped({f"{number}.zip": inner for number in range(16)})
    return inner


def overlapping() -> bytes:
    """Return a zip file whose directory names the same megabyte of mail a thousand times."""
    raw = zipped({"0.eml": mail("x" * (1 << 20))})
    at, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    entry, last = raw[at:end], bytearray(raw[end:])
    last[8:16] = struct.pack("<HHI", 1000, 1000, 1000 * len(entry))
    return raw[:at] + entry * 1000 + bytes(last)


def tar_header(kind: bytes, size: int) -> bytes:
    """Return the header of a member of a tar file with this type and this claim of a size."""
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    header[124:136], header[148:156], header[156:157] = b"\x80" + size.to_bytes(11, "big"), b" " * 8, kind
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


# Each name is a file; its content is made when it is tried.
FILES: dict[str, Callable[[], bytes]] = {
    "charset that is no text encoding.eml": lambda: charset("uu"),
    "charset that unpacks.eml": lambda: charset("zlib"),
    "charset with escapes.eml": lambda: charset("unicode_escape", rb"\ud800\x1b[31m \xe9 \u202e" + b"\xe9"),
    "charset quadratic in length.eml": lambda: charset("punycode", b"-" + b"a" * MANY + b"\xe9"),
    "rule that ends in year 1.eml": lambda: calendar("RRULE:FREQ=DAILY;UNTIL=00010101T000000Z"),
    "rule that ends in year 9999.eml": lambda: calendar("RRULE:FREQ=DAILY;UNTIL=99991231T235959Z", "Asia/Tokyo"),
    "duration beyond all years.eml": lambda: calendar("DURATION:P9999W", start="99991230T235959"),
    "zone that is a folder.eml": lambda: calendar("", "America/Indiana"),
    "zone outside the database.eml": lambda: calendar("", "Europe/../../../etc/passwd"),
    "quote marks without end.eml": lambda: mail(">" * 1_500_000),
    "quote marks with blanks.eml": lambda: mail("> " * 700_000),
    "quotes in quotes.eml": lambda: mail("\n".join(">" * n + " On Monday Ann wrote:" for n in range(900))),
    "parts in parts.eml": lambda: parts("--a\nContent-Type: multipart/mixed; boundary=a\n\n" * 40_000),
    "messages in messages.eml": lambda: parts("Content-Type: message/rfc822\n\n" * 40_000, "message/rfc822"),
    "borders without end.eml": lambda: parts("--a\n" * 500_000),
    "base64 of nothing.eml": lambda: mail(
        "A=\n" * 500_000, "Content-Transfer-Encoding: base64", "Content-Type: text/plain"
    ),
    "selectors that backtrack.eml": lambda: html(
        f"<style>.b div div div .c{{display:none}}</style>{'<div class=c>' * 2000}x<p class=b>y"
    ),
    "siblings that backtrack.eml": lambda: html(
        f"<style>{'*~*~*~* *~*{display:none}' * 200}.b~p~p{{display:none}}</style>{'<p>x' * 9000}<p class=b>y"
    ),
    "tags in tags.eml": lambda: html(f"{'<div>' * 19_000}x{'<table><tr><td>' * 300}y"),
    "sheet in sheet.eml": lambda: html(f"<style>{'a{' * 50_000}{':not(' * 50_000}</style><p>x"),
    "variables that double.eml": lambda: html(
        f"<p style='{''.join(f'--v{n}:var(--v{n + 1})var(--v{n + 1});' for n in range(60))}color:var(--v0)'>x"
    ),
    "addresses that open.eml": lambda: mail("x", "To: " + '"<(' * 80_000),
    "words that nest.eml": lambda: mail("x", "Subject: " + "=?utf-8?b?=?utf-8?q?" * 10_000),
    "cues without end.vtt": lambda: b"WEBVTT\n\n" + b"1:1 --> " * MANY + b"<v a" * MANY,
    "speakers without end.txt": lambda: b"".join(b"Nam%d: x\n" % number for number in range(20_000)),
    "lists in lists.json": lambda: b'{"text": "a", "segments": ' + b"[" * MANY,
    "numbers that are none.json": lambda: b'{"text": "a", "segments": [{"start": 1e999, "end": NaN, "text": "x"}]}',
    "length beyond all.emlx": lambda: b"999999999999\nSubject: x\n\ny",
    "separators alone.mbox": lambda: b"From a@x.org Mon Jun  3 10:00:00 2024\n" * MANY,
    "zeros.gz": lambda: gzip.compress(bytes(200 << 20), 1),
    "zeros.zip": lambda: zipped({"0.mbox": bytes(200 << 20)}),
    "one line without end.zip": lambda: zipped({"0.eml": b"Subject: x\nFrom: a@x\n\n" + b"x" * (200 << 20)}),
    "archives in archives.zip": lambda: layers(5),
    "overlapping members.zip": overlapping,
    "a directory of many names.zip": lambda: zipped(dict.fromkeys(map(str, range(20_000)), b"")),
    "a directory beyond all.zip": lambda: (
        b"PK\3\4" + bytes(50 << 20) + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 9, 9, 50 << 20, 4, 0)
    ),
    "many empty files.tgz": lambda: tarred(dict.fromkeys(map(str, range(20_000)), b"")),
    "a long name without end.tgz": lambda: gzip.compress(tar_header(b"L", 1 << 40) + bytes(100 << 20), 1),
    "a long field without end.tgz": lambda: gzip.compress(tar_header(b"x", 1 << 40) + b"9 path=a\n" * (10 << 20), 1),
    "a sparse map without end.tgz": lambda: gzip.compress(
        tar_header(b"x", 512)
        + b"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n".ljust(512, b"\0")
        + tar_header(b"0", 1 << 40)
        + b"99999999\n"
        + b"1\n" * (10 << 20),
        1,
    ),
    "a file beyond all.tar": lambda: tar_header(b"0", 1 << 62) + mail("x"),
    "contacts without end.vcf": lambda: b"BEGIN:VCARD\nNOTE;ENCODING=QUOTED-PRINTABLE:" + b"x=\n" * 500_000,
    "a contact that opens.vcf": lambda: b"BEGIN:VCARD\nTEL" + b";a=b,c" * 200_000 + b":1\nFN:x" + b";" * 500_000,
    "events without end.ics": lambda: b"BEGIN:VCALENDAR\n" + b"BEGIN:VEVENT\nUID:1\nSUMMARY:x\n" * 30_000,
    "letter with half a sign.eml": lambda: mail(
        "x", "Subject: =?utf-16?b?" + base64.b64encode(b"\xd8\0").decode() + "?="
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_no_file_takes_long_or_much_memory(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name]())
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    items = list(read(path, LIMITS))
    assert time.process_time() - begun < 5  # of two million characters at most; quadratic ones took minutes
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    for item in items:
        if item.document:
            f"{item.document}".encode()


def test_the_mail_beside_them_is_indexed_and_found(lab: Lab) -> None:
    small = {name: made() for name, made in FILES.items() if len(made()) < 100_000}
    lab.read({"0.eml": mail("The boathouse key is under the third oar."), **small})
    assert "third oar" in (lab.ask("Where is the boathouse key?").text or "")


def test_what_is_no_file_is_not_waited_for(lab: Lab) -> None:
    lab.put("0.eml", mail("The boathouse key is under the third oar."))
    os.mkfifo(lab.mail / "pipe.eml")
    (lab.mail / "loop").symlink_to(lab.mail)
    (lab.mail / "endless.eml").symlink_to("/dev/zero")
    (lab.mail / "folder.eml").mkdir()
    lab.read()
    assert "third oar" in (lab.ask("Where is the boathouse key?").text or "")


@pytest.mark.parametrize(
    "page",
    [
        "<style>.m td .x p{display:none}</style><table class=m><tr><td><div class=x><p>secret</div>seen</table>",
        "<style>.a~.b{display:none}</style><i class=a></i>seen<b class=b>secret</b>",
    ],
)
def test_ordinary_selectors_still_hide(page: str) -> None:
    assert html_text(page) == "seen"


@pytest.mark.parametrize(
    ("written", "cited"),
    [
        ("Friday [1-2-4]", (1, 2, 3, 4)),
        ("Friday [1, 2–2-3]", (1, 2, 3)),
        ("Friday [9-1]", ()),
        ("Friday [1 AND 2]", (1, 2)),
        ("Friday [1 - 2 -2]", (1, 2)),
    ],
)
def test_no_list_of_numbers_of_a_model_is_a_bug(written: str, cited: tuple[int, ...]) -> None:
    assert parse(written) == ParsedAnswer("Friday", cited)


@pytest.mark.parametrize("sign", ["\n", "\x0b", " ", "[", "[ ", ". ", "-", "<think>", "\n-"])
def test_no_text_of_a_model_takes_long_to_read(sign: str) -> None:
    begun = time.process_time()
    parse(f"a{sign * 4000}b")
    assert time.process_time() - begun < 2


def test_no_list_of_days_takes_long_to_read() -> None:
    begun = time.process_time()
    next_start("24 June 10:00! " * 300, NOW, NOW)
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "text",
    [
        f"a = {'[' * 20_000}",
        f"a = {'{b=' * 20_000}",
        f"bank.tau = {'9' * 400}",
        f"ask.k = {'9' * 5000}",
        "ask.k = 2024-01-01",
        "bank.tau = nan",
        "ask = 1\n[ask]\nk = 1",
    ],
)
def test_no_settings_file_is_a_bug(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UsageError):
        load(tmp_path / "config.toml")
