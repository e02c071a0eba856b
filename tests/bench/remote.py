"""`python -m tests.bench.remote`: what KV from another machine costs, on loopback, with both ends on this machine.

Round trips of `find`, with and without a connection that is open; bytes a second of `fetch`, verified; and what a peer
costs that is gone, or never answers.

With `--model MODEL --mail FOLDER` instead: the KV of a prompt of mail, four segments of 128 tokens, fetched exactly and
rounded (`kv.remote_bits`) by turns through a proxy that lets so many bits pass a second, from stored numbers of 32 and
of 16 bits; seconds of computing it; and what rounding does to the 50 next tokens.
"""

import os
import socket
import statistics
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from engine.models.kv_cache import append, cut
from engine.models.mlx import Mlx
from store.kv_files import WIDTHS, Tensor
from store.peers import PeerBook, PeerSource, parse_address
from store.remote import FetchedNode, Remote, headers_of
from tests.bench.compression import mail_ids, opened
from tests.bench.sparkv.streaming import divergence
from tests.cli.test_sharing import own_environment, share
from tests.store.kv_kit import ROOT, Kept
from tests.store.sharing import home_of, introduce, keep_path, keys_of, lying, remote_of

_TOKENS, _LINKS = 512, (20, 50, 100, 250, 850)  # Mbps
_ROUNDS, _FINDS, _NODE_BYTES, _PATIENT_S = 30, 10, 16 << 20, 30.0


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def show(what: str, seconds: Sequence[float]) -> None:
    """Print the median and the ninth decile of seconds."""
    ranked = sorted(seconds)
    median, late = statistics.median(ranked), ranked[len(ranked) * 9 // 10]
    print(f"{what:<44}  median {median * 1000:8.2f} ms  p90 {late * 1000:8.2f} ms  n {len(ranked)}")


def main() -> None:
    """Measure in a temporary folder."""
    os.umask(0o077)
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--mail", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if given.model:
        with opened(given.model) as model, tempfile.TemporaryDirectory() as name:
            by_link(model, mail_ids(model, given.mail, _TOKENS + 50), Path(name), given.rounds)
        return
    with tempfile.TemporaryDirectory() as name:
        desktop, laptop = Path(name, "desktop"), Path(name, "laptop")
        nodes = keep_path(desktop, size=_NODE_BYTES)
        keys = keys_of(nodes)
        introduce(desktop, laptop, "desktop", "laptop")
        with share(own_environment(desktop)) as (_, port):
            _measure(lambda: remote_of(laptop, port), nodes)
        show("find, peer gone", [timed(lambda: remote_of(laptop, port).find(keys)) for _ in range(_ROUNDS)])
        gone = remote_of(laptop, port)
        gone.find(keys)
        show("find, in the minute after that", [timed(lambda: gone.find(keys)) for _ in range(1000)])
        with lying(desktop, _listen) as liar:
            show("find, peer silent", [timed(lambda: remote_of(laptop, liar.port).find(keys)) for _ in range(10)])


def _measure(connect: Callable[[], Remote], nodes: Sequence[tuple[Any, bytes]]) -> None:
    finds, rates = list[float](), list[float]()
    keys = keys_of(list(nodes))
    for _ in range(_ROUNDS):
        remote = connect()
        finds += [timed(partial(remote.find, keys, _PATIENT_S)) for _ in range(_FINDS)]
        for header, data in nodes:
            rates.append(len(data) / timed(partial(remote.fetch, header, len(data), _PATIENT_S)) / 1e6)
        remote.cancel()
    show("find of 3 nodes", finds)
    size, rate = len(nodes[0][1]) / 1e6, statistics.median(rates)
    print(f"fetch of {size:.1f} MB, verified: median {rate:.0f} MB/s, first {rates[0]:.0f}, n {len(rates)}")


@contextmanager
def paced(port: int, mbps: float) -> Iterator[int]:
    """Pass connections on to a port of loopback, replies at so many megabits a second; yields the port to use."""

    def copy(source: socket.socket, target: socket.socket, rate: float) -> None:
        begun, passed = time.perf_counter(), 0
        with suppress(OSError), source, target:
            while data := source.recv(1 << 14):
                begun = max(begun, time.perf_counter() - passed / rate)  # an idle link saves nothing up
                passed += len(data)
                time.sleep(max(0.0, begun + passed / rate - time.perf_counter()))
                target.sendall(data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
                for pair in ((near, far, 1e12), (far, near, mbps * 125_000)):
                    Thread(target=copy, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def by_link(model: Mlx, ids: list[int], folder: Path, rounds: int) -> None:
    """Fetch the KV of a prompt over links of several rates, exactly and rounded by turns."""
    segments = [tuple(ids[at : at + 128]) for at in range(0, _TOKENS, 128)]
    begun, cache = time.perf_counter(), model.begin()
    for one in segments:
        model.prefill(cache, one)
    print(f"computing {_TOKENS} tokens: {time.perf_counter() - begun:.2f} s")
    tensors = [cut(cache, at, at + 128) for at in range(0, _TOKENS, 128)]
    wanted = _next(model, cache, ids[_TOKENS:])
    for dtype in ("F32", "BF16"):
        desktop, laptop = folder / dtype / "desktop", folder / dtype / "laptop"
        desktop.mkdir(parents=True)
        kept, parent = Kept(desktop), None
        for one, parts in zip(segments, tensors, strict=True):
            parent = kept.store.keep(ROOT, parent, one, 1.0, [_as(part, dtype) for part in parts])
        kept.close()
        introduce(desktop, laptop, "desktop", "laptop")
        with share(own_environment(desktop)) as (_, port):
            for mbps in _LINKS:
                with paced(port, mbps) as near:
                    found = [
                        _fetched(laptop, near, segments, is_rounded=form) for _ in range(rounds) for form in (0, 1)
                    ]
                for form, name in enumerate(("exact", "rounded")):
                    seconds = sorted(one[0] for one in found[form::2])
                    sent = sum(node.sent for node in found[form][1])
                    about = f"median {statistics.median(seconds):6.3f} s, {seconds[0]:.3f} to {seconds[-1]:.3f}"
                    print(f"{dtype:<4} {mbps:>4} Mbps {name:<8} {sent / 1e6:6.2f} MB, {about}", flush=True)
        came = found[1][1]
        count = sum(len(part.buffer) // WIDTHS[part.dtype] for node in came for part in node.tensors)
        print(f"{dtype:<4} {8 * sent / count:.2f} bits a number, error {came[0].error:.2%}")
        if dtype == "F32":
            append(again := model.begin(), [node.tensors for node in came])
            logits = _next(model, again, ids[_TOKENS:])
            kl = np.mean([divergence(*both) for both in zip(wanted, logits, strict=True)])
            same = np.mean(wanted.argmax(-1) == logits.argmax(-1))
            print(f"KL {kl:.5f}, same next token {same:.2f}, n {len(logits)}")


def _next(model: Mlx, cache: Any, ids: list[int]) -> Any:
    """Return the logits at each of the last tokens."""
    import mlx.core as mx

    return np.array(model.model(mx.array(ids)[None], cache=cache)[0].astype(mx.float32))


def _as(tensor: Tensor, dtype: str) -> Tensor:
    if dtype == tensor.dtype:
        return tensor
    raw = np.frombuffer(tensor.buffer, "<u4")
    return Tensor(tensor.name, dtype, tensor.shape, (raw >> 16).astype("<u2").tobytes())


def _fetched(
    laptop: Path, port: int, segments: Sequence[tuple[int, ...]], *, is_rounded: int
) -> tuple[float, list[FetchedNode]]:
    where = parse_address(f"https://127.0.0.1:{port}#desktop")
    source = PeerSource(lambda: where, PeerBook(home_of(laptop).share), is_rounded=bool(is_rounded))
    remote, headers = Remote(source, is_rounded=bool(is_rounded)), headers_of(ROOT, segments)
    sizes = remote.find([one.key for one in headers], _PATIENT_S)
    begun = time.perf_counter()
    found = [remote.fetch(one, size, _PATIENT_S) for one, size in zip(headers, sizes, strict=True)]
    return time.perf_counter() - begun, found


def _listen(connection: Any) -> None:
    while connection.recv(1 << 16):
        pass


if __name__ == "__main__":
    main()
