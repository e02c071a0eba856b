"""What `pkb watch` takes: at rest, and when many files come at once, delivered as a Maildir has them.

Run `python -m tests.bench.watch [--files N] [--rest SECONDS]`.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import psutil

from tests.bench.homes import environment

FOLDERS = 50


def main() -> None:
    """Print each figure with what it was made of."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rest", type=int, default=60, help="seconds to watch it rest")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        mail = Path(folder, "mail")
        for number in range(FOLDERS):
            for name in ("cur", "new", "tmp"):
                (mail / f"{number}" / name).mkdir(parents=True)
        watched = Watched(Path(folder, "home"), mail)
        at_rest(watched, options.rest, "nothing was read yet")
        for first, count in ((0, options.files // 10), (options.files // 10, options.files)):
            burst(watched, mail, first, count)
        at_rest(watched, options.rest, f"{options.files // 10 + options.files:,} files in {3 * FOLDERS} folders")
        watched.end()


class Watched:
    """A `pkb watch` in a process of its own, without an embedder at work."""

    def __init__(self, home: Path, mail: Path) -> None:
        command = [sys.executable, "-m", "cli.app", "ingest", str(mail), "--watch", "--vectors", "later", "--json"]
        env = {**os.environ, **environment(home), "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        self.seen = psutil.Process(self._process.pid)
        self.read()

    def read(self) -> dict[str, Any]:
        """Give the next batch that was read."""
        assert self._process.stdout
        rows = (json.loads(line) for line in self._process.stdout)
        return next(row for row in rows if row["event"] == "read")

    def cpu(self) -> float:
        """Give the seconds of processor time it has taken."""
        times = self.seen.cpu_times()
        return float(times.user + times.system)

    def exactly(self) -> float:
        """Give the same of the threads that live, to the nanosecond where the system keeps that."""
        threads = Path(f"/proc/{self.seen.pid}/task").glob("*/schedstat")
        return sum(int(path.read_text("utf-8").split()[0]) / 1e9 for path in threads) or self.cpu()

    def end(self) -> None:
        """End it, and say how long that took."""
        began = perf_counter()
        self._process.terminate()
        code = self._process.wait()
        print(f"end: {perf_counter() - began:.2f} s after SIGTERM, exit code {code}")


def at_rest(watched: Watched, seconds: int, what: str) -> None:
    """Let it rest."""
    sleep(15)  # what a batch leaves to do
    before, began = watched.exactly(), perf_counter()
    sleep(seconds)
    share = (watched.exactly() - before) / (perf_counter() - began)
    print(f"at rest ({what}): {share:.4%} of a core, {watched.seen.memory_info().rss / 1e6:.0f} MB", flush=True)


def burst(watched: Watched, mail: Path, first: int, count: int) -> None:
    """Deliver messages as fast as one process can, and wait until all are read."""
    cpu, began = watched.cpu(), perf_counter()
    for number in range(first, first + count):
        box, name = mail / f"{number % FOLDERS}", f"{1_700_000_000 + number}.{number}.host"
        text = f"From: a@example.org\nSubject: note {number}\nMessage-ID: <{number}@x>\n\nNumber {number} is kept.\n"
        (box / "tmp" / name).write_text(text)
        (box / "tmp" / name).rename(box / "new" / name)
    delivered, kept, batches = perf_counter() - began, 0, 0
    while kept < count:
        row = watched.read()
        kept, batches = kept + row["documents"]["kept"], batches + 1
    print(
        f"burst: {count:,} files delivered in {delivered:.1f} s,"
        f" all read {perf_counter() - began:.1f} s after that began,"
        f" in {batches} batches, {watched.cpu() - cpu:.1f} s of processor time,"
        f" {_peak(watched.seen.pid) / 1e6:.0f} MB at most",
        flush=True,
    )


def _peak(process: int) -> int:
    """Give the most memory a process ever had, where the system keeps that."""
    try:
        status = Path(f"/proc/{process}/status").read_text("utf-8")
    except OSError:
        return psutil.Process(process).memory_info().rss
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
