"""URIs of files and messages, and whether a terminal takes them as hyperlinks. Opens nothing."""

import os
import re
from collections.abc import Mapping

_VERSION = re.compile(r"(?:next-)?(\d+)(?:\.(\d+))?")
# Terminals by TERM_PROGRAM, and the first version that takes hyperlinks. tmux drops them where its terminal does not.
_SINCE = {
    "iTerm.app": (3, 1),
    "WezTerm": (20200620, 0),
    "vscode": (1, 72),
    "zed": (0, 0),
    "ghostty": (0, 0),
    "rio": (0, 0),
    "tmux": (3, 4),
}
_TERMS = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour")
_VARIABLES = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
_VTE = 5001  # 0.50.1: 0.50.0 crashes on them


def uri_of(path: str, message_id: str | None, *, platform: str, host: str) -> str:
    """Return the URI of a source in printable ASCII: its file, on macOS its message in Mail."""
    return message_uri(message_id) if platform == "darwin" and message_id else file_uri(path, host)


def file_uri(path: str, host: str) -> str:
    """Return the URI of a file of a machine, by which a terminal knows whether the file is on its own."""
    from urllib.parse import quote  # most terminals are sent no links

    return f"file://{quote(host, safe='')}{quote(os.fsencode(path), safe='/')}"


def message_uri(message_id: str) -> str:
    """Return the URI by which Apple's Mail shows a message."""
    from urllib.parse import quote

    return f"message://%3C{quote(message_id, safe='@', errors='replace')}%3E"


def takes_hyperlinks(environ: Mapping[str, str]) -> bool:
    """Return whether a terminal with these variables shows hyperlinks (OSC 8); FORCE_HYPERLINK decides, if it is set.

    A terminal that is not known to show them may print their URIs.
    """
    if environ.get("NO_COLOR") or environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return False
    if forced := environ.get("FORCE_HYPERLINK"):
        return forced != "0"
    program = environ.get("TERM_PROGRAM", "")
    if program in _SINCE:
        return _version(environ.get("TERM_PROGRAM_VERSION", "")) >= _SINCE[program]
    if "STY" in environ:  # GNU screen, which hands on the variables of the terminal that it was started in
        return False
    known = environ["TERM"].startswith(_TERMS) or any(environ.get(name) for name in _VARIABLES)
    return known or _version(environ.get("VTE_VERSION", "")) >= (_VTE, 0)


def _version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version, 0 for those that are not there."""
    found = _VERSION.match(text)
    return (int(found[1][:9]), int((found[2] or "0")[:9])) if found else (0, 0)
