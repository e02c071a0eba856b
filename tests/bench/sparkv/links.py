"""A far side that sends the units of a prompt over a slow link, for tests.bench.sparkv.streaming.

Where the kernel allows it, the far side is a process in a network namespace of its own, whose interface sends through a
token bucket (tc tbf). Elsewhere the process paces itself. Jitter and loss are delays of the sender in both cases: up to
twice a mean share of a unit's time on the link, and a round trip for every lost packet.
"""

import json
import os
import pickle
import socket
import struct
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from threading import Thread
from time import perf_counter, sleep

from tests.bench.sparkv.schedule import StreamUnit

_ASKED, _LENGTH = struct.Struct("<4H"), struct.Struct("<I")
_PACKET, _PIECE = 1448, 16 << 10
_NUMBERS = count()
_NEAR_NAME = "pkb-near"  # of an interface
NEAR, FAR = "10.231.77.1", "10.231.77.2"


@dataclass(frozen=True, slots=True)
class Link:
    """A shaped link: bits a second, jitter as a share of a unit's time, the share of lost packets, a round trip."""

    mbps: float
    jitter: float = 0.0
    loss: float = 0.0
    trip: float = 0.02

    def delays(self, rng: Random, size: int) -> float:
        """Return the seconds by which jitter and loss delay a unit of so many bytes."""
        lost = sum(rng.random() < self.loss for _ in range(-(-size // _PACKET)))
        return 2 * self.jitter * rng.random() * size * 8e-6 / self.mbps + self.trip * lost


@dataclass(slots=True)
class Remote:
    """A connection to the far side; mutable."""

    connection: socket.socket
    level: int = 0

    def __call__(self, unit: StreamUnit) -> bytes:
        """Ask for a unit and return its bytes."""
        self.connection.sendall(_ASKED.pack(self.level, *unit))
        (size,) = _LENGTH.unpack(_read(self.connection, _LENGTH.size))
        return _read(self.connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        if not (piece := connection.recv(size - len(found))):
            raise EOFError
        found += piece
    return bytes(found)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def namespace(link: Link) -> Iterator[str | None]:
    """Create a network namespace behind a shaped interface, and yield its name; None where the kernel refuses."""
    name = f"pkb-{os.getpid()}-{next(_NUMBERS)}"
    try:
        yield name if _created(name, link.mbps) else None
    finally:
        for words in (("link", "del", _NEAR_NAME), ("netns", "del", name)):
            with suppress(OSError, subprocess.CalledProcessError):
                _run("ip", *words)


def _created(name: str, mbps: float) -> bool:
    """Return whether a namespace and its interfaces could be created; tbf limits what is sent from inside."""
    near, far = _NEAR_NAME, "pkb-far"
    bucket = ("tbf", "rate", f"{mbps}mbit", "burst", "64kb", "latency", "400ms")
    try:
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        _run("ip", "addr", "add", f"{NEAR}/30", "dev", near)
        _run("ip", "link", "set", near, "up")
        _run("ip", "-n", name, "addr", "add", f"{FAR}/30", "dev", far)
        _run("ip", "-n", name, "link", "set", far, "up")
        _run("tc", "-n", name, "qdisc", "add", "dev", far, "root", *bucket)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@contextmanager
def far_side(link: Link, file: Path, *, isolated: bool = True) -> Iterator[tuple[Remote, str]]:
    """Start a far side that holds the units in a file; yields a connection, and how the link is shaped.

    Unless `isolated`, it is on this machine's loopback.
    """
    with namespace(link) if isolated else nullcontext() as name:
        words = [
            sys.executable,
            "-m",
            "tests.bench.sparkv.links",
            str(file),
            json.dumps([link.mbps, link.jitter, link.loss]),
        ]
        inside = ["ip", "netns", "exec", name] if name else []
        own = [] if name else ["--paced"]
        with subprocess.Popen([*inside, *words, *own], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            port = int(process.stdout.readline())
            try:
                with socket.create_connection((FAR if name else "127.0.0.1", port)) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    yield Remote(connection), "namespace, tbf" if name else "paced by the sender"
            finally:
                process.terminate()


def main() -> None:
    """Send the units that are asked for, to any number of machines, until the process is ended.

    Where it paces itself, it does so for each of them.
    """
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("link", type=json.loads)
    parser.add_argument("--paced", action="store_true")
    given = parser.parse_args()
    link, rng = Link(*given.link), Random(1)
    units: list[Mapping[StreamUnit, bytes]] = pickle.loads(given.file.read_bytes())  # written by this benchmark

    def serve(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, suppress(EOFError, ConnectionError):
            while True:
                level, *unit = _ASKED.unpack(_read(connection, _ASKED.size))
                data = units[level][StreamUnit(*unit)]
                sleep(link.delays(rng, len(data)))
                _send(connection, _LENGTH.pack(len(data)) + data, link.mbps if given.paced else 0.0)

    with socket.create_server(("127.0.0.1" if given.paced else FAR, 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            Thread(target=serve, args=(server.accept()[0],), daemon=True).start()


def _send(connection: socket.socket, data: bytes, mbps: float) -> None:
    """Send bytes, no faster than at a rate, 0 for as fast as possible."""
    began = perf_counter()
    for place in range(0, len(data), _PIECE):
        connection.sendall(data[place : place + _PIECE])
        if mbps:
            sleep(max(0.0, began + (place + _PIECE) * 8e-6 / mbps - perf_counter()))


if __name__ == "__main__":
    main()
