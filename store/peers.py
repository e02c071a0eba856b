"""The machines that may share a KV cache: this one's key pair, and the certificates of the others, pinned by hand.

Each machine signs its own certificate, and trusts exactly those that were added to it: no authority, no expiry, no
redirect, no proxy. KV nodes come by HTTPS from a peer's `pkb serve --share`; their caller checks what is in the files.
"""

import re
import socket
import ssl
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.json import decode, encode

from store.errors import PkbError, UsageError
from store.home import replacing
from store.kv_files import Key
from store.remote import MOST_KEYS, RemoteCall, RemoteMiss, inflated

if TYPE_CHECKING:
    from cryptography.x509 import Name


NAME = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
_LINE = re.compile(r"pkb1:([A-Za-z0-9_-]{100,1000})")  # base64 of a certificate
_OWN, _PEERS, _PEM = "own.pem", "peers", ".pem"


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """A machine that was added by name, and its certificate (DER)."""

    name: str
    certificate: bytes

    @property
    def fingerprint(self) -> str:
        """Return a short digest of the certificate, to compare by eye."""
        digest = blake2b(self.certificate, digest_size=10, person=b"pkb peer").hexdigest()
        return "-".join(digest[at : at + 5] for at in range(0, 20, 5))


def key_line(certificate: bytes) -> str:
    """Return the public key of a machine as one line to paste."""
    return "pkb1:" + urlsafe_b64encode(certificate).rstrip(b"=").decode()


def parse_key_line(text: str) -> bytes:
    """Return the certificate of a line that `key_line` made; UsageError for anything else.

    It is signed by its own key alone, may sign no other, and is named by its key: no two machines share a name.
    """
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    invalid = (x509.InvalidVersion, x509.DuplicateExtension)
    found = _LINE.fullmatch(text.strip())
    try:
        data = urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)) if found else b""
        certificate = x509.load_der_x509_certificate(data)
        certificate.verify_directly_issued_by(certificate)
        key, extensions = certificate.public_key(), [one.value for one in certificate.extensions]
        named = _name(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None
        sound = certificate.subject == certificate.issuer == named
        sound = sound and extensions == [x509.BasicConstraints(ca=False, path_length=None)]
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, *invalid):
        sound = False
    if not sound:
        raise UsageError("this is not the key of a machine: paste the line that `pkb peer id` prints there")
    return data


def _name(public_key: bytes) -> "Name":
    """Return the subject of a certificate: OpenSSL looks for trusted ones by it, so that each must have its own."""
    from cryptography import x509

    digest = blake2b(public_key, digest_size=8, person=b"pkb name").hexdigest()
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, digest)])


class PeerBook:
    """The folder of this machine's key and of the certificates of its peers, readable by their owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def own(self) -> bytes:
        """Return the certificate of this machine, made with its key at the first call."""
        path = self._folder / _OWN
        if path.exists():
            return _certificate(path)
        from datetime import datetime

        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = Ed25519PrivateKey.generate()
        name, is_end = _name(key.public_key().public_bytes_raw()), x509.BasicConstraints(ca=False, path_length=None)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(1).add_extension(is_end, critical=True)
        # Clocks are wrong now and then, and there is nobody to renew it. The end is RFC 5280's for none.
        dated = builder.not_valid_before(datetime(2000, 1, 1)).not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        _write(path, private + dated.sign(key, None).public_bytes(Encoding.PEM))
        return _certificate(path)

    def peers(self) -> list[KnownPeer]:
        """Return all peers, by name; PkbError where the file of one is damaged."""
        paths = sorted((self._folder / _PEERS).glob(f"*{_PEM}"))
        return [KnownPeer(path.stem, _certificate(path)) for path in paths]

    def find(self, name: str) -> KnownPeer | None:
        """Return a peer by name; None if there is none."""
        path = self._path(name)
        return KnownPeer(name, _certificate(path)) if path.exists() else None

    def add(self, name: str, line: str) -> KnownPeer:
        """Add a peer by the line that `pkb peer id` prints on it; UsageError if name or key is taken or not valid."""
        path, certificate = self._path(name), parse_key_line(line)
        if certificate == self.own():
            raise UsageError("this is the key of this machine: add the one of the other", "pkb peer list")
        known = {peer.certificate: peer.name for peer in self.peers()}
        if known.get(certificate, name) != name:
            raise UsageError(f"this key was added as {known[certificate]}", "pkb peer list")
        if path.exists() and certificate not in known:
            raise UsageError(f"{name} was added with another key", f"pkb peer rm {name}")
        _write(path, ssl.DER_cert_to_PEM_cert(certificate).encode())
        return KnownPeer(name, certificate)

    def remove(self, name: str) -> None:
        """Remove a peer; UsageError if there is none of this name."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise UsageError(f"there is no peer {name}", "pkb peer list") from None

    def context(self, peers: list[KnownPeer], *, server: bool) -> ssl.SSLContext:
        """Return TLS 1.3 with this machine's key, for connections to these peers alone, or from them."""
        path = self._folder / _OWN
        if not path.exists():
            raise PkbError("this machine has no key yet", "pkb peer id")
        if path.stat().st_mode & 0o077:
            raise PkbError(f"others can read the key in {path}", f"chmod 600 {path}")
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.check_hostname = False  # the certificate is known, wherever it is
        made.verify_mode = ssl.CERT_REQUIRED
        if server:
            made.num_tickets = 0  # no session is resumed: each is checked again, so that a removed peer stays out
        made.load_cert_chain(path)
        for peer in peers:
            made.load_verify_locations(cadata=peer.certificate)
        return made

    def _path(self, name: str) -> Path:
        if not re.fullmatch(NAME, name):
            raise UsageError("the name of a peer has 1 to 32 of a-z, 0-9 and -", "pkb peer add desktop KEY")
        return self._folder / _PEERS / (name + _PEM)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path, lasting=True) as file:
        file.write(data)


def web_certificate(path: Path, names: Sequence[str]) -> Path:
    """Write a key with a certificate for host names and addresses, signed by itself; keep one that has them all."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    now, others = datetime.now(UTC), list[x509.GeneralName]()
    for one in names:
        try:
            others.append(x509.IPAddress(ip_address(one)))
        except ValueError:
            others.append(x509.DNSName(one))
    wanted = x509.SubjectAlternativeName(others)
    with suppress(PkbError, ValueError, x509.ExtensionNotFound):
        kept = x509.load_der_x509_certificate(_certificate(path))
        found = kept.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_private = path.stat().st_mode & 0o077 == 0  # else somebody may have read the key
        if is_private and found == wanted and kept.not_valid_after_utc > now + timedelta(days=30):
            return path
    # Browsers take P-256 keys and no Ed25519, and certificates of at most 825 days (CA/Browser Forum, Ballot 193).
    key, name = generate_private_key(SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "pkb")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).add_extension(wanted, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    dated = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=800))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write(path, private + dated.sign(key, SHA256()).public_bytes(Encoding.PEM))
    return path


def _certificate(path: Path) -> bytes:
    try:
        text = path.read_text("ascii")
        return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE-----") :])
    except (OSError, ValueError):
        step = "pkb doctor" if path.name == _OWN else f"pkb peer rm {path.stem}"
        raise PkbError(f"{path} does not contain a certificate", step) from None


HAVE, NODE, ROUNDED = "/kv/have", "/kv/", "/kv/5/"
MOST_BODY = MOST_KEYS * 40  # bytes of a list of keys or of sizes
_CONNECT_S, _SILENT_S = 2.0, 30.0  # after which a thread that nobody waits for any more ends
_READ = 256 << 10


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where a peer is, or listens, and the name that its certificate was added under."""

    host: str
    port: int
    name: str = ""

    def __str__(self) -> str:
        """Return it as it is typed."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(url: str) -> PeerAddress:
    """Read `https://HOST:PORT#NAME`; UsageError for anything else."""
    try:
        parts = urlsplit(url)
        address = PeerAddress(parts.hostname or "", parts.port or 0, parts.fragment)
    except ValueError:
        address = PeerAddress("", 0)
    complete = address.host and address.port and re.fullmatch(NAME, address.name)
    if not complete or url.lower() != f"https://{address}#{address.name}":
        why = "the address of a peer is like https://HOST:PORT#NAME, with the name that it was added under"
        raise UsageError(why, "pkb config set kv.remote https://192.168.1.5:8643#desktop")
    return address


class PeerSource:
    """The nodes that one peer has, as they are or rounded; each request has a connection of its own."""

    def __init__(self, address: Callable[[], PeerAddress], book: PeerBook, *, is_rounded: bool = False) -> None:
        """`address` is asked for before each connection, and may raise PkbError."""
        self._address, self._book, self._is_rounded = address, book, is_rounded

    def sizes(self, keys: Sequence[Key], call: RemoteCall) -> Sequence[int]:
        """Return the bytes of the files of nodes that the peer has, 0 for one that it has not."""
        with self.asked(call, "POST", HAVE, encode([key.hex() for key in keys])) as reply:
            if reply.status != 200 or reply.length is None or reply.length > MOST_BODY:
                raise RemoteMiss("refused")
            return decode(reply.read(MOST_BODY), type=list[int])

    def read(self, key: Key, size: int, call: RemoteCall) -> BytesIO:
        """Return a node's file, which the caller verifies."""
        file = BytesIO()
        with self.asked(call, "GET", (ROUNDED if self._is_rounded else NODE) + key.hex()) as reply:
            if reply.status == 404:
                raise RemoteMiss("absent")
            length = reply.length or 0
            if reply.status != 200 or not (0 < length <= size if self._is_rounded else length == size):
                raise RemoteMiss("refused")
            try:
                while (left := length - call.sent) and (chunk := reply.read1(min(left, _READ))):
                    file.write(chunk)
                    call.sent += len(chunk)
                    call.received = call.sent * size // length
                    call.check()
            except (OSError, HTTPException):
                call.check()
        if call.sent < length:
            raise RemoteMiss("unreachable")
        return inflated(file.getvalue(), size) if self._is_rounded else file

    @contextmanager
    def asked(self, call: RemoteCall, method: str, path: str, body: bytes | None = None) -> Iterator[HTTPResponse]:
        """Send a request; yields the reply when its headers are there. OSError, HTTPException, PkbError, RemoteMiss."""
        address = self._address()
        if (peer := self._book.find(address.name)) is None:
            raise PkbError(f"there is no peer {address.name}", "pkb peer list")
        context = self._book.context([peer], server=False)
        made = HTTPSConnection(address.host, address.port, timeout=_CONNECT_S, context=context)

        def shut() -> None:  # whoever waits for it
            if there := made.sock:
                with suppress(OSError):  # not the method of TLS, which changes what the reading thread uses
                    socket.socket.shutdown(there, socket.SHUT_RDWR)

        with closing(made):
            call.guard(shut)
            made.connect()
            if made.sock.getpeercert(binary_form=True) != peer.certificate:
                raise ConnectionRefusedError
            made.sock.settimeout(_SILENT_S)
            call.check()  # it may have been ended before there was a socket to shut
            made.request(method, path, body)
            with closing(made.getresponse()) as reply:
                yield reply
