"""Connections to the page that never finish what they begin."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.http.routes import _CONNECTIONS as CONNECTIONS
from engine.http.routes import _REQUEST_S as REQUEST_S
from tests.cli.http_endpoint import Reply, Served, http_endpoint
from tests.cli.test_http_hostile import COMPLETIONS, ROUTES
from tests.demo import copied, environment
from tests.effort import PATIENCE_S

BEGUN = {
    "silent": [],
    "half a line": [b"GET / HT"],
    "half a head": [b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"],
    "a letter at a time": [b"GET / HTTP/1.1\r\n", *[b"a: b\r\n"] * 1_000],
    "another request behind": [b"GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /"],
}


LATE = {
    "a body": ("Content-Length: 9", b"{"),
    "a first chunk": ("Transfer-Encoding: chunked", b"9\r\n{"),
    "a chunk of a long size": ("Transfer-Encoding: chunked", b"f" * 15 + b"\r\n"),
    "a chunk with an extension": ("Transfer-Encoding: chunked", b"1;" + b"a" * 10_000),
    "an end": ("Transfer-Encoding: chunked", b"2\r\n{}\r\n0\r\na: b\r\n"),
}


@pytest.fixture(scope="module")
def http(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = copied(made, tmp_path_factory.mktemp("http") / "home")  # what is asked is recorded there
    with http_endpoint({**environment(home), "PKB_DAEMON": "off"}) as found:
        yield found


@pytest.fixture(scope="module")
def begun(http: Served) -> Iterator[Mapping[str, Future[Any]]]:
    """Begin all requests that never arrive at once: each waits for as long as the server does."""
    attempts: dict[str, Callable[[], Any]] = {name: partial(lifetime, http, pieces) for name, pieces in BEGUN.items()}
    attempts |= {name: partial(late, http, *parts) for name, parts in LATE.items()}
    attempts |= {"unread": partial(unread, http), "between two": partial(between_two, http)}
    with ThreadPoolExecutor(len(attempts)) as pool:
        yield {name: pool.submit(attempt) for name, attempt in attempts.items()}


def lifetime(http: Served, pieces: list[bytes]) -> float:
    """Send pieces, one each tenth of a second, and return after how many seconds the other end closes."""
    with http.connect() as end:
        return open_until_closed(end, pieces)


def open_until_closed(end: socket.socket, pieces: list[bytes]) -> float:
    began, left = time.monotonic(), list(pieces)
    end.settimeout(0.1)
    while time.monotonic() - began < PATIENCE_S:
        try:
            if left:
                end.sendall(left.pop(0))
            if end.recv(1 << 16) == b"":
                break
        except TimeoutError:
            pass
        except OSError:
            break
    return time.monotonic() - began


def late(http: Served, headers: str, sent: bytes) -> Reply:
    """Send a part of a request, and return what is answered."""
    return http.send(http.head("POST", COMPLETIONS, headers) + b"\r\n" + sent)


def unread(http: Served) -> float:
    """Read no answer, and return for how many seconds one can go on asking."""
    with http.connect() as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        end.settimeout(0.5)
        with suppress(OSError):
            for _ in range(100_000):
                end.sendall((http.head("GET", "/page.js") + b"\r\n") * 20)
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_S:
            try:
                end.sendall(b"\r\n")
            except TimeoutError:
                continue
            except OSError:
                break
        return time.monotonic() - began


def between_two(http: Served) -> bytes:
    """Wait between two requests for as long as one may take, and return what the second is answered."""
    with http.connect() as idle, http.connect() as silent:
        idle.sendall(http.head("GET", "/nothing") + b"\r\n")
        assert idle.recv(1 << 16)
        open_until_closed(silent, [])
        idle.sendall(http.head("GET", "/nothing") + b"\r\n")
        idle.settimeout(PATIENCE_S)
        return idle.recv(1 << 16)


@pytest.mark.parametrize("name", BEGUN)
def test_a_request_that_does_not_arrive_closes_its_connection(begun: Mapping[str, Future[float]], name: str) -> None:
    assert REQUEST_S <= begun[name].result() < PATIENCE_S


@pytest.mark.parametrize("name", LATE)
def test_a_body_or_chunk_that_does_not_come_is_refused_as_late(begun: Mapping[str, Future[Reply]], name: str) -> None:
    error = begun[name].result().row["error"]
    assert (begun[name].result().status, error["code"], error["next"]) == (408, 408, "the request again")


def test_an_answer_that_nobody_reads_closes_its_connection(begun: Mapping[str, Future[float]]) -> None:
    assert begun["unread"].result() < PATIENCE_S


def test_a_connection_between_two_requests_lives_longer_than_half_a_request(
    begun: Mapping[str, Future[bytes]],
) -> None:
    assert b"404" in begun["between two"].result()


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_among_half_open_connections_every_address_answers(http: Served, method: str, path: str) -> None:
    ends = [http.connect() for _ in range(3 * CONNECTIONS)]
    found = http.send(http.head(method, path.replace("{name}", "x"), "Content-Length: 0") + b"\r\n")
    assert 200 <= found.status < 500
    for end in ends:
        end.close()
