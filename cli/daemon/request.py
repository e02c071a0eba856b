"""A question and its answer as they travel: all that an answer depends on goes one way, all that is shown the other."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.daemon.parcel import pack, unpack
from engine.settings import Settings, keys, put
from engine.types import Answered, Manner, Reply, Step, Trace

if TYPE_CHECKING:
    from cli.session import Session


@dataclass(frozen=True, slots=True)
class Request:
    """A question, when and how it is asked, and every setting that it is asked under, as text."""

    text: str
    manner: Manner
    now: datetime
    settings: dict[str, str]
    keeps_tensors: bool
    streams: bool


@dataclass(frozen=True, slots=True)
class _Shown:
    """What is shown of an answer."""

    reply: Reply
    covered: float | None
    steps: list[Step] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    saved_s: float = 0.0


def request(opened: "Session", text: str, manner: Manner, *, streams: bool) -> Any:
    """Write a question down."""
    settings = {key: str(value) for key, value in keys(opened.settings).items()}
    for key in ("model.name", "embed.model"):
        settings[key] = _wherever(settings[key])
    return pack(Request(text, manner, opened.now, settings, opened.keeps_tensors, streams))


def _wherever(name: str) -> str:
    """Give a model's name as it is understood in any folder."""
    return str(Path(name).absolute()) if name and Path(name).is_dir() else name


def requested(values: Any) -> Request:
    """Read a question; Broken where it is none."""
    return unpack(Request, values)


def under(settings: Settings, wanted: dict[str, str]) -> Settings:
    """Give settings with those of a request in their place; UsageError where one cannot be."""
    known = keys(settings)
    for key, value in wanted.items():
        if str(known.get(key)) != value:
            settings = put(settings, key, value, "this command")
    return settings


def answer(answered: Answered) -> Any:
    """Write an answer down."""
    trace = answered.trace
    return pack(_Shown(answered.reply, answered.covered, trace.steps, trace.notices, trace.saved_s))


def answered(values: Any) -> Answered:
    """Read an answer; Broken where it is none."""
    shown = unpack(_Shown, values)
    return Answered(shown.reply, Trace(shown.steps, shown.notices, shown.saved_s), shown.covered)
