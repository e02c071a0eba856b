"""The URI of a message is printable ASCII whatever its id holds."""

import re
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from engine.text.terminal import message_uri


@given(st.text(max_size=40))
def test_the_uri_of_a_message_is_printable_ascii_and_cannot_leave_its_path(name: str) -> None:
    uri = message_uri(name)
    assert re.fullmatch(r"message://%3C[!-~]*%3E", uri)
    assert not set("/?#<>") & set(uri.removeprefix("message://"))
    assert unquote(uri.removeprefix("message://")) == f"<{name}>"
