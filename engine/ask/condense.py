"""Follow-ups become stand-alone questions before anything else is done with them: by a model, or by rules.

The rules also decide whether what the model says is to be trusted. What stands alone passes as it is.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from engine.ask.followup import Turn, bare, by_rules, core, lacks
from engine.ask.prefill import Reading
from engine.ask.reply import Reply
from engine.ask.words import FUNCTION_WORDS, words
from prompts import prompt

Write = Callable[[str, Sequence[Turn]], str]  # has a model complete a question, given the turns before it
_TURNS, _ANSWER = 3, 300  # the last turns, which a model is shown; characters of each answer
_MOST, _FEW = 64, 6  # tokens of a question; words that an answer may have to stand in one
_LABEL = re.compile(r"^\W*(?:(?:the )?(?:last |rewritten |full )*question(?: in full)?\s*:)?[\s\"“*'`]*", re.IGNORECASE)
_NAMED = re.compile(r"(?<=\s)[^\W\d_a-zß-öø-ÿ][\w.'’-]*|\w*\d[\w.,:/-]*")


@dataclass(frozen=True, slots=True)
class Condensed:
    """A question as it is to be asked, and what made it so; None where nothing sensible could be made of it."""

    asked: str | None
    by: Literal["itself", "rules", "model"] = "itself"


def turn_of(reply: Reply) -> Turn:
    """Give a question that was answered as a turn of a conversation."""
    answer = reply.answer or ""
    start, end = reply.highlight or (0, 0)
    short = reply.writer == "model" and len(answer.split()) <= _FEW
    focus = bare(answer[start:end] or (answer if short else ""))
    return Turn(reply.question, reply.answer, focus if len(focus.split()) <= _FEW else "")


def condense(text: str, turns: Sequence[Turn], write: Write | None = None) -> Condensed:
    """Make a question stand alone, given the turns before it, the last one last; `write` has a model do it."""
    if lacks(text, first=not turns) is None:
        line = core(text)
        if line in ("", bare(text)):
            return Condensed(text.strip())
        return Condensed(f"{line[:1].upper()}{line[1:]}?", "rules")
    if write and turns and (said := trusted(write(text, turns), text, turns)):
        return Condensed(said, "model")
    return Condensed(by_rules(text, turns), "rules")


def trusted(said: str, text: str, turns: Sequence[Turn]) -> str | None:
    """Give the question that a model made of another; None where it names what nobody named, or lacks something yet."""
    line = _line(said)
    before = " ".join(part for turn in turns for part in (turn.asked, turn.answer or ""))
    known, own = _content(f"{before} {text}"), _content(core(text))
    named = {word for name in _NAMED.findall(f" {bare(line)}") for word in words(name)}
    filled = (_content(line) & _content(before)) - own
    if not line or lacks(line) is not None or not named <= known | FUNCTION_WORDS:
        return None
    asking = re.match(r"(?:how \w+|whom?|what|which|when|where|why)\b(?! about)(?<!how about)", core(text), re.I)
    asks = set(words(asking[0])) if asking else set()
    return line if filled and own <= _content(line) and asks <= set(words(line)) else None


def with_model(load: Callable[[], Reading]) -> Write:
    """Give what has a model complete a question: nothing of it is kept, and nothing where it does not fit the model."""

    def write(text: str, turns: Sequence[Turn]) -> str:
        model = load().model
        system, _, rest = prompt("condense").partition("\n")
        before = (*model.frame.opening, *model.tokens(f"{system}\n"), *model.frame.turning)
        for count in range(min(_TURNS, len(turns)), 0, -1):
            asked = rest.format(turns="\n".join(_told(turn) for turn in turns[-count:]), question=bare(text))
            last = (*model.tokens(asked), *model.frame.closing)
            if len(before) + len(last) + _MOST <= model.context:
                cache = model.begin()
                model.prefill(cache, before)
                return "".join(model.decode(cache, last, _MOST))
        return ""

    return write


def _told(turn: Turn) -> str:
    answer = " ".join((turn.answer or "not found").split())[:_ANSWER]
    return f"Question: {' '.join(turn.asked.split())}\nAnswer: {answer}"


def _line(said: str) -> str:
    """Give the first line that says something, as a question."""
    lines = (bare(_LABEL.sub("", line).rstrip("\"”*'` ")) for line in said.splitlines())
    line = next((line for line in lines if line), "")
    return f"{line[:1].upper()}{line[1:]}?" if len(line.split()) > 1 else ""


def _content(text: str) -> set[str]:
    return set(words(text)) - FUNCTION_WORDS
