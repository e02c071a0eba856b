"""How fast mail becomes searchable: parsing, a whole ingest beside the embedder alone, the first answer, a rescan.

Run `OPENBLAS_NUM_THREADS=1 python -m tests.bench.ingest MAIL [--some N]`, where MAIL is a folder of mail.
Ratios are of one run.
"""

import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from time import perf_counter, sleep

from engine.ingest.files import ignorable, read
from engine.ingest.limits import Limits
from engine.models.minilm import MiniLM
from tests.bench.homes import environment, opened, pkb

RESCANNED = 20_000  # files


def main() -> None:
    """Print each figure with what it was made of."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("mail", type=Path)
    parser.add_argument("--some", type=int, default=400, help="messages of the whole ingest; 0 for all")
    options = parser.parse_args()
    files = [path for path in sorted(options.mail.rglob("*")) if path.is_file() and not ignorable(path)]
    parse(files)
    with tempfile.TemporaryDirectory() as folder:
        chosen = files[:: max(1, len(files) // options.some)] if options.some else files
        whole(linked(chosen, Path(folder, "some")), Path(folder, "whole"))
        first_answer(options.mail, Path(folder, "first"))
        rescan(Path(folder, "rescan"))


def parse(files: list[Path]) -> None:
    """Read and parse every file twice, and take the faster run."""
    seconds = []
    for _ in range(2):
        began = perf_counter()
        count = sum(reading.document is not None for path in files for reading in read(path, None, Limits()))
        seconds.append(perf_counter() - began)
    print(
        f"parse: {count} messages, {count / min(seconds):,.0f} a second ({count / max(seconds):,.0f} in the slower run)"
    )


def linked(files: list[Path], folder: Path) -> Path:
    """Copy files into one folder."""
    folder.mkdir()
    for number, path in enumerate(files):
        Path(folder, f"{number}.").write_bytes(path.read_bytes())
    return folder


def whole(mail: Path, home: Path) -> None:
    """Ingest with vectors, and embed the same chunks with the embedder alone, before and after."""
    began = perf_counter()
    done = pkb(home, "ingest", str(mail), "--json")
    seconds = perf_counter() - began
    assert done.returncode in (0, 3), done.stderr
    session = opened(home)
    rows = session.tables.select("chunks", "true", ["header", "text"])
    texts = [f"{row['header']}\n{row['text']}" for row in rows]
    embedder = MiniLM(workers=session.settings.embed.workers or 2)
    alone = []
    for _ in range(2):
        began = perf_counter()
        sum(len(indices) for indices, _ in embedder.embed_batches(texts))
        alone.append(perf_counter() - began)
    print(
        f"whole ingest: {len(texts)} chunks in {seconds:.1f} s;"
        f" the embedder alone {min(alone):.1f} and {max(alone):.1f} s"
    )
    print(f"whole ingest: {seconds / min(alone):.2f} of the faster, {seconds / max(alone):.2f} of the slower")


def first_answer(mail: Path, home: Path) -> None:
    """Start to ingest everything, and ask until an answer comes."""
    began = perf_counter()
    command = [sys.executable, "-m", "cli.app", "ingest", str(mail)]
    child = subprocess.Popen(
        command, env={**os.environ, **environment(home)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while pkb(home, "ask", "when is the meeting?", "--no-cache").returncode != 0:
        sleep(0.2)
    seconds = perf_counter() - began
    covered = pkb(home, "stats", "--json").stdout
    child.kill()
    child.wait()
    print(f"first answer: {seconds:.1f} s after the ingest began; then kept: {covered[:160]}")


def rescan(folder: Path) -> None:
    """Look at many unchanged files again, in a fresh process."""
    mail = folder / "mail"
    for number in range(RESCANNED):
        path = mail / f"{number // 500}" / f"{number}."
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"From: a@example.org\nSubject: note {number}\n\nNumber {number} is kept.\n")
    pkb(folder, "ingest", str(mail), "--vectors", "later")
    seconds, bare = [], []
    for _ in range(5):
        began = perf_counter()
        done = pkb(folder, "ingest", "--vectors", "later")
        seconds.append(perf_counter() - began)
        began = perf_counter()
        pkb(folder, "config", "path")
        bare.append(perf_counter() - began)
        assert "nothing new" in done.stdout, done.stderr
    median, start = sorted(seconds)[2], sorted(bare)[2]
    rate = RESCANNED / (median - start)
    print(
        f"rescan: {RESCANNED} unchanged files in {median:.2f} s,"
        f" of which the bare process {start:.2f}: {rate:,.0f} files/s;"
    )
    print(f"rescan: with the process, {RESCANNED / median:,.0f} files/s")


if __name__ == "__main__":
    main()
