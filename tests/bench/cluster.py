"""What a cluster of Ray costs and gains beside one process, and what a killed worker costs.

Run `python -m tests.bench.cluster FOLDER` after `make test-ray`. Reads made-up messages (tests.bench.scale) and embeds
texts with the installed model: in this process, and on a cluster of two workers on this machine, by turns. The first
work, which starts the workers, is counted apart. Processor seconds are those of this process and of all of Ray's, and
are not shown where workers end, whose time nobody adds up: killed ones, and those that embed.
"""

import os
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Timer

import psutil

from engine.ingest.chunking import Cluster
from engine.ingest.files import read_all
from engine.ingest.pipeline import ReadAll
from engine.ingest.scan import state_of
from engine.ingest.types import ParseLimits
from engine.models.minilm import MiniLM
from store.types import FileState
from tests.bench.scale import write
from tests.engine.ingest.ray_cluster import started, workers

_GROUP, _WORDS = 32, 40  # texts embedded at once, and words of each
Files = list[tuple[bytes, FileState]]
Spent = tuple[float, float]  # processor seconds, seconds


def main() -> None:
    """Measure and print a line for each way."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--groups", type=int, default=8, help=f"of {_GROUP} texts to embed")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    mail = asked.folder / f"mail{asked.messages}"
    if not mail.exists():
        write(mail, 0, asked.messages, asked.messages)
    found = sorted(os.fsencode(path) for path in mail.rglob("*") if path.is_file())
    files = [(path, state) for path in found if (state := state_of(path))]
    texts = [[f"w{group} " + f"word{at} " * _WORDS for at in range(_GROUP)] for group in range(asked.groups)]
    print(f"load {os.getloadavg()[0]:.1f}, {len(files)} messages, {_GROUP * asked.groups} texts", flush=True)
    with started(2) as address:
        for name, spent in (one for _ in range(asked.rounds) for one in _measured(files, str(mail), texts, address)):
            used = "        -" if "killed" in name or "embed, two" in name else f"{spent[0]:9.2f}"
            print(f"{name:<40}{used} processor s{spent[1]:9.2f} s", flush=True)


def _measured(files: Files, root: str, texts: list[list[str]], address: str) -> Iterator[tuple[str, Spent]]:
    def read(by: ReadAll = read_all) -> int:
        return sum(1 for _ in by(files, ParseLimits(root=root)))

    with closing(Cluster(address)) as cluster:
        yield "start of two workers", _spent(lambda: [*cluster.read_all(files[:1], ParseLimits(root=root))])
        read(cluster.read_all)
        yield "read, one process", _spent(read)
        yield "read, two workers", _spent(lambda: read(cluster.read_all))
        with _killing("_read_task"):
            yield "read, two workers, one killed", _spent(lambda: read(cluster.read_all))
        embedder = MiniLM(workers=2)
        embedder.embed(texts[0][:8])
        yield "embed, one process, two threads", _spent(lambda: [*map(embedder.embed, texts)])
        yield "embed, two workers", _spent(lambda: [*cluster.embed_all(embedder, texts)])
        with _killing("_EmbedTask"):
            yield "embed, two workers, one killed", _spent(lambda: [*cluster.embed_all(embedder, texts)])


@contextmanager
def _killing(task: str) -> Iterator[None]:
    """Kill one worker as soon as it works."""

    def kill() -> None:
        while not (busy := workers(task)):
            time.sleep(0.05)
        busy[0].kill()

    timer = Timer(0.5, kill)
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()


def _spent(work: Callable[[], object]) -> Spent:
    began, before = time.perf_counter(), _processor()
    work()
    return _processor() - before, time.perf_counter() - began


def _processor() -> float:
    """Return the processor seconds of this process and of those below it, also of ended ones."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.Error:
            continue
    return total


if __name__ == "__main__":
    main()
