"""A message becomes a document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.mail import read_mail
from engine.ingest.types import ParseLimits
from store.types import Document, ParsedItem, replace

LIMITS = ParseLimits()
HEADER = (
    "Message-ID: <1@x>\nDate: Fri, 3 May 2024 10:00:00 +0200\nFrom: Ann <ann@x.org>\nTo: bob@x.org\nSubject: Tonight\n"
)


def read(text: str) -> ParsedItem:
    return read_mail(text.encode(), LIMITS)


def document(text: str) -> Document:
    found = read(text).document
    assert found is not None
    return found


def roles(found: Document) -> list[tuple[str, str]]:
    return [(passage.role, passage.text) for passage in found.passages]


def test_a_plain_message_is_read_whole() -> None:
    found = document(HEADER + "\nCome.\n\n-- \nAnn\n")
    assert (found.kind, found.title, found.sender, found.recipients) == (
        "mail",
        "Tonight",
        "Ann <ann@x.org>",
        ("bob@x.org",),
    )
    assert found.date is not None
    assert found.date.isoformat() == "2024-05-03T10:00:00+02:00"
    assert found.message_id == "1@x"
    assert found.text == "Come.\n\n-- \nAnn"
    assert roles(found) == [("body", "Come."), ("signature", "-- \nAnn")]


@pytest.mark.parametrize(
    "other",
    [
        HEADER.replace("\n", "\r\n") + "\r\nCome.\r\n",
        HEADER + "Status: RO\nX-Keywords: a\nContent-Length: 6\n\nCome.\n\n\n",
        "Received: by y; Fri, 3 May 2024 10:00:01 +0200\n" + HEADER + "Bcc: eve@x.org\n\nCome.",
        HEADER.replace("10:00:00 +0200", "08:00:00 +0000").replace("Ann <ann@x.org>", "ann@X.org (Ann)") + "\nCome.",
        HEADER + "Content-Transfer-Encoding: base64\n\nQ29tZS4=\n",
        HEADER.replace("<1@x>", "<another@x>") + "\nCome.\n",
    ],
)
def test_copies_of_a_message_are_one_document(other: str) -> None:
    assert document(other).id == document(HEADER + "\nCome.\n").id


@pytest.mark.parametrize(
    "change", [("Tonight", "Today"), ("bob@", "eve@"), ("ann@", "eve@"), ("10:00", "11:00"), ("Come", "Go")]
)
def test_other_messages_are_other_documents(change: tuple[str, str]) -> None:
    assert document((HEADER + "\nCome.\n").replace(*change)).id != document(HEADER + "\nCome.\n").id


def test_from_quoting_of_containers_makes_no_other_document() -> None:
    assert document(HEADER + "\n>From now on\n").id == document(HEADER + "\nFrom now on\n").id


def test_lines_of_a_plain_message_are_found_in_its_source() -> None:
    source = HEADER + "\n\nOne.\n\nTwo,\nthree.\n"
    found = read(source)
    assert found.offset == 6
    assert found.document is not None
    lines = source.split("\n")
    for passage in found.document.passages:
        assert "\n".join(lines[found.offset + passage.first - 1 : found.offset + passage.last]) == passage.text


@pytest.mark.parametrize(
    "source",
    [
        HEADER + "Content-Transfer-Encoding: quoted-printable\n\nCaf=C3=A9\n",
        HEADER + "Content-Type: text/html\n\n<p>Come.</p>\n",
        HEADER + "Content-Type: text/plain; format=flowed\n\nCome \nhome.\n",
        HEADER + "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nCome.\n--b--\n",
        HEADER + "\none\rtwo\n",
    ],
)
def test_text_that_does_not_stand_in_its_source_as_it_is_has_no_offset(source: str) -> None:
    assert read(source).offset is None


def test_attachments_follow_the_words() -> None:
    parts = (
        "\nCome.",
        'Content-Type: text/csv; name="who.csv"\nContent-Disposition: attachment\n\nAnn,alto',
        'Content-Type: application/pdf; name="plan.pdf"\n\n%PDF',
        "Content-Type: text/calendar\n\nBEGIN:VEVENT\nSUMMARY:Rehearsal\nEND:VEVENT",
        "Content-Type: message/rfc822\n\nFrom: Eve <eve@x.org>\nSubject: Hall\n\nIt is free.",
    )
    body = "".join(f"--b\n{part}\n" for part in parts)
    found = document(f"{HEADER}Content-Type: multipart/mixed; boundary=b\n\n{body}--b--\n")
    assert roles(found) == [
        ("body", "Come."),
        ("attachment", "[attachment: who.csv]"),
        ("attachment", "Ann,alto"),
        ("event", "Event: Rehearsal"),
        ("forward", "---------- Forwarded message ----------\nFrom: Eve <eve@x.org>\nSubject: Hall"),
        ("forward", "It is free."),
        ("attachment", "[attachment: plan.pdf]"),
    ]


@pytest.mark.parametrize(
    ("title", "role"),
    [("Re: Tonight", "quote"), ("Fwd: Tonight", "forward"), ("Re: Fwd: Tonight", "quote"), ("Tonight", "forward")],
)
def test_the_subject_says_what_a_quoted_message_is(title: str, role: str) -> None:
    source = HEADER.replace("Tonight", title) + "\n-----Original Message-----\nFrom: Eve\n\nIt is free.\n"
    assert {passage.role for passage in document(source).passages} == {role}


def test_controls_and_escapes_reach_no_field() -> None:
    found = document(HEADER.replace("Tonight", "To\x1b[31mnight\x07") + "\na\x1b]0;x\x07b\x9bc\n")
    assert (found.title, found.text) == ("To night", "a]0;xbc")


def test_a_hostile_type_leaves_no_control_in_the_text() -> None:
    assert document(HEADER + "Content-Type: application/\x1b[31mx\n\nbody").text == "[attachment: application/ x]"


def test_an_empty_file_is_a_named_problem() -> None:
    assert read(" \n") == ParsedItem(0, None, problem="empty")


def test_a_header_alone_is_a_document_without_passages() -> None:
    assert document(HEADER).passages == ()


def test_what_lies_beyond_the_limits_is_named_and_the_rest_is_read() -> None:
    raw = (HEADER + "X-Filler: y\n" * 50 + "\n" + "word " * 100).encode()
    found = read_mail(raw, replace(LIMITS, message_bytes=1000, header_bytes=300, text_chars=50))
    assert found.problem == (
        "bytes beyond 1000 were not read; header beyond 300 bytes was not read; text beyond 50 characters was not read"
    )
    assert found.document is not None
    assert len(found.document.text) == 50


def test_recipients_beyond_the_limit_are_named() -> None:
    found = read_mail(("To: " + ", ".join(f"a{n}@x.org" for n in range(2000)) + "\n\nbody").encode(), LIMITS)
    assert found.problem == "recipients beyond the first 1000 of a field were not read"


def test_a_message_that_takes_too_long_is_named() -> None:
    ticks = iter([0.0, 11.0])
    assert read_mail((HEADER + "\nCome.").encode(), LIMITS, clock=lambda: next(ticks)).problem == (
        "parts were not read after 10 seconds"
    )


PIECES = [
    *(
        b"From: a@x\n",
        b"Subject: Fwd: =?utf-8?B?/w==?=\n",
        b"Content-Type: multipart/mixed; boundary=b\n",
        b"--b\n",
        b"\n",
        b"> q\n",
    ),
    *(
        b"Content-Type: message/rfc822\n",
        b"Content-Type: text/calendar\n",
        b"BEGIN:VEVENT\n",
        b"text\n",
        b"-- \n",
        b"\r",
        b"\xff\xfe",
    ),
    *(
        b"Content-Type: text/html\n",
        b"<p>x<br>",
        b"Content-Transfer-Encoding: base64\n",
        b"On 1/1/2024 a wrote:\n",
        b"\0",
    ),
]


@given(st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)))
def test_any_bytes_are_a_document_or_a_named_problem(raw: bytes) -> None:
    found = read_mail(raw, LIMITS)
    assert found.document is not None or found.problem
    if found.document is None:
        return
    lines = found.document.text.split("\n")
    covered: list[int] = []
    for passage in found.document.passages:
        assert passage.text == "\n".join(lines[passage.first - 1 : passage.last]).strip()
        covered += range(passage.first, passage.last + 1)
    assert covered == [at for at, line in enumerate(lines, start=1) if line.strip()]
    assert found.document.text.encode().decode() == found.document.text


def test_a_copy_with_a_lists_tag_is_the_same_document_and_one_with_more_text_another() -> None:
    header = "From: ann@x.org\nTo: choir@x.org\nDate: Fri, 3 May 2024 10:00:00 +0200\nSubject: {}\n\n{}"
    footer = f"\n{'_' * 47}\nChoir mailing list\nchoir@x.org\nhttps://x.org/choir\n"
    raws = (
        header.format("Tonight", "Come at eight.\n"),
        header.format("[Choir] Tonight", "Come at eight.\n"),
        header.format("Tonight", f"Come at eight.{footer}"),  # which could be anybody's words
    )
    found = [read_mail(raw.encode(), ParseLimits()).document for raw in raws]
    first, copy, other = (one.id if one else "" for one in found)
    assert first == copy != other
