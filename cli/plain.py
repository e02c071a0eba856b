"""Text from mail made safe for a terminal: no escapes, no control characters, nothing that turns text round."""

import re

# C0 but tab and newline, DEL, C1, and the characters that reorder or hide what stands beside them.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")


def plain(text: str) -> str:
    """Give the text without what a terminal would act on; file names that are no text become readable."""
    return _UNSAFE.sub("", text.encode("utf-8", "backslashreplace").decode("utf-8"))


def one_line(text: str, width: int) -> str:
    """Give the text on one line, cut at a number of characters."""
    joined = " ".join(plain(text).split())
    return joined if len(joined) <= width else joined[: width - 1].rstrip() + "…"
