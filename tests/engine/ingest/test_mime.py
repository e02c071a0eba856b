"""MIME parts: found, decoded and limited."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.mime import Leaf, Tree, decode_transfer, read_part, signed_content, walk
from engine.ingest.types import ParseLimits
from store.types import replace

LIMITS = ParseLimits()
SIGNED = bytes.fromhex("06092a864886f70d010701")  # a type of content, in DER


def leaves(raw: bytes, limits: ParseLimits = LIMITS) -> tuple[list[Leaf], Tree]:
    tree = Tree(limits, lambda: False)
    return walk(read_part(raw, limits), tree), tree


def texts(raw: bytes) -> list[str | None]:
    return [found.text for found in leaves(raw)[0] if not found.is_message]


def multipart(kind: str, *parts: str) -> bytes:
    body = "".join(f"--b\n{part}\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary=b\n\npreamble\n{body}--b--\nepilogue\n".encode()


def typed(kind: str, text: str, *fields: str) -> str:
    return "\n".join((f"Content-Type: {kind}", *fields, "", text))


@pytest.mark.parametrize(
    ("body", "encoding", "data"),
    [
        (b"caf=C3=A9=\n!", "quoted-printable", "café!".encode()),
        (b"100 =ZZ sure =", "quoted-printable", b"100 =ZZ sure "),
        (b"aGVs\nbG8", "base64", b"hello"),
        (b"This was never base64, whatever it says.", "base64", b"This was never base64, whatever it says."),
        (b"aGVs\nbG8sCg==\ndGhlcmUu\n", "base64", b"hello,\nthere."),
        (b"bG9uZyB0ZXh0" * 4 + b"\nYQ==\n-- \nChoir list\n", "base64", b"long text" * 4 + b"a\n-- \nChoir list\n"),
        (b"bG9uZyB0ZXh0" * 4 + b"\n\n-- \nhttps://x.org\n", "base64", b"long text" * 4 + b"\n\n-- \nhttps://x.org\n"),
        (b"Hello\nthis was never encoded, either.", "base64", b"Hello\nthis was never encoded, either."),
        (b"begin 644 a.txt\n%:&5L;&\\\n`\nend\n", "x-uuencode", b"hello"),
        (b"as it is", "8bit", b"as it is"),
        (b"as it is", "no-such-encoding", b"as it is"),
    ],
)
def test_transfer_encodings_are_undone_as_far_as_they_go(body: bytes, encoding: str, data: bytes) -> None:
    assert decode_transfer(body, encoding) == data


def test_parts_come_in_order_without_preamble_and_epilogue() -> None:
    assert texts(multipart("mixed", typed("text/plain", "one"), typed("text/plain", "two"))) == ["one", "two"]


def test_the_plain_alternative_is_taken_when_it_says_as_much() -> None:
    plain, rich = typed("text/plain", "see you at ten"), typed("text/html", "<p>see you at ten</p>")
    assert texts(multipart("alternative", plain, rich)) == ["see you at ten"]


def test_the_rich_alternative_is_taken_when_the_plain_one_is_a_stub() -> None:
    plain = typed("text/plain", "no html")
    rich = typed("text/html", "<p>we meet at ten in the great hall, bring the scores and a pencil</p>")
    assert texts(multipart("alternative", plain, rich)) == [
        "we meet at ten in the great hall, bring the scores and a pencil"
    ]


def test_what_either_alternative_alone_says_is_read() -> None:
    plain = typed(
        "text/plain", "The concert is moved. Read the whole of this message in your browser, please: https://x.org/1"
    )
    rich = typed(
        "text/html", "<p>The concert is moved. It begins at eight in the Ropeworks.</p><p>Tickets: 12 euros</p>"
    )
    html, rest = texts(multipart("alternative", plain, rich))
    assert html == "The concert is moved. It begins at eight in the Ropeworks.\n\nTickets: 12 euros"
    assert rest == "Read the whole of this message in your browser, please: https://x.org/1"


def test_alternatives_that_differ_in_links_and_form_alone_are_one_text() -> None:
    plain = typed("text/plain", "The concert is moved: https://x.org/concerts/1234\n\nAnn")
    rich = typed("text/html", '<p>The <b>concert</b> is <a href="https://x.org/concerts/1234">moved</a>:</p><p>Ann</p>')
    assert texts(multipart("alternative", plain, rich)) == ["The concert is moved: https://x.org/concerts/1234\n\nAnn"]


def test_an_invitation_beside_alternatives_is_kept() -> None:
    parts = (typed("text/plain", "come"), typed("text/html", "come"), typed("text/calendar", "BEGIN:VCALENDAR"))
    assert texts(multipart("alternative", *parts)) == ["come", "BEGIN:VCALENDAR"]


def test_files_inside_a_rich_alternative_are_kept_beside_the_plain_one() -> None:
    inner = multipart("mixed", typed("text/html", "come"), typed("application/pdf", "%PDF")).decode().replace("b", "c")
    raw = multipart("alternative", typed("text/plain", "come"), inner.replace("coundary", "boundary"))
    assert len(leaves(raw)[0]) == 2


def test_a_missing_end_is_no_loss() -> None:
    assert texts(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo\n") == ["one", "two\n"]


def test_an_undeclared_boundary_is_found() -> None:
    raw = b"Content-Type: multipart/mixed\n\n--xyz\nContent-Type: text/plain\n\none\n--xyz--\n"
    assert texts(raw) == ["one"]


def test_a_multipart_without_any_boundary_is_text() -> None:
    assert texts(b"Content-Type: multipart/mixed; boundary=b\n\njust words\n") == ["just words\n"]


def test_a_message_inside_is_kept_apart() -> None:
    (found,), _ = leaves(multipart("mixed", typed("message/rfc822", "Subject: inner\n\nhello")))
    assert found.is_message
    assert found.part.headers.first("subject") == "inner"


def test_a_file_that_is_a_message_by_its_name_is_read_as_one() -> None:
    part = typed(
        "application/octet-stream", "Subject: inner\n\nhello", 'Content-Disposition: attachment; filename="a.eml"'
    )
    (found,), _ = leaves(multipart("mixed", part))
    assert found.is_message
    assert found.part.headers.first("subject") == "inner"


def test_parameters_of_enriched_text_are_no_words() -> None:
    body = "<bold>One</bold> <color><param>red</param>two</color> three\n"
    assert texts(f"Content-Type: text/enriched\n\n{body}".encode()) == ["One two three"]


def test_a_digest_holds_messages() -> None:
    assert leaves(multipart("digest", "\nSubject: inner\n\nhello"))[0][0].is_message


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ('Content-Disposition: attachment; filename="plan.pdf"', "plan.pdf"),
        ("Content-Disposition: attachment; filename*=utf-8''pl%C3%A4ne.pdf", "pläne.pdf"),
        ("Content-Disposition: attachment; filename*0*=utf-8''pl%C3%A4; filename*1=ne.pdf", "pläne.pdf"),
        ('Content-Disposition: attachment; filename="=?utf-8?B?cGzDpG5lLnBkZg==?="', "pläne.pdf"),
        ("Content-Disposition: attachment; filename*=x-unknown'en'plan.pdf", "plan.pdf"),
    ],
)
def test_file_names_are_decoded(field: str, name: str) -> None:
    assert read_part(f"Content-Type: application/pdf\n{field}\n\nx".encode(), LIMITS).filename == name


def test_flowed_text_is_joined() -> None:
    assert texts(b"Content-Type: text/plain; format=flowed\n\none \ntwo\n") == ["one two\n"]


def test_a_charset_is_obeyed_behind_a_transfer_encoding() -> None:
    body = base64.b64encode("Grüße".encode("latin-1"))
    assert texts(b"Content-Type: text/plain; charset=latin1\nContent-Transfer-Encoding: base64\n\n" + body) == ["Grüße"]


def test_xml_is_the_text_in_its_elements() -> None:
    chat = '<log xmlns="a:b"><m from="ann"><body>Tea &amp; cake?</body></m>\n <m><body>At four.</body></m></log>'
    assert texts(f"Content-Type: text/xml\n\n{chat}".encode()) == ["Tea & cake?\nAt four."]


@pytest.mark.parametrize("kind", ["text/rtf", "text/plain"])
def test_rtf_is_its_text(kind: str) -> None:
    rtf = r"{\rtf1\ansi{\fonttbl{\f0 Arial;}}{\*\generator X;}\f0 Caf\'e9 at \b eight\b0 .\par\u8364? 5 \{each\}}"
    assert texts(f"Content-Type: {kind}\n\n{rtf}".encode()) == ["Café at eight.\n€ 5 {each}"]


@pytest.mark.parametrize("step", [20, 200, 10_000])
def test_what_is_signed_in_one_piece_is_read(step: int) -> None:
    message = b"Content-Type: text/plain\n\n" + b"Come at eight. " * 30
    pieces = [message[at : at + step] for at in range(0, len(message), step)]
    strings = b"".join(b"\x04" + _length(one) + one for one in pieces)
    content = strings if len(pieces) == 1 else b"\x24\x80" + strings + b"\0\0"
    der = b"\x30\x80" + SIGNED + b"\xa0\x80" + content + b"\0\0\xa0\x030ab"
    raw = b"Content-Type: application/pkcs7-mime; name=smime.p7m\nContent-Transfer-Encoding: base64\n\n"
    assert texts(raw + base64.encodebytes(der)) == ["Come at eight. " * 30]


def test_what_is_encrypted_is_a_file() -> None:
    der = b"\x30\x80" + SIGNED + b"0\x06secret"
    assert texts(b"Content-Type: application/pkcs7-mime; name=smime.p7m\n\n" + der) == [None]


def _length(data: bytes) -> bytes:
    return bytes([len(data)]) if len(data) < 128 else b"\x82" + len(data).to_bytes(2, "big")


@given(st.binary(max_size=60))
def test_any_bytes_behind_the_mark_of_signed_data_are_harmless(data: bytes) -> None:
    assert isinstance(signed_content(b"0" + SIGNED + data), bytes)


def test_a_file_encoded_in_the_text_is_named() -> None:
    raw = b"Content-Type: text/plain\n\nSee the plan.\n\nbegin 644 the plan.gif\n%:&5L;&\\\n`\nend\n\nAnn.\nThe end\n"
    assert texts(raw) == ["See the plan.\n\n[attachment: the plan.gif]\n\nAnn.\nThe end\n"]


def test_a_page_without_a_declared_charset_is_in_the_one_that_it_names() -> None:
    page = '<html><head><meta charset="koi8-r"></head><body>Собрание</body></html>'.encode("koi8-r")
    assert texts(b"Content-Type: text/html\n\n" + page) == ["Собрание"]


def nested(depth: int, kind: str = "multipart/alternative") -> bytes:
    raw = b"Content-Type: text/plain\n\nthe core\n"
    for level in range(depth):
        raw = b"Content-Type: %b; boundary=b%d\n\n--b%d\n%b\n--b%d--\n" % (kind.encode(), level, level, raw, level)
    return raw


def test_parts_nested_too_deep_are_named_not_read() -> None:
    assert leaves(nested(100))[1].problems == ["parts nested deeper than 20 were not read"]


def test_too_many_parts_are_named_and_the_first_are_read() -> None:
    found, tree = leaves(multipart("mixed", *["\nx"] * 30), replace(LIMITS, parts=10))
    assert (len(found), tree.problems) == (9, ["parts beyond the first 10 were not read"])


def test_parts_out_of_time_are_named_not_read() -> None:
    tree = Tree(LIMITS, lambda: True)
    walk(read_part(b"\nbody", LIMITS), tree)
    assert tree.problems == ["parts were not read after 10 seconds"]


def test_text_beyond_the_limit_is_cut_and_named() -> None:
    _, tree = leaves(b"Content-Type: text/plain\n\n" + b"x" * 1000, replace(LIMITS, text_chars=10))
    assert tree.problems == ["text beyond 10 characters was not read"]


def test_alternatives_within_alternatives_are_walked_once() -> None:
    raw = b"Content-Type: text/html\n\n<p>the core</p>\n"
    for level in range(20):
        mark = b"b%d" % level
        raw = b"\n".join(
            (b"Content-Type: multipart/alternative; boundary=" + mark, b"", b"--" + mark, b"", b"-", b"--" + mark, raw)
        )
    assert leaves(raw)[1].parts <= 41


PIECES = [
    *(
        b"Content-Type: multipart/mixed; boundary=b\n",
        b"Content-Type: multipart/alternative\n",
        b"--b\n",
        b"--b--\n",
        b"\n",
    ),
    *(
        b"Content-Type: message/rfc822\n",
        b"Content-Type: text/html\n",
        b"Content-Transfer-Encoding: base64\n",
        b"text\n",
    ),
    *(
        b"Content-Disposition: attachment; filename*0*=''%ff\n",
        b"Content-Type: text/plain; charset=utf-16; name*=x\n",
        b"\xff",
    ),
]


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_any_parts_are_walked(pieces: list[bytes]) -> None:
    found, tree = leaves(b"".join(pieces))
    assert found or tree.problems
