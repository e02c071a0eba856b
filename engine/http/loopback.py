"""Runs the HTTP endpoint on loopback: its port, its token, its address, and the server itself."""

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from errno import EADDRINUSE

import uvicorn

from engine.http.guard import LOOPBACK, read_token
from engine.http.routes import application
from store.errors import PkbError
from store.home import locate

PORT = 8642
_TOKEN = "http.token"
_WAITING = 128  # connections that are not accepted yet
_GRACE_S = 3


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
        log_config=None,  # a traceback in a log could hold mail
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
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
