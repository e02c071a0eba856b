"""The quote writer: answers from the sources themselves when there is no language model.

Picks sentences, and of a sentence the date, address or number that was asked for; adds nothing of its own but what a
relative date means, and who said it. Declines where nothing supports an answer. Knows neither banks nor files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from engine.ask.question import Question
from engine.ask.spans import Kind, day_in_words, find, in_words
from engine.ask.support import Candidate, Evidence, Read, Weights, candidates, content, support
from engine.ask.words import words

__all__ = ["Quote", "QuoteSettings", "Read", "quote", "wanted"]

_WORDING: tuple[tuple[Kind, str], ...] = (
    ("email", r"e-?mail address(?:es)?|address\w* .*\be-?mail"),
    ("phone", r"(?:phone|telephone|fax|cell|mobile|pager)(?: \w+){0,2} (?:numbers?|no\b)|numbers? to (?:call|join|dial)|dial-?in"),
    ("duration", r"how long(?! ago)|how many (?:\w+ )?(?:minutes|hours|days|weeks|months|years)"),
    ("link", r"url|web ?site|web page|web address|hyperlink"),
)
_KINDS = tuple((kind, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for kind, pattern in _WORDING)
_BROAD = re.compile(
    r"\b(?:summari[sz]e|describe|discuss\w*|explain|opinions?|th(?:ink|ought)s?|views?|attitudes?|conclu\w+|deci\w+|advantages?"
    r"|disadvantages?|reasons?|suggest\w*|recommend\w*|introduc\w+|talk\w*|propos\w+|agree\w*|disagree\w*|respon\w+|concerns?"
    r"|what (?:did|do|does|were|was|is|are) (?:the )?(?:group|team|committee|members|meeting))\b",
    re.IGNORECASE,
)
_PAST = re.compile(r"\b(?:did|was|were|has|had|have)\b", re.IGNORECASE)
_DEFINITION = re.compile(r"\s*[Ww]ho(?:['’]s| is| are| was| were)\s+[A-Z][\w.,'’ -]*\?*\s*$")
_SENT = re.compile(r"\s*who(?:m| has| had)?\s+(?:sent|wrote|mailed|emailed|e-mailed|forwarded)\b", re.IGNORECASE)
_HOW = re.compile(r"\s*(?:why|how)\b", re.IGNORECASE)
_FIRST = re.compile(r"\b(?:I|we)\b")
_BARE: frozenset[Kind] = frozenset(("date", "time", "duration", "amount", "email", "phone", "link", "place", "person", "number"))


@dataclass(frozen=True, slots=True)
class QuoteSettings:
    """How the quote writer chooses; `bare` are the kinds that are answered by the span alone, the sentence beside it."""

    weights: Weights = field(default_factory=Weights)
    evidence: Evidence = field(default_factory=Evidence)
    least: float = 0.5  # support below which it declines
    most: int = 3  # sentences of an answer to a broad question
    bare: frozenset[Kind] = _BARE


@dataclass(frozen=True, slots=True)
class Quote:
    """An answer in the words of its sources, or None where they hold none.

    `highlight` are offsets in `answer`, `source` the index of the read it rests on; `quotes` has one sentence per read, each an
    exact part of its text ("" where a read holds none). `resolved` says what a relative date means.
    """

    answer: str | None
    highlight: tuple[int, int] | None
    source: int | None
    quotes: tuple[str, ...]
    support: float
    resolved: str | None = None


@dataclass(frozen=True, slots=True)
class _Said:
    answer: str
    highlight: tuple[int, int] | None = None
    resolved: str | None = None


def quote(question: Question, reads: Sequence[Read], settings: QuoteSettings | None = None) -> Quote:
    """Answer a question from what was read for it, or decline."""
    settings = settings or QuoteSettings()
    kind = wanted(question)
    found = candidates(question, reads, kind, settings.weights)
    supported = support(question, reads, found, settings.evidence)
    quotes = _quotes(found, len(reads))
    if not found or supported < settings.least:
        return Quote(None, None, None, quotes, supported)
    best = max(found, key=lambda one: (one.score, -one.read, -one.place))
    said, source = _say(question, reads, found, best, kind, settings), best.read
    if kind in ("email", "phone") and question.names:
        if (contact := _contact(question, reads, kind)) is None:
            return Quote(None, None, None, quotes, supported)
        said, source = _Said(contact[0], (0, len(contact[0]))), contact[1]
    elif sender := _sender(question, reads):
        said, source = _Said(sender[0], (0, len(sender[0]))), sender[1]
    return Quote(said.answer, said.highlight, source, quotes, supported, said.resolved)


def wanted(question: Question) -> Kind | None:
    """Tell which kind of span a question asks for, if any."""
    for kind, pattern in _KINDS:
        if pattern.search(question.text):
            return kind
    asked = question.asked
    if asked in ("yes/no", "other") or (asked == "person" and _DEFINITION.match(question.text)):
        return None
    return asked


def _quotes(found: Sequence[Candidate], count: int) -> tuple[str, ...]:
    best: list[Candidate | None] = [None] * count
    for one in found:
        held = best[one.read]
        if held is None or one.score > held.score:
            best[one.read] = one
    return tuple(one.text if one else "" for one in best)


def _say(
    question: Question, reads: Sequence[Read], found: Sequence[Candidate], best: Candidate, kind: Kind | None, settings: QuoteSettings
) -> _Said:
    """Choose the form: the span alone, its sentence with the span highlighted, or several sentences."""
    read = reads[best.read]
    if best.spans and kind:
        return _span(question, read, found, best, kind, settings)
    if kind == "date" and read.date:
        return _Said(f"{day_in_words(read.date.date())}: {_flat(best.text)}")
    if kind == "person" and best.speaker and _FIRST.search(best.text):
        return _Said(f"{_name(best.speaker)}: {_flat(best.text)}", (0, len(_name(best.speaker))))
    if kind is None and _BROAD.search(question.text):
        return _Said(_several(found, best, settings.most))
    goes_on = best.text.endswith("?") or (kind is None and _HOW.match(question.text) is not None)
    return _Said(_with_next(found, best) if goes_on else _flat(best.text))


def _span(question: Question, read: Read, found: Sequence[Candidate], best: Candidate, kind: Kind, settings: QuoteSettings) -> _Said:
    span = _nearest(question, best)
    text, past = _flat(best.text[span[0] : span[1]]), _PAST.search(question.text) is not None
    resolved = in_words(text, read.date, past) if kind == "date" and read.date else None
    if kind in settings.bare and _stands_alone(question, found, best, span, kind):
        answer = resolved or text
        if kind == "date" and not past and (clock := find(best.text, "time")):
            answer += ", " + _flat(best.text[clock[0].start : clock[0].end])
        return _Said(answer, (0, len(answer)), resolved)
    before = f"{resolved}: " if resolved else ""
    start = len(before) + len(_flat(best.text[: span[0]] + "|")) - 1
    return _Said(before + _flat(best.text), (0, len(resolved)) if resolved else (start, start + len(text)), resolved)


def _nearest(question: Question, best: Candidate) -> tuple[int, int]:
    """Take the span that stands nearest to the words of the question."""
    wanted_words = set(content(question))
    places = [match.start() for match in re.finditer(r"\w+", best.text) if set(words(match.group())) & wanted_words]
    span = min(best.spans, key=lambda one: (sum(sorted(abs(one.start - place) for place in places)[:3]), one.start))
    return span.start, span.end


def _stands_alone(question: Question, found: Sequence[Candidate], best: Candidate, span: tuple[int, int], kind: Kind) -> bool:
    """Tell whether a span answers without its sentence, or might be no place, person or number asked for at all."""
    text = best.text[span[0] : span[1]]
    if kind == "place":
        return any(letter.isupper() or letter.isdigit() for letter in text)
    if kind == "person":
        known = any(set(words(text)) & set(words(one.speaker or "")) for one in found)
        return " " in text or span[0] > 0 or known
    if kind == "number":
        asked = re.search(r"how many\s+(\w+)", question.text, re.IGNORECASE)
        return asked is not None and bool(set(words(asked[1])) & set(words(best.text[span[1] : span[1] + 30])))
    return True


def _with_next(found: Sequence[Candidate], best: Candidate) -> str:
    """Give a sentence and the next: a reply to a question, else what the same speaker goes on to say."""
    after = [one for one in found if (one.read, one.place) == (best.read, best.place + 1)]
    kept = [one for one in after if best.text.endswith("?") or one.span.turn == best.span.turn]
    return " ".join(_flat(one.text) for one in (best, *kept))


def _several(found: Sequence[Candidate], best: Candidate, most: int) -> str:
    """Join the best sentences in the order of their sources, each speaker named once in a row."""
    good = [one for one in found if one.score > best.score / 2 or one is best]
    chosen = sorted(sorted(good, key=lambda one: -one.score)[:most], key=lambda one: (one.read, one.place))
    parts, speaker = list[str](), None
    for one in chosen:
        named = one.span.speaker
        parts.append(f"{named}: {_flat(one.text)}" if named and named != speaker else _flat(one.text))
        speaker = named
    return " ".join(parts)


def _contact(question: Question, reads: Sequence[Read], kind: Kind) -> tuple[str, int] | None:
    """Find the address or number of whom the question names; that of anybody else is no answer."""
    names = [set(words(name)) for name in question.names]
    best: tuple[float, str, int] | None = None
    for index, read in enumerate(reads):
        for part in (read.sender, *read.recipients, read.header, read.text):
            for one in find(part, kind):
                itself, near = set(words(part[one.start : one.end])), set(words(part[max(0, one.start - 60) : one.end]))
                fit = max((len(name & near) + len(name & itself)) / max(1, len(name)) for name in names)
                if fit > (best[0] if best else 0.4):
                    best = (fit, part[one.start : one.end], index)
    return (best[1], best[2]) if best else None


def _sender(question: Question, reads: Sequence[Read]) -> tuple[str, int] | None:
    if _SENT.match(question.text) and reads and reads[0].sender:
        return reads[0].sender, 0
    return None


def _name(speaker: str) -> str:
    """Give a name without its address."""
    return _flat(speaker.partition("<")[0].strip(' "')) or speaker.strip("<> ")


def _flat(text: str) -> str:
    return " ".join(text.split())
