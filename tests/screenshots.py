"""`make screenshots`: terminal pictures of real runs on the bundled mail and meetings, for README and guide.

Commands run in a temporary home that is removed afterwards; what they print is rendered as it comes.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from termios import tcsetwinsize

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from tests.demo import DATA, NANO, NOW, WORDS

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 92
_REDRAWN = re.compile(r"[^\n]*\r(?:\x1b\[[0-9;]*K)?")  # what a progress line showed before
KEY = "Who has the spare key to the workshop?"
LIGHT = TerminalTheme(
    (246, 248, 250),
    (31, 35, 40),
    [
        (36, 41, 47),
        (179, 29, 40),
        (17, 99, 41),
        (149, 56, 0),
        (5, 80, 174),
        (111, 66, 193),
        (27, 124, 131),
        (87, 96, 106),
    ],
    [
        (87, 96, 106),
        (164, 14, 38),
        (26, 127, 55),
        (99, 60, 1),
        (33, 139, 255),
        (130, 80, 223),
        (49, 146, 170),
        (31, 35, 40),
    ],
)
THEMES = {"light": LIGHT, "dark": DIMMED_MONOKAI}
ASIDE = [  # an answer, a list and results, in terminals of several widths
    f' pkb ask "{KEY}"',
    'pkb ask "When is the next repair day?" -k 1',
    "pkb todo -n 3",
    'pkb search "spare key" -k 2',
]
# The shell lines of each picture; one that begins with a space runs unseen.
SCENES = {
    "ask": [
        "pkb ingest ~/Mail ~/Meetings",
        ' pkb ask "When is the next repair day?"',  # starts the resident process: the times below are without that
        f'pkb ask "{KEY}" -k 1',
        f'pkb ask "{KEY.lower().rstrip("?")}" -k 1',
    ],
    "stats": [
        " pkb model use ~/Models/nano",
        *(f' pkb ask "{question}"' for question in WORDS),
        " pkb idle --budget 1m --force",
        *(f' pkb ask "{question}" --cache refresh' for question in WORDS),
        "pkb stats",
    ],
    "columns-60": [" pkb ingest ~/Mail ~/Meetings", *ASIDE],
    "columns-80": ASIDE,
    "columns-120": ASIDE,
}


def main() -> int:
    """Render every scene in both themes into docs/images."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pkb-screenshots-") as folder:
        home = Path(folder)
        shutil.copytree(DATA / "mail", home / "Mail")
        shutil.copytree(DATA / "transcripts", home / "Meetings")
        shutil.copytree(NANO, home / "Models" / "nano")
        try:
            for scene, lines in SCENES.items():
                width = int(scene.removeprefix("columns-")) if scene.startswith("columns-") else None
                printed = [(line, run(line, home, width)) for line in lines]
                shown = "\n\n".join(f"\033[1m$ {line}\033[0m\n{text}" for line, text in printed if line[0] != " ")
                for name, theme in THEMES.items():
                    path = IMAGES / f"{scene}-{name}.svg"
                    path.write_text(svg(shown, theme, f"pkb-{scene}-{name}", width or WIDTH), "utf-8")
                    print(f"docs/images/{path.name}", flush=True)
        finally:
            run("pkb serve --stop", home)
    return 0


def run(line: str, home: Path, width: int | None = None) -> str:
    """Run one shell line of pkb's with colours on, at a terminal `width` columns wide or in a pipe.

    Returns what it printed; exits where it fails.
    """
    own = {"HOME": str(home), "PKB_NOW": NOW, "FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "XDG_", "NO_COLOR"))}
    words = [str(home / word[2:]) if word.startswith("~/") else word for word in shlex.split(line)[1:]]
    ours, theirs = os.openpty() if width else os.pipe()
    if width:
        tcsetwinsize(theirs, (50, width))
    command, environ = [sys.executable, "-m", "cli.app", *words], {**kept, **own, "COLUMNS": str(width or WIDTH)}
    with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b"".join(iter(partial(_more, ours), b"")).decode()
    os.close(ours)
    if process.returncode not in (0, 3, 4):  # 3: an item of the bundle is skipped; 4: no answer there
        sys.exit(f"{line}: exit {process.returncode}\n{shown}")
    return _REDRAWN.sub("", shown.replace("\r\n", "\n")).replace(f"{home}/", "~/").rstrip()


def _more(ours: int) -> bytes:
    """Return what comes next; nothing at the end, which is an error of a Linux terminal."""
    try:
        return os.read(ours, 1 << 16)
    except OSError:
        return b""


def svg(shown: str, theme: TerminalTheme, name: str, width: int) -> str:
    """Return terminal output as a picture that fetches nothing when it is viewed."""
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(title="pkb", theme=theme, unique_id=name)
    return re.sub(r"@font-face\s*\{.*?\}\s*|<!--.*?-->\s*", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
