"""Mail servers for tests: a small one that can misbehave, and Dovecot; a proxy that cuts connections; certificates."""

import base64
import grp
import imaplib
import os
import pwd
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.effort import PATIENCE_S

PASSWORD = "s3cret pässword"
Reply = Callable[[bytes], bytes | None]  # to a command, instead of the usual one


def message(number: int, text: str = "") -> bytes:
    """Return a message that differs from every other in all that pkb indexes."""
    body = text or f"The key number {number} is under the pot number {number}."
    head = f"From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: note {number}\r\nMessage-ID: <{number}@x>"
    return f"{head}\r\nDate: Fri, 3 May 2024 10:{number % 60:02}:00 +0000\r\n\r\n{body}\r\n".encode()


def certify(folder: Path, name: str = "localhost") -> Path:
    """Make a key and a certificate that it signed itself; returns the file of the certificate, beside key.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    certificate = folder / "certificate.pem"
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    return certificate


class SmallServer:
    """A mail server with one folder, INBOX; `reply` may answer any command otherwise. Counts logins."""

    def __init__(self, folder: Path, reply: Reply = lambda _: None) -> None:
        self.messages: dict[int, tuple[bytes, str]] = {}
        self.validity, self.logins, self.reply = 1, list[str](), reply
        self.certificate = certify(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, folder / "key.pem")
        self._context, self._listener = context, socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections, and wait for the one there is."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE_S)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                with suppress(OSError), plain, self._context.wrap_socket(plain, server_side=True) as secure:
                    secure.settimeout(PATIENCE_S)
                    self._serve(secure)

    def _serve(self, secure: ssl.SSLSocket) -> None:
        greeting = self.reply(b"greeting")
        secure.sendall(b"* OK ready\r\n" if greeting is None else greeting)
        with secure.makefile("rb") as lines:
            for text in lines:
                tag, _, command = text.strip().partition(b" ")
                own = self.reply(command)
                if own is not None:
                    secure.sendall(own.replace(b"TAG", tag))
                    continue
                if command.startswith(b"AUTHENTICATE"):
                    secure.sendall(b"+ \r\n")
                    given = base64.b64decode(lines.readline()).decode().split("\0")[-1]
                    self.logins.append(given)
                    secure.sendall(tag + (b" OK in\r\n" if given == PASSWORD else b" NO [AUTHENTICATIONFAILED] no\r\n"))
                    continue
                secure.sendall(b"".join(self._answers(command)) + tag + b" OK done\r\n")
                if command == b"LOGOUT":
                    return

    def _answers(self, command: bytes) -> Iterator[bytes]:
        if command == b"CAPABILITY":
            yield b"* CAPABILITY IMAP4rev1 AUTH=PLAIN\r\n"
        elif command.startswith(b"LIST"):
            yield b'* LIST (\\HasNoChildren) "/" INBOX\r\n'
        elif command.startswith(b"EXAMINE"):
            yield b"* %d EXISTS\r\n* OK [UIDVALIDITY %d] valid\r\n" % (len(self.messages), self.validity)
        elif command.startswith(b"FETCH"):
            first, last = map(int, command.split()[1].split(b":"))
            for number, (uid, (raw, flags)) in enumerate(sorted(self.messages.items()), 1):
                if first <= number <= last:
                    about = (number, uid, len(raw), flags.encode())
                    yield b"* %d FETCH (UID %d RFC822.SIZE %d FLAGS (%s))\r\n" % about
        elif command.startswith(b"UID FETCH"):
            for uid in map(int, command.split()[2].split(b",")):
                raw, _ = self.messages[uid]
                yield b"* %d FETCH (UID %d BODY[] {%d}\r\n%s)\r\n" % (uid, uid, len(raw), raw)
        elif command == b"LOGOUT":
            yield b"* BYE\r\n"


class Ring(ModuleType):
    """A keyring of one password, in memory."""

    def __init__(self, module: str, password: str | None) -> None:
        super().__init__("keyring")
        self.password, self._module = password, module
        self.errors = ModuleType("keyring.errors")
        vars(self.errors)["KeyringError"] = type("KeyringError", (Exception,), {})

    def get_password(self, _service: str, _user: str) -> str | None:
        """Return the password."""
        return self.password

    def set_password(self, _service: str, _user: str, password: str) -> None:
        """Keep another."""
        self.password = password

    def get_keyring(self) -> object:
        """Return an object of the class of a backend."""
        return type("Backend", (), {"__module__": self._module})()


def use_keyring(
    patch: pytest.MonkeyPatch, module: str = "keyring.backends.SecretService", password: str | None = PASSWORD
) -> Ring:
    """Put a keyring in place of the library, which may not be installed."""
    patch.setitem(sys.modules, "keyring", ring := Ring(module, password))
    patch.setitem(sys.modules, "keyring.errors", ring.errors)
    return ring


def write_keyring(folder: Path, password: str) -> None:
    """Write a module named keyring, for the path of a process, which has one password for all accounts."""
    (folder / "keyring").mkdir(parents=True)
    text = f"def get_password(service, user):\n    return {password!r}\n"
    (folder / "keyring" / "__init__.py").write_text(text)
    (folder / "keyring" / "errors.py").write_text("class KeyringError(Exception):\n    pass\n")


@contextmanager
def cutting(port: int, size: int) -> Iterator[int]:
    """Yield the port of a proxy that ends each connection after so many bytes from the server at `port`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def forward(source: socket.socket, target: socket.socket, left: int) -> None:
            with suppress(OSError):
                while left > 0 and (data := source.recv(min(left, 4096))):
                    left -= len(data)
                    target.sendall(data)
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    with near, socket.create_connection(("127.0.0.1", port)) as far:
                        up = threading.Thread(target=forward, args=(near, far, 1 << 40))
                        up.start()
                        forward(far, near, size)
                        up.join()

        thread = threading.Thread(target=accept)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = required
ssl_cert = <{folder}/certificate.pem
ssl_key = <{folder}/key.pem
mail_location = maildir:{folder}/mail/%u:LAYOUT=fs
maildir_copy_with_hardlinks = no
first_valid_uid = 0
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    port = {port}
    ssl = yes
  }}
}}
service anvil {{
  chroot =
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Trash {{
    special_use = \\Trash
  }}
  mailbox Junk {{
    special_use = \\Junk
  }}
  mailbox Everything {{
    special_use = \\All
  }}
}}
"""
DOVECOT_PASSWORD = "s3cret"


class Dovecot:
    """A Dovecot of one's own: its port, its certificate, and a client of it."""

    def __init__(self, folder: Path) -> None:
        # Dovecot does not serve root's mail, so root serves nobody's.
        owner = pwd.getpwnam("nobody") if os.getuid() == 0 else pwd.getpwuid(os.getuid())
        self.folder, self.certificate = folder, certify(folder)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        for name in ("run", "state", "mail"):
            (folder / name).mkdir()
        if os.getuid() == 0:
            shutil.chown(folder / "mail", owner.pw_uid, owner.pw_gid)
            folder.chmod(0o755)
        about = {
            "folder": folder,
            "port": self.port,
            "user": owner.pw_name,
            "group": grp.getgrgid(owner.pw_gid).gr_name,
        }
        text = CONFIG.format(**about, uid=owner.pw_uid, gid=owner.pw_gid, password=DOVECOT_PASSWORD)
        (folder / "dovecot.conf").write_text(text)
        self._start()

    def restart(self) -> None:
        """End it, and start it again at the same port."""
        self.close()
        self._start()

    def _start(self) -> None:
        folder = self.folder
        words = ["dovecot", "-F", "-c", str(folder / "dovecot.conf")]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, umask=0o022)
        until = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    @contextmanager
    def client(self, user: str) -> Iterator[imaplib.IMAP4_SSL]:
        """Yield a client that may write."""
        context = ssl.create_default_context(cafile=self.certificate)
        with imaplib.IMAP4_SSL("localhost", self.port, ssl_context=context) as client:
            client.login(user, DOVECOT_PASSWORD)
            yield client

    def put(
        self, user: str, messages: "dict[int, bytes] | list[bytes]", folder: str = "INBOX", flags: str = ""
    ) -> None:
        """Append messages to a folder, which is made."""
        with self.client(user) as client:
            client.create(f'"{folder}"')
            for raw in messages.values() if isinstance(messages, dict) else messages:
                assert client.append(f'"{folder}"', f"({flags})", "", raw)[0] == "OK"

    def do(self, user: str, uids: str, flags: str, folder: str = "INBOX", *, expunge: bool = False) -> None:
        """Set flags of messages, and expunge them if asked to."""
        with self.client(user) as client:
            client.select(f'"{folder}"')
            assert client.uid("STORE", uids, "FLAGS", f"({flags})")[0] == "OK"
            if expunge:
                client.expunge()

    def flags(self, user: str, folder: str = "INBOX") -> list[str]:
        """Return the flags of each message."""
        with self.client(user) as client:
            client.select(f'"{folder}"', readonly=True)
            found = client.fetch("1:*", "(FLAGS)")[1]
        return [re.findall(r"FLAGS \((.*?)\)", one.decode())[0] for one in found if isinstance(one, bytes)]


@contextmanager
def dovecot() -> Iterator[Dovecot]:
    """Run Dovecot; the test is skipped where it is not installed."""
    if shutil.which("dovecot") is None:
        pytest.skip("Dovecot is not installed")
    with tempfile.TemporaryDirectory(prefix="pkb-dovecot-") as folder:  # its sockets need a short path
        server = Dovecot(Path(folder))
        try:
            yield server
        finally:
            server.close()
