"""Values that travel between processes: dataclasses as plain JSON values and back, each checked against its type.

Knows types by their annotations alone: a field that is added to a value travels at once.
"""

from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from cli.daemon.wire import Broken

T = TypeVar("T")
_hints = cache(get_type_hints)


def pack(value: Any) -> Any:
    """Give a value as what JSON has words for."""
    if is_dataclass(value):
        return {one.name: pack(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, datetime):
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
    return _moment(value) if kind is datetime else _sure(kind, value)


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


def _moment(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(_sure(str, value))
    except ValueError:
        raise Broken("a time that is none") from None


def _sure(kind: Any, value: Any) -> Any:
    """Give a value of this very type; a whole number is a number, but yes and no are none."""
    if type(value) is kind or (kind is float and type(value) is int):
        return float(value) if kind is float else value
    raise Broken(f"{type(value).__name__} instead of {getattr(kind, '__name__', kind)}")
