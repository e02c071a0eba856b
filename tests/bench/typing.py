"""Time that a prompt takes after Enter, where a question's sources were read while it was typed and where not.

Each question is asked by turns in two copies of a home whose KV cache is empty; 40 words are typed a minute.

Usage: python -m tests.bench.typing [COUNT [DATA]], of the bundled data, or the first user of each of three public sets
"""

import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.serve.client import ReadAhead
from engine.types import AskOptions
from tests.bench.corpus import users
from tests.cli.serving import Served, served, wait
from tests.demo import DATA, QUESTIONS, SMALL, environment, pkb

_SECONDS = 60 / (40 * 6)  # a character, at five and a space a word
_BEFORE_ENTER_S = 0.5
_WORDS = range(5, 17)  # of the questions asked
_SETS = ("enron-annotated", "locomo", "clinton-foia")


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


def homes(folder: Path, data: Path | None) -> Iterator[tuple[Path, Sequence[str]]]:
    """Yield homes with the documents of the demo, or of a user of each set, and what is asked there."""
    found: list[tuple[Sequence[Path], Sequence[str]]] = [((DATA / "mail", DATA / "transcripts"), QUESTIONS)]
    if data:
        firsts = [users(name, data, folder)[0] for name in _SETS]
        found = [(one.folders, [query.text for query in one.queries if query.answer]) for one in firsts]
    for number, (folders, questions) in enumerate(found):
        made = folder / f"made{number}"
        pkb(made, "ingest", *map(str, folders))
        pkb(made, "model", "use", SMALL)
        yield made, [question for question in dict.fromkeys(questions) if len(question.split()) in _WORDS]


def main() -> None:
    """Print the medians of both."""
    count, data = int(sys.argv[1]) if len(sys.argv) > 1 else 99, Path(sys.argv[2]) if len(sys.argv) > 2 else None
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for made, questions in homes(Path(folder), data):
            for number, question in enumerate(questions[:count]):
                for ahead in (False, True) if number % 2 else (True, False):
                    own = made.with_name(f"{made.name}{number}{ahead}")
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
