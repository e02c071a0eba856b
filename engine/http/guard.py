"""Who may ask the HTTP endpoint: requests to this host, from its own page or no page at all, with the token.

The host is checked against DNS rebinding, the origin against other pages in the same browser. Every response forbids
its page to load anything from elsewhere.
"""

import asyncio
import json
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.text.terminal import shorten
from store.errors import Locked, PkbError
from store.home import replacing

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
LONGEST_BODY = 1 << 20  # bytes of a request
_DRAINED, _LINGER_S = 4 * LONGEST_BODY, 1  # bytes that are read after an answer, and how long each part may take
_ONCE = ("host", "origin", "authorization", "content-length", "content-type")
_NO_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_API = "/v1/"
_TOKEN_BYTES = 32
_LONGEST = 200  # characters of an error, which may name what was asked
_NEXT: Mapping[int | str, str] = {  # to an error that does not say itself what to do
    **dict.fromkeys((401, 403), "pkb serve --http"),  # which prints address and token
    **dict.fromkeys((404, 405, "model_not_found"), "GET /v1/models"),
    **dict.fromkeys((408, Locked.code), "the request again"),
    **dict.fromkeys((PkbError.code, 500), "pkb doctor"),
}


def read_token(path: Path, *, renew: bool = False) -> str:
    """Return the token of a home, made at the first call or anew; its file is readable by its owner alone."""
    if not renew and path.exists() and (known := path.read_text("ascii").strip()):
        return known
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with replacing(path) as file:
        file.write(f"{token}\n".encode())
    return token


class _RequestBody:
    """The body of a request; what nobody has read of it can be thrown away before the connection is closed."""

    def __init__(self, receive: Receive, *, is_open: bool) -> None:
        self._receive, self.is_open = receive, is_open

    async def receive(self) -> Message:
        """Return the next part."""
        message = await self._receive()
        self.is_open = self.is_open and bool(message.get("more_body"))
        return message

    async def drain(self) -> None:
        """Throw away the rest, unless it is very long or its client is slow."""
        left = _DRAINED
        with suppress(TimeoutError):
            while self.is_open and left > 0:
                left -= len((await asyncio.wait_for(self.receive(), _LINGER_S)).get("body", b""))


class RequestGuard:
    """Refuses requests that are not for this host and port, not from its own page, or without the token."""

    def __init__(self, app: ASGIApp, *, port: int, token: str) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with what is wrong."""
        if scope["type"] != "http":
            return

        body = _RequestBody(receive, is_open=scope["method"] == "POST")

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            elif not message.get("more_body") and body.is_open:  # else its client is cut off while it is sending
                await send({**message, "more_body": True})
                await body.drain()
                message = {"type": "http.response.body"}
            await send(message)

        wrong = _malformed(scope) or self._refusal(scope["path"], Headers(scope=scope))
        if wrong:
            await _refuse(*wrong, with_headers)
        else:
            await self._app(scope, body.receive, with_headers)

    def _refusal(self, path: str, headers: Headers) -> tuple[int, str] | None:
        """Return the status and the reason to refuse a request; None if it is allowed."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self._hosts:
            return 403, "this server answers only as 127.0.0.1 or localhost"
        if origin not in (None, f"http://{host}"):
            return 403, "this server answers only its own page"
        if path.startswith(_API) and not self._has_token(headers.get("authorization", "")):
            return 401, "the token is missing or wrong: pkb serve --http prints it"
        return None

    def _has_token(self, given: str) -> bool:
        scheme, _, token = given.partition(" ")
        return scheme.lower() == "bearer" and secrets.compare_digest(token.strip().encode(), self._token)


def _malformed(scope: Scope) -> tuple[int, str] | None:
    """Return the status and the reason to refuse a request whose address, headers or length are unclear."""
    headers, address = Headers(scope=scope), scope["raw_path"] + b"?" + scope["query_string"]
    length = int(headers.get("content-length", "0"))
    if any(len(headers.getlist(name)) > 1 for name in _ONCE) or {"transfer-encoding", "content-length"} <= {*headers}:
        return 400, "a header contradicts another"
    if scope["method"] != "POST" and ("transfer-encoding" in headers or length):
        return 400, "only POST has a body"
    if length > LONGEST_BODY:
        return 400, f"the body is longer than {LONGEST_BODY:,} bytes"
    try:
        found = unquote_to_bytes(address).decode()
    except UnicodeDecodeError:
        found = "\0"
    return (400, "the address is not valid text") if "\0" in found or _NO_ESCAPE.search(address) else None


async def _refuse(status: int, message: str, send: Send) -> None:
    kind = "authentication_error" if status == 401 else "invalid_request_error"
    body = json.dumps(error(message, kind, status)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error(message: str, kind: str, code: int | str, next_step: str | None = None) -> Mapping[str, Any]:
    """Return an error as OpenAI's clients read it, with what to type, or to ask for, next."""
    step = next_step or _NEXT.get(code, "the request again, corrected")
    return {"error": {"message": shorten(message, _LONGEST), "type": kind, "param": None, "code": code, "next": step}}
