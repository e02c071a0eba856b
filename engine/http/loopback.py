"""Runs the HTTP endpoint on loopback: its port, its token, its address, and the server itself."""

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import EADDRINUSE
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.http.routes import HEADERS, LOOPBACK, application, error, read_token
from store.errors import PkbError
from store.home import locate

PORT = 8642
_TOKEN = "http.token"
_WAITING = 128  # connections that are not accepted yet
_GRACE_S = 3
_CONNECTIONS = 64  # at a time
_REQUEST_S, _IDLE_S = 10, 75  # for a request to arrive, or an answer to be read; between two requests


class HttpConnection(H11Protocol):
    """A connection: closed if a request does not arrive or an answer is not read in time, or for a newer connection."""

    _since, _before = 0.0, None

    def connection_made(self, transport: Any) -> None:
        """Begin, in place of the connection that has waited longest if there are too many."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # writing is paused while anything is unread
        others = [one for one in self.connections if isinstance(one, HttpConnection) and one is not self]
        if len(others) >= _CONNECTIONS:  # those that are being answered stay
            waiting = (one for one in others if one._owes() or one.conn.their_state is not h11.DONE)
            min(waiting, key=lambda one: (not one._owes(), one._since), default=self)._drop()
        self._since = self.loop.time()
        self._look()

    def _owes(self) -> bool:
        """Return whether its client has begun a request that is not whole, or an answer is unread."""
        state, is_begun = self.conn.their_state, self.cycle is None or self.conn.trailing_data[0] != b""
        return self.flow.write_paused or state is h11.SEND_BODY or (state is h11.IDLE and is_begun)

    def _look(self) -> None:
        """Close it if its client has taken too long; else look again in a second."""
        if self.cycle is not self._before or not self._owes():
            self._since, self._before = self.loop.time(), self.cycle
        if self.loop.time() - self._since > _REQUEST_S:
            if self.cycle or self.conn.trailing_data[0]:
                self.send_400_response("the request did not arrive in time", 408)
            self._drop()
        elif self in self.connections:
            self.loop.call_later(1, self._look)

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def send_400_response(self, msg: str, status: int = 400) -> None:
        """Answer what is no request with a short error, unless its answer was begun; then close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(error(msg, "invalid_request_error", status)).encode()
            about = HEADERS | {
                "Content-Type": "application/json",
                "Content-Length": f"{len(body)}",
                "Connection": "close",
            }
            answer = h11.Response(status_code=status, headers=list(about.items())), h11.Data(body), h11.EndOfMessage()
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in answer))
        self.transport.close()


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where the endpoint is, and the token that opens it."""

    port: int
    token: str

    @property
    def api(self) -> str:
        """Return the base URL for OpenAI's clients."""
        return f"http://{LOOPBACK}:{self.port}/v1"

    @property
    def page(self) -> str:
        """Return the address of the page; browsers send nothing behind the # to any server."""
        return f"http://{LOOPBACK}:{self.port}/#token={self.token}"


def serve(environ: Mapping[str, str], port: int, ready: Callable[[HttpAddress], None], *, renew: bool = False) -> None:
    """Serve a home until a signal; `ready` is called once requests are accepted. PkbError if the port is taken."""
    home = locate(environ)
    home.data.mkdir(mode=0o700, parents=True, exist_ok=True)  # before anything is ingested, the page says what to type
    listener = _listen(port)
    endpoint = HttpAddress(listener.getsockname()[1], read_token(home.data / _TOKEN, renew=renew))
    app = application(environ, port=endpoint.port, token=endpoint.token)
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        log_config=None,  # a traceback in a log could hold mail
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=_GRACE_S,
    )
    ready(endpoint)
    uvicorn.Server(config).run(sockets=[listener])


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(_WAITING)
    except OSError as found:
        listener.close()
        why = "is in use" if found.errno == EADDRINUSE else "cannot be opened"
        raise PkbError(f"port {port} {why}", f"pkb serve --http --port {port + 1}") from None
    return listener
