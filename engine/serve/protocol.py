"""Values that travel between processes: frames of JSON, whose parts are checked against types by msgspec."""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from msgspec import Struct, convert

from engine.settings import Settings, keys, put
from engine.types import Answer, AskOptions, AskResult, Step, Trace, json_values

if TYPE_CHECKING:
    from engine.session import Session


PROTOCOL = 6  # raised when a frame changes its meaning
LIMIT = 8 << 20  # bytes of one frame: fifty long sources take a tenth of it
_LENGTH = Layout(">I")

Frame = dict[str, Any]


class Broken(Exception):
    """What came in is no frame; nothing behind it can be understood either."""


def encode(kind: str, values: Mapping[str, Any]) -> bytes:
    """Return the bytes of a frame; Broken where it would be too long."""
    body = json.dumps({"kind": kind, **values}).encode()  # escaped: file names need not be text
    if len(body) > LIMIT:
        raise Broken(f"a frame of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Takes bytes as they come, in pieces of any size, and gives the frames that they complete."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._bytes = limit, bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that are whole now, in order; Broken where one cannot be."""
        self._bytes += data
        found = []
        while (body := self._next()) is not None:
            found.append(_read(body))
        return found

    def _next(self) -> bytes | None:
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        if length > self._limit:
            raise Broken(f"a frame of {length} bytes")
        end = _LENGTH.size + length
        if len(self._bytes) < end:
            return None
        body = bytes(self._bytes[_LENGTH.size : end])
        del self._bytes[:end]
        return body


def _read(body: bytes) -> Frame:
    try:
        frame = json.loads(body.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):  # of which bad UTF-8 is one
        raise Broken("a frame that is no JSON") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise Broken("a frame without a kind")
    return frame


def refuse(constant: str) -> NoReturn:
    """Refuse a number that JSON has no words for, such as NaN."""
    raise ValueError(constant)


T = TypeVar("T")


def unpack(kind: type[T], value: Any) -> T:
    """Return JSON values as a value of this type, each part checked against its own; Broken."""
    try:
        return convert(value, kind)
    except ValueError as error:  # of which a field's name that is no text is one
        raise Broken(str(error)) from None


class Request(Struct, frozen=True):
    """A question, when and how it is asked, and every setting that it is asked under, as text.

    What came of it is not stored where anything was forgotten since its epoch.
    """

    text: str
    options: AskOptions
    now: datetime
    settings: dict[str, str]
    keeps_tensors: bool
    collection: str | None
    streams: bool
    epoch: int


def request(opened: "Session", text: str, options: AskOptions, *, streams: bool) -> Any:
    """Write a question down."""
    settings = {key: str(value) for key, value in keys(opened.settings).items()}
    for key in ("model.name", "embed.model"):
        settings[key] = _wherever(settings[key])
    how = (opened.keeps_tensors, opened.collection, streams, opened.ledger.epoch)
    return json_values(Request(text, options, opened.now, settings, *how))


def _wherever(name: str) -> str:
    """Return a model's name as it is understood in any folder."""
    return str(Path(name).absolute()) if name and Path(name).is_dir() else name


def under(settings: Settings, wanted: dict[str, str]) -> Settings:
    """Apply the settings of a request; UsageError if one is invalid."""
    known = keys(settings)
    for key, value in wanted.items():
        if str(known.get(key)) != value:
            settings = put(settings, key, value, "this command")
    return settings


class AnswerFrame(Struct, frozen=True):
    """An answer and its trace, as they travel."""

    reply: Answer
    covered: float | None
    steps: list[Step]
    notices: list[str]
    saved_s: float


def answer(answered: AskResult) -> Any:
    """Serialize an answer and its trace to JSON values."""
    trace = answered.trace
    return json_values(AnswerFrame(answered.reply, answered.covered, trace.steps, trace.notices, trace.saved_s))


def answered(values: Any) -> AskResult:
    """Deserialize an answer and its trace; Broken if the values are malformed."""
    made = unpack(AnswerFrame, values)
    return AskResult(made.reply, Trace(made.steps, made.notices, made.saved_s), made.covered)
