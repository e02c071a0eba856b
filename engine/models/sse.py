"""Parses the reply of a chat completion: server-sent events, or one JSON object. Pure; opens no connection."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MARK = b"\xef\xbb\xbf"  # of UTF-8, before a body
_OPENING, _CLOSING = "<think>", "</think>"  # around the reasoning, where a server does not set it apart


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
        line = line.removeprefix(_MARK) if is_first else line
        if whole or (is_first and line.lstrip()[:1] == b"{"):
            whole.append(line)
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
    has_reasoned: bool = False

    def pieces(self, found: Iterable[str]) -> Iterator[str]:
        """Yield the text of events in pieces, none empty, without the reasoning that it may begin with.

        ValueError where an event is malformed, Refused where it reports an error.
        """
        held, is_open = "", True
        for piece in filter(None, self._contents(found)):
            held += piece
            if is_open:
                held = self._without_reasoning(held)
                is_open = _OPENING.startswith(held.lstrip()[: len(_OPENING)])  # it reasons, or may be about to
            if not is_open:
                yield held
                held = ""
        if held.strip() and not held.lstrip().startswith(_OPENING):
            yield held

    def _without_reasoning(self, held: str) -> str:
        """Return the beginning of a text without reasoning that is complete, and the blanks behind it."""
        start = held.lstrip()
        if start.startswith(_OPENING):
            self.has_reasoned = True
            _, closed, after = start.partition(_CLOSING)
            return after.lstrip() if closed else start
        return start if self.has_reasoned else held

    def _contents(self, found: Iterable[str]) -> Iterator[str]:
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
        part = as_dict(message or as_dict(choice).get("delta"))
        self.has_reasoned |= bool(part.get("reasoning_content") or part.get("reasoning"))
        text = part.get("content") or ""
        if not isinstance(text, str):
            raise ValueError("no text")
        return text

    def _count(self, usage: Mapping[str, Any]) -> None:
        self.prompt = as_count(usage.get("prompt_tokens")) or self.prompt
        self.generated = as_count(usage.get("completion_tokens")) or self.generated
        self.reused = as_count(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")) or self.reused


def as_dict(value: Any) -> dict[str, Any]:
    """Return a JSON object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def as_count(value: Any) -> int | None:
    """Return an integer of 0 or more; None for anything else."""
    return value if type(value) is int and value >= 0 else None
