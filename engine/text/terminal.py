"""Text for a terminal: from mail without escapes, control characters or what turns text round; numbers with units."""

import json
import re

# C0 but tab and newline, DEL, C1, and the characters that reorder or hide what stands beside them.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_HIDDEN = "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_UNSAFE = re.compile(f"[{_CONTROLS}{_HIDDEN}]")


def plain(text: str) -> str:
    """Return the text without what a terminal would act on; file names that are no text become readable."""
    return _UNSAFE.sub("", text.encode("utf-8", "backslashreplace").decode("utf-8"))


def line(text: str) -> str:
    """Return the text on one line and otherwise as it is: file names keep their spaces."""
    return re.sub("[\t\n]", " ", plain(text))


def in_json(text: str) -> str:
    """Return JSON of the same value in which what a terminal would act on is escaped."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text.encode("utf-8", "backslashreplace").decode())


def one_line(text: str, width: int) -> str:
    """Return the text on one line, cut at a number of characters."""
    joined = " ".join(plain(text).split())
    return joined if len(joined) <= width else joined[: width - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size(used: float) -> str:
    """Return bytes in the unit that reads best."""
    for unit in ("B", "kB", "MB", "GB"):
        if used < 1000:
            return f"{used:.0f} {unit}" if unit == "B" else f"{used:.1f} {unit}"
        used /= 1000
    return f"{used:.1f} TB"


def valid_text(words: str) -> str:
    """Return what was typed as valid text: a question is stored, so bytes that are not UTF-8 are replaced."""
    return words.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
