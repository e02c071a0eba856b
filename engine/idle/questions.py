"""Questions out of what a language model wrote when asked for some: lists of any form, JSON, and chatter around them.

Never raises, whatever was written. Knows no model, and not what the questions were to be about.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from engine.ask.keys import normalise

LONGEST = 200  # characters of a question
_READ = 20_000  # characters that are looked at
_DEPTH = 20  # brackets within brackets, beyond which a text is no list of questions
_BULLET = re.compile(r"^(?:[-*•+–—>#|]+\s*|\(?(?:\d{1,3}|[a-zA-Z])[.):\]]\s+|\[\d{1,3}\]\s*)+")
_LABEL = re.compile(r"^\**(?:questions?|q|prediction)\s*\d{0,3}\**\s*[:.)]\**\s*", re.IGNORECASE)
_MARKS = "\"'“”„«»‘’`*_ \t"
_END = re.compile(r"[?？]+[\"'”’»)*_]*(?=\s+[^\Wa-z]|\s*$)|？")
_SPECIAL = re.compile(r"<\|[^|>]{0,40}\|>|</?s>")
_ASKS = re.compile(
    r"(?:wh(?:at|en|ere|ich|o|om|ose|y)|how|is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|may"
    r"|in which|at what|on which|to whom|by when)(?:['’]s)?\s",
    re.IGNORECASE,
)
_BLANK = re.compile(r"\[[^\]\d]*\]|<[^>]*>|\{[^}]*\}|_{2,}|\.{3}|…")  # what was to be filled in
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def parse(written: str, most: int) -> list[str]:
    """Give the first `most` questions of a text, each once, on one line."""
    found = dict[str, str]()
    for piece in _pieces(_SPECIAL.sub("\n", written[:_READ])):
        question = _question(piece)
        if question:
            found.setdefault(normalise(question), question)
    return list(found.values())[: max(0, most)]


def _pieces(text: str) -> Iterator[str]:
    """Give the strings of a JSON list or object where one was written, else the lines."""
    for opening, closing in ("[]", "{}"):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end and '"' in text[start:end]:
            strings = list(_strings(_decoded(text[start : end + 1])))
            if strings:
                yield from strings
                return
    for line in text.splitlines():
        yield from _apart(line)


def _decoded(text: str) -> Any:
    if max(text.count("["), text.count("{")) > _READ // 100:
        return None  # deep enough to exhaust the decoder
    try:
        return json.loads(text)
    except ValueError:
        return None


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, (list, dict)) and depth < _DEPTH:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one, depth + 1)


def _apart(line: str) -> Iterator[str]:
    """Part a line that asks more than once."""
    start = 0
    for end in _END.finditer(line):
        yield line[start : end.end()]
        start = end.end()
    if line[start:].strip():
        yield line[start:]


def _question(piece: str) -> str | None:
    """Clean one line; None where it asks nothing, asks too long, or leaves a blank to be filled in."""
    text = "".join(" " if unicodedata.category(c)[0] == "C" else c for c in piece)
    text = " ".join(text.split())
    before = ""
    while text != before:
        before, text = text, _LABEL.sub("", _BULLET.sub("", text.strip(_MARKS))).strip(_MARKS)
    text = text.rstrip(",;" + _MARKS)
    asks = text.endswith(("?", "？")) or _ASKS.match(text) is not None
    if not asks or not 5 <= len(text) <= LONGEST or _BLANK.search(text) or not _has_words(text):
        return None
    return text if text.endswith(("?", "？")) else text.rstrip(".:! ") + "?"


def _has_words(text: str) -> bool:
    return len(re.findall(r"[^\W\d_]+", text)) > 1 or len(_WIDE.findall(text)) > 2
