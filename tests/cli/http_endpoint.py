"""The HTTP endpoint of a home in a process of its own, for tests."""

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from tests.effort import PATIENCE_S

if TYPE_CHECKING:
    from openai import OpenAI


@dataclass(frozen=True, slots=True)
class Reply:
    """A response: its status, its headers by lower-case name, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def row(self) -> Any:
        """Return the body as JSON values."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Served:
    """A running endpoint."""

    page: str
    api: str
    token: str

    @property
    def client(self) -> "OpenAI":
        """Return OpenAI's own client."""
        from openai import OpenAI  # a second, which collecting the tests would take

        return OpenAI(base_url=self.api, api_key=self.token, max_retries=0, timeout=PATIENCE_S)

    @property
    def root(self) -> str:
        """Return its address."""
        return self.api.removesuffix("/v1")

    def get(self, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Reply:
        """Ask for a path, with a body by POST; with the token, or another one."""
        given = {"Authorization": f"Bearer {self.token if token is None else token}", **headers}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, given)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as found:
                return Reply(found.status, _lower(found.headers), found.read())
        except HTTPError as found:
            with found:
                return Reply(found.code, _lower(found.headers), found.read())

    def head(self, method: str, target: str, *headers: str) -> bytes:
        """Return the head of a request with the token, without the empty line that ends it."""
        host = self.root.removeprefix("http://")
        own = [f"{method} {target} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {self.token}", *headers]
        return "".join(f"{line}\r\n" for line in own).encode("latin-1")

    def connect(self) -> socket.socket:
        """Return a connection."""
        host, _, port = self.root.removeprefix("http://").rpartition(":")
        return socket.create_connection((host, int(port)), PATIENCE_S)

    def send(self, *pieces: bytes) -> Reply:
        """Send bytes as they are, until the answer comes, and return it; the status is 0 if there is none."""
        with self.connect() as end:
            with suppress(OSError):  # closed meanwhile
                for piece in pieces:
                    end.sendall(piece)
            try:
                with closing(HTTPResponse(end)) as answer:
                    answer.begin()
                    return Reply(answer.status, _lower(answer.headers), answer.read())
            except (HTTPException, OSError):
                return Reply(0, {}, b"")


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@contextmanager
def http_endpoint(environ: Mapping[str, str], *flags: str) -> Iterator[Served]:
    """Run `pkb serve --http` on a free port, and end it as Ctrl-C does."""
    command = [sys.executable, "-m", "cli.app", "serve", "--http", "--port", "0", "--json", *flags]
    with subprocess.Popen(command, env=dict(environ), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        try:
            row = json.loads(process.stdout.readline())
            yield Served(row["page"], row["api"], row["token"])
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            assert process.stderr.read() == b""
    assert process.returncode == 143
