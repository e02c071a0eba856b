"""Mail containers (mbox, emlx) return their messages as they were stored."""

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.files import read, split_mbox
from engine.ingest.scan import detect
from engine.ingest.types import ParseLimits

FROM = b"From ann@example.org Fri May  3 10:00:00 2024\n"


def split(raw: bytes, most: int = 10_000) -> list[bytes]:
    """Return the messages without the lines above them in the mailbox."""
    found = (raw.splitlines(keepends=True) for raw in split_mbox(io.BytesIO(raw), most))
    return [b"".join(lines[bool(re.match(rb"From(?: |\r?\n)", lines[0])) :]) for lines in found]


def test_messages_are_separated_at_from_lines() -> None:
    assert split(FROM + b"Subject: 1\n\none\n\n" + FROM + b"Subject: 2\n\ntwo\n") == [
        b"Subject: 1\n\none\n\n",
        b"Subject: 2\n\ntwo\n",
    ]


def test_a_from_line_in_a_body_does_not_split_the_message() -> None:
    assert len(split(FROM + b"Subject: 1\n\n" + FROM + b"is how it begins.\n\nFrom here on, all is well.\n")) == 1


def test_no_blank_line_is_needed_above_a_from_line() -> None:
    assert len(split(FROM + b"Subject: 1\n\none\n" + FROM + b"Subject: 2\n\ntwo\n")) == 2


@pytest.mark.parametrize("bare", [b"From \n", b"From\n", b"From \r\n"])
def test_from_alone_separates_where_a_blank_line_is_above_and_a_field_of_mail_below(bare: bytes) -> None:
    raw = bare + b"X-Mozilla-Status: 0001\nSubject: 1\n\none\n\n" + bare + b"Received: by b\nSubject: 2\n\ntwo\n"
    assert [one[-4:] for one in split(raw)] == [b"ne\n\n", b"two\n"]
    assert detect("Inbox", raw) == detect("Inbox", b"\xef\xbb\xbf" + raw) == "mbox"


@pytest.mark.parametrize(
    "body",
    [
        b"Hello,\n\nFrom \nhere we walk.\n",
        b"Hello,\n\nFrom\nLunch: at noon\n",
        b"Hello,\nFrom \nSubject: a word of grammar\n",
        b"Hello,\n\nFrom Monday on\nPrice: 3\n",
        b"Hello,\n\nFrom: the shop\nTo: the hall\n",
    ],
)
def test_a_body_line_that_begins_by_from_separates_nothing(body: bytes) -> None:
    assert len(split(b"From \nSubject: 1\n\n" + body)) == 1


def test_a_mailbox_without_its_first_from_line_holds_all_messages() -> None:
    assert split(b"Subject: 1\nFrom: a@x\n\none\n\n" + FROM + b"Subject: 2\n\ntwo\n") == [
        b"Subject: 1\nFrom: a@x\n\none\n\n",
        b"Subject: 2\n\ntwo\n",
    ]


def test_line_ends_of_either_kind_are_kept() -> None:
    raw = (FROM + b"Subject: 1\n\none\n\n" + FROM + b"Subject: 2\n\ntwo\n").replace(b"\n", b"\r\n")
    assert split(raw) == [b"Subject: 1\r\n\r\none\r\n\r\n", b"Subject: 2\r\n\r\ntwo\r\n"]


def test_one_level_of_from_quoting_is_undone() -> None:
    assert split(FROM + b"Subject: 1\n\n>From here\n>>From there\n") == [b"Subject: 1\n\nFrom here\n>From there\n"]


def test_a_message_beyond_the_limit_is_cut_and_the_next_is_whole() -> None:
    first, second = split(FROM + b"Subject: 1\n\n" + b"x" * 500 + b"\n\n" + FROM + b"Subject: 2\n\ntwo\n", most=100)
    assert (len(first), second) == (101, b"Subject: 2\n\ntwo\n")


@pytest.mark.parametrize("field", [b"X-IMAPbase", b"X-IMAP"])
def test_folder_data_of_an_imap_server_is_no_message(field: bytes) -> None:
    own = b"From MAILER-DAEMON Fri May  3 10:00:00 2024\n" + field + b": 1 2\nSubject: FOLDER INTERNAL DATA\n\nkeep\n\n"
    assert split(own + FROM + b"Subject: 1\n\none\n") == [b"Subject: 1\n\none\n"]


def test_memory_is_bounded_by_a_message_not_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "big.mbox"
    path.write_bytes((FROM + b"Subject: x\n\n" + b"y" * 1000 + b"\n\n") * 300)
    with path.open("rb") as file:
        messages = split_mbox(file, 10_000)
        next(messages)
        assert file.tell() < 5000


def test_an_emlx_message_has_the_length_on_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "1.emlx"
    path.write_bytes(b"18        \nSubject: x\n\nbody\n\n<?xml?>")
    (item,) = read(path, ParseLimits())
    assert item.document
    assert (item.document.title, item.document.text) == ("x", "body")


def test_an_emlx_file_without_a_count_is_read_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "1.emlx"
    path.write_bytes(b"Subject: x\n\nbody")
    (item,) = read(path, ParseLimits())
    assert item.document
    assert (item.document.text, item.problem) == ("body", "no byte count on the first line")


@given(
    st.lists(
        st.sampled_from([FROM, b"From x\n", b"\n", b"To: a\n", b">From b\n", b"text\n", b"\r\n", b"From ", b"\xff"])
    )
)
def test_any_lines_are_split_without_loss_of_text(lines: list[bytes]) -> None:
    raw = b"".join(lines)
    assert sum(message.count(b"text") for message in split(raw)) == raw.count(b"text")


@given(st.lists(st.text(alphabet="ab >\nFrom ", min_size=1, max_size=60), min_size=1, max_size=4))
def test_what_is_quoted_as_mboxrd_comes_back(bodies: list[str]) -> None:
    messages = [f"Subject: x\n\n{body}\n\n".encode() for body in bodies]
    quoted = (b"".join(_quote(line) for line in message.splitlines(keepends=True)) for message in messages)
    assert split(b"".join(FROM + one for one in quoted)) == messages


def _quote(line: bytes) -> bytes:
    return b">" + line if line.lstrip(b">").startswith(b"From ") else line
