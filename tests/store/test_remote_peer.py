"""KV nodes from another machine: whatever it does, the node that was wanted or a miss, within a bounded time."""

import json
import shutil
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.kv.sharing import SharingServer, parse_keys, parse_listen
from store.errors import UsageError
from store.kv_files import Header, Key, Tensor, write
from store.peers import PeerBook, PeerSource, key_line, parse_address
from store.remote import MOST_KEYS, PAUSE_S, Remote, RemoteCall, RemoteMiss, headers_of
from tests.effort import PATIENCE_S
from tests.store.kv_kit import ROOT, Kept, tensors
from tests.store.sharing import (
    PATH,
    Clock,
    close_remotes,
    home_of,
    introduce,
    keep_path,
    keys_of,
    lying,
    remote_of,
    response,
    says,
    sharing,
)

Nodes = list[tuple[Header, bytes]]
__all__ = ["close_remotes"]  # a fixture
SOON_S = 0.4  # allowed to a fetch that fails


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Nodes]:
    """Return a desktop with nodes and a laptop beside it, which know each other; to be copied."""
    folder = tmp_path_factory.mktemp("known")
    nodes = keep_path(folder / "desktop")
    introduce(folder / "desktop", folder / "laptop", "desktop", "laptop")
    return folder, nodes


@pytest.fixture
def folder(known: tuple[Path, Nodes], tmp_path: Path) -> Path:
    return Path(shutil.copytree(known[0], tmp_path / "machines", copy_function=shutil.copy2))


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Nodes]:
    """Return a desktop with nodes of its own and a laptop, which know each other."""
    nodes = keep_path(tmp_path / "desktop")
    introduce(tmp_path / "desktop", tmp_path / "laptop", "desktop", "laptop")
    return tmp_path, nodes


@pytest.fixture
def served(both: tuple[Path, Nodes]) -> Iterator[tuple[Remote, Nodes, SharingServer, Path]]:
    folder, nodes = both
    with sharing(folder / "desktop") as server:
        remote = remote_of(folder / "laptop", server.address.port)
        yield remote, nodes, server, folder
        remote.cancel()


Served = tuple[Remote, Nodes, SharingServer, Path]


def why(work: Callable[[], object]) -> str:
    with pytest.raises(RemoteMiss) as caught:
        work()
    return str(caught.value)


def test_a_path_is_found_in_one_request_and_its_nodes_come_equal_byte_for_byte(served: Served) -> None:
    remote, nodes, *_ = served
    sizes = remote.find(keys_of(nodes), PATIENCE_S)
    assert list(sizes) == [len(data) for _, data in nodes]
    for (header, data), size in zip(nodes, sizes, strict=True):
        fetched = remote.fetch(header, size, PATIENCE_S)
        assert fetched.file.getvalue() == data
        assert [
            one.buffer == other.buffer for one, other in zip(fetched.tensors, tensors(4096, header.ids), strict=True)
        ]
    assert (remote.latency or 0) > 0 < (remote.rate or 0)


def test_the_headers_of_a_path_are_those_of_its_nodes(both: tuple[Path, Nodes]) -> None:
    assert headers_of(ROOT, PATH) == [header for header, _ in both[1]]


def test_a_fetched_node_is_written_again_as_the_same_file(served: Served, tmp_path: Path) -> None:
    remote, [(header, data), *_], *_ = served
    fetched = remote.fetch(header, len(data), PATIENCE_S)
    write(tmp_path / "again.safetensors", header, fetched.tensors)
    assert (tmp_path / "again.safetensors").read_bytes() == data


def test_a_node_that_is_not_there_has_no_bytes(served: Served) -> None:
    remote, nodes, *_ = served
    first, _, third = keys_of(nodes)
    sizes = [len(data) for _, data in nodes]
    assert remote.find([first, b"x" * 16, third], PATIENCE_S) == (sizes[0], 0, sizes[2])
    assert remote.find([], PATIENCE_S) == ()


def test_a_node_that_was_evicted_is_absent_and_the_peer_is_asked_again(served: Served) -> None:
    remote, nodes, _, folder = served
    header, data = nodes[-1]
    kept = Kept(folder / "desktop")
    kept.store.folder.remove([header.key])
    kept.close()
    assert why(lambda: remote.fetch(header, len(data), PATIENCE_S)) == "absent"
    assert list(map(bool, remote.find(keys_of(nodes), PATIENCE_S))) == [True, True, False]


def test_a_node_that_is_evicted_while_it_is_read_comes_whole(tmp_path: Path) -> None:
    nodes = keep_path(tmp_path / "desktop", size=32 << 20)
    introduce(tmp_path / "desktop", tmp_path / "laptop", "desktop", "laptop")
    with sharing(tmp_path / "desktop") as server:
        header, data = nodes[-1]
        source = PeerSource(
            lambda: parse_address(f"https://127.0.0.1:{server.address.port}#desktop"),
            PeerBook(home_of(tmp_path / "laptop").share),
        )
        with source.asked(RemoteCall(), "GET", f"/kv/{header.key.hex()}") as reply:
            begun = reply.read(1000)
            kept = Kept(tmp_path / "desktop")
            kept.store.folder.remove([header.key])
            kept.close()
            assert begun + reply.read() == data


def test_a_file_that_was_changed_since_it_was_verified_is_not_offered(served: Served) -> None:
    remote, nodes, _, folder = served
    header, data = nodes[-1]
    assert remote.fetch(header, len(data), PATIENCE_S)
    path = folder / "desktop" / "cache" / "kv" / f"{header.key.hex()}.safetensors"
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert why(lambda: remote.fetch(header, len(data), PATIENCE_S)) == "absent"
    assert list(map(bool, remote.find(keys_of(nodes), PATIENCE_S))) == [True, True, False]


def test_the_server_writes_nothing(served: Served) -> None:
    remote, nodes, _, folder = served

    def state() -> dict[str, tuple[int, int]]:
        found = [path for path in (folder / "desktop").rglob("*") if path.is_file() and path.stat().st_size]
        found = [path for path in found if not path.name.endswith("-shm")]  # SQLite's list of who reads
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    before = state()
    for header, data in nodes:
        remote.find(keys_of(nodes), PATIENCE_S)
        remote.fetch(header, len(data), PATIENCE_S)
    assert state() == before


def told(folder: Path, port: int) -> bytes:
    """Ask with a home's own key and no check of the server's; returns what comes, nothing where the server refuses."""
    book = PeerBook(home_of(folder).share)
    book.own()
    context = book.context([], server=False)
    context.verify_mode = ssl.CERT_NONE
    with (
        suppress(OSError),
        context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) as secure,
    ):
        secure.sendall(b"POST /kv/have HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n[]")
        return bytes(secure.recv(4))
    return b""


def test_a_client_that_was_not_added_is_refused_before_it_can_ask(served: Served, tmp_path: Path) -> None:
    _, _, server, folder = served
    assert told(folder / "laptop", server.address.port) == b"HTTP"
    assert told(tmp_path / "stranger", server.address.port) == b""


def test_a_client_without_a_certificate_or_without_tls_is_refused(served: Served) -> None:
    port = served[2].address.port
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        suppress(OSError),
        context.wrap_socket(socket.create_connection(("127.0.0.1", port), PATIENCE_S)) as secure,
    ):
        assert secure.recv(1) == b""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        plain.sendall(b"GET /kv/have HTTP/1.1\r\nHost: x\r\n\r\n")
        with suppress(ConnectionResetError):
            assert not plain.recv(100).startswith(b"HTTP")


def test_older_tls_is_refused(served: Served) -> None:
    _, _, server, folder = served
    book = PeerBook(home_of(folder / "laptop").share)
    context = book.context(book.peers(), server=False)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError, match=r"(?i)version|reset|pipe|eof"):
        context.wrap_socket(socket.create_connection(("127.0.0.1", server.address.port), PATIENCE_S))


def test_a_peer_that_is_removed_is_told_nothing_more(served: Served) -> None:
    remote, nodes, _, folder = served
    assert remote.find(keys_of(nodes), PATIENCE_S)
    PeerBook(home_of(folder / "desktop").share).remove("laptop")
    assert remote.find(keys_of(nodes), PATIENCE_S) == ()


def test_a_server_with_another_certificate_is_refused(both: tuple[Path, Nodes], tmp_path: Path) -> None:
    folder, nodes = both
    introduce(folder / "laptop", tmp_path / "impostor", "laptop", "impostor")
    keep_path(tmp_path / "impostor")
    with sharing(tmp_path / "impostor") as server:
        remote = remote_of(folder / "laptop", server.address.port)
        assert remote.find(keys_of(nodes), PATIENCE_S) == ()
        assert remote.last_failure == "unreachable"
        assert remote_of(folder / "laptop", server.address.port, name="impostor").find(keys_of(nodes), PATIENCE_S)


def test_after_a_failure_a_peer_is_left_alone_for_a_while(both: tuple[Path, Nodes]) -> None:
    folder, nodes = both
    clock = Clock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    remote = remote_of(folder / "laptop", port, clock)
    assert remote.find(keys_of(nodes), PATIENCE_S) == ()
    assert not remote.is_available
    assert why(lambda: remote.fetch(nodes[0][0], 1, PATIENCE_S)) == "unreachable"
    clock.at = PAUSE_S - 1
    assert remote.find(keys_of(nodes), PATIENCE_S) == ()
    clock.at = PAUSE_S
    assert remote.is_available
    assert remote.find(keys_of(nodes), PATIENCE_S) == ()
    assert not remote.is_available


def test_a_peer_that_accepts_and_never_answers_costs_the_time_allowed(both: tuple[Path, Nodes]) -> None:
    folder, nodes = both

    def listen(connection: Any) -> None:
        while connection.recv(1 << 16):
            pass

    for with_tls in (True, False):
        with lying(folder / "desktop", listen, with_tls=with_tls) as liar:
            remote = remote_of(folder / "laptop", liar.port)
            begun = time.monotonic()
            assert remote.find(keys_of(nodes)) == ()
            assert time.monotonic() - begun >= 0.3
            assert remote.last_failure == "late"
            assert remote.find(keys_of(nodes)) == ()
            remote.cancel()


def test_a_fetch_that_is_cancelled_ends_at_once_and_so_do_later_ones_until_the_next_path(
    both: tuple[Path, Nodes],
) -> None:
    folder, nodes = both
    header, data = nodes[0]
    begun = threading.Event()

    def half(connection: Any) -> None:
        connection.sendall(response(data[:100], length=len(data)))
        begun.set()
        connection.recv(1)

    with lying(folder / "desktop", half, says(response(json.dumps([len(data)]).encode()))) as liar:
        remote = remote_of(folder / "laptop", liar.port)

        def cancel() -> None:
            begun.wait(PATIENCE_S)
            remote.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        assert why(lambda: remote.fetch(header, len(data), PATIENCE_S)) == "cancelled"
        canceller.join()
        assert why(lambda: remote.fetch(header, len(data), PATIENCE_S)) == "cancelled"
        assert remote.find([header.key], PATIENCE_S) == (len(data),)
        assert remote.is_available


class Paced:
    """A source whose files come at so many bytes a second of a clock."""

    def __init__(self, nodes: Nodes, clock: Clock) -> None:
        self._files, self._clock, self.pace = {header.key: data for header, data in nodes}, clock, 1.0

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the sizes of all."""
        return [len(self._files[key]) for key in keys]

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a file after its time."""
        call.received, self._clock.at = size, self._clock.at + size / self.pace
        return BytesIO(self._files[key])


@pytest.mark.parametrize(("before", "after"), [(1e9, 1e6), (1e6, 1e9)])
def test_the_rate_of_a_link_is_the_recent_one_and_expires(
    known: tuple[Path, Nodes], before: float, after: float
) -> None:
    (header, data), clock = known[1][0], Clock()
    source = Paced(known[1], clock)
    remote = Remote(source, clock)
    for pace, count in ((before, 100), (after, 8)):
        source.pace = pace
        for _ in range(count):
            remote.fetch(header, len(data), PATIENCE_S)
    assert remote.rate == pytest.approx(after)
    clock.at += 3600
    assert remote.rate is None


def test_a_download_that_breaks_off_is_a_miss(both: tuple[Path, Nodes]) -> None:
    folder, nodes = both
    header, data = nodes[0]
    with lying(folder / "desktop", says(response(data[:100], length=len(data)))) as liar:
        remote = remote_of(folder / "laptop", liar.port)
        assert why(lambda: remote.fetch(header, len(data), PATIENCE_S)) == "unreachable"
        assert len(liar.heard) == 1


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def other_tensors(header: Header, folder: Path) -> bytes:
    """Return a file with the right header and tensors of another node's content, its checksums right for them."""
    write(folder / "other.safetensors", header, [Tensor(t.name, t.dtype, (1,), t.buffer[:4]) for t in tensors(4096)])
    return (folder / "other.safetensors").read_bytes()


LIES: dict[str, Callable[[Nodes], tuple[bytes, int]]] = {
    "a payload of one other bit": lambda nodes: whole(flipped(nodes[0][1], -1)),
    "a header of one other bit": lambda nodes: whole(flipped(nodes[0][1], 40)),
    "another node": lambda nodes: whole(nodes[1][1]),
    "a garbage header": lambda nodes: whole(b"\xff" * 2000),
    "a node cut short": lambda nodes: whole(nodes[0][1][:-1]),
    "nothing": lambda nodes: (response(b""), len(nodes[0][1])),
    "another size than was told": lambda nodes: (response(nodes[0][1]), len(nodes[0][1]) + 8),
    "a huge length": lambda nodes: (response(nodes[0][1], length=1 << 60), len(nodes[0][1])),
    "a negative length": lambda nodes: (response(nodes[0][1], length=-5), len(nodes[0][1])),
    "a redirect": lambda nodes: (
        response(b"", "Location: https://127.0.0.1:9/", status="302 Found"),
        len(nodes[0][1]),
    ),
    "no http": lambda nodes: (b"\0" * 5000, len(nodes[0][1])),
    "a header line without end": lambda nodes: (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, len(nodes[0][1])),
    "too many headers": lambda nodes: (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000, len(nodes[0][1])),
    "chunks": lambda nodes: (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n" + nodes[0][1],
        len(nodes[0][1]),
    ),
}


def whole(data: bytes) -> tuple[bytes, int]:
    """Return a reply without a fault of its own, and its size."""
    return response(data), len(data)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_a_miss(both: tuple[Path, Nodes], lie: str) -> None:
    folder, nodes = both
    reply, size = LIES[lie](nodes)
    with lying(folder / "desktop", says(reply)) as liar:
        remote = remote_of(folder / "laptop", liar.port)
        assert why(lambda: remote.fetch(nodes[0][0], size, PATIENCE_S)) in ("damaged", "refused", "unreachable")
        assert not remote.is_available


@pytest.mark.parametrize("step", [b"x", b"X-Slow: y\r\n"], ids=["a byte", "a header"])
def test_a_peer_that_never_ends_costs_the_time_allowed(both: tuple[Path, Nodes], step: bytes) -> None:
    folder, nodes = both
    header, data = nodes[0]

    def drip(connection: Any) -> None:
        connection.sendall(response(b"", length=len(data)) if step == b"x" else b"HTTP/1.1 200 OK\r\n")
        for _ in range(2000):
            connection.sendall(step)
            time.sleep(0.01)

    with lying(folder / "desktop", drip) as liar:
        remote = remote_of(folder / "laptop", liar.port)
        begun = time.monotonic()
        assert why(lambda: remote.fetch(header, len(data), SOON_S)) == "late"
        assert time.monotonic() - begun < PATIENCE_S / 10


@pytest.mark.parametrize(
    "body",
    [b"", b"[", b"{}", b"[true]", b"[-1]", b"[1.5]", b'["1"]', b"[1,2,3,4]", b"[" * 50_000, b"\xff", b"[1e99]",
     b"[99999999999999]", b"null"],
)  # fmt: skip
def test_sizes_that_cannot_be_are_no_answer(both: tuple[Path, Nodes], body: bytes) -> None:
    folder, nodes = both
    with lying(folder / "desktop", says(response(body))) as liar:
        remote = remote_of(folder / "laptop", liar.port)
        assert (remote.find(keys_of(nodes), PATIENCE_S), remote.last_failure) == ((), "refused")


def ask(served: Served, request: bytes) -> bytes:
    """Send a request as a listed peer; returns what comes until the server closes."""
    _, _, server, folder = served
    book = PeerBook(home_of(folder / "laptop").share)
    raw = socket.create_connection(("127.0.0.1", server.address.port), PATIENCE_S)
    with book.context(book.peers(), server=False).wrap_socket(raw) as secure:
        secure.sendall(request)
        data = b""
        with suppress(OSError):
            while more := secure.recv(1 << 16):
                data += more
    return data


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", *headers, "", ""]).encode() + body


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/", 404), ("GET", "/kv/", 404), ("GET", "/kv/../ledger.db", 404), ("GET", "/kv/" + "0" * 32, 404),
        ("GET", "/kv/" + "0" * 33, 404), ("GET", "/kv/%2e%2e%2fledger.db", 404), ("GET", "/share/own.pem", 404),
        ("GET", "/kv//etc/passwd", 404), ("POST", "/kv/x", 404), ("POST", "/kv/have", 413), ("DELETE", "/kv/x", 501),
    ],
)  # fmt: skip
def test_nothing_but_nodes_is_served(served: Served, method: str, path: str, expected: int) -> None:
    assert status(ask(served, request(method, path))) == expected


@pytest.mark.parametrize("length", ["-1", "1e3", "99999999999", "x", "٣"])
def test_a_body_of_no_sound_length_is_not_read(served: Served, length: str) -> None:
    head = f"POST /kv/have HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
    assert status(ask(served, head)) == 413


def test_what_a_get_brings_along_is_not_taken_for_another_request(served: Served) -> None:
    inner = request("GET", "/kv/" + served[1][0][0].key.hex())
    smuggled = f"GET /kv/x HTTP/1.1\r\nHost: x\r\nContent-Length: {len(inner)}\r\n\r\n".encode() + inner
    assert ask(served, smuggled).count(b"HTTP/1.0 ") == 1


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_no_body_raises_in_the_server(body: bytes) -> None:
    found = parse_keys(body)
    assert found is None or all(len(key) == 16 for key in found)


@given(st.lists(st.binary(min_size=16, max_size=16), max_size=5))
def test_every_list_of_keys_is_understood(keys: list[bytes]) -> None:
    assert parse_keys(json.dumps([key.hex() for key in keys]).encode()) == keys


def test_a_list_of_too_many_keys_is_refused() -> None:
    assert parse_keys(json.dumps(["0" * 32] * (MOST_KEYS + 1)).encode()) is None


@given(st.text())
def test_no_address_raises_anything_but_a_usage_error(text: str) -> None:
    for parse in (parse_address, parse_listen):
        with suppress(UsageError):
            assert parse(text)


@pytest.mark.parametrize("url", ["https://a:1#b", "https://[::1]:8643#desktop", "https://10.0.0.2:8643#my-desktop"])
def test_an_address_of_a_peer_is_understood(url: str) -> None:
    address = parse_address(url)
    host = f"[{address.host}]" if ":" in address.host else address.host
    assert url == f"https://{host}:{address.port}#{address.name}"


@pytest.mark.parametrize(
    "url", ["https://a#b", "https://a:1", "http://a:1#b", "https://a:1/x#b", "https://u@a:1#b", "https://a:1?q#b",
            "https://a:99999#b", "https://a:1#B"]
)  # fmt: skip
def test_what_is_no_address_of_a_peer_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        parse_address(url)


@given(data=st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_that_a_peer_answers_raise_anything_but_a_miss(known: tuple[Path, Nodes], data: bytes) -> None:
    folder, nodes = known
    with lying(folder / "desktop", says(data)) as liar:
        remote = remote_of(folder / "laptop", liar.port)
        assert remote.find(keys_of(nodes), PATIENCE_S) == ()
        with pytest.raises(RemoteMiss):
            remote_of(folder / "laptop", liar.port).fetch(nodes[0][0], len(nodes[0][1]), PATIENCE_S)


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_changed_byte_of_an_answer_gives_another_node(known: tuple[Path, Nodes], data: st.DataObject) -> None:
    folder, nodes = known
    header, file = nodes[0]
    reply = bytearray(response(file))
    at = data.draw(st.integers(0, len(reply) - 1))
    reply[at] ^= data.draw(st.integers(1, 255))
    with lying(folder / "desktop", says(bytes(reply))) as liar:
        remote = remote_of(folder / "laptop", liar.port)
        with suppress(RemoteMiss):
            assert remote.fetch(header, len(file), PATIENCE_S).file.getvalue() == file


def test_a_key_line_is_read_back(tmp_path: Path) -> None:
    own = PeerBook(tmp_path / "a").own()
    assert PeerBook(tmp_path / "b").add("a", f"  {key_line(own)}\n").certificate == own
    assert PeerBook(tmp_path / "a").own() == own


def test_strangers_that_say_nothing_keep_nobody_out_for_long(served: Served) -> None:
    remote, nodes, server, folder = served
    where = ("127.0.0.1", server.address.port)
    silent = [socket.create_connection(where, PATIENCE_S) for _ in range(40)]
    remote.find(keys_of(nodes))  # an answer or none, within its time
    for one in silent:
        one.close()
    until = time.monotonic() + PATIENCE_S
    while not remote_of(folder / "laptop", server.address.port).find(keys_of(nodes), PATIENCE_S):
        assert time.monotonic() < until


def test_no_proxy_of_the_environment_is_used(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    remote, nodes, *_ = served
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert remote.find(keys_of(nodes), PATIENCE_S)
