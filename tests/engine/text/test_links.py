"""URIs of sources are printable ASCII whatever names and ids hold, and only known terminals are sent them."""

import re
from urllib.parse import unquote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.terminal import file_uri, hyperlink, message_uri, takes_hyperlinks, unstyled, uri_of, wrap

NAMES = st.binary(max_size=40).map(lambda name: b"/" + name.replace(b"\0", b"") + b"\x1b\\\xff")
KITTY = {"TERM": "xterm-kitty"}
XTERM = {"TERM": "xterm-256color"}


@given(NAMES)
def test_the_uri_of_a_file_is_printable_ascii_and_leads_back_to_its_name(name: bytes) -> None:
    uri = file_uri(name.decode("utf-8", "surrogateescape"), "my host")
    assert re.fullmatch(r"file://my%20host/[!-~]*", uri)
    assert unquote_to_bytes(uri.removeprefix("file://my%20host")) == name


@given(st.text(max_size=40))
def test_the_uri_of_a_message_is_printable_ascii_and_cannot_leave_its_path(name: str) -> None:
    uri = message_uri(name)
    assert re.fullmatch(r"message://%3C[!-~]*%3E", uri)
    assert not set("/?#<>") & set(uri.removeprefix("message://"))
    assert unquote(uri.removeprefix("message://")) == f"<{name}>"


def test_a_message_is_opened_in_mail_on_macos_alone() -> None:
    def uri(message_id: str | None, platform: str) -> str:
        return uri_of("/m/a.mbox", message_id, platform=platform, host="vm")

    assert uri("1@example.org", "darwin") == "message://%3C1@example.org%3E"
    assert {uri("1@example.org", "linux"), uri(None, "darwin"), uri("", "darwin")} == {"file://vm/m/a.mbox"}


@pytest.mark.parametrize(
    ("environ", "taken"),
    [
        ({}, False),
        (XTERM, False),
        (KITTY, True),
        ({"TERM": "alacritty"}, True),
        ({"TERM": "dumb", "WT_SESSION": "1", "FORCE_HYPERLINK": "1"}, False),
        ({**KITTY, "NO_COLOR": "1", "FORCE_HYPERLINK": "1"}, False),
        ({**KITTY, "NO_COLOR": ""}, True),
        ({**XTERM, "FORCE_HYPERLINK": "1"}, True),
        ({**KITTY, "FORCE_HYPERLINK": "0"}, False),
        ({**XTERM, "WT_SESSION": "1"}, True),
        ({**XTERM, "VTE_VERSION": "5000"}, False),
        ({**XTERM, "VTE_VERSION": "7200"}, True),
        ({**XTERM, "VTE_VERSION": "7200", "STY": "1.pts"}, False),
        ({**XTERM, "TERM_PROGRAM": "Apple_Terminal", "TERM_PROGRAM_VERSION": "455"}, False),
        ({**XTERM, "TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.0.15"}, False),
        ({**XTERM, "TERM_PROGRAM": "iTerm.app", "TERM_PROGRAM_VERSION": "3.5.2"}, True),
        ({**XTERM, "TERM_PROGRAM": "WezTerm", "TERM_PROGRAM_VERSION": "20240203-110809-5046fc22"}, True),
        ({**XTERM, "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "3.3a", "VTE_VERSION": "7200"}, False),
        ({**XTERM, "TERM_PROGRAM": "tmux", "TERM_PROGRAM_VERSION": "next-3.5"}, True),
        ({**XTERM, "TERM_PROGRAM": "vscode", "TERM_PROGRAM_VERSION": "nightly"}, False),
        ({**XTERM, "VTE_VERSION": "9" * 5000}, True),
    ],
)
def test_hyperlinks_are_for_terminals_that_are_known_to_show_them(environ: dict[str, str], taken: bool) -> None:
    assert takes_hyperlinks(environ) is taken


@given(st.text("ab 日", max_size=60), NAMES, st.integers(10, 40))
def test_a_link_takes_no_columns(text: str, name: bytes, width: int) -> None:
    linked = hyperlink(text, file_uri(name.decode("utf-8", "surrogateescape"), "vm"))
    assert unstyled(linked) == text
    if text.strip() == text:
        assert wrap(linked, width).count("\n") == wrap(text, width).count("\n")
        assert unstyled(wrap(linked, width, "  ")) == wrap(text, width, "  ")
