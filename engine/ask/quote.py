"""The quote writer: answers from the sources themselves when there is no language model.

Picks sentences, and of a sentence the date, address or number that was asked for; adds nothing of its own but what a
relative date means, and who said it. Declines where nothing supports an answer. Knows neither banks nor files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.ask.candidates import Candidate, Read, Weights, candidates
from engine.ask.occasion import occasion
from engine.ask.question import Question
from engine.ask.saying import Forms, say
from engine.ask.spans import Kind
from engine.ask.support import Evidence, support

__all__ = ["Quote", "QuoteSettings", "Read", "quote", "wanted"]

_WORDING: tuple[tuple[Kind, str], ...] = (
    ("email", r"e-?mail address(?:es)?|address\w* .*\be-?mail"),
    (
        "phone",
        r"(?:what(?:['’]s| is| are| was)?|which|find|give me)(?: [\w'’.]+){0,4}"
        r" (?:phone|telephone|fax|cell|mobile|pager|dial-?in) (?:numbers?|no)|numbers? to (?:call|join|dial)",
    ),
    ("duration", r"how long(?! ago)|how many (?:\w+ )?(?:minutes|hours|days|weeks|months|years)"),
    ("date", r"what(?:['’]s| is| was) (?:[\w'’.-]+ ){1,5}date(?= ?\?|$)"),
    ("link", r"url|web ?site|web page|web address|hyperlink"),
)
_KINDS = tuple((kind, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for kind, pattern in _WORDING)
_DEFINITION = re.compile(r"\s*[Ww]ho(?:['’]s| is| are| was| were)\s+[A-Z][\w.,'’ -]*\?*\s*$")
# Mail is not counted in mail.
_MAILS = re.compile(
    r"\bhow many (?:\w+ ){0,2}(?:(?:e-?)?mails?|messages?)\b.{0,100}\b(?:send|sends|sent|wr[io]te|written"
    r"|forward(?:ed)?|get|got|receive[ds]?|exchanged?|have|there|from|mention)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QuoteSettings:
    """How the quote writer chooses; fitted on public sets, see docs/log.md."""

    weights: Weights = field(default_factory=Weights)
    evidence: Evidence = field(default_factory=Evidence)
    forms: Forms = field(default_factory=Forms)
    least: float = 0.5  # support below which it declines


@dataclass(frozen=True, slots=True)
class Quote:
    """An answer in the words of its sources, or None where they hold none.

    `highlight` are offsets in `answer`, `source` the index of the read it rests on; `quotes` has one sentence per read,
    each an exact part of its text ("" where that has none), of that read the one the answer was taken from. `resolved`
    says what a relative date means.
    """

    answer: str | None
    highlight: tuple[int, int] | None
    source: int | None
    quotes: tuple[str, ...]
    support: float
    resolved: str | None = None


def quote(question: Question, reads: Sequence[Read], settings: QuoteSettings | None = None) -> Quote:
    """Answer a question from what was read for it, or decline."""
    settings, kind = settings or QuoteSettings(), wanted(question)
    when = occasion(question, kind)
    found = candidates(question, reads, kind, when, settings.weights)
    if when.coming and not any(one.day for one in found):  # nothing is to come any more: what was, by the newest source
        when = occasion(question, kind, max((read.date.date() for read in reads if read.date), default=None))
        found = candidates(question, reads, kind, when, settings.weights)
    supported = support(question, reads, found, when, settings.evidence)
    quotes = _quotes(found, len(reads))
    answers = bool(found) and supported >= settings.least and not _MAILS.search(question.text)
    said = say(question, reads, found, kind, settings.forms) if answers else None
    if said is None:
        return Quote(None, None, None, quotes, supported)
    own = said.quote or quotes[said.source]
    quotes = (*quotes[: said.source], own, *quotes[said.source + 1 :])
    return Quote(said.answer, said.highlight, said.source, quotes, supported, said.resolved)


def wanted(question: Question) -> Kind | None:
    """Tell which kind of span a question asks for, if any."""
    for kind, pattern in _KINDS:
        if pattern.search(question.text):
            return kind
    asked = question.asked
    if asked == "yes/no" or asked == "other" or (asked == "person" and _DEFINITION.match(question.text)):
        return None
    return asked


def _quotes(found: Sequence[Candidate], count: int) -> tuple[str, ...]:
    best: list[Candidate | None] = [None] * count
    for one in found:
        held = best[one.read]
        if held is None or one.score > held.score:
            best[one.read] = one
    return tuple(one.text if one else "" for one in best)
