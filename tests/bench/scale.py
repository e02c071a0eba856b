"""What every command costs with 10,000, 100,000 or a million messages: processor seconds, memory and seconds waited.

Run `python -m tests.bench.scale FOLDER --messages N`. Messages and home stay in the folder, so that a second run only
measures again. Their lengths, quotes, threads, recipients and the frequencies of their words are those of the
Enron set, as `_LENGTHS` and the numbers below it give them; the words themselves are made of syllables. Equal numbers
give equal messages. Of embedding, only what storing costs is measured, at the end, with vectors that are drawn: the
model takes the same for a chunk in every home.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.home import environment

# Words of a message that its sender wrote, and recipients: every twentieth of 3,259 messages, the least first.
_LENGTHS = (0, 0, 2, 6, 10, 15, 21, 28, 37, 47, 59, 73, 91, 117, 151, 195, 274, 363, 583, 1380, 6000)
_RECIPIENTS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 9, 12, 17, 30, 40)
_REPLIES, _QUOTING = 0.29, 0.32  # shares of messages that answer one, and that quote it
_NEAR = 400  # messages back, of which one is answered
# Of words: 836,000 of the set are 27,900 different ones, 40 of 100 of them said once; the first is 1 of 25.
_VOCABULARY, _FREQUENT, _SHIFT, _EXPONENT = 400_000, 3_000, 2.0, 0.93
_COMMITTED, _EMBEDDED = 1_700, 20_000  # chunks that two cores embed in half a minute, and that get a vector
_PEOPLE = 6  # messages for each of those who write
_FOLDER = 10_000  # messages
_SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "re", "shi", "to", "vu")
Spent = tuple[float, float, float]  # processor seconds, megabytes at most, seconds
_BEGAN, _YEARS = datetime(1996, 1, 1, 8, tzinfo=UTC), 30


def main() -> None:
    """Make what is missing, and print a line for each command."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=10_000)
    options = parser.parse_args()
    folder, count = options.folder / str(options.messages), options.messages
    environ = os.environ | environment(folder) | {"PKB_DAEMON": "off"}
    # Of its own, because a command's memory is measured as at least that of this process.
    with ProcessPoolExecutor(1) as drawing:
        if not (folder / "home").exists():
            drawing.submit(write, folder / "mail", 0, count, count).result()
            print(_line("ingest", _run(environ, "ingest", str(folder / "mail"), "--vectors", "later")), flush=True)
        words = drawing.submit(own, count // 3).result().lower().split()[:3]
        for name, spent in measured(folder, environ, count, drawing, words or ["naba"]):
            print(_line(name, spent), flush=True)
    for name, milliseconds in retrieved(environ):
        print(f"{name:<28}{milliseconds:9.1f} ms, median, in one process", flush=True)
    print(_line("embed 20,000, without model", _run_python(environ, "embed_some")), flush=True)


def write(folder: Path, first: int, end: int, count: int) -> None:
    """Write some of `count` messages, in folders of some thousands."""
    for number in range(first, end):
        path = place(folder, number)
        if number in (first, number // _FOLDER * _FOLDER):
            path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(message(number, count), encoding="ascii")


def place(folder: Path, number: int) -> Path:
    """Return the path of a message."""
    return folder / f"{number // _FOLDER:03}" / f"{number}.eml"


def message(number: int, count: int) -> str:
    """Return a message of `count`, RFC 822."""
    random, body = _random(number), own(number)
    sender, day = _person(random, count), _BEGAN + timedelta(days=365.25 * _YEARS * number / count)
    to = ", ".join(_person(random, count) for _ in range(round(_quantile(random, _RECIPIENTS))))
    topic, headers = number, ""
    if number and random.random() < _REPLIES:
        answered = max(0, number - 1 - int(random.integers(_NEAR)))
        topic, headers = answered, f"In-Reply-To: <{answered}@example.org>\nReferences: <{answered}@example.org>\n"
        if random.random() < _QUOTING / _REPLIES:
            body += f"\n\n-----Original Message-----\nFrom: {sender}\nSubject: {_subject(topic)}\n\n{own(answered)}"
    return (
        f"From: {sender}\nTo: {to}\nDate: {format_datetime(day)}\nMessage-ID: <{number}@example.org>\n{headers}"
        f"Subject: {'Re: ' * (topic != number)}{_subject(topic)}\n\n{body}\n"
    )


def own(number: int) -> str:
    """Return what the sender of a message wrote: sentences of twelve words, paragraphs of five sentences."""
    random = np.random.default_rng([number, 1])
    drawn = _words(random, round(_quantile(random, _LENGTHS)))
    sentences = [" ".join(drawn[at : at + 12]).capitalize() + "." for at in range(0, len(drawn), 12)]
    return "\n\n".join("\n".join(sentences[at : at + 5]) for at in range(0, len(sentences), 5))


def measured(
    folder: Path, environ: dict[str, str], count: int, drawing: ProcessPoolExecutor, words: Sequence[str]
) -> Iterator[tuple[str, Spent]]:
    """Yield the name of each command, and what it took."""
    mail, question = folder / "mail", f"when is {' '.join(words).rstrip('.')}?"
    yield "rescan", _run(environ, "ingest", "--vectors", "later")
    drawing.submit(write, mail, count, count + 10, count).result()
    yield "add ten", _run(environ, "ingest", "--vectors", "later")
    for number in range(count, count + 10):
        place(mail, number).unlink()
    yield "delete ten", _run(environ, "ingest", "--vectors", "later")
    yield "first question", _run(environ, "ask", question)
    yield "new question", _run(environ, "ask", f"who knows {question}")
    yield "exact hit", _run(environ, "ask", question)
    yield "similar question", _run(environ, "ask", question.replace("when is", "when exactly is"))
    yield "search", _run(environ, "search", *words)
    yield "list", _run(environ, "list", "-n", "20")
    yield "count", _run(environ, "ask", f"how many mails did {_name(3)} send?")
    yield "todo", _run(environ, "todo")
    yield "people", _run(environ, "people")
    yield "stats", _run(environ, "stats")
    yield "idle, planned", _run(environ, "idle", "--dry-run", "--force")
    yield "check", _run(environ, "doctor", "--data")
    victim = min((mail / "000").iterdir(), key=lambda path: int(path.stem))
    yield "forget one", _run(environ, "forget", str(victim), "--yes")
    victim.unlink()
    yield "question after it", _run(environ, "ask", f"and {question}")


def retrieved(environ: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Yield kinds of retrieval and their median in milliseconds, in a process of its own."""
    script = "from tests.bench.scale import in_process; in_process()"
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    yield from json.loads(done.stdout)


def in_process() -> None:
    """Print the median milliseconds of looking chunks up in the usual home."""
    from engine.app import Pkb

    with Pkb() as pkb:
        questions = [f"when is {' '.join(own(number).lower().split()[2:6])}?" for number in range(1_003, 1_063)]
        texts, taken = [one for one in questions if len(one) > 20], list[float]()
        for text in texts:
            begun = time.perf_counter()
            pkb.search(text)
            taken.append(1000 * (time.perf_counter() - begun))
    print(json.dumps([("search by words", statistics.median(taken[3:]))]))


class Drawn:
    """Draws unit vectors: an embedder that costs nothing."""

    fingerprint, width = "drawn", 384

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text."""
        rows = self._random.standard_normal((len(texts), self.width)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows


def embed_some() -> None:
    """Give some chunks of the usual home a vector, so many in a commit as a model on two cores would."""
    from engine import operations
    from engine.app import Pkb
    from engine.ingest import chunking

    chunking._BATCH, chunking._COMMIT_S = _COMMITTED, 0.0
    with Pkb() as pkb:
        pkb.session.__dict__["embedder"] = Drawn()
        for done, _ in operations.embed(pkb.session):
            if done >= _EMBEDDED:
                break


def _run(environ: dict[str, str], *words: str) -> Spent:
    return _spent(environ, ["-m", "cli.app", *words], f"pkb {words[0]}")


def _run_python(environ: dict[str, str], name: str) -> Spent:
    return _spent(environ, ["-c", f"from tests.bench import scale; scale.{name}()"], name)


def _spent(environ: dict[str, str], words: Sequence[str], name: str) -> Spent:
    begun, nowhere = time.perf_counter(), subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, *words], env=environ, stdout=nowhere, stderr=nowhere)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 4):
        raise SystemExit(f"{name} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, time.perf_counter() - begun


def _line(name: str, spent: Spent) -> str:
    seconds, megabytes, waited = spent
    return f"{name:<28}{seconds:9.2f} processor s{megabytes:8.0f} MB{waited:9.2f} s"


def _random(number: int) -> Any:
    return np.random.default_rng(number)


def _quantile(random: Any, steps: tuple[int, ...]) -> float:
    at = random.random() * (len(steps) - 1)
    low, high = steps[int(at)], steps[int(at) + 1]
    return float((low + 1) * ((high + 1) / (low + 1)) ** (at % 1) - 1)  # the last steps are far apart


def _person(random: Any, count: int) -> str:
    people = max(50, count // _PEOPLE)
    number = int(people ** random.random())  # the nth writes about 1/n as much as the first
    return f"{_name(number)} <p{number}@example.org>"


def _name(number: int) -> str:
    """Return a name of words that no message has often; hundreds share the first."""
    _, spelled = _frequencies()
    return f"{spelled[3_000 + number * 37 % 400]} {spelled[100_000 + number]}".title()


def _subject(number: int) -> str:
    return " ".join(_words(np.random.default_rng([number, 2]), 5))


def _words(random: Any, count: int) -> list[str]:
    table, spelled = _frequencies()
    return [spelled[at] for at in np.searchsorted(table, random.random(count))]


@cache
def _frequencies() -> tuple[NDArray[np.float64], list[str]]:
    """Return the cumulative frequencies of the words, by Zipf's law, steeper for rare ones, and the words."""
    ranks = np.arange(1, _VOCABULARY + 1)
    weights = (ranks + _SHIFT) ** -_EXPONENT / (1 + ranks / _FREQUENT)
    spelled = ["".join(_SYLLABLES[int(digit)] for digit in str(rank)) for rank in range(_VOCABULARY)]
    return np.cumsum(weights / weights.sum()), spelled


if __name__ == "__main__":
    main()
