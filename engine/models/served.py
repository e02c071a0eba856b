"""A language model that a server runs, over OpenAI's chat protocol: Ollama, LM Studio, mlx_lm, llama.cpp, vLLM.

Its address, whether others can read the traffic, its key, what it tells of its models, and completions as server-sent
events or one JSON object; nothing of prompts. Follows no redirect and uses no proxy. HTTP is imported inside functions:
a cached answer needs only the address. Errors repeat no text that a server sent, since that may be mail.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from itertools import chain, islice
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from engine.models.types import Drafter, Frame
from engine.settings import SERVED, ModelSettings, Settings
from engine.text.terminal import one_line
from engine.types import Check, Checks
from store.errors import NoModel, PkbError, UsageError
from store.home import Home

if TYPE_CHECKING:
    import socket
    from http.client import HTTPConnection, HTTPResponse

Call = tuple[str, str, Any]  # method, path, and the body as JSON values; None for no body
CONTEXT = 4096  # tokens, if neither server nor settings say: Ollama's, which cuts longer prompts without an error
_LISTED = 5  # models that an error names
_DESCRIBE_S = 10.0  # seconds without a byte, of what costs a server nothing
_CONNECT_S, _SILENT_S = 5.0, 600.0  # a long prompt takes minutes
_POLL_S = 0.1
_MOST_BYTES = 64 << 20  # of one reply; the rest is not read
_READ = 1 << 16
_SHOWN = 4  # chunks of a refusal that are looked at
EXAMPLE = "pkb model use openai:http://127.0.0.1:11434#llama3.2:3b"
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", re.ASCII)
_PATH = re.compile(r"(/[\w.~%+-]+)*/?", re.ASCII)
_VERSION = re.compile(r"/v\d\w*(/|\Z)", re.ASCII)
_KEY = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served: a base URL in parts, and the model's name there, empty for the only one."""

    scheme: str
    host: str
    port: int
    path: str  # ends in the version of the protocol, such as /v1
    name: str = ""

    @property
    def place(self) -> str:
        """Return host and port, as people write them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def shown(self) -> str:
        """Return the model and where it runs, for people."""
        return f"{self.name or 'a model'} at {self.place}"

    @property
    def is_loopback(self) -> bool:
        """Return whether the host is this machine, by its name or number."""
        with suppress(ValueError):  # a name
            return ip_address(self.host).is_loopback
        return self.host == "localhost"

    @property
    def is_private(self) -> bool:
        """Return whether nobody on a network can read what is sent."""
        return self.scheme == "https" or self.is_loopback

    def __str__(self) -> str:
        """Return the setting that selects it."""
        usual = self.port == _PORTS[self.scheme]
        place = self.place.removesuffix(f":{self.port}") if usual else self.place
        return f"{SERVED}{self.scheme}://{place}{self.path}" + (f"#{self.name}" if self.name else "")


def parse_endpoint(text: str) -> Endpoint:
    """Read `openai:URL#NAME`; /v1 is added where the URL names no version. UsageError for anything else."""
    url, _, name = text.removeprefix(SERVED).partition("#")
    try:
        parts, port = urlsplit(url), urlsplit(url).port
    except ValueError:
        raise UsageError("the address of the model server is not a URL", EXAMPLE) from None
    host, path = parts.hostname or "", parts.path
    is_host = ":" in host or _HOST.fullmatch(host)  # the former in brackets, which urlsplit has looked into
    if parts.scheme not in _PORTS or not is_host or not _PATH.fullmatch(path) or port == 0:
        raise UsageError("the address of a model server is like openai:http://127.0.0.1:11434#NAME", EXAMPLE)
    if parts.username is not None or parts.query or "?" in url:
        raise UsageError("the address of a model server has no password or query", "pkb config set model.key env:NAME")
    if name != name.strip() or not name.isprintable():
        raise UsageError("the name of the served model has blanks around it, or control characters", EXAMPLE)
    path = path.rstrip("/").removesuffix("/chat/completions").removesuffix("/models")
    path = path if _VERSION.search(path) else f"{path}/v1"
    host = "127.0.0.1" if host == "0.0.0.0" else host  # what servers print that listen everywhere
    return Endpoint(parts.scheme, host, port or _PORTS[parts.scheme], path, name)


def endpoint_of(settings: ModelSettings) -> Endpoint:
    """Return the configured endpoint; UsageError if it is invalid, or mail text would travel unencrypted."""
    found = parse_endpoint(settings.name)
    if not found.is_private and settings.plain_http.strip().lower() != found.host:
        why = f"{found.place} is reached without encryption, and others could read the mail text sent there; use https"
        raise UsageError(why, f"pkb config set model.plain_http {found.host}")
    return found


def exposure(endpoint: Endpoint) -> str:
    """Return a warning if others can read the traffic; empty if they cannot."""
    return "" if endpoint.is_private else f"mail text travels to {endpoint.host} unencrypted"


def api_key(named: str, environ: Mapping[str, str]) -> str | None:
    """Return the key that a setting names, `env:NAME` or `file:PATH`; None if it names none. PkbError without a key."""
    kind, _, place = named.partition(":")
    if not named:
        return None
    try:
        if kind == "env":
            found = environ.get(place, "")
        elif (path := Path(place).expanduser()).stat().st_mode & 0o077:
            raise PkbError(f"others can read the API key in {path}", f"chmod 600 {path}")
        else:
            found = path.read_text("ascii")
    except (OSError, UnicodeDecodeError, RuntimeError):
        raise PkbError(f"cannot read the API key in {place}", "pkb config get model.key") from None
    if not _KEY.fullmatch(found.strip()):
        raise PkbError(f"there is no API key in {place}", "pkb config get model.key")
    return found.strip()


class _Exchange(Thread):
    """One request and its reply, in a separate thread, so that an interrupt can cancel it."""

    def __init__(self, endpoint: Endpoint, key: str | None, call: Call, silent_s: float) -> None:
        super().__init__(name="model server", daemon=True)
        self._endpoint, self._key, self._call, self._silent_s = endpoint, key, call, silent_s
        self._parts = Queue[Any]()  # the status, chunks, and an empty one at the end; or what went wrong
        self._socket: socket.socket | None = None
        self._ended = False

    def run(self) -> None:
        """Send the request and queue what comes back."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        left = _MOST_BYTES
        kind = HTTPSConnection if self._endpoint.scheme == "https" else HTTPConnection
        try:
            made = kind(self._endpoint.host, self._endpoint.port, timeout=_CONNECT_S)
            with closing(made) as connection, closing(self._reply(connection)) as reply:
                self._parts.put(reply.status)
                while (chunk := reply.read1(_READ)) and left > 0:
                    self._parts.put(chunk)
                    left -= len(chunk)
            self._parts.put(b"")
        except (OSError, HTTPException, ValueError) as error:
            self._parts.put(error)

    def next(self, yield_point: Callable[[], None]) -> Any:
        """Return the status, then each chunk; `yield_point` is called again and again meanwhile."""
        while True:
            yield_point()
            with suppress(Empty):
                found = self._parts.get(timeout=_POLL_S)
                if isinstance(found, Exception):
                    raise self._failure(found)
                return found
            if not self.is_alive() and self._parts.empty():
                raise self._failure(ConnectionError("ended"))

    def end(self) -> None:
        """Close the connection, even while it waits."""
        from socket import SHUT_RDWR

        self._ended = True
        if self._socket:
            with suppress(OSError):
                self._socket.shutdown(SHUT_RDWR)

    def _reply(self, connection: "HTTPConnection") -> "HTTPResponse":
        connection.connect()
        is_here = ip_address(connection.sock.getpeername()[0]).is_loopback
        if self._endpoint.is_loopback and not is_here:
            raise ConnectionError("localhost is another machine")
        self._socket = connection.sock  # before `_ended` is read, which `end` sets before it looks for a socket
        if self._ended:
            raise ConnectionError("ended")
        connection.sock.settimeout(self._silent_s)
        headers = {"Content-Type": "application/json", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        method, path, body = self._call
        connection.request(method, path, None if body is None else json.dumps(body).encode(), headers)
        return connection.getresponse()

    def _failure(self, error: Exception) -> PkbError:
        from socket import gaierror
        from ssl import SSLError

        place = self._endpoint.place
        if isinstance(error, SSLError):
            return PkbError(f"no secure connection to {place}: its certificate or protocol is not valid", "pkb doctor")
        if self._socket is not None:
            return PkbError(f"the model server at {place} broke off", "see its log, then ask again")
        known = {ConnectionRefusedError: "nothing listens there", TimeoutError: "no reply", gaierror: "no such host"}
        reason = next((words for kind, words in known.items() if isinstance(error, kind)), "it cannot be reached")
        return NoModel(f"no model server at {place}: {reason}", "start it, or: pkb model use quote")


class Refused(Exception):
    """A server's refusal: its HTTP status, 0 in the middle of a reply, and what it says, which may be mail."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status, self.said = status, said


@dataclass(frozen=True, slots=True)
class ServerClient:
    """Sends requests to one server; `yield_point` is called while it waits, and what it raises ends the request."""

    endpoint: Endpoint
    key: str | None = None
    yield_point: Callable[[], None] = lambda: None

    def stream(self, call: Call, silent_s: float = _SILENT_S) -> Generator[bytes, None, None]:
        """Yield the body of a reply as it comes; Refused where the server refuses, PkbError if it breaks off."""
        exchange = _Exchange(self.endpoint, self.key, call, silent_s)
        try:
            exchange.start()
            status = exchange.next(self.yield_point)
            chunks = iter(lambda: exchange.next(self.yield_point), b"")
            if not 200 <= status < 300:
                raise Refused(status, b"".join(islice(chunks, _SHOWN)).decode("utf-8", "replace"))
            yield from chunks
        finally:
            exchange.end()

    def values(self, path: str, body: Any = None) -> Any:
        """Return the JSON values of a call of the server's own, above the version in its path; None on any failure."""
        call = ("GET" if body is None else "POST", self.endpoint.path.rpartition("/")[0] + path, body)
        with suppress(Refused, PkbError, ValueError, RecursionError):
            return json.loads(b"".join(self.stream(call, _DESCRIBE_S)))
        return None


def invalid(endpoint: Endpoint) -> PkbError:
    """Return the error of a reply that no model server gives."""
    return PkbError(f"{endpoint.place} does not answer as a model server does", EXAMPLE)


def refusal(endpoint: Endpoint, status: int, said: str, window: int = CONTEXT) -> PkbError:
    """Return the error of a refusal, repeating nothing `said`; `window` is the context of prompts, in tokens."""
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


def describe(client: ServerClient) -> tuple[str, int | None, str]:
    """Return a model's name, context in tokens and digest of its files, None or empty if its server does not tell.

    It is the named one, or the server's only one; NoModel if it lacks it, PkbError if it is not a server.
    """
    listed = _listed(client)
    name = _chosen(client.endpoint, list(listed))
    told = listed.get(name, {})
    context = as_count(told.get("max_model_len"))  # vLLM tells it in the list
    if not context and told.get("owned_by") == "llamacpp":  # that of each of its slots
        slots = as_dict(as_dict(client.values("/props")).get("default_generation_settings"))
        context = as_count(slots.get("n_ctx")) or as_count(as_dict(told.get("meta")).get("n_ctx"))
    if context:
        return name, context, ""
    if digest := ollama_digest(client, name):
        # The context that it is loaded with, or that its file sets; what it was trained for does not help.
        context = as_count(_row(client.values("/api/ps"), "models", name).get("context_length"))
        if not context:
            parameters = as_dict(client.values("/api/show", {"model": name})).get("parameters")
            found = re.search(r"^num_ctx\s+(\d{1,9})\b", str(parameters), re.MULTILINE)
            context = int(found[1]) if found else None
        return name, context, digest
    lm_studio = _row(client.values("/api/v0/models"), "data", name)
    return name, as_count(lm_studio.get("loaded_context_length")), ""


def _listed(client: ServerClient) -> dict[str, dict[str, Any]]:
    """Return the server's entry for each of its models, by name; PkbError if this is not a model server."""
    try:
        body = b"".join(client.stream(("GET", f"{client.endpoint.path}/models", None), _DESCRIBE_S))
        # mlx_lm lists the models in the Hugging Face cache; without that folder its reply is empty.
        found = (json.loads(body) if body else {"data": []})["data"]
        return {row["id"]: row for row in found or () if isinstance(row["id"], str)}
    except Refused as error:
        raise refusal(client.endpoint, error.status, error.said) from None
    except (ValueError, LookupError, TypeError, RecursionError):
        raise invalid(client.endpoint) from None


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


def ollama_digest(client: ServerClient, name: str) -> str:
    """Return the digest of a model's files, or an empty string: only Ollama reports digests."""
    digest = _row(client.values("/api/tags"), "models", name).get("digest")
    return digest if isinstance(digest, str) else ""


def _row(values: Any, key: str, name: str) -> dict[str, Any]:
    rows, names = as_dict(values).get(key), (name, f"{name}:latest")
    objects = map(as_dict, rows if isinstance(rows, list) else ())
    return next((row for row in objects if row.get("name") in names or row.get("id") in names), {})


def as_dict(value: Any) -> dict[str, Any]:
    """Return a JSON object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def as_count(value: Any) -> int | None:
    """Return an integer of 0 or more; None for anything else."""
    return value if type(value) is int and value >= 0 else None


_SPARE = 8  # 1/8 of the context is left free: tokens are estimated, and the template adds some
_BYTES = 3  # of UTF-8 for a token: fewer than in most text, so that the estimate errs on the high side
_BLANK = b"\xef\xbb\xbf \t\r\n"  # before a body: the bytes of UTF-8's mark, and space
_OPENING, _CLOSING = "<think>", "</think>"  # around the reasoning, where a server does not set it apart


def events(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each server-sent event as one line, wherever its bytes are split; bare JSON is one event.

    Comments and other fields are skipped, and an event that the end of the body cuts off counts too.
    """
    rest, start = b"", b""
    for chunk in chain(chunks, [b"\n"]):
        rest += chunk
        start = start or rest.lstrip(_BLANK)[:1]
        if start != b"{":
            *lines, rest = rest.split(b"\n")
            data = (line.removeprefix(b"data:") for line in lines if line.startswith(b"data:"))
            yield from (one.decode("utf-8", "replace").strip() for one in data)
    if start == b"{":
        yield rest.lstrip(_BLANK).decode("utf-8", "replace").strip()


@dataclass(slots=True)
class Completion:
    """One completion as it arrives, and the server's figures of it, None if it tells none; mutable."""

    prompt: int | None = None
    reused: int = 0  # tokens that the server took from its own prefix cache
    generated: int | None = None
    is_cut: bool = False  # by the limit of tokens
    is_done: bool = False
    has_reasoned: bool = False

    def pieces(self, found: Iterable[str]) -> Iterator[str]:
        """Yield the text of events in pieces, none empty, without the reasoning that it may begin with.

        ValueError if an event is malformed, Refused where it reports an error.
        """
        held, is_open = "", True
        for piece in filter(None, self._contents(found)):
            held += piece
            if is_open:
                start = held.lstrip()
                if start.startswith(_OPENING):
                    self.has_reasoned = True
                    _, closed, after = start.partition(_CLOSING)
                    held = after.lstrip() if closed else start
                elif self.has_reasoned:
                    held = start
                is_open = _OPENING.startswith(held.lstrip()[: len(_OPENING)])  # it reasons, or may be about to
            if not is_open:
                yield held
                held = ""
        if held.strip() and not held.lstrip().startswith(_OPENING):
            yield held

    def _contents(self, found: Iterable[str]) -> Iterator[str]:
        for data in found:
            if data == "[DONE]":
                self.is_done = True
                return
            values = json.loads(data)
            if not isinstance(values, dict):
                raise ValueError("no object")
            if values.get("error"):
                raise Refused(0, json.dumps(values["error"]))
            usage, choices = as_dict(values.get("usage")), values.get("choices")
            self.prompt = as_count(usage.get("prompt_tokens")) or self.prompt
            self.generated = as_count(usage.get("completion_tokens")) or self.generated
            cached = as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")
            self.reused = as_count(cached) or self.reused
            yield from map(self._text, choices[:1] if isinstance(choices, list) else ())

    def _text(self, choice: Any) -> str:
        reason, message = as_dict(choice).get("finish_reason"), as_dict(choice).get("message")
        self.is_done, self.is_cut = self.is_done or bool(reason or message), self.is_cut or reason == "length"
        part = as_dict(message or as_dict(choice).get("delta"))
        self.has_reasoned |= bool(part.get("reasoning_content") or part.get("reasoning"))
        text = part.get("content") or ""
        if not isinstance(text, str):
            raise ValueError("no text")
        return text


def reach(
    settings: ModelSettings, environ: Mapping[str, str], yield_point: Callable[[], None] = lambda: None
) -> "ServerModel":
    """Return the configured model, as its server describes it.

    NoModel if it is not there, UsageError where mail text may not go there. `yield_point` is called while it writes.
    """
    endpoint = endpoint_of(settings)
    client = ServerClient(endpoint, api_key(settings.key, environ))
    name, context, digest = describe(client)
    named = replace(client, endpoint=replace(endpoint, name=name), yield_point=yield_point)
    return ServerModel(named, context, settings.context, digest)


@dataclass(slots=True)
class ServerModel:
    """A language model that a server runs, in the shape of one in memory; mutable.

    Nothing is known of its tokenizer. What counts as a token is three bytes of text, so that budgets hold and the text
    can be put together again; its first segment is the system message, the others are the user's. It computes nothing
    before it is to decode, and keeps nothing: the server has a prefix cache of its own.
    """

    client: ServerClient
    told: int | None  # tokens of context, if the server reports them
    limit: int = 0  # of them, by the settings; 0: none
    digest: str = ""  # of the model's files, if the server reports it
    last: Completion = field(default_factory=Completion)
    sub_step: int = 1
    frame: Frame = field(default_factory=Frame)
    has_roles: bool = False

    @property
    def name(self) -> str:
        """Return the model's name and where it runs."""
        return self.client.endpoint.shown

    @property
    def window(self) -> int:
        """Return the context length in tokens, as reported, set or assumed."""
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

        PkbError if it does not, or ends in the middle, or nothing but reasoning comes.
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
        if not self.last.is_done:
            raise PkbError(f"the model server at {endpoint.place} broke off", "see its log, then ask again")
        if self.last.has_reasoned and not is_said:
            why = f"{endpoint.name} only reasoned in the {most} tokens that it may write"
            raise PkbError(why, f"pkb config set model.max_tokens {8 * most}")

    def _stream(self, system: str, user: str, most: int) -> Generator[bytes, None, None]:
        """Send the prompt; where the server refuses fields that not all servers know, send it once more without."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        body: dict[str, Any] = {"model": self.client.endpoint.name, "messages": messages, "stream": True}
        body |= {"temperature": 0, "max_tokens": most}
        extras = {"stream_options": {"include_usage": True}, "chat_template_kwargs": {"enable_thinking": False}}
        path = f"{self.client.endpoint.path}/chat/completions"
        try:
            yield from self.client.stream(("POST", path, {**body, **extras, "seed": 0}))
        except Refused as error:
            if error.status not in (400, 422):
                raise
            yield from self.client.stream(("POST", path, body))


def _text_of(ids: Sequence[int]) -> str:
    return b"".join(id.to_bytes(_BYTES + 1).lstrip(b"\x00")[1:] for id in ids).decode("utf-8")


def doctor(home: Home, settings: Settings, environ: Mapping[str, str]) -> Checks:
    """Return the check that the configured server has the model, and that nobody can read what is sent; if any is."""

    def check() -> Check:
        found = reach(settings.model, environ)
        guess = "" if found.told or found.limit else ", a guess: the server does not tell (model.context)"
        result = f"{found.name}, {found.window} tokens of context{guess}"
        if warning := exposure(found.client.endpoint):
            return Check("model", "note", f"{result}; {warning}", "use https, or a server on this machine")
        return Check("model", "ok", result)

    return {"model": check} if settings.model.is_served else {}
