"""Two homes that share a KV cache over real TLS on loopback, and servers that do what a peer must not."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.kv.sharing import SharingServer
from store.home import Home
from store.kv_files import Header, Key
from store.peers import PeerAddress, PeerBook, PeerSource, key_line, parse_address
from store.remote import Remote
from tests.store.kv_kit import ROOT, A, B, C, Kept

PATH = (A, B, C)


def home_of(folder: Path) -> Home:
    """Return a home whose ledger and cache are those of `Kept`."""
    return Home(folder, folder / "cache", folder / "config.toml")


def introduce(one: Path, other: Path, name_of_one: str, name_of_other: str) -> None:
    """Add two machines to each other."""
    first, second = PeerBook(home_of(one).share), PeerBook(home_of(other).share)
    first.add(name_of_other, key_line(second.own()))
    second.add(name_of_one, key_line(first.own()))


def keep_path(folder: Path, size: int = 4096) -> list[tuple[Header, bytes]]:
    """Keep a path of three nodes in a home; returns their headers and files."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = Kept(folder)
    for end in range(1, len(PATH) + 1):
        assert kept.keep(*PATH[:end], size=size)
    match = kept.store.match(ROOT, PATH)
    found = [
        (Header(ROOT.key, node.key, node.parent, node.path, node.ids), kept.store.folder.path_of(node.key).read_bytes())
        for node in match.nodes
    ]
    kept.close()
    return found


def keys_of(nodes: list[tuple[Header, bytes]]) -> list[Key]:
    return [header.key for header, _ in nodes]


@dataclass(slots=True)
class Clock:
    """Seconds of a clock that goes on only when told to."""

    at: float = 0.0

    def __call__(self) -> float:
        return self.at


@contextmanager
def sharing(folder: Path) -> Iterator[SharingServer]:
    """Serve a home on a thread, at a free port of loopback."""
    with SharingServer(home_of(folder), PeerAddress("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def remote_of(folder: Path, port: int, clock: Callable[[], float] | None = None, name: str = "desktop") -> Remote:
    """Return the peer of a home at a port of loopback."""
    source = PeerSource(lambda: parse_address(f"https://127.0.0.1:{port}#{name}"), PeerBook(home_of(folder).share))
    REMOTES.append(Remote(source, clock) if clock else Remote(source))
    return REMOTES[-1]


REMOTES = list[Remote]()  # made since the last test


@pytest.fixture(autouse=True)
def close_remotes() -> Iterator[None]:
    """Close the connections that a test left open."""
    yield
    while REMOTES:
        REMOTES.pop().cancel()


@dataclass(slots=True)
class Liar:
    """A listed peer whose every reply is what a test wants: bytes for each connection, in order, the last for all more.

    `heard` are the requests.
    """

    port: int
    replies: list[Callable[[Any], None]]
    heard: list[bytes] = field(default_factory=list)


@contextmanager
def lying(folder: Path, *replies: Callable[[Any], None], with_tls: bool = True) -> Iterator[Liar]:
    """Serve with a home's key whatever replies write to the connection, one reply a connection."""
    book = PeerBook(home_of(folder).share)
    with ExitStack() as held:
        listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        liar = Liar(listener.getsockname()[1], list(replies))
        threads = list[threading.Thread]()

        def answer(raw: socket.socket, reply: Callable[[Any], None]) -> None:
            with suppress(OSError, ValueError), raw:
                raw.settimeout(20)
                if not with_tls:
                    reply(raw)
                    return
                with book.context(book.peers(), server=True).wrap_socket(raw, server_side=True) as secure:
                    liar.heard.append(secure.recv(65536))
                    reply(secure)

        def accept() -> None:
            number = 0
            while True:
                try:
                    raw, _ = listener.accept()
                except OSError:
                    return
                reply = liar.replies[min(number, len(liar.replies) - 1)]
                number += 1
                threads.append(threading.Thread(target=answer, args=(raw, reply)))
                threads[-1].start()

        acceptor = threading.Thread(target=accept)
        acceptor.start()
        try:
            yield liar
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            acceptor.join()
            for thread in threads:
                thread.join()


def response(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return a reply as it goes over the wire."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def says(data: bytes) -> Callable[[Any], None]:
    """Return a reply that is these bytes, and then the end."""
    return lambda connection: connection.sendall(data)
