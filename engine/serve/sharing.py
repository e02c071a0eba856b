"""`pkb serve --share`: the KV nodes of this machine for its peers, over TLS with certificates pinned on both sides.

A stranger is refused by the handshake, before any HTTP. Everything is read, nothing written: neither rows nor files.
Connections have threads, whose sockets have timeouts: nothing that a client does not send holds up another.
"""

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import TCPServer, ThreadingMixIn
from sqlite3 import Error as DatabaseError
from typing import Any, BinaryIO

from store.database import Ledger
from store.errors import PkbError, UsageError
from store.home import Home
from store.kv_files import KEY_BYTES, SUFFIX, BadNode, Identity, Key, open_identity, opened, verify
from store.kv_index import KvIndex, open_readonly
from store.peers import PeerBook
from store.remote import MOST_KEYS
from store.remote_peer import DIGEST_BYTES, HAVE, MOST_BODY, NODE

_CONNECTIONS = 32  # at a time, of peers and of strangers that have not been refused yet
_HANDSHAKE_S, _SILENT_S, _IDLE_S = 5.0, 10.0, 90.0
_LONGEST_S = 900.0  # of one reply
_REMEMBERED = 20_000  # digests, about 3 MB
_BLOCK = 1 << 20
_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})?")
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^\[\]:/\s]+)):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class SharingAddress:
    """Where the server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it as it is typed."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen(text: str) -> SharingAddress:
    """Read HOST:PORT or [HOST]:PORT; UsageError for anything else."""
    found = _ADDRESS.fullmatch(text)
    if not found or int(found[3]) > 65535:
        raise UsageError(f"{text} is not HOST:PORT", "pkb serve --share 192.168.1.5:8643")
    return SharingAddress(found[1] or found[2], int(found[3]))


def parse_keys(body: bytes) -> list[Key] | None:
    """Return the keys of a JSON list of them in hex; None for anything else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, list) or len(found) > MOST_KEYS:
        return None
    if any(not isinstance(one, str) or not _KEY.fullmatch(one) for one in found):
        return None
    return [bytes.fromhex(one) for one in found]


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Return begin and end of the bytes that a Range header wants, all without one; None if there are none such."""
    found = _RANGE.fullmatch(text or "")
    if not found:
        return 0, size  # RFC 9110, 14.2: what is not understood is ignored
    begin, end = int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
    return (begin, end) if begin < end else None


@dataclass(frozen=True, slots=True)
class OpenNode:
    """A node's file, open and verified: it can be read on even if the node is evicted meanwhile."""

    file: BinaryIO
    size: int
    digest: str


class SharedNodes:
    """The complete nodes of a folder, for one thread."""

    def __init__(self, ledger: Ledger, folder: Path, digests: dict[Key, tuple[Identity, str]]) -> None:
        """`digests` are those computed so far, of all threads."""
        self._index, self._folder, self._digests = KvIndex(ledger), folder, digests

    def sizes(self, keys: list[Key]) -> list[int]:
        """Return the bytes of the files of the first nodes, up to the first that is not there."""
        found = list[int]()
        for key in keys:
            try:
                with opened(self._path(key)) as file:
                    found.append(self._identity(key, file).size)
            except BadNode:
                break
        return found

    @contextmanager
    def open(self, key: Key) -> Iterator[OpenNode]:
        """Open a node's file; BadNode unless it is complete and intact."""
        with opened(self._path(key)) as file:
            found = self._identity(key, file)
            known = self._digests.get(key)
            digest = known[1] if known and known[0] == found else self._digest(key, file, found)
            yield OpenNode(file, found.size, digest)

    def _path(self, key: Key) -> Path:
        return self._folder / (key.hex() + SUFFIX)

    def _identity(self, key: Key, file: BinaryIO) -> Identity:
        """Return the identity of an open file; BadNode unless its node is complete and was verified as it is now."""
        entry, found = self._index.find(key), open_identity(file)
        if entry is None or entry.state != "complete" or found is None or found != entry.verified:
            raise BadNode("missing")
        return found

    def _digest(self, key: Key, file: BinaryIO, found: Identity) -> str:
        if verify(file).key != key:
            raise BadNode("mismatch")
        file.seek(0)
        summed = blake2b(digest_size=DIGEST_BYTES)
        while block := file.read(_BLOCK):
            summed.update(block)
        digest = summed.hexdigest()
        while len(self._digests) >= _REMEMBERED:
            self._digests.pop(next(iter(self._digests)), None)
        self._digests[key] = found, digest
        return digest


class SharingServer(ThreadingMixIn, TCPServer):
    """Serves a home to its peers until `shutdown`; peers that are added or removed count at once."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = _CONNECTIONS

    def __init__(self, home: Home, address: SharingAddress) -> None:
        """Listen; PkbError where that address cannot be used."""
        self._home, self._book, self._digests = home, PeerBook(home.share), dict[Key, tuple[Identity, str]]()
        self._book.own()
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        try:
            family, *_, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
            self.address_family = family
            super().__init__((str(where[0]), int(where[1])), BaseHTTPRequestHandler)
        except OSError as error:
            reason = (error.strerror or "it is not usable").lower()
            raise PkbError(f"cannot listen at {address}: {reason}", "pkb serve --share HOST:PORT") from None
        self.address = SharingAddress(address.host, self.server_address[1])

    def is_listed(self, certificate: bytes | None) -> bool:
        """Return whether a certificate is a peer's."""
        return any(certificate == peer.certificate for peer in self._book.peers())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, or close it where there are too many."""
        if self._slots.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except RuntimeError:  # no thread can be started
                self._slots.release()
                self.shutdown_request(request)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Refuse whoever is not listed, and answer the requests of a peer."""
        request.settimeout(_HANDSHAKE_S)
        try:
            context = self._book.context(self._book.peers(), server=True)
            with context.wrap_socket(request, server_side=True) as secure:
                certificate = secure.getpeercert(binary_form=True)
                if self.is_listed(certificate):
                    with closing(open_readonly(self._home.ledger)) as ledger:
                        nodes = SharedNodes(ledger, self._home.kv, self._digests)
                        SharingHandler(secure, client_address, self, nodes, lambda: self.is_listed(certificate))
        except (OSError, ValueError, PkbError, DatabaseError):
            pass  # a stranger, or a peer that went away: there is nobody to tell

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a bug as everywhere, without its message."""
        sys.excepthook(*sys.exc_info())


class SharingHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "pkb", ""
    disable_nagle_algorithm = True
    timeout = _IDLE_S

    def __init__(
        self, secure: Any, address: Any, server: SharingServer, nodes: SharedNodes, is_listed: Callable[[], bool]
    ) -> None:
        """Answer until the client leaves; before each request it must still be listed."""
        self._nodes, self._is_listed = nodes, is_listed
        super().__init__(secure, address, server)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""

    def do_POST(self) -> None:
        """Tell the sizes of nodes."""
        length = self.headers.get("Content-Length", "")
        is_sound = length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= MOST_BODY
        if not self._may_answer() or self.path != HAVE or not is_sound:
            self._refuse(404 if self.path != HAVE else 413)
            return
        self.connection.settimeout(_SILENT_S)
        keys = parse_keys(self.rfile.read(int(length)))
        if keys is None:
            self._refuse(400)
            return
        body = json.dumps(self._nodes.sizes(keys)).encode()
        self._begin(200, len(body), "application/json")
        self.wfile.write(body)
        self.connection.settimeout(_IDLE_S)

    def do_GET(self) -> None:
        """Send a node, or a part of it."""
        name = self.path.removeprefix(NODE)
        if not self._may_answer() or not self.path.startswith(NODE) or not _KEY.fullmatch(name):
            self._refuse(404)
            return
        self.connection.settimeout(_SILENT_S)
        try:
            with self._nodes.open(bytes.fromhex(name)) as node:
                self._send(node)
        except BadNode:
            self._refuse(404)
        self.connection.settimeout(_IDLE_S)

    def _send(self, node: OpenNode) -> None:
        etag, condition = f'"{node.digest}"', self.headers.get("If-Range")
        wanted = self.headers.get("Range") if condition in (None, etag) else None
        found = parse_range(wanted, node.size)
        if found is None:
            self._begin(416, 0, "application/octet-stream", {"Content-Range": f"bytes */{node.size}"})
            return
        begin, end = found
        part = {"Content-Range": f"bytes {begin}-{end - 1}/{node.size}"} if (begin, end) != (0, node.size) else {}
        headers = {"ETag": etag, "Accept-Ranges": "bytes", **part}
        self._begin(206 if part else 200, end - begin, "application/octet-stream", headers)
        node.file.seek(begin)
        until = time.monotonic() + _LONGEST_S
        while begin < end and time.monotonic() < until and (block := node.file.read(min(_BLOCK, end - begin))):
            self.wfile.write(block)
            begin += len(block)
        self.close_connection = self.close_connection or begin < end

    def _begin(self, status: int, length: int, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, text in ({"Content-Type": kind, "Content-Length": str(length)} | (headers or {})).items():
            self.send_header(name, text)
        self.end_headers()

    def _may_answer(self) -> bool:
        """Return whether the client still is a peer; one that was removed is told nothing more."""
        listed = self._is_listed()
        # What a GET brings along is not read, and must not be taken for the next request.
        has_body = self.command == "GET" and ("Content-Length" in self.headers or "Transfer-Encoding" in self.headers)
        self.close_connection = self.close_connection or has_body or not listed
        return listed

    def _refuse(self, status: int) -> None:
        """Answer with a status alone; what else the request brought is not read."""
        self.close_connection = self.close_connection or status != 404 or self.command != "GET"
        self._begin(status, 0, "text/plain", {"Connection": "close"} if self.close_connection else None)
