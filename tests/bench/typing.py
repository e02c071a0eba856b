"""Time that a prompt takes after Enter, where a question's sources were read while it was typed and where not.

Each question is asked by turns in two copies of the demo's home, whose KV cache is empty; 40 words are typed a minute.

Usage: python -m tests.bench.typing [COUNT]
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from engine.serve.client import ReadAhead
from engine.types import AskOptions
from tests.cli.serving import Served, served, wait
from tests.demo import DATA, QUESTIONS, SMALL, environment, pkb

_SECONDS = 60 / (40 * 6)  # a character, at five and a space a word
_BEFORE_ENTER_S = 0.5
_ASKED = tuple(question for question in dict.fromkeys(QUESTIONS) if len(question.split()) > 4)


def make_ready(home: Served) -> None:
    """Start the resident process and wait until it has loaded the model."""
    home.run("serve")
    wait(lambda: home.status()["model"])


def type_out(home: Served, question: str) -> None:
    """Take as long as a person takes to type, with a pause that pkb notices behind each word, and one before Enter."""
    ahead, words, begun = ReadAhead(), question.split(), time.monotonic()
    for number in range(1, len(words) + 1):
        typed = " ".join(words[:number])
        time.sleep(max(0.0, begun + len(typed) * _SECONDS - time.monotonic()))
        ahead.typed(home.session(), typed, AskOptions())
    time.sleep(_BEFORE_ENTER_S)
    ahead.end()


def prompt_time(home: Served, question: str) -> tuple[float, float]:
    """Return the milliseconds of loading and computing the prompt, and the share of it that was loaded."""
    row = json.loads(home.run("ask", question, "--json").stdout)
    tokens, ms = row["tokens"] or {"reused": 0, "prompt": 1}, row["ms"]
    return (ms["load"] or 0.0) + (ms["prefill"] or 0.0), tokens["reused"] / tokens["prompt"]


def main() -> None:
    """Print the medians of both."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else len(_ASKED)
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made"
        pkb(made, "ingest", str(DATA / "mail"), str(DATA / "transcripts"))
        pkb(made, "model", "use", SMALL)
        for number, question in enumerate(_ASKED[:count]):
            for ahead in (False, True) if number % 2 else (True, False):
                own = Path(folder) / f"{number}{ahead}"
                shutil.copytree(made, own, copy_function=shutil.copy)
                with served(own, environment(own)) as home:
                    make_ready(home)
                    if ahead:
                        type_out(home, question)
                    found[ahead].append(prompt_time(home, question))
                shutil.rmtree(own)
    for ahead, rows in found.items():
        print(f"read ahead: {ahead}", *(f"{ms:.0f} ms, {reused:.2f} reused" for ms, reused in rows), sep="\n  ")
        ms, reused = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"  median {ms:.0f} ms, {reused:.2f} reused, n = {len(rows)}")


if __name__ == "__main__":
    main()
