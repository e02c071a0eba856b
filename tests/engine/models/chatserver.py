"""A model server on 127.0.0.1 over real sockets: it writes what a test has it write, and its accidents are to order."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Told:
    """A reply: its status, its body and its headers."""

    body: bytes
    status: int = 200
    kind: str = EVENTS
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heard:
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class ChatServer:
    """What is told, and what was heard; all of it may be changed between requests."""

    url: str
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "tiny"}])
    pages: dict[str, Any] = field(default_factory=dict)  # other calls, by path
    write: Callable[[str], Told] = lambda user: streamed("Friday at 6pm [1]")
    heard: list[Heard] = field(default_factory=list)
    hold: threading.Event | None = None  # a completion waits for it
    left: threading.Event = field(default_factory=threading.Event)  # a client went away from a completion

    @property
    def name(self) -> str:
        """Return the setting that selects its model."""
        return f"openai:{self.url}/v1#tiny"

    @property
    def place(self) -> str:
        """Return its host and port."""
        return self.url.removeprefix("http://")

    def completions(self) -> list[Any]:
        """Return the bodies of the completions that it was asked for."""
        return [one.body for one in self.heard if one.path.endswith("/chat/completions")]


def event(**values: Any) -> bytes:
    """Return a server-sent event."""
    return b"data: " + json.dumps(values).encode() + b"\n\n"


def delta(text: str, reason: str | None = None, **more: Any) -> bytes:
    """Return an event with a piece of a completion."""
    return event(choices=[{"delta": {"content": text, **more}, "finish_reason": reason}])


def streamed(text: str, reason: str = "stop", usage: Mapping[str, Any] | None = None) -> Told:
    """Return a completion as events, word by word."""
    pieces = [delta(f"{word} ") for word in text.split(" ")]
    counted = [event(choices=[], usage=usage)] if usage else []
    return Told(b"".join([*pieces, delta("", reason), *counted, b"data: [DONE]\n\n"]))


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def do_GET(self) -> None:
        self._hear(None)
        chat = self.server.chat
        page = {"data": chat.models} if self.path == "/v1/models" else chat.pages.get(self.path)
        found = page if isinstance(page, Told) else Told(json.dumps(page).encode(), 200 if page else 404)
        self._tell(found)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._hear(body)
        chat = self.server.chat
        if self.path in chat.pages:
            self._tell(Told(json.dumps(chat.pages[self.path]).encode()))
            return
        if chat.hold:
            self.connection.settimeout(60)
            with suppress(OSError):
                if self.connection.recv(1) == b"":
                    chat.left.set()
            return
        self._tell(chat.write(body["messages"][1]["content"]))

    def _hear(self, body: Any) -> None:
        self.server.chat.heard.append(Heard(self.path, dict(self.headers), body))

    def _tell(self, told: Told) -> None:
        self.send_response(told.status)
        for name, value in ({"Content-Type": told.kind} | dict(told.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(told.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    chat: ChatServer


@contextmanager
def chatting() -> Iterator[ChatServer]:
    """Run a server with a model "tiny"."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.chat = ChatServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.chat
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
