"""What mail programs and servers write around a sender's own words, each in its form."""

import base64
from datetime import datetime

import pytest

from engine.ingest.calendar import read_calendar
from engine.ingest.files import state_of
from engine.ingest.mail import read_mail
from engine.ingest.types import ParseLimits
from store.types import Document

OWN, OLD = "The new shed needs twelve litres of paint.", "The old shed needs two litres."
HEADER = "From: Ann <ann@x.example>\nSubject: Re: shed\nDate: Tue, 3 Mar 2026 10:00:00 +0000\n"


def read(body: str, header: str = HEADER) -> Document:
    document = read_mail(f"{header}\n{body}".encode(), ParseLimits()).document
    assert document
    return document


def words_of(body: str, header: str = HEADER) -> str:
    return " ".join(one.text for one in read(body, header).passages if one.role == "body")


@pytest.mark.parametrize(
    ("attribution", "author"),
    [
        ("On Monday, 2 March 2026 14:15:00 GMT Ben Cole wrote:", "Ben Cole"),
        ("On Monday, 2 March 2026 14:15:00 CET Ben Cole wrote:", "Ben Cole"),
        ("----- On Mar 2, 2026, at 2:15 PM, Ben Cole ben@y.example wrote:", "Ben Cole <ben@y.example>"),
        ("In a message dated 3/2/2026 2:15 PM Eastern Daylight Time, ben@y.example writes:", "ben@y.example"),
        ("From: Ben Cole\nSent: Monday, March 2, 2026 2:15 PM\nTo: Ann\nSubject: shed\n", "Ben Cole"),
        ("On Mon, Mar 2, 2026 at 2:15 PM Cole, Ben (Parks) <b@y.example> wrote:", "Cole, Ben (Parks) <b@y.example>"),
    ],
)
def test_the_author_is_the_name_alone(attribution: str, author: str) -> None:
    quoted = [one for one in read(f"{OWN}\n\n{attribution}\n> {OLD}\n").passages if OLD in one.text]
    assert [(one.role, one.author.replace('"', "")) for one in quoted] == [("quote", author)]


@pytest.mark.parametrize(
    "noise",
    [
        "Sent with [Proton Mail](https://proton.me/mail/home) secure email.",
        "---\nIf you no longer want these mails, unsubscribe: https://x.example/u?1",
        "-----BEGIN PGP SIGNATURE-----\n\niQEzBAEBCAAdFiEE\n=abcd\n-----END PGP SIGNATURE-----",
    ],
)
def test_what_a_program_adds_below_is_no_own_word(noise: str) -> None:
    assert words_of(f"{OWN}\n\n{noise}\n") == OWN


@pytest.mark.parametrize(
    "noise",
    [
        "[EXTERNAL EMAIL] This message came from outside the organisation.",
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256",
    ],
)
def test_what_a_server_or_program_adds_above_is_no_own_word(noise: str) -> None:
    assert words_of(f"{noise}\n\n{OWN}\n\nThe key is blue.\n") == f"{OWN} The key is blue."


def test_rules_and_words_of_the_sender_stay() -> None:
    for kept in ("---\nWe want to unsubscribe from the paper.", "Links and attachments from outside are on page 3."):
        assert kept in words_of(f"{OWN}\n\n{kept}\n")


def test_text_in_base64_that_does_not_say_so_is_read_and_a_key_stays() -> None:
    plain = f"{HEADER}Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 7bit\n"
    assert (
        words_of(base64.encodebytes(f"{OWN}\nThe key is blue.".encode()).decode(), plain) == f"{OWN}\nThe key is blue."
    )
    key = base64.encodebytes(bytes(range(128, 248))).decode()
    assert words_of(key, plain) == key.strip()


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("application/xhtml+xml", f"<html><body><p>{OWN}</p></body></html>"),
        ("text/x-amp-html", f"<!doctype html><html amp4email><body><p>{OWN}</p></body></html>"),
        ("text/rtf", rf"{{\rtf1\ansi {OWN}\par}}"),
    ],
)
def test_a_body_of_another_type_is_read_without_its_marks(kind: str, text: str) -> None:
    found = read(text, f"{HEADER}Content-Type: {kind}; charset=utf-8\n").passages
    assert [one.text.partition("]\n")[2] or one.text for one in found] == [OWN]


def test_a_filters_status_and_a_months_short_name_are_read() -> None:
    assert state_of(b"Subject: a\nX-Spam-Status: Yes, score=12.1\n\nb") == "spam"
    assert state_of(b"Subject: a\nX-Spam-Status: No, score=-1\n\nb") is None
    found = read(OWN, HEADER.replace("Tue, 3 Mar", "Di, 3 Mrz")).date
    assert found == datetime.fromisoformat("2026-03-03T10:00:00+00:00")


def test_the_description_of_an_event_may_be_a_page_alone() -> None:
    event = "SUMMARY:Board\nDTSTART:20260310T190000Z\nX-ALT-DESC;FMTTYPE=text/html:<p>Bring the <b>ledger</b>.</p>"
    raw = f"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\n{event}\nEND:VEVENT\nEND:VCALENDAR\n".encode()
    (item,) = read_calendar(raw, ParseLimits())
    assert item.document
    assert "Bring the ledger." in item.document.text
