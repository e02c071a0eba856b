"""The machines that may share a KV cache: this one's key pair, and the certificates of the others, pinned by hand.

Each machine signs its own certificate, and trusts exactly those that were added to it: no authority, no expiry. Knows
no protocol above TLS.
"""

import re
import ssl
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import PkbError, UsageError
from store.home import replacing

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name

NAME = r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?"
_LINE = re.compile(r"pkb1:([A-Za-z0-9_-]{100,1000})")  # base64 of a certificate
_OWN, _PEERS, _PEM = "own.pem", "peers", ".pem"
_BEGIN = "-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class KnownPeer:
    """A machine that was added by name, and its certificate (DER)."""

    name: str
    certificate: bytes

    @property
    def fingerprint(self) -> str:
        """Return a short digest of the certificate, to compare by eye."""
        return fingerprint(self.certificate)


def fingerprint(certificate: bytes) -> str:
    """Return a short digest of a certificate, to compare by eye."""
    digest = blake2b(certificate, digest_size=10, person=b"pkb peer").hexdigest()
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

    found = _LINE.fullmatch(text.strip())
    try:
        data = urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4)) if found else b""
        certificate = x509.load_der_x509_certificate(data)
        certificate.verify_directly_issued_by(certificate)
        sound = _is_own_form(certificate)
    except (
        ValueError,
        TypeError,
        InvalidSignature,
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
    ):
        sound = False
    if not sound:
        raise UsageError("this is not the key of a machine: paste the line that `pkb peer id` prints there")
    return data


def _is_own_form(certificate: "Certificate") -> bool:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key, extensions = certificate.public_key(), list(certificate.extensions)
    return (
        isinstance(key, Ed25519PublicKey)
        and certificate.subject == certificate.issuer == _name(key.public_bytes_raw())
        and [one.value for one in extensions] == [x509.BasicConstraints(ca=False, path_length=None)]
    )


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
        if not path.exists():
            _write(path, _new_key())
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
        """Return TLS 1.3 with this machine's key, for connections to these peers alone, or from them.

        No session is resumed: each connection is checked anew, so that a removed peer stays out.
        """
        path = self._folder / _OWN
        if not path.exists():
            raise PkbError("this machine has no key yet", "pkb peer id")
        require_private(path)
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.check_hostname = False  # the certificate is known, wherever it is
        made.verify_mode = ssl.CERT_REQUIRED
        if server:
            made.num_tickets = 0
        made.load_cert_chain(path)
        for peer in peers:
            made.load_verify_locations(cadata=peer.certificate)
        return made

    def _path(self, name: str) -> Path:
        if not re.fullmatch(NAME, name):
            raise UsageError("the name of a peer has 1 to 32 of a-z, 0-9 and -", "pkb peer add desktop KEY")
        return self._folder / _PEERS / (name + _PEM)


def _write(path: Path, data: bytes) -> None:
    """Write a file whole and for its owner alone."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with replacing(path, lasting=True) as file:
        file.write(data)


def require_private(path: Path) -> None:
    """Raise PkbError if others can read a file."""
    if path.stat().st_mode & 0o077:
        raise PkbError(f"others can read the key in {path}", f"chmod 600 {path}")


def _new_key() -> bytes:
    """Return a new private key with its certificate, as PEM."""
    from datetime import datetime

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    name = _name(key.public_key().public_bytes_raw())
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    # Clocks are wrong now and then, and there is nobody to renew it. The end is RFC 5280's for none.
    dated = builder.not_valid_before(datetime(2000, 1, 1)).not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + dated.sign(key, None).public_bytes(Encoding.PEM)


def _certificate(path: Path) -> bytes:
    """Return the certificate in a PEM file; PkbError where there is none."""
    try:
        text = path.read_text("ascii")
        return ssl.PEM_cert_to_DER_cert(text[text.index(_BEGIN) :])
    except (OSError, ValueError):
        step = "pkb doctor" if path.name == _OWN else f"pkb peer rm {path.stem}"
        raise PkbError(f"{path} does not contain a certificate", step) from None
