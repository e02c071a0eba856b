"""`python -m tests.bench.remote`: what KV from another machine costs, on loopback, with both ends on this machine.

Round trips of `find`, with and without a connection that is open; bytes a second of `fetch`, verified; and what a peer
costs that is gone, or never answers.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from store.remote import Remote
from tests.cli.test_sharing import own_environment, share
from tests.store.sharing import introduce, keep_path, keys_of, lying, remote_of

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


def _listen(connection: Any) -> None:
    while connection.recv(1 << 16):
        pass


if __name__ == "__main__":
    main()
