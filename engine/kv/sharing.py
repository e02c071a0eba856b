"""`pkb serve --share`: the KV nodes of this machine for its peers, over TLS with certificates pinned on both sides.

A stranger is refused by the handshake, before any HTTP. Everything is read, nothing written: neither rows nor files.
Each connection has a thread and a timeout, so a silent client delays no other.
"""

import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from socketserver import TCPServer, ThreadingMixIn
from sqlite3 import Error as DatabaseError
from typing import Annotated, Any, BinaryIO

from msgspec import Meta
from msgspec.json import decode, encode

from engine.settings import Settings
from engine.types import Check, Checks
from store.database import Ledger, read_only
from store.errors import PkbError, UsageError
from store.home import Home, identity
from store.kv_files import KEY_BYTES, BadNode, Key, opened
from store.kv_index import KvFolder
from store.peers import HAVE, MOST_BODY, NODE, ROUNDED, PeerAddress, PeerBook, PeerSource, parse_address
from store.remote import ANSWER_S, BITS, MOST_KEYS, Remote, rounded

_CONNECTIONS = 32  # threads at a time, of peers and of strangers that have not been refused yet
_HANDSHAKE_S, _SILENT_S = 5.0, 10.0
_LONGEST_S = 900.0  # of one reply
_BLOCK = 1 << 20
_KEY = re.compile(rf"[0-9a-f]{{{2 * KEY_BYTES}}}")
_Keys = Annotated[list[Annotated[str, Meta(pattern=rf"^{_KEY.pattern}\Z")]], Meta(max_length=MOST_KEYS)]
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.%\w]+)\]|([^\[\]:/\s]+)):(\d{1,5})")


def parse_listen(text: str) -> PeerAddress:
    """Read HOST:PORT or [HOST]:PORT; UsageError for anything else."""
    found = _ADDRESS.fullmatch(text)
    if not found or int(found[3]) > 65535:
        raise UsageError(f"{text} is not HOST:PORT", "pkb serve --share 192.168.1.5:8643")
    return PeerAddress(found[1] or found[2], int(found[3]))


def parse_keys(body: bytes) -> list[Key] | None:
    """Return the keys of a JSON list of them in hex; None for anything else."""
    with suppress(ValueError, RecursionError):
        return [bytes.fromhex(one) for one in decode(body, type=_Keys)]
    return None


def size_of(nodes: KvFolder, key: Key, file: BinaryIO) -> int:
    """Return the bytes of an open file; BadNode unless its node was verified as it is now."""
    node, found = nodes.index.find(key), identity(file.fileno())
    if node is None or found is None or found != node.verified:
        raise BadNode
    return found.size


class SharingServer(ThreadingMixIn, TCPServer):
    """Serves a home to its peers until `shutdown`; peers that are added or removed count at once."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = _CONNECTIONS

    def __init__(self, home: Home, address: PeerAddress) -> None:
        """Listen; PkbError if that address cannot be used."""
        self._home, self._book = home, PeerBook(home.share)
        self._book.own()
        try:
            family, *_, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
            self.address_family = family
            super().__init__((str(where[0]), int(where[1])), BaseHTTPRequestHandler)
        except OSError as error:
            reason = (error.strerror or "it is not usable").lower()
            raise PkbError(f"cannot listen at {address}: {reason}", "pkb serve --share HOST:PORT") from None
        self.address = PeerAddress(address.host, self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, or close it where there are too many."""
        if threading.active_count() > _CONNECTIONS:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a listed peer; refuse any other."""
        request.settimeout(_HANDSHAKE_S)
        try:
            context = self._book.context(self._book.peers(), server=True)
            with context.wrap_socket(request, server_side=True) as secure:
                certificate = secure.getpeercert(binary_form=True)
                if any(certificate == peer.certificate for peer in self._book.peers()):
                    with closing(Ledger(read_only(self._home.ledger))) as ledger:
                        SharingHandler(secure, client_address, self, KvFolder(ledger, self._home.kv))
        except (OSError, ValueError, PkbError, DatabaseError):
            pass  # a stranger, or a peer that went away: there is nobody to tell

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report a bug as everywhere, without its message."""
        sys.excepthook(*sys.exc_info())


class SharingHandler(BaseHTTPRequestHandler):
    """Answers the one request of a connection."""

    server_version, sys_version = "pkb", ""
    disable_nagle_algorithm = True
    timeout = _SILENT_S

    def __init__(self, secure: Any, address: Any, server: SharingServer, nodes: KvFolder) -> None:
        self._nodes = nodes
        super().__init__(secure, address, server)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""

    def do_POST(self) -> None:
        """Tell the sizes of nodes, 0 for one that is not there."""
        length = self.headers.get("Content-Length", "")
        is_sound = length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= MOST_BODY
        if self.path != HAVE or not is_sound:
            self._begin(404 if self.path != HAVE else 413)
        elif (keys := parse_keys(self.rfile.read(int(length)))) is None:
            self._begin(400)
        else:
            sizes = list[int]()
            for key in keys:
                try:
                    with opened(self._nodes.path_of(key)) as file:
                        sizes.append(size_of(self._nodes, key, file))
                except BadNode:
                    sizes.append(0)
            body = encode(sizes)
            self._begin(200, len(body), "application/json")
            self.wfile.write(body)

    def do_GET(self) -> None:
        """Send a node's file, which can be read on even if the node is evicted meanwhile, or its rounded form."""
        form = ROUNDED if self.path.startswith(ROUNDED) else NODE
        name = self.path.removeprefix(form)
        key = bytes.fromhex(name) if self.path.startswith(form) and _KEY.fullmatch(name) else b""
        try:
            with opened(self._nodes.path_of(key)) as kept:
                size, until = size_of(self._nodes, key, kept), time.monotonic() + _LONGEST_S
                data = rounded(kept) if form == ROUNDED else b""
                file, left = (BytesIO(data), len(data)) if data else (kept, size)
                self._begin(200, left, "application/octet-stream")
                while left and time.monotonic() < until and (block := file.read(min(_BLOCK, left))):
                    self.wfile.write(block)
                    left -= len(block)
        except BadNode:
            self._begin(404)

    def _begin(self, status: int, length: int = 0, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()


_PATIENT_S = 5.0  # longer than a question would wait


def doctor(home: Home, settings: Settings, environ: Mapping[str, str]) -> Checks:
    """Return the check that the place which `kv.remote` names answers, by asking it for a node that nobody has."""
    url = settings.kv.remote

    def check() -> Check:
        address, book = parse_address(url), PeerBook(home.share)
        if (known := book.find(address.name)) is None:
            what = f"kv.remote names {address.name}, which was not added"
            raise PkbError(what, f"pkb peer add {address.name} KEY")
        book.context([known], server=False)  # PkbError where its certificate or ours is damaged
        remote = Remote(PeerSource(lambda: address, book))
        remote.find([bytes(KEY_BYTES)], _PATIENT_S)
        if (latency := remote.latency) is None:
            found = f"https://{address} gives no answer: {remote.last_failure}"
            return Check("remote", "note", f"{found}; nothing is read from there", "pkb peer list")
        late = f", and a question waits {ANSWER_S * 1000:.0f} ms at most" if latency > ANSWER_S else ""
        form = f"; its KV comes in {BITS} bits" if settings.kv.remote_bits else ""
        return Check("remote", "note" if late else "ok", f"answers in {latency * 1000:.0f} ms{late}{form}")

    return {"remote": check} if url else {}


def elsewhere(home: Home, settings: Settings) -> list[str]:
    """Return where KV of what is forgotten may be, and what to type there."""
    places = {"a peer may hold KV of it (kv.remote)": bool(settings.kv.remote)}
    places["machines that share with this one may hold KV of it"] = (home.share / "peers").exists()
    return [f"{place}; type there: pkb forget" for place, is_so in places.items() if is_so]
