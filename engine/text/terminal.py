"""Text for display, without control or bidirectional characters; numbers with units; opening a file."""

import json
import os
import re
import shlex
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from store.errors import PkbError, UsageError

# C0 except tab and newline, DEL, C1, and the characters that reorder or hide their neighbours.
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_HIDDEN = "\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
_UNSAFE = re.compile(f"[{_CONTROLS}{_HIDDEN}]")


def plain(text: str) -> str:
    """Return the text without terminal escapes and control characters; undecodable bytes in file names are escaped."""
    return _UNSAFE.sub("", text.encode("utf-8", "backslashreplace").decode("utf-8"))


def line(text: str) -> str:
    """Return the text on one line with its spaces unchanged, since file names may hold several."""
    return re.sub("[\t\n]", " ", plain(text))


def in_json(text: str) -> str:
    """Return equivalent JSON in which control and bidirectional characters are escaped."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], text.encode("utf-8", "backslashreplace").decode())


def one_line(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, safe to print."""
    return shorten(plain(text), width)


def shorten(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters."""
    joined = " ".join(text.split())
    return joined if len(joined) <= width else joined[: width - 1].rstrip() + "…"


def cells(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def ending(text: str, width: int) -> str:
    """Return the text, or its end behind an ellipsis where it takes more columns than `width`."""
    while cells(text) > width:
        text = "…" + text.removeprefix("…")[1:]
    return text


_STYLE = r"\x1b\[[\d;]*m"
_WIDE = "\u2e80-\uffdc"
_PIECES = rf"\n|[^\S\n]+|(?:{_STYLE}|\S)+"
_WIDE_PIECES = rf"\n|[^\S\n]+|[{_WIDE}]|(?:{_STYLE}|[^\s{_WIDE}])+"  # takes 3 ms to compile


def unstyled(text: str) -> str:
    """Return the text without styles."""
    return re.sub(_STYLE, "", text)


def wrap(text: str, width: int, indent: str = "") -> str:
    """Break lines at blanks, or between wide characters, so that none takes more columns than `width`.

    What is broken off begins with the indent; a word that is longer stays whole. Styles take no columns.
    """
    out, used, blank = list[str](), 0, ""
    for piece in re.findall(_WIDE_PIECES if max(text, default="") >= _WIDE[0] else _PIECES, text):
        taken = cells(unstyled(piece))
        if piece == "\n":
            out.append(piece)
            used, blank = 0, ""
        elif piece.isspace():
            blank = piece
        else:
            if used and used + len(blank) + taken > width:
                out.append(f"\n{indent}")
                used, blank = len(indent), ""
            out.append(blank + piece)
            used, blank = used + len(blank) + taken, ""
    return "".join(out)


def cited_numbers(answer: str) -> frozenset[int]:
    """Return the numbers of the sources that the lines of a list begin with."""
    return frozenset(map(int, re.findall(r"^\[(\d{1,3})\] ", answer, re.MULTILINE)))


def count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"


def size(used: float) -> str:
    """Return a number of bytes in B, kB, MB, GB or TB."""
    for unit in ("B", "kB", "MB", "GB"):
        if used < 1000:
            return f"{used:.0f} {unit}" if unit == "B" else f"{used:.1f} {unit}"
        used /= 1000
    return f"{used:.1f} TB"


def duration(seconds: float) -> str:
    """Return a time in ms, s, min or h, to two or three digits."""
    if abs(seconds) < 1:
        return f"{seconds * 1000:.{1 if 0 < abs(seconds) < 0.01 else 0}f} ms" if seconds else "0 s"
    for limit, unit, length in ((60, "s", 1), (3600, "min", 60)):
        if abs(seconds) < limit:
            return f"{seconds / length:.{1 if abs(seconds / length) < 10 else 0}f} {unit}"
    return f"{seconds / 3600:,.{1 if abs(seconds) < 36_000 else 0}f} h"


def valid_text(words: str) -> str:
    """Return a text with everything that is not Unicode replaced, since questions are stored."""
    return re.sub("[\ud800-\udfff]", "\ufffd", words)


LONGEST_TEXT = 10_000  # characters of a question or a filter: a question this long takes seconds


def typed(text: str, what: str = "the question") -> str:
    """Return typed text as valid Unicode; UsageError if it is too long to look up."""
    if len(text) > LONGEST_TEXT:
        raise UsageError(f"{what} is longer than {LONGEST_TEXT:,} characters", "pkb ask --help")
    return valid_text(text)


def message_uri(message_id: str) -> str:
    """Return the URI by which Apple's Mail shows a message."""
    from urllib.parse import quote

    return f"message://%3C{quote(message_id, safe='@', errors='replace')}%3E"


_OPENER = "PKB_OPENER"
_SYSTEM = {"darwin": "open", "linux": "xdg-open"}


def opening(path: str, message_id: str | None, instead: str, environ: Mapping[str, str], platform: str) -> list[str]:
    """Return the command that opens a source; PkbError if its file is missing, or nothing here opens files.

    On macOS a message is opened in Mail, elsewhere its file. A program named by PKB_OPENER is given the file.
    `instead` is what to type where it cannot be opened.
    """
    named, words = environ.get(_OPENER), [_SYSTEM.get(platform, "xdg-open")]
    if named:
        try:
            words = shlex.split(named)
        except ValueError:
            words = []
        if not words:
            raise UsageError(f"{_OPENER} is not a command", f"{_OPENER}='code -r' pkb show 1 --open")
    found = shutil.which(words[0], path=environ.get("PATH"))
    if found is None:
        raise PkbError(f"{line(words[0])} is not installed", f"set {_OPENER} to a program, or: {instead}")
    program = [found, *words[1:]]
    if platform == "darwin" and message_id and not named:
        return [*program, message_uri(message_id)]
    if not Path(path).is_file():
        raise PkbError(f"{line(path)} is missing", "pkb ingest")
    if os.access(path, os.X_OK) and not named:
        raise PkbError(f"{line(path)} is executable, so that the system may run it", instead)
    # No "--" before the path, which xdg-open refuses: an absolute path is never taken for an option.
    assert path.startswith("/"), "sources have absolute paths"
    return [*program, path]


def run_opener(command: Sequence[str], instead: str) -> None:
    """Run such a command to its end, on this terminal; PkbError if it fails."""
    name = line(Path(command[0]).name)
    try:
        import subprocess  # slow to load

        # The system's opener names each browser that it does not find; an own program may need the terminal.
        errors = subprocess.DEVNULL if name in _SYSTEM.values() else None
        code = subprocess.run(command, check=False, stderr=errors).returncode
    except OSError as error:
        raise PkbError(f"cannot run {name}: {(error.strerror or '').lower()}", instead) from None
    if code:
        raise PkbError(f"{name} failed with exit code {code}", instead)
