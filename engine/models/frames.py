"""A model's chat template, rendered once around marks and cut there: what stands before, between and behind a prompt.

Text alone; it knows no tokens. A template is a program from the model's folder, so it runs in a sandbox.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from store.errors import PkbError

SYSTEM, USER, ANSWER = "SystemTextOfPkb", "UserTextOfPkb", "AnswerTextOfPkb"
TODAY = datetime(2024, 7, 26)  # to a template that asks: a prompt must not change with the day
FILE, KEY, DEFAULT = "chat_template.jinja", "chat_template", "default"
TRAINING = re.compile(r"(\{%-?\s*)(end)?generation(?=\s*-?%\})")
WRONG = (TemplateError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

APART = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": USER})
JOINED = ({"role": "user", "content": SYSTEM + USER},)
ANSWERED = ({"role": "assistant", "content": ANSWER},)


@dataclass(frozen=True, slots=True)
class Framing:
    """The text before, between and behind the system's part and the user's.

    `ended` is what follows an answer, empty where the template does not tell.
    """

    opening: str
    turning: str
    closing: str
    ended: str


def find_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Give a model's chat template, from its own file or from tokenizer_config.json; None where it has none."""
    if (folder / FILE).is_file():
        return (folder / FILE).read_text("utf-8", errors="replace")
    found = config.get(KEY)
    if isinstance(found, list):
        named = [one for one in found if isinstance(one, dict)]
        found = next((one.get("template") for one in named if one.get("name") == DEFAULT), None)
    return found if isinstance(found, str) else None


def frame(source: str, names: Mapping[str, str], model: str) -> Framing:
    """Cut a template, given the names of its special tokens; PkbError where it cannot hold a prompt.

    Where it knows no system's part, that becomes the head of the user's.
    """
    problem: Exception | None = None
    for messages in (APART, JOINED):
        try:
            template = _environment().from_string(_plain(source))
            parts = _cut(_render(template, names, messages, asking=True))
            return Framing(*parts, _ended(template, names, messages))
        except WRONG as error:
            problem = problem or error
    said = " ".join(str(problem).split())[:200]
    raise PkbError(f"the chat template of {model} cannot be used: {said}", "pkb model list")


def _render(template: Template, names: Mapping[str, str], messages: tuple[dict[str, str], ...], *, asking: bool) -> str:
    return template.render(
        names,
        messages=[dict(message) for message in messages],
        add_generation_prompt=asking,
        enable_thinking=False,
        tools=None,
        date_string=f"{TODAY:%d %b %Y}",
        strftime_now=TODAY.strftime,
        raise_exception=_refuse,
    )


def _cut(text: str) -> tuple[str, str, str]:
    if text.count(SYSTEM) != 1 or text.count(USER) != 1 or text.index(SYSTEM) > text.index(USER):
        raise ValueError("it does not keep what is said once and in order")
    opening, rest = text.split(SYSTEM)
    turning, closing = rest.split(USER)
    return opening, turning, closing


def _ended(template: Template, names: Mapping[str, str], messages: tuple[dict[str, str], ...]) -> str:
    try:
        _, found, rest = _render(template, names, messages + ANSWERED, asking=False).rpartition(ANSWER)
    except WRONG:  # it is not asked to render answers, only to end where one begins
        return ""
    return rest if found else ""


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _json
    return environment


def _plain(source: str) -> str:
    """Put an ordinary block in the place of the one that marks answers for training."""
    return TRAINING.sub(lambda found: found[1] + ("endif" if found[2] else "if true"), source)
