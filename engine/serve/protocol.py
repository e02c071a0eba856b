"""Values that travel between processes: dataclasses as plain JSON values and back, each checked against its type.

Knows types by their annotations alone: a field that is added to a value travels at once.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from functools import cache
from pathlib import Path
from struct import Struct
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from engine.settings import Settings, keys, put
from engine.types import Answer, AskOptions, AskResult, Step, Trace

if TYPE_CHECKING:
    from engine.session import Session


PROTOCOL = 5  # raised when a frame changes its meaning
LIMIT = 8 << 20  # bytes of one frame: fifty long sources take a tenth of it
_LENGTH = Struct(">I")

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
_hints = cache(get_type_hints)


def pack(value: Any) -> Any:
    """Return a value as what JSON has words for."""
    if is_dataclass(value):
        return {one.name: pack(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return [pack(one) for one in value]
    if isinstance(value, dict):
        return {key: pack(one) for key, one in value.items()}
    return value


def unpack(kind: type[T], value: Any) -> T:
    """Give back what was packed; Broken where it is no such value."""
    made: T = _as(kind, value)
    return made


def _as(kind: Any, value: Any) -> Any:
    if kind is Any:  # a value of JSON itself
        return value
    if is_dataclass(kind):
        return _made(kind, value)
    parts, origin = get_args(kind), get_origin(kind)
    if origin in (Union, UnionType):
        return _either(parts, value)
    if origin is tuple:
        return _tuple(parts, value)
    if origin is list:
        return [_as(parts[0], one) for one in _sure(list, value)]
    if origin is dict:
        return {_as(parts[0], key): _as(parts[1], one) for key, one in _sure(dict, value).items()}
    if origin is Literal:
        return value if value in parts and isinstance(value, str) else _sure(NoneType, kind)
    return _time(kind, value) if kind in (datetime, date) else _sure(kind, value)


def _made(kind: Any, value: Any) -> Any:
    hints, given = _hints(kind), _sure(dict, value)
    wanted = {one.name for one in fields(kind)}
    if set(given) != wanted:
        raise Broken(f"{kind.__name__} with other fields")
    return kind(**{name: _as(hints[name], one) for name, one in given.items()})


def _either(parts: tuple[Any, ...], value: Any) -> Any:
    if value is None and NoneType in parts:
        return None
    (kind,) = [part for part in parts if part is not NoneType]  # no value of ours is one of two kinds
    return _as(kind, value)


def _tuple(parts: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    given = _sure(list, value)
    kinds = parts[:1] * len(given) if parts[-1] is Ellipsis else parts
    if len(kinds) != len(given):
        raise Broken("a tuple of another length")
    return tuple(_as(kind, one) for kind, one in zip(kinds, given, strict=True))


def _time(kind: type[date], value: Any) -> date:
    try:
        return kind.fromisoformat(_sure(str, value))
    except ValueError:
        raise Broken("a time that is none") from None


def _sure(kind: Any, value: Any) -> Any:
    """Return a value of this very type; a whole number is a number, but yes and no are none."""
    if type(value) is kind or (kind is float and type(value) is int):
        return float(value) if kind is float else value
    raise Broken(f"{type(value).__name__} instead of {getattr(kind, '__name__', kind)}")


@dataclass(frozen=True, slots=True)
class Request:
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
    return pack(Request(text, options, opened.now, settings, *how))


def _wherever(name: str) -> str:
    """Return a model's name as it is understood in any folder."""
    return str(Path(name).absolute()) if name and Path(name).is_dir() else name


def requested(values: Any) -> Request:
    """Read a question; Broken where it is none."""
    return unpack(Request, values)


def under(settings: Settings, wanted: dict[str, str]) -> Settings:
    """Apply the settings of a request; UsageError if one is invalid."""
    known = keys(settings)
    for key, value in wanted.items():
        if str(known.get(key)) != value:
            settings = put(settings, key, value, "this command")
    return settings


def answer(answered: AskResult) -> Any:
    """Serialize an answer and its trace to JSON values."""
    trace = answered.trace
    about = {"steps": pack(trace.steps), "notices": trace.notices, "saved_s": trace.saved_s}
    return {"answer": pack(answered.reply), "covered": answered.covered, **about}


def answered(values: Any) -> AskResult:
    """Deserialize an answer and its trace; Broken if the values are malformed."""
    read = {"answer": Answer, "covered": float | None, "steps": list[Step], "notices": list[str], "saved_s": float}
    reply, covered, *trace = (_as(kind, _sure(dict, values).get(name)) for name, kind in read.items())
    return AskResult(reply, Trace(*trace), covered)
