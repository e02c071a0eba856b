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
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from tests.demo import DATA, NANO, NOW, WORDS

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH = 92
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
                printed = [(line, run(line, home)) for line in lines]
                shown = "\n\n".join(f"\033[1m$ {line}\033[0m\n{text}" for line, text in printed if line[0] != " ")
                for name, theme in THEMES.items():
                    path = IMAGES / f"{scene}-{name}.svg"
                    path.write_text(svg(shown, theme, f"pkb-{scene}-{name}"), "utf-8")
                    print(f"docs/images/{path.name}", flush=True)
        finally:
            run("pkb serve --stop", home)
    return 0


def run(line: str, home: Path) -> str:
    """Run one shell line of pkb's with colours on, and return what it printed; exits where it fails."""
    own = {"HOME": str(home), "PKB_NOW": NOW, "FORCE_COLOR": "1", "COLORTERM": "truecolor", "COLUMNS": str(WIDTH)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PKB_", "XDG_", "NO_COLOR"))}
    words = [str(home / word[2:]) if word.startswith("~/") else word for word in shlex.split(line)[1:]]
    done = subprocess.run(
        [sys.executable, "-m", "cli.app", *words],
        env={**kept, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 3, 4):  # 3: an item of the bundle is skipped; 4: no answer there
        sys.exit(f"{line}: exit {done.returncode}\n{done.stdout}")
    return done.stdout.replace(f"{home}/", "~/").rstrip()


def svg(shown: str, theme: TerminalTheme, name: str) -> str:
    """Return terminal output as a picture that fetches nothing when it is viewed."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(title="pkb", theme=theme, unique_id=name)
    return re.sub(r"@font-face\s*\{.*?\}\s*|<!--.*?-->\s*", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
