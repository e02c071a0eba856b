"""Ask questions about real mail and meetings, and count judged answers.

`python -m tests.bench.judged QUESTIONS.jsonl --data DIR [--tree DIR]` prints a
JSON line for each question: its gold answer, what pkb answered, and a verdict
where one is plain. `--verdicts FILE` prints counts of verdicts that a reader gave.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import sqrt
from pathlib import Path
from typing import Any

VERDICTS = ("right", "short", "span", "wrong", "invented", "declined-right", "declined-wrong")
LONGEST_PLAIN_WORDS = 40
Z95 = 1.959964


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Give the 95 % Wilson interval of a share, as fractions from 0 to 1."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = hits / n, Z95 * Z95
    middle = share + z2 / (2 * n)
    half = Z95 * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    scale = 1 + z2 / n
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def words(text: str) -> list[str]:
    """Split a text into words and numbers, in lower case."""
    return re.findall(r"\w+", text.lower())


def plain_verdict(gold: str, answer: str, answered: bool) -> str:
    """Say "right" or "declined" where no reader is needed, else "read"."""
    if not answered:
        return "declined"
    said = words(answer)
    whole = bool(gold) and set(words(gold)) <= set(said)
    return "right" if whole and len(said) <= LONGEST_PLAIN_WORDS else "read"


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of one JSON object a line."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


def run_pkb(tree: Path, home: Path, arguments: list[str], asked: str = "") -> str:
    """Run pkb from a source tree with its own home, and return what it printed.

    Raises RuntimeError with the end of its error output when it printed nothing.
    """
    places = {"PYTHONPATH": str(tree), "PKB_HOME": str(home), "PKB_CACHE": str(home / "cache")}
    command = [sys.executable, "-c", "from cli.app import main; main()", *arguments]
    done = subprocess.run(command, cwd=tree, env=os.environ | places, input=asked, capture_output=True, text=True)
    if not done.stdout:
        raise RuntimeError(done.stderr[-500:])
    return done.stdout


def ask_folder(tree: Path, folder: Path, questions: list[str]) -> list[dict[str, Any]]:
    """Ingest a folder into a new home and ask each question, without a language model."""
    with tempfile.TemporaryDirectory() as home:
        run_pkb(tree, Path(home), ["ingest", str(folder), "--json", "--vectors", "later"])
        flags = ["ask", "--json", "--no-daemon", "--model", "quote", "--cache=off", "-"]
        printed = run_pkb(tree, Path(home), flags, "\n".join(questions) + "\n")
    return [json.loads(line) for line in printed.splitlines()]


def result(question: dict[str, Any], reply: dict[str, Any], data: Path) -> dict[str, Any]:
    """Join a question and pkb's reply into one line for a reader."""
    sources, answered = reply["sources"], reply["answered"]
    chosen = reply.get("answer_source") or 0
    kept = {key: question[key] for key in ("id", "question", "gold", "kind")}
    return kept | {
        "answer": reply["answer"],
        "declined": not answered,
        "grade": reply.get("grade"),
        "sources": [os.path.relpath(source["path"], data) for source in sources],
        "answer_source": chosen if sources else None,
        "quote": sources[chosen]["quote"] if sources else None,
        "verdict": plain_verdict(question["gold"], reply["answer"], answered),
    }


def results(questions: Iterable[dict[str, Any]], data: Path, tree: Path) -> Iterator[dict[str, Any]]:
    """Yield a result for each question, folder by folder."""
    ordered = sorted(questions, key=lambda question: str(question["folder"]))
    for folder, group in groupby(ordered, key=lambda question: str(question["folder"])):
        asked = list(group)
        replies = ask_folder(tree, data / folder, [question["question"] for question in asked])
        for question, reply in zip(asked, replies, strict=True):
            yield result(question, reply, data)


def table(verdicts: Iterable[str]) -> str:
    """Lay out the count, share and 95 % interval of each verdict.

    Raises ValueError for an unknown verdict.
    """
    counts = Counter(verdicts)
    if unknown := set(counts) - set(VERDICTS):
        raise ValueError(f"unknown verdicts: {sorted(unknown)}")
    n = counts.total()
    rows = [f"| verdict | of {n} | share | 95 % interval |", "| --- | --- | --- | --- |"]
    for verdict in VERDICTS:
        low, high = wilson(counts[verdict], n)
        share = counts[verdict] / n if n else 0.0
        rows.append(f"| {verdict} | {counts[verdict]} | {share:.0%} | {low:.0%} to {high:.0%} |")
    return "\n".join(rows)


def main() -> None:
    """Run the questions, or print the table of a file of verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("questions", type=Path, nargs="?")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[2])
    parser.add_argument("--verdicts", type=Path)
    given = parser.parse_args()
    if given.verdicts:
        print(table(line["verdict"] for line in read_lines(given.verdicts)))
    elif given.questions and given.data:
        for line in results(read_lines(given.questions), given.data.resolve(), given.tree.resolve()):
            print(json.dumps(line, ensure_ascii=False), flush=True)
    else:
        parser.error("give QUESTIONS and --data, or --verdicts")


if __name__ == "__main__":
    main()
