"""Parses the reply of a chat completion: server-sent events, or one JSON object. Pure; opens no connection."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class Refused(Exception):
    """A server's refusal: its HTTP status, 0 in the middle of a reply, and what it says, which may be mail."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status, self.said = status, said


def events(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each server-sent event, however its bytes are cut; a body that is one JSON object is one event.

    Comments and other fields are skipped, and an event that the end of the body cuts off counts too.
    """
    whole, data, is_first = list[bytes](), list[bytes](), True
    for line in _lines(chunks):
        if whole or (is_first and line.lstrip(b"\xef\xbb\xbf \t")[:1] == b"{"):
            whole.append(line.removeprefix(b"\xef\xbb\xbf"))
        elif line.startswith(b"data:"):
            data.append(line[len(b"data:") :].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data).decode("utf-8", "replace")
            data = []
        is_first = is_first and not line.strip()
    if found := whole or data:
        yield b"\n".join(found).decode("utf-8", "replace")


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a body without their ends, LF or CRLF."""
    parts = list[bytes]()
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            yield b"".join([*parts, line]).removesuffix(b"\r")
            parts = []
        parts.append(rest)
    yield b"".join(parts).removesuffix(b"\r")


@dataclass(slots=True)
class Completion:
    """One completion as it arrives, and the server's figures of it, None where it tells none; mutable."""

    prompt: int | None = None
    reused: int = 0  # tokens that the server took from its own prefix cache
    generated: int | None = None
    is_cut: bool = False  # by the limit of tokens
    is_done: bool = False

    def pieces(self, found: Iterable[str]) -> Iterator[str]:
        """Yield the text of each event; ValueError where one is malformed, Refused where it reports an error."""
        for data in found:
            if data.strip() == "[DONE]":
                self.is_done = True
                return
            values = json.loads(data)
            if not isinstance(values, dict):
                raise ValueError("no object")
            if values.get("error"):
                raise Refused(0, json.dumps(values["error"]))
            self._count(as_dict(values.get("usage")))
            choices = values.get("choices")
            yield from map(self._text, choices[:1] if isinstance(choices, list) else ())

    def _text(self, choice: Any) -> str:
        reason, message = as_dict(choice).get("finish_reason"), as_dict(choice).get("message")
        self.is_done, self.is_cut = self.is_done or bool(reason or message), self.is_cut or reason == "length"
        text = as_dict(message or as_dict(choice).get("delta")).get("content") or ""
        if not isinstance(text, str):
            raise ValueError("no text")
        return text

    def _count(self, usage: Mapping[str, Any]) -> None:
        self.prompt = as_count(usage.get("prompt_tokens")) or self.prompt
        self.generated = as_count(usage.get("completion_tokens")) or self.generated
        self.reused = as_count(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")) or self.reused


_OPENING, _CLOSING = "<think>", "</think>"


def spoken(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces of a text, none empty, without the reasoning that it may begin with."""
    held, is_open = "", True
    for piece in pieces:
        held += piece
        start = held.lstrip()
        if is_open and start.startswith(_OPENING) and _CLOSING in start:
            held = start = start.partition(_CLOSING)[2].lstrip()
        if is_open and (start.startswith(_OPENING) or _OPENING.startswith(start)):
            continue
        is_open = False
        if held:
            yield held
        held = ""
    if held.strip() and not held.lstrip().startswith(_OPENING):
        yield held


def as_dict(value: Any) -> dict[str, Any]:
    """Return a JSON object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def as_count(value: Any) -> int | None:
    """Return an integer of 0 or more; None for anything else."""
    return value if type(value) is int and value >= 0 else None
