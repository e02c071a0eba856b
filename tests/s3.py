"""An S3 server for tests of tables in an object store, as a process, and a way to it that can fail.

The server is moto's, from an environment of its own that `make test-bank` creates: its packages would hold back ours.
"""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.request import Request, urlopen
from xml.etree import ElementTree

PROGRAM = Path(__file__).parents[1] / "build" / "bank" / "bin" / "moto_server"
KEY, SECRET = "AKIATESTKEYOFPKB0001", "s3cr3tOfTheTestsOfPkbThatNoFileMayHold"
Break = Literal["close", "stall"]
_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_SIGNED = "AWS4-HMAC-SHA256 Credential=a/20240101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=a"


def environment(endpoint: str) -> dict[str, str]:
    """Return the variables by which a client finds a server, and asks nobody else for credentials."""
    return {
        "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }  # fmt: skip


class Server:
    """A running S3 server; its content is lost when it ends."""

    def __init__(self, port: int) -> None:
        self.port, self.endpoint = port, f"http://127.0.0.1:{port}"

    def request(self, path: str, method: str = "GET", content: bytes | None = None) -> bytes:
        """Send a request as an owner, whose signature the server does not look at."""
        header = {"Authorization": _SIGNED, "Content-Type": "application/octet-stream"}
        with urlopen(Request(self.endpoint + path, content, header, method=method)) as reply:
            return bytes(reply.read())

    def create(self, bucket: str, *, versioned: bool = False) -> None:
        """Create a bucket."""
        self.request(f"/{bucket}", "PUT")
        if versioned:
            told = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
            self.request(f"/{bucket}?versioning", "PUT", told)

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Return the content of every object of a bucket, by its key."""
        found, after = list[str](), ""
        while True:
            listed = ElementTree.fromstring(self.request(f"/{bucket}?list-type=2{after}"))
            found += [str(one.text) for one in listed.iter(f"{_XML}Key")]
            token = listed.find(f"{_XML}NextContinuationToken")
            if token is None:
                return {key: self.request(f"/{bucket}/{key}") for key in found}
            after = f"&continuation-token={token.text}"


@contextmanager
def serving(log: Path, **variables: str) -> Iterator[Server]:
    """Run a server for the length of a block."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [str(PROGRAM), "-H", "127.0.0.1", "-p", str(port)]
    environ: Mapping[str, str] = {**os.environ, **variables, "PYTHONWARNINGS": "ignore", "PYTHONPATH": ""}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environ)
    try:
        while True:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            assert process.poll() is None, log.read_text("utf-8")
            time.sleep(0.05)
        yield Server(port)
    finally:
        process.kill()
        process.wait()


class Way:
    """A port that leads to a server until it is told, or has seen so many writes, to break: to close, or to stall."""

    def __init__(self, server: Server, how: Break = "close") -> None:
        self._server, self._how, self._left, self.is_broken = server, how, -1, threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def break_after(self, writes: int) -> None:
        """Break once so many requests that write have come; at once with 0."""
        self._left = writes
        if not writes:
            self._break()

    def mend(self) -> None:
        """Lead to the server again."""
        self._left = -1
        self.is_broken.clear()

    def close(self) -> None:
        """End all connections."""
        self._break()
        for one in self._sockets:
            one.close()

    def _break(self) -> None:
        self.is_broken.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server.port))
                self._sockets += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(1 << 16):
                if block.startswith((b"PUT", b"POST", b"DELETE")):
                    self._left -= 1
                    if self._left == 0:
                        self._break()
                if self.is_broken.is_set():
                    if self._how == "stall":
                        continue
                    break
                target.sendall(block)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
