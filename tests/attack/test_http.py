"""Connections to the page that never finish what they begin."""

import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.http.loopback import _CONNECTIONS as CONNECTIONS
from engine.http.loopback import _REQUEST_S as REQUEST_S
from tests.cli.http_endpoint import Served, http_endpoint
from tests.cli.test_http_hostile import COMPLETIONS, ROUTES
from tests.demo import environment
from tests.effort import PATIENCE_S

BEGUN = {
    "silent": [],
    "half a line": [b"GET / HT"],
    "half a head": [b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"],
    "a letter at a time": [b"GET / HTTP/1.1\r\n", *[b"a: b\r\n"] * 1_000],
    "another request behind": [b"GET /page.js HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /"],
}


@pytest.fixture(scope="module")
def http(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("http") / "home"
    shutil.copytree(made, home)  # what is asked is recorded there
    with http_endpoint({**environment(home), "PKB_DAEMON": "off"}) as found:
        yield found


def open_until_closed(end: socket.socket, pieces: list[bytes]) -> float:
    """Send pieces, one each tenth of a second, and return after how many seconds the other end closes."""
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


@pytest.mark.parametrize("pieces", BEGUN.values(), ids=BEGUN)
def test_a_request_that_does_not_arrive_closes_its_connection(http: Served, pieces: list[bytes]) -> None:
    with http.connect() as end:
        assert REQUEST_S <= open_until_closed(end, pieces) < PATIENCE_S


def test_a_body_that_does_not_arrive_is_refused_as_late(http: Served) -> None:
    for headers, begun in (("Content-Length: 9", b"{"), ("Transfer-Encoding: chunked", b"9\r\n{")):
        found = http.send(http.head("POST", COMPLETIONS, headers) + b"\r\n" + begun)
        assert (found.status, found.row["error"]["code"], found.row["error"]["next"]) == (408, 408, "the request again")


def test_a_chunk_of_any_size_that_does_not_come_is_refused_as_late(http: Served) -> None:
    for begun in (b"f" * 15 + b"\r\n", b"1;" + b"a" * 10_000, b"2\r\n{}\r\n0\r\na: b\r\n"):
        found = http.send(http.head("POST", COMPLETIONS, "Transfer-Encoding: chunked") + b"\r\n" + begun)
        assert found.status == 408


def test_an_answer_that_nobody_reads_closes_its_connection(http: Served) -> None:
    with http.connect() as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        end.settimeout(0.5)
        with suppress(OSError):
            for _ in range(100_000):
                end.sendall((http.head("GET", "/page.js") + b"\r\n") * 20)
        closed = time.monotonic() + PATIENCE_S
        while time.monotonic() < closed:
            try:
                end.sendall(b"\r\n")
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() < closed


def test_a_connection_between_two_requests_lives_longer_than_half_a_request(http: Served) -> None:
    with http.connect() as idle, http.connect() as silent:
        idle.sendall(http.head("GET", "/nothing") + b"\r\n")
        assert idle.recv(1 << 16)
        open_until_closed(silent, [])
        idle.sendall(http.head("GET", "/nothing") + b"\r\n")
        idle.settimeout(PATIENCE_S)
        assert b"404" in idle.recv(1 << 16)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_among_half_open_connections_every_address_answers(http: Served, method: str, path: str) -> None:
    ends = [http.connect() for _ in range(3 * CONNECTIONS)]
    found = http.send(http.head(method, path.replace("{name}", "x"), "Content-Length: 0") + b"\r\n")
    assert 200 <= found.status < 500
    for end in ends:
        end.close()
