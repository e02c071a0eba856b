"""KV nodes of another machine of the user's, by HTTPS from its `pkb serve --share`.

The connection is to the certificate that was added under the peer's name, wherever it is: no authority, no redirect, no
proxy. Knows the protocol; what is in the files is checked by its caller.
"""

import json
import re
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from io import BytesIO
from urllib.parse import urlsplit

from store.errors import PkbError, UsageError
from store.kv_files import Key
from store.peers import NAME, PeerBook
from store.remote import MOST_KEYS, RemoteCall, RemoteMiss

HAVE, NODE = "/kv/have", "/kv/"
MOST_BODY = MOST_KEYS * 40  # bytes of a list of keys or of sizes
_CONNECT_S, _SILENT_S = 2.0, 30.0  # after which a thread that nobody waits for any more ends
_READ = 256 << 10


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where a peer is, and the name that its certificate was added under."""

    host: str
    port: int
    name: str


def parse_address(url: str) -> PeerAddress:
    """Read `https://HOST:PORT#NAME`; UsageError for anything else."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not (host and port and re.fullmatch(NAME, parts.fragment)) or url.lower() != _url(host, port, parts.fragment):
        raise UsageError(
            "the address of a peer is like https://HOST:PORT#NAME, with the name that it was added under",
            "pkb config set kv.remote https://192.168.1.5:8643#desktop",
        )
    return PeerAddress(host, port, parts.fragment)


def _url(host: str, port: int, name: str) -> str:
    return f"https://{f'[{host}]' if ':' in host else host}:{port}#{name}"


class _Connection:
    """A connection that any thread may end, from before it is made."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._ended = False
        self.is_used = False  # once it has carried an answer
        self.http: HTTPConnection
        self._reply: HTTPResponse | None = None

    def open(self, address: PeerAddress, book: PeerBook) -> None:
        """Connect; OSError, or PkbError where the peer was removed."""
        peer = book.find(address.name)
        if peer is None:
            raise PkbError(f"there is no peer {address.name}", "pkb peer list")
        context = book.context([peer], server=False)
        raw = socket.create_connection((address.host, address.port), timeout=_CONNECT_S)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = context.wrap_socket(raw, do_handshake_on_connect=False)
        self._socket = secure  # before `_ended` is read, which `end` sets before it looks for a socket
        if self._ended:
            secure.close()
            raise ConnectionAbortedError
        secure.do_handshake()
        if secure.getpeercert(binary_form=True) != peer.certificate:
            raise ConnectionRefusedError
        secure.settimeout(_SILENT_S)
        self.http = HTTPConnection(address.host, address.port)
        self.http.sock = secure
        self.http.auto_open = 0  # it would connect without TLS

    def end(self) -> None:
        """Shut the connection, whoever waits for it."""
        self._ended = True
        if self._socket:
            with suppress(OSError):  # not the method of TLS, which changes what the reading thread uses
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def ask(self, method: str, path: str, body: bytes | None) -> HTTPResponse:
        """Send a request, and return the reply when its headers are there; OSError, HTTPException."""
        self.http.request(method, path, body)
        self._reply = self.http.getresponse()
        return self._reply

    def close(self) -> None:
        """Close the socket and any unread reply; call it from the thread that uses them."""
        for part in (self._reply, self._socket):
            if part:
                part.close()


class PeerSource:
    """The nodes that one peer has."""

    def __init__(self, address: Callable[[], PeerAddress], book: PeerBook) -> None:
        """`address` is asked for before each connection, and may raise PkbError."""
        self._address, self._book = address, book
        self._idle = list[_Connection]()  # open, and used by nobody

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the bytes of the files of the first nodes of a path that the peer has."""
        body = json.dumps([key.hex() for key in keys]).encode()
        connection, reply = self._ask(call, "POST", HAVE, body)
        try:
            if reply.status != 200 or _length(reply) > MOST_BODY:
                raise RemoteMiss("refused")
            found = json.loads(reply.read(MOST_BODY))
            if not isinstance(found, list):  # of what, the caller checks
                raise RemoteMiss("refused")
        except BaseException:
            connection.close()
            raise
        self._release(connection, reply)
        return found

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a node's file, which the caller verifies."""
        connection, reply = self._ask(call, "GET", NODE + key.hex())
        try:
            file = _received(reply, size, call)
        except BaseException:
            connection.close()
            raise
        self._release(connection, reply)
        return file

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _ask(
        self, call: RemoteCall, method: str, path: str, body: bytes | None = None
    ) -> tuple[_Connection, HTTPResponse]:
        """Send a request on an idle connection, or on a new one where the peer has closed that; OSError."""
        while True:
            connection = self._connection(call)
            try:
                return connection, connection.ask(method, path, body)
            except (OSError, HTTPException):
                connection.close()
                call.check()
                if not connection.is_used:
                    raise

    def _connection(self, call: RemoteCall) -> _Connection:
        connection = _Connection()
        with suppress(IndexError):
            connection = self._idle.pop()
        try:
            call.guard(connection.end)
            if not connection.is_used:
                connection.open(self._address(), self._book)
        except BaseException:
            connection.close()
            raise
        return connection

    def _release(self, connection: _Connection, reply: HTTPResponse) -> None:
        """Have the next request use a connection, if the reply was read to its end and allows it."""
        if (reply.isclosed() or reply.length == 0) and not reply.will_close:
            reply.close()
            connection.is_used = True
            self._idle.append(connection)
        else:
            connection.close()


def _length(reply: HTTPResponse) -> int:
    """Return the Content-Length of a reply; RemoteMiss if it has none."""
    if reply.length is None:
        raise RemoteMiss("refused")
    return reply.length


def _received(reply: HTTPResponse, size: int, call: RemoteCall) -> BytesIO:
    """Return the file of a reply; RemoteMiss if it is none of this size, or breaks off."""
    if reply.status == 404:
        raise RemoteMiss("absent")
    if reply.status != 200 or _length(reply) != size:
        raise RemoteMiss("refused")
    file = BytesIO()
    try:
        while (left := size - file.tell()) and (chunk := reply.read1(min(left, _READ))):
            file.write(chunk)
            call.received += len(chunk)
            call.check()
    except (OSError, HTTPException):
        call.check()
    if file.tell() < size:
        raise RemoteMiss("unreachable")
    return file
