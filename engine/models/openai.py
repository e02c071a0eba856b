"""A language model that a server runs, over OpenAI's chat protocol: Ollama, LM Studio, mlx_lm, llama.cpp, vLLM.

Knows HTTP and server-sent events, and nothing of prompts. It follows no redirect and uses no proxy. Errors repeat no
text that a server sent, since that may be mail.
"""

import json
import re
import socket
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from itertools import islice
from queue import Empty, Queue
from threading import Thread
from typing import Any, TypeVar

from engine.models.endpoint import EXAMPLE, Endpoint, api_key, endpoint_of
from engine.models.sse import Completion, Refused, as_count, as_dict, events
from engine.models.types import Drafter, Frame, Meter, Size
from engine.settings import ModelSettings
from engine.text.terminal import one_line
from store.errors import NoModel, PkbError

CONTEXT = 4096  # tokens, where neither server nor settings tell: Ollama's, which cuts longer prompts without an error
_SPARE = 8  # of the context, one token in so many is left free: tokens are estimated, and the template adds some
_BYTES = 3  # of UTF-8 for a token: fewer than in most text, so that the estimate is rather too high
_SEED = 0
_CONNECT_S, _DESCRIBE_S, _SILENT_S = 5.0, 10.0, 600.0  # seconds without a byte; a long prompt takes minutes
_POLL_S = 0.1
_MOST_BYTES = 64 << 20  # of one reply
_READ = 1 << 16
_EXTRAS = ("stream_options", "chat_template_kwargs", "seed")  # that a strict server may refuse
_LISTED = 5  # models that an error names
_SHOWN = 4  # chunks of a refusal that are looked at
T = TypeVar("T")
Call = tuple[str, str, Any]  # method, path, and the body as JSON values; None for no body


class _Exchange(Thread):
    """One request and its reply, on a thread of its own: whoever waits for it can be interrupted, and then ends it."""

    def __init__(self, endpoint: Endpoint, key: str | None, call: Call, silent_s: float) -> None:
        super().__init__(name="model server", daemon=True)
        self._endpoint, self._key, self._call, self._silent_s = endpoint, key, call, silent_s
        self._status = Queue[int | Exception]()
        self._chunks = Queue[bytes | Exception]()  # an empty one ends the body
        self._socket: socket.socket | None = None
        self._ended = False

    def run(self) -> None:
        """Send the request and queue what comes back."""
        method, path, body = self._call
        reached: Queue[Any] = self._status
        try:
            with closing(self._connect()) as connection:
                sent = None if body is None else json.dumps(body).encode()
                connection.request(method, path, sent, self._headers())
                reply = connection.getresponse()
                self._status.put(reply.status)
                reached = self._chunks
                while chunk := reply.read1(_READ):
                    self._chunks.put(chunk)
            self._chunks.put(b"")
        except (OSError, HTTPException, ValueError) as error:
            reached.put(error)

    def status(self, yield_point: Callable[[], None]) -> int:
        """Return the status of the reply; `yield_point` is called again and again while it waits."""
        return self._next(self._status, yield_point)

    def chunk(self, yield_point: Callable[[], None]) -> bytes:
        """Return the next bytes of the body, none at its end; `yield_point` is called as for the status."""
        return self._next(self._chunks, yield_point)

    def _next(self, queue: "Queue[T | Exception]", yield_point: Callable[[], None]) -> T:
        while True:
            yield_point()
            with suppress(Empty):
                found = queue.get(timeout=_POLL_S)
                if isinstance(found, Exception):
                    raise self._failure(found)
                return found

    def end(self) -> None:
        """Close the connection, whatever it waits for."""
        self._ended = True
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self._endpoint.scheme == "https" else HTTPConnection
        made = kind(self._endpoint.host, self._endpoint.port, timeout=_CONNECT_S)
        made.connect()
        if self._ended or (self._endpoint.is_loopback and not ip_address(made.sock.getpeername()[0]).is_loopback):
            made.close()
            raise ConnectionError("localhost is another machine")
        self._socket = made.sock
        made.sock.settimeout(self._silent_s)
        return made

    def _headers(self) -> dict[str, str]:
        key = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return {"Content-Type": "application/json", "Connection": "close", **key}

    def _failure(self, error: Exception) -> PkbError:
        """Return the error of a server that is not there, or that stops in the middle."""
        place = self._endpoint.place
        if isinstance(error, ssl.SSLError):
            return PkbError(f"no secure connection to {place}: its certificate or protocol is not valid", "pkb doctor")
        if self._socket is not None:
            return PkbError(f"the model server at {place} broke off", "see its log, then ask again")
        known = {
            ConnectionRefusedError: "nothing listens there",
            TimeoutError: "no reply",
            socket.gaierror: "no such host",
        }
        reason = next((words for kind, words in known.items() if isinstance(error, kind)), "it cannot be reached")
        return NoModel(f"no model server at {place}: {reason}", "start it, or: pkb model use quote")


@dataclass(frozen=True, slots=True)
class ServerClient:
    """Sends requests to one server; `yield_point` is called while it waits, and what it raises ends the request."""

    endpoint: Endpoint
    key: str | None = None
    yield_point: Callable[[], None] = lambda: None

    def stream(self, call: Call, silent_s: float = _SILENT_S) -> Generator[bytes, None, None]:
        """Yield the body of a reply as it comes; Refused where the server refuses, PkbError where it breaks off."""
        exchange, size = _Exchange(self.endpoint, self.key, call, silent_s), 0
        exchange.start()
        try:
            status = exchange.status(self.yield_point)
            chunks = iter(lambda: exchange.chunk(self.yield_point), b"")
            if not 200 <= status < 300:
                raise Refused(status, b"".join(islice(chunks, _SHOWN)).decode("utf-8", "replace"))
            for chunk in chunks:
                size += len(chunk)
                if size > _MOST_BYTES:
                    raise invalid(self.endpoint)
                yield chunk
        finally:
            exchange.end()

    def values(self, path: str, body: Any = None) -> Any:
        """Return the JSON values of a reply; None where there are none, for whatever reason."""
        with suppress(Refused, PkbError, ValueError, RecursionError):
            return json.loads(b"".join(self.stream(("GET" if body is None else "POST", path, body), _DESCRIBE_S)))
        return None

    def listed(self) -> dict[str, dict[str, Any]]:
        """Return what the server tells of each of its models, by name; PkbError where it is no model server.

        Of mlx_lm, which lists the models of the Hugging Face cache, the reply is empty where there is no such folder.
        """
        try:
            body = b"".join(self.stream(("GET", f"{self.endpoint.path}/models", None), _DESCRIBE_S))
            found = (json.loads(body) if body else {"data": []})["data"]
            return {row["id"]: row for row in found or () if isinstance(row["id"], str)}
        except Refused as error:
            raise refusal(self.endpoint, error.status, error.said) from None
        except (ValueError, LookupError, TypeError, RecursionError):
            raise invalid(self.endpoint) from None


def invalid(endpoint: Endpoint) -> PkbError:
    """Return the error of a reply that no model server gives."""
    return PkbError(f"{endpoint.place} does not answer as a model server does", EXAMPLE)


def refusal(endpoint: Endpoint, status: int, said: str, window: int = CONTEXT) -> PkbError:
    """Return the error of a refusal; `said` is the server's text, of which nothing is repeated.

    `window` is the context that prompts were made for, in tokens.
    """
    place, known = endpoint.place, said.casefold()
    model = f"{endpoint.name} at {place}" if endpoint.name else place
    if 300 <= status < 400:
        return PkbError(f"{place} redirects to another address, which pkb does not follow", EXAMPLE)
    if status in (401, 403):
        return PkbError(f"{place} asks for an API key, or refuses the one given", "pkb config set model.key env:NAME")
    if "context" in known and re.search(r"length|size|window|exceed|too long|maximum", known):
        return PkbError(f"the prompt is too long for {model}", f"pkb config set model.context {window // 2}")
    if "model" in known and re.search(r"not found|not exist|no such|unknown|not loaded|not load", known):
        return NoModel(f"there is no model {model}", EXAMPLE)
    if status == 404:
        return PkbError(f"{place} has nothing under {endpoint.path}", EXAMPLE)
    what = "failed" if status >= 500 else "refused the request" if status else "reported an error"
    return PkbError(f"{model} {what}" + (f" (HTTP {status})" if status else ""), "see the server's log, then ask again")


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server tells of a model: name, context in tokens, digest of its files; None or empty where it does not."""

    name: str
    context: int | None
    digest: str = ""


def describe(client: ServerClient) -> ServerInfo:
    """Ask a server about the named model, or its only one; NoModel if it has none such, PkbError if it is no server."""
    listed = client.listed()
    name = _chosen(client.endpoint, list(listed))
    told = listed.get(name, {})
    context = as_count(told.get("max_model_len")) or _llama_cpp_context(client, told)  # vLLM tells it in the list
    if context:
        return ServerInfo(name, context)
    if digest := ollama_digest(client, name):
        return ServerInfo(name, _ollama_context(client, name), digest)
    return ServerInfo(name, _lm_studio_context(client, name))


def _chosen(endpoint: Endpoint, names: Sequence[str]) -> str:
    shown = ", ".join(one_line(name, 60) for name in names[:_LISTED]) + (" ..." if len(names) > _LISTED else "")
    step = f"pkb model use '{replace(endpoint, name=one_line(names[0], 200) if names else 'NAME')}'"
    if not endpoint.name:
        if len(names) == 1:
            return names[0]
        raise NoModel(f"{endpoint.place} has " + (f"several models: {shown}" if names else "no model to choose"), step)
    if names and not {endpoint.name, f"{endpoint.name}:latest"} & set(names):
        raise NoModel(f"{endpoint.place} has no model {endpoint.name}, but {shown}", step)
    return endpoint.name


def _llama_cpp_context(client: ServerClient, told: Mapping[str, Any]) -> int | None:
    """Return the context of each of llama.cpp's slots."""
    if told.get("owned_by") != "llamacpp":
        return None
    settings = as_dict(as_dict(client.values(f"{client.endpoint.root}/props")).get("default_generation_settings"))
    return as_count(settings.get("n_ctx")) or as_count(as_dict(told.get("meta")).get("n_ctx"))


def ollama_digest(client: ServerClient, name: str) -> str:
    """Return the digest of a model's files, which Ollama alone tells; empty of another server."""
    digest = _row(client.values(f"{client.endpoint.root}/api/tags"), "models", name).get("digest")
    return digest if isinstance(digest, str) else ""


def _ollama_context(client: ServerClient, name: str) -> int | None:
    """Return the context that a model is loaded with, or that its file sets; what it was trained for is no help."""
    root = client.endpoint.root
    if loaded := as_count(_row(client.values(f"{root}/api/ps"), "models", name).get("context_length")):
        return loaded
    parameters = as_dict(client.values(f"{root}/api/show", {"model": name})).get("parameters")
    found = re.search(r"^num_ctx\s+(\d{1,9})\b", str(parameters), re.MULTILINE)
    return int(found[1]) if found else None


def _lm_studio_context(client: ServerClient, name: str) -> int | None:
    row = _row(client.values(f"{client.endpoint.root}/api/v0/models"), "data", name)
    return as_count(row.get("loaded_context_length"))


def _row(values: Any, key: str, name: str) -> dict[str, Any]:
    """Return the object of a model in a list of them; empty where there is none."""
    rows = as_dict(values).get(key)
    names = {name, f"{name}:latest"}
    found = (
        row
        for row in (rows if isinstance(rows, list) else ())
        if {as_dict(row).get("name"), as_dict(row).get("id")} & names
    )
    return next(found, {})


def reach(
    settings: ModelSettings, environ: Mapping[str, str], yield_point: Callable[[], None] = lambda: None
) -> "ServerModel":
    """Return the configured model, as its server describes it.

    NoModel if it is not there, UsageError where mail text may not be sent there. `yield_point` is called while the
    model writes.
    """
    endpoint = endpoint_of(settings)
    client = ServerClient(endpoint, api_key(settings.key, environ))
    told = describe(client)
    named = replace(client, endpoint=replace(endpoint, name=told.name), yield_point=yield_point)
    return ServerModel(named, told.context, settings.context, told.digest)


class OnlyReasoning(PkbError):
    """The model reasoned until the limit of tokens and said nothing."""


@dataclass(slots=True)
class ServerModel:
    """A language model that a server runs, in the shape of one in memory; mutable: it counts.

    Nothing is known of its tokenizer. What counts as a token is three bytes of text, so that budgets hold and the text
    can be put together again; its first segment is the system message, the others are the user's. It computes nothing
    before it is to decode, and keeps nothing: the server has a prefix cache of its own.
    """

    client: ServerClient
    told: int | None  # tokens of context, where the server tells it
    limit: int = 0  # of them, by the settings; 0: none
    digest: str = ""  # of the model's files, where the server tells it
    last: Completion = field(default_factory=Completion)
    meter: Meter = field(default_factory=Meter)
    size: Size = field(default_factory=lambda: Size(0, 0, 0, 0))  # nothing is computed in this process
    frame: Frame = field(default_factory=Frame)

    @property
    def name(self) -> str:
        """Return the model's name and where it runs."""
        return f"{self.client.endpoint.name} at {self.client.endpoint.place}"

    @property
    def window(self) -> int:
        """Return the context length in tokens, as told, set or assumed."""
        assumed = self.limit or self.told or CONTEXT
        return min(assumed, self.told) if self.told else assumed

    @property
    def context(self) -> int:
        """Return the context length in estimated tokens."""
        return self.window - self.window // _SPARE

    def tokens(self, text: str) -> list[int]:
        """Return the estimated tokens of a text, each a number made of three bytes."""
        data = text.encode("utf-8", "replace")
        return [int.from_bytes(b"\x01" + data[at : at + _BYTES]) for at in range(0, len(data), _BYTES)]

    def begin(self) -> list[str]:
        """Return an empty prompt, which grows by segments."""
        return []

    def prefill(self, cache: list[str], ids: Sequence[int]) -> None:
        """Add a segment to the prompt."""
        cache.append(_text_of(ids))

    def decode(self, cache: list[str], ids: Sequence[int], most: int, drafts: Drafter | None = None) -> Iterator[str]:
        """Have the server complete the prompt and yield the text as it comes; drafts are not used.

        PkbError where it does not, or ends in the middle; OnlyReasoning where nothing but reasoning comes.
        """
        self.last, endpoint, is_said = Completion(), self.client.endpoint, False
        system, *rest = [*cache, _text_of(ids)]
        try:
            with closing(self._stream(system, "".join(rest), most)) as chunks:
                for piece in self.last.pieces(events(chunks)):
                    is_said = True
                    yield piece
        except Refused as error:
            raise refusal(endpoint, error.status, error.said, self.window) from None
        except (ValueError, RecursionError):
            raise invalid(endpoint) from None
        self.meter.prefilled += (self.last.prompt or 0) - min(self.last.reused, self.last.prompt or 0)
        self.meter.generated += self.last.generated or 0
        if not self.last.is_done:
            raise PkbError(f"the model server at {endpoint.place} broke off", "see its log, then ask again")
        if self.last.has_reasoned and not is_said:
            raise OnlyReasoning(
                f"{endpoint.name} only reasoned in the {most} tokens that it may write",
                f"pkb config set model.max_tokens {8 * most}",
            )

    def _stream(self, system: str, user: str, most: int) -> Generator[bytes, None, None]:
        """Send the prompt; where the server refuses fields that not all servers know, send it once more without."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        body = {
            "model": self.client.endpoint.name,
            "messages": messages,
            "stream": True,
            "temperature": 0,
            "max_tokens": most,
            "seed": _SEED,
            "stream_options": {"include_usage": True},
            "chat_template_kwargs": {"enable_thinking": False},
        }
        path = f"{self.client.endpoint.path}/chat/completions"
        try:
            yield from self.client.stream(("POST", path, body))
        except Refused as error:
            if error.status not in (400, 422):
                raise
            plain = {key: value for key, value in body.items() if key not in _EXTRAS}
            yield from self.client.stream(("POST", path, plain))


def _text_of(ids: Sequence[int]) -> str:
    return b"".join(id.to_bytes(_BYTES + 1).lstrip(b"\x00")[1:] for id in ids).decode("utf-8")
