"""A language model that a server runs, over OpenAI's chat protocol: Ollama, LM Studio, mlx_lm, llama.cpp, vLLM.

Knows completions as server-sent events or one JSON object, and nothing of prompts.
"""

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from engine.models.endpoint import (
    CONTEXT,
    Refused,
    ServerClient,
    api_key,
    as_count,
    as_dict,
    describe,
    endpoint_of,
    invalid,
    refusal,
)  # fmt: skip
from engine.models.types import Drafter, Frame, Meter
from engine.settings import ModelSettings
from store.errors import PkbError

_SPARE = 8  # 1/8 of the context is left free: tokens are estimated, and the template adds some
_BYTES = 3  # of UTF-8 for a token: fewer than in most text, so that the estimate errs on the high side
_BLANK = b"\xef\xbb\xbf \t\r\n"  # before a body: the bytes of UTF-8's mark, and space
_OPENING, _CLOSING = "<think>", "</think>"  # around the reasoning, where a server does not set it apart


def events(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each server-sent event, one line, however its bytes are cut; one JSON object is one event.

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

    NoModel if it is not there, UsageError where mail text may not be sent there. `yield_point` is called while the
    model writes.
    """
    endpoint = endpoint_of(settings)
    client = ServerClient(endpoint, api_key(settings.key, environ))
    name, context, digest = describe(client)
    named = replace(client, endpoint=replace(endpoint, name=name), yield_point=yield_point)
    return ServerModel(named, context, settings.context, digest)


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
    told: int | None  # tokens of context, if the server reports them
    limit: int = 0  # of them, by the settings; 0: none
    digest: str = ""  # of the model's files, if the server reports it
    last: Completion = field(default_factory=Completion)
    meter: Meter = field(default_factory=Meter)
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

        PkbError if it does not, or ends in the middle; OnlyReasoning where nothing but reasoning comes.
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

    def preference(self, cache: list[str], start: int, ids: Sequence[int], texts: tuple[str, str]) -> None:
        """Return None: servers report no comparable probabilities."""

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
