"""Message headers: found, unfolded and decoded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.headers import clean, decode_words, loose_base64, split_header


def test_a_folded_field_is_one_value() -> None:
    raw = b"Subject: one\r\n two\r\nTo: a@b\r\n\r\nbody"
    headers, start = split_header(raw, 1000)
    assert (headers.first("subject"), raw[start:]) == ("one two", b"body")


def test_a_line_that_is_no_field_begins_the_body() -> None:
    raw = b"Subject: x\nHello there\nTo: nobody\n"
    assert raw[split_header(raw, 1000)[1] :] == b"Hello there\nTo: nobody\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("line", [b"a line that is no field", b"for <a@x>; Mon, 1 Jan 2024 10:00:00 +0000", b"=20"])
def test_a_line_that_is_no_field_among_fields_is_skipped(line: bytes, end: bytes) -> None:
    raw = end.join((b"Received: by b", line, b"To: a@x", b"Subject: one", b" two", b"", b"body"))
    headers, start = split_header(raw, 1000)
    assert (headers.first("subject"), headers.first("to"), raw[start:]) == ("one two", "a@x", b"body")


def test_a_paragraph_below_a_header_without_a_blank_line_is_body() -> None:
    raw = b"Subject: x\nHello there,\nwe meet at ten.\nPlace: the hall\n\nAnn"
    assert raw[split_header(raw, 1000)[1] :].startswith(b"Hello there")


def test_a_paragraph_that_ends_like_a_field_is_body() -> None:
    raw = b"Received: by b\nFrom: a@x\nTo: b@x\nSubject: x\nHello there,\nPlace: the hall\n\nAnn"
    assert raw[split_header(raw, 1000)[1] :].startswith(b"Hello there")


def test_an_envelope_line_and_blank_lines_above_the_header_are_skipped() -> None:
    headers, _ = split_header(b"\n\nFrom ann@example.org Mon Jan  1 10:00:00 2024\nSubject: x\n\nbody", 1000)
    assert headers.first("subject") == "x"


def test_a_text_without_a_header_is_all_body() -> None:
    headers, start = split_header(b"Hello,\nsee you at 10:00\n", 1000)
    assert (headers.fields, start) == ({}, 0)


def test_a_blank_line_is_an_empty_header() -> None:
    headers, start = split_header(b"\nHello,\nsee you at 10:00\n", 1000)
    assert (headers.fields, start) == ({}, 1)


def test_header_bytes_beyond_the_limit_are_not_fields() -> None:
    raw = b"Subject: x\n" + b"X-Filler: y\n" * 100 + b"To: a@b\n\nbody"
    headers, start = split_header(raw, 200)
    assert (headers.first("to"), raw[start:]) == ("", b"body")


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        ("=?utf-8?B?R3LDvMOfZQ==?=", "Grüße"),
        ("=?iso-8859-1?Q?Gr=FC=DFe_aus?= Wien", "Grüße aus Wien"),
        ("=?utf-8?Q?one?=  =?utf-8?Q?two?=", "onetwo"),
        ("=?utf-8?Q?caf=C3?= =?utf-8?Q?=A9?=", "café"),
        ("=?utf-8*en?Q?caf=C3=A9?=", "café"),
        ("=?utf-8?Q?with space?=", "with space"),
        ("=?us-ascii?Q?caf=C3=A9?=", "café"),
        ("=?broken", "=?broken"),
        ("=?utf-8?X?what?=", "=?utf-8?X?what?="),
    ],
)
def test_encoded_words_are_decoded_as_far_as_they_go(encoded: str, text: str) -> None:
    assert decode_words(encoded) == text


def test_terminal_escapes_and_direction_overrides_leave_no_trace() -> None:
    assert clean("a\x1b[31mred\x1b[0m \u202egpj.exe\u202c\x07\n b") == "a red gpj.exe b"


@pytest.mark.parametrize("data", [b"aGVsbG8=", b"aGVsbG8", b"aGVs\r\nbG8=\r\n", b"aGVs!bG8=", b"aGVsbG8=="])
def test_base64_is_read_whatever_its_padding(data: bytes) -> None:
    assert loose_base64(data) == b"hello"


@given(st.binary(max_size=400))
def test_any_bytes_have_a_header_and_a_body(raw: bytes) -> None:
    headers, start = split_header(raw, 100)
    assert 0 <= start <= len(raw)
    for values in headers.fields.values():
        for value in values:
            assert len(clean(decode_words(value)).splitlines()) <= 1
