"""Keys of machines: made once, private, and nothing but a machine's own certificate is accepted as one."""

from base64 import urlsafe_b64encode
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from store.errors import PkbError, UsageError
from store.peers import KnownPeer, PeerBook, _name, key_line, parse_key_line


@pytest.fixture
def line(tmp_path: Path) -> str:
    return key_line(PeerBook(tmp_path / "other").own())


def test_a_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    book = PeerBook(tmp_path / "share")
    assert book.own() == PeerBook(tmp_path / "share").own()
    (path,) = (tmp_path / "share").iterdir()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    book = PeerBook(tmp_path)
    book.own()
    (tmp_path / "own.pem").chmod(0o644)
    with pytest.raises(PkbError, match="others can read"):
        book.context([], server=False)


def test_a_peer_is_added_listed_found_and_removed(tmp_path: Path, line: str) -> None:
    book = PeerBook(tmp_path / "share")
    added = book.add("desktop", line)
    assert book.add("desktop", line) == added
    assert book.peers() == [added]
    assert book.find("desktop") == added
    assert added.fingerprint == KnownPeer("", parse_key_line(line)).fingerprint
    book.remove("desktop")
    assert (book.peers(), book.find("desktop")) == ([], None)
    with pytest.raises(UsageError):
        book.remove("desktop")


def test_a_name_or_a_key_that_is_taken_is_refused(tmp_path: Path, line: str) -> None:
    book = PeerBook(tmp_path / "share")
    book.add("desktop", line)
    with pytest.raises(UsageError, match="was added as desktop"):
        book.add("server", line)
    with pytest.raises(UsageError, match="another key"):
        book.add("desktop", key_line(PeerBook(tmp_path / "third").own()))
    with pytest.raises(UsageError, match="of this machine"):
        book.add("me", key_line(book.own()))


@pytest.mark.parametrize("name", ["", "A", "a b", "../own", "a/b", "-a", "a-", "a" * 33, "ä", "a\n"])
def test_a_name_that_is_no_file_name_everywhere_is_refused(tmp_path: Path, line: str, name: str) -> None:
    with pytest.raises(UsageError):
        PeerBook(tmp_path / "share").add(name, line)


def test_a_damaged_file_of_a_peer_is_named(tmp_path: Path, line: str) -> None:
    book = PeerBook(tmp_path / "share")
    book.add("desktop", line)
    (tmp_path / "share" / "peers" / "desktop.pem").write_text("nothing")
    with pytest.raises(PkbError, match=r"desktop\.pem"):
        book.peers()


def made(*, ca: bool = False, named: str | None = None, extra: bool = False, elliptic: bool = False) -> str:
    """Return the line of a certificate that is not as pkb makes them."""
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
    key = ec.generate_private_key(ec.SECP256R1()) if elliptic else ed25519.Ed25519PrivateKey.generate()
    public = key.public_key()
    name = _name(public.public_bytes_raw() if isinstance(public, ed25519.Ed25519PublicKey) else b"")
    if named:
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, named)])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(public).serial_number(1)
    builder = builder.not_valid_before(datetime(2000, 1, 1)).not_valid_after(datetime(9999, 12, 31))
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    if extra:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("x")]), critical=False)
    return key_line(builder.sign(key, SHA256() if elliptic else None).public_bytes(Encoding.DER))


def test_only_a_certificate_that_can_sign_no_other_and_is_named_by_its_key_is_one(tmp_path: Path) -> None:
    assert parse_key_line(made())
    for line in (made(ca=True), made(named="desktop"), made(extra=True), made(elliptic=True)):
        with pytest.raises(UsageError):
            parse_key_line(line)


def test_a_line_with_anything_changed_is_refused(line: str) -> None:
    for at in range(5, len(line), 7):
        for other in "Ax":
            if line[at] != other:
                with pytest.raises(UsageError):
                    parse_key_line(line[:at] + other + line[at + 1 :])


@given(st.text() | st.binary(min_size=100, max_size=400).map(lambda data: "pkb1:" + urlsafe_b64encode(data).decode()))
def test_no_line_raises_anything_but_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        parse_key_line(text)
