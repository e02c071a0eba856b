"""The routes of the HTTP endpoint: chat completions, search, lists, documents, statistics, and the page's files.

The server listens on loopback, or at another address under TLS; only requests to names that were allowed, from its own
page or no page at all, with the token, are answered. Each request opens the home in a thread of its own and leaves the
work to the background server, whose queue it shares with all other clients. When a client goes away, its question is
cancelled.
"""

import asyncio
import json
import re
import secrets
import socket
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EADDRINUSE
from functools import partial
from importlib.resources import files
from ipaddress import IPv4Address, IPv6Address, ip_address
from os import strerror
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import h11
import uvicorn
from msgspec import Meta
from msgspec.structs import asdict
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.app import Pkb
from engine.http import completions
from engine.http.completions import LONGEST_BODY, Environ, complete, error, failure, json_response, read_json
from engine.serve.client import ReadAhead
from engine.text.terminal import line
from engine.types import SCHEMA, Filters, ListOptions
from store.database import FAILURES
from store.errors import PkbError, UsageError
from store.history import latest
from store.home import locate, replacing
from store.peers import web_certificate
from store.readers import UserBook


class Params(Filters, frozen=True):
    """What a request gives in its address or its body."""

    q: str = ""
    k: Annotated[int, Meta(ge=1, le=50)] = 10
    limit: Annotated[int, Meta(ge=0, le=1000)] = 20
    title: str = ""
    oldest: bool = False
    name: str = ""
    path: str = ""
    message_id: str | None = None
    question: str | None = None


def application(
    environ: Environ, *, port: int, token: str, names: Sequence[str] = (), record: bool = False, opens: bool = False
) -> "RequestGuard":
    """Return the ASGI application of a home, reached on loopback or by some names of this machine.

    With `record` the questions of all clients are the user's, else those of the page; with `opens` the page can have
    files opened here. The token of a user is answered from the home of that user.
    """
    ahead = defaultdict[str, ReadAhead](ReadAhead)  # of each home one: it holds a question
    calls: dict[tuple[str, str], Callable[[Pkb, Params], Any]] = {
        ("GET", "search"): _search,
        ("GET", "list"): lambda pkb, params: asdict(
            pkb.list_documents(ListOptions(pkb.scope(params), tuple(params.title.split()), params.limit, params.oldest))
        ),
        ("GET", "show"): _show,
        ("GET", "todo"): lambda pkb, params: {"items": pkb.open_loops(params, params.limit or None).items},
        ("GET", "people"): lambda pkb, params: {"people": pkb.people(params.name, collection=params.collection)},
        ("GET", "stats"): lambda pkb, _: pkb.stats(),
        ("GET", "recent"): lambda pkb, _: {
            "questions": latest(pkb.session.ledger, 5),
            "opens": opens and pkb.session.home.source is None,
        },
        ("GET", "ahead"): lambda pkb, params: ahead[str(pkb.session.home.data)].typed(
            pkb.session, params.q, pkb.options(pkb.scope(params))
        ),
        ("POST", "wrong"): _wrong,
    }
    if opens:
        calls[("POST", "open")] = _open
    complete_chat = partial(complete, lambda data: ahead[data].end(), record=record)
    page = StaticFiles(directory=str(files("engine.page")), html=True)
    routes = [
        *(Route(f"/v1/{name}", partial(_answer, give), methods=[by]) for (by, name), give in calls.items()),
        Route("/v1/models", _models, methods=["GET"]),
        Route("/v1/models/{name}", _models, methods=["GET"]),
        Route("/v1/chat/completions", complete_chat, methods=["POST"]),
        *(Route(path, page, methods=["GET"]) for path in ("/", "/{name}")),
    ]
    wrong = dict.fromkeys((HTTPException, Exception), _unknown) | dict.fromkeys(FAILURES, failure)
    made = Starlette(routes=routes, exception_handlers=wrong)
    made.router.redirect_slashes = False
    return RequestGuard(made, environ, port=port, token=token, names=names)


async def _unknown(request: Request, found: Exception) -> Response:
    status = found.status_code if isinstance(found, HTTPException) else 500
    said = {404: "there is nothing at this address", 405: "another method is wanted here"}
    return json_response(error(said.get(status, "the request failed"), "invalid_request_error", status), status)


async def _answer(give: Callable[[Pkb, Params], Any], request: Request) -> Response:
    """Answer a request in a thread, by its body or the parameters in its address: with what `give` returns, if any."""
    if request.method == "POST":
        given = completions.converted(await read_json(request), Params)
    else:
        named = {name: value for name, value in request.query_params.items() if value}
        given = completions.converted(named, Params, strict=False)

    def answer() -> Response:
        with Pkb(server=True, environ=request.scope["environ"]) as pkb:
            return json_response({"schema": SCHEMA, **(give(pkb, given) or {})})

    return await run_in_threadpool(answer)


def _search(pkb: Pkb, params: Params) -> Any:
    if not (query := params.q.strip()):
        raise UsageError("q is empty")
    found = pkb.find(query, pkb.scope(params), params.k)
    return {"query": query, "sources": [one for passage in found for one in passage]}


def _show(pkb: Pkb, params: Params) -> Any:
    if not params.path or not (documents := pkb.show(params.path, params.message_id)):
        raise UsageError("this path is not indexed", "pkb list --paths")
    return {"documents": documents}


def _open(pkb: Pkb, params: Params) -> None:
    if pkb.session.home.source:  # of a user: it would open on the screen of another
        raise HTTPException(404)
    pkb.open_file(params.path, params.message_id)


def _wrong(pkb: Pkb, params: Params) -> Any:
    last = pkb.reject(params.question)
    return {"question": last.question, "tier": last.tier}


async def _models(request: Request) -> Response:
    model = {"id": completions.MODEL, "object": "model", "created": 0, "owned_by": "pkb"}
    name = request.path_params.get("name")
    if name in (None, completions.MODEL):
        return json_response({"object": "list", "data": [model]} if name is None else model)
    said = f"no such model, only {completions.MODEL}"
    return json_response(error(said, "invalid_request_error", "model_not_found"), 404)


LOOPBACK = "127.0.0.1"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_DRAINED, _LINGER_S = 4 * LONGEST_BODY, 1  # bytes that are read after an answer, and how long each part may take
_ONCE = ("host", "origin", "authorization", "content-length", "content-type")
_NO_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


def read_token(path: Path, *, renew: bool = False) -> str:
    """Return the token of a home, created at the first call or again; only its owner can read its file."""
    if not renew and path.exists() and (known := path.read_text("ascii").strip()):
        return known
    token = secrets.token_urlsafe(32)
    with replacing(path) as file:
        file.write(f"{token}\n".encode())
    return token


class RequestGuard:
    """Refuses requests that are not for this host and port, not from its own page, or without the token."""

    def __init__(self, app: ASGIApp, environ: Environ, *, port: int, token: str, names: Sequence[str] = ()) -> None:
        self._app, self._environ, self._token = app, environ, token.encode()
        self._names = (LOOPBACK, "localhost", *map(_in_address, names))
        # A proxy passes on the name that it was called by, without a port.
        self._hosts = {f"{name}:{port}" for name in self._names} | {*self._names[2:]}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with the reason."""
        if scope["type"] != "http":
            return

        has_more = scope["method"] == "POST"

        async def read() -> Message:
            nonlocal has_more
            message = await receive()
            has_more = has_more and bool(message.get("more_body"))
            return message

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            elif not message.get("more_body") and has_more:  # else its client is cut off while it is sending
                await send({**message, "more_body": True})
                left = _DRAINED
                with suppress(TimeoutError):
                    while has_more and left > 0:
                        left -= len((await asyncio.wait_for(read(), _LINGER_S)).get("body", b""))
                message = {"type": "http.response.body"}
            await send(message)

        app = self._app
        if wrong := self._refusal(scope):
            status, message = wrong
            kind = "authentication_error" if status == 401 else "invalid_request_error"
            app = refusal = json_response(error(message, kind, status), status)
            if status == 401:
                refusal.headers["WWW-Authenticate"] = "Bearer"
        await app(scope, read, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason to refuse a request; None if it is clear and allowed."""
        headers, address = Headers(scope=scope), scope["raw_path"] + b"?" + scope["query_string"]
        length = int(headers.get("content-length", "0"))
        if any(len(headers.getlist(one)) > 1 for one in _ONCE) or {"transfer-encoding", "content-length"} <= {*headers}:
            return 400, "a header contradicts another"
        if scope["method"] != "POST" and ("transfer-encoding" in headers or length):
            return 400, "only POST has a body"
        if length > LONGEST_BODY:
            return 400, f"the body is longer than {LONGEST_BODY:,} bytes"
        try:
            found = unquote_to_bytes(address).decode()
        except UnicodeDecodeError:
            found = "\0"
        if "\0" in found or _NO_ESCAPE.search(address):
            return 400, "the address is not valid text"
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        if host not in self._hosts:
            return 403, f"this server answers only as {' or '.join(self._names)}"
        if origin not in (None, f"http://{host}", f"https://{host}"):
            return 403, "this server answers only its own page"
        if scope["path"].startswith("/v1/"):
            scheme, _, token = headers.get("authorization", "").partition(" ")
            try:
                scope["environ"] = self._home_of(token.strip()) if scheme.lower() == "bearer" else None
            except PkbError as damaged:
                return 500, str(damaged)
            if scope["environ"] is None:
                return 401, "the token is missing or wrong: pkb serve --http prints it"
        return None

    def _home_of(self, token: str) -> Environ | None:
        """Return the environment of the home that a token opens: the owner's own, or a user's."""
        if secrets.compare_digest(token.encode(), self._token):
            return self._environ
        home = locate(self._environ)
        user = UserBook(home).of_token(token)
        return {**self._environ, **home.of_user(user.name).environ} if user else None


PORT = 8642
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
        transport.set_write_buffer_limits(1, 0)  # paused while anything is unread; asyncio pauses TLS at 0 bytes
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
        """Answer a malformed request with a short error, unless the response has begun; then close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(error(msg, "invalid_request_error", status)).encode()
            about = HEADERS | {"Content-Type": "application/json", "Content-Length": f"{len(body)}"}
            about |= {"Connection": "close"}
            answer = h11.Response(status_code=status, headers=list(about.items())), h11.Data(body), h11.EndOfMessage()
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in answer))
        self.transport.close()


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """Where the endpoint is, and the token that opens it."""

    host: str
    port: int
    token: str
    certificate: Path | None  # None without TLS
    is_open: bool  # to other machines

    @property
    def root(self) -> str:
        """Return the address of the page without the token."""
        return f"{'https' if self.certificate else 'http'}://{_in_address(self.host)}:{self.port}"

    @property
    def page(self) -> str:
        """Return the address of the page; browsers send nothing behind the # to any server."""
        return f"{self.root}/#token={self.token}"


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _as_sent(name: str) -> str:
    """Return a name or an address of this machine as browsers send it; UsageError for anything else."""
    with suppress(ValueError):
        return str(ip_address(name))
    with suppress(ValueError):  # of no name
        if re.fullmatch(r"[\w-]+(\.[\w-]+)*", sent := name.lower().encode("idna").decode()):
            return sent
    raise UsageError(f"{line(name)} is neither a name nor an address", "pkb config set serve.hosts 192.168.1.5")


def serve(
    environ: Environ,
    host: str,
    port: int,
    ready: Callable[[HttpAddress], None],
    *,
    names: Sequence[str],
    tls: bool,
    renew: bool,
    record: bool = False,
) -> None:
    """Serve a home until a signal; `ready` is called once clients can connect. PkbError if the port is taken.

    An address other than loopback has TLS by a certificate of its own, unless it is turned off. `names` are those of
    this machine that requests may be for, beside the address itself. With `record` the questions of all clients are
    recorded as the user's.
    """
    home, address = locate(environ), _address(host)
    if (is_any := address.is_unspecified) and not names:
        raise UsageError(f"at {host} clients need a name for this machine", "pkb config set serve.hosts 192.168.1.5")
    home.data.mkdir(mode=0o700, parents=True, exist_ok=True)  # before anything is ingested, the page says what to type
    is_own = str(address) in (LOOPBACK, "::1")
    own = [] if is_any or str(address) == LOOPBACK else [str(address) if is_own else host]
    names = [*dict.fromkeys(map(_as_sent, [*own, *names]))]
    with _listen(str(address), port) as listener:
        certificate = None if is_own or not tls else web_certificate(home.data / "http.pem", names)
        token = read_token(home.data / "http.token", renew=renew)
        shown = LOOPBACK if str(address) == LOOPBACK else names[0]
        endpoint = HttpAddress(shown, listener.getsockname()[1], token, certificate, not address.is_loopback)
        opens = is_own and names in ([], ["::1"])  # else who uses the page may be at another machine
        app = application(environ, port=endpoint.port, token=token, names=names, record=record, opens=opens)
        # No log: a traceback in it could hold mail.
        config = uvicorn.Config(
            app, http=HttpConnection, log_config=None, log_level="critical", access_log=False, lifespan="off",
            ws="none", server_header=False, timeout_keep_alive=_IDLE_S, timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=certificate,
        )  # fmt: skip
        ready(endpoint)  # connections wait at the listener until they are accepted
        uvicorn.Server(config).run([listener])


def _address(host: str) -> IPv4Address | IPv6Address:
    """Return the address that a name, or another spelling such as 0, stands for; UsageError if there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = ip_address(str(socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)[0][4][0]))
    except (OSError, ValueError):
        raise UsageError(f"{line(host)} is not an address of this machine", "pkb serve --help") from None
    return getattr(found, "ipv4_mapped", None) or found


def _listen(host: str, port: int) -> socket.socket:
    is_dual = ":" in host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_WAITING, dualstack_ipv6=is_dual)
    except OSError as found:
        if found.errno == EADDRINUSE:
            raise PkbError(f"port {port} is in use", f"pkb serve --http --port {port + 1}") from None
        why = strerror(found.errno or 0)
        raise PkbError(f"cannot listen at {host}, port {port}: {why}", "pkb serve --http") from None
