"""The quote writer: answers from the sources themselves when there is no language model.

Picks sentences, and of a sentence the date, address or number that was asked for; adds nothing of its own but what a
relative date means, and who said it. Declines where nothing supports an answer. Knows neither banks nor files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engine.ask.choose import choose
from engine.ask.moments import day_in_words, in_words
from engine.ask.occasion import occasion
from engine.ask.question import Question
from engine.ask.spans import Found, Kind, find, time_of
from engine.ask.support import Candidate, Evidence, Read, Weights, candidates, support
from engine.ask.words import words

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
_BROAD = re.compile(
    r"\b(?:summari[sz]e|describe|discuss\w*|explain|opinions?|th(?:ink|ought)s?|views?|attitudes?|conclu\w+|deci\w+"
    r"|advantages?|disadvantages?|reasons?|suggest\w*|recommend\w*|introduc\w+|talk\w*|propos\w+|agree\w*|disagree\w*"
    r"|respon\w+|concerns?|what (?:did|do|does|were|was|is|are) (?:the )?(?:group|team|committee|members|meeting))\b",
    re.IGNORECASE,
)
_HOW = re.compile(r"\s*(?:why|how)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(?:did|was|were|has|had|have)\b", re.IGNORECASE)
_DEFINITION = re.compile(r"\s*[Ww]ho(?:['’]s| is| are| was| were)\s+[A-Z][\w.,'’ -]*\?*\s*$")
_SENT = re.compile(r"\s*who(?: has| had)? (?:sent|wrote|mailed|emailed|e-mailed|forwarded)\b", re.IGNORECASE)
# Mail is not counted in mail.
_MAILS = re.compile(
    r"\bhow many (?:\w+ ){0,2}(?:(?:e-?)?mails?|messages?)\b.{0,100}\b(?:send|sends|sent|wr[io]te|written"
    r"|forward(?:ed)?|get|got|receive[ds]?|exchanged?|have|there|from|mention)\b",
    re.IGNORECASE,
)
_HOW_MANY = re.compile(r"how many\s+(\w+)", re.IGNORECASE)
# After these a day is where something begins or ends, not when it is.
_BOUND = re.compile(r"\b(?:from|since|until|till|by|before|after|starting|instead of)\s+$", re.IGNORECASE)
_PARTIAL = re.compile(r"the\s+\S+", re.IGNORECASE)  # a day of no month
_FIRST = re.compile(r"\b(?:I|we)\b")


@dataclass(frozen=True, slots=True)
class QuoteSettings:
    """How the quote writer chooses; fitted on public sets, see docs/log.md."""

    weights: Weights = field(default_factory=Weights)
    evidence: Evidence = field(default_factory=Evidence)
    least: float = 0.5  # support below which it declines
    most: int = 3  # sentences of an answer to a broad question
    near: float = 0.6  # of sentences that are so near the best one, the newest holds
    sign: float = 0.6  # that a sentence says what has changed; less so much where it says what no longer holds


@dataclass(frozen=True, slots=True)
class Quote:
    """An answer in the words of its sources, or None where they hold none.

    `highlight` are offsets in `answer`, `source` the index of the read it rests on; `quotes` has one sentence per read,
    each an exact part of its text ("" where that has none). `resolved` says what a relative date means.
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
    source: int
    highlight: tuple[int, int] | None = None
    resolved: str | None = None


def quote(question: Question, reads: Sequence[Read], settings: QuoteSettings | None = None) -> Quote:
    """Answer a question from what was read for it, or decline."""
    settings, kind = settings or QuoteSettings(), wanted(question)
    when = occasion(question, kind, [read.date for read in reads])
    found = candidates(question, reads, kind, when, settings.weights)
    supported = support(question, reads, found, when, settings.evidence)
    quotes = _quotes(found, len(reads))
    answers = bool(found) and supported >= settings.least and not _MAILS.search(question.text)
    said = _say(question, reads, found, kind, settings) if answers else None
    if said is None:
        return Quote(None, None, None, quotes, supported)
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


def _say(
    question: Question, reads: Sequence[Read], found: Sequence[Candidate], kind: Kind | None, settings: QuoteSettings
) -> _Said | None:
    """Choose the form: a name or address, a span alone, its sentence, or several sentences."""
    right = [one for one in found if one.day is not False] or found
    best = choose(_as_it_is(question), reads, right, settings.near, settings.sign)
    if kind in ("email", "phone") and question.names:
        return _contact(question, reads, kind)
    if _SENT.match(question.text) and reads[0].sender:
        return _alone(reads[0].sender, 0)
    if kind and best.spans:
        return _span(question, reads[best.read], found, best, kind)
    if kind is None and _BROAD.search(question.text):
        return _Said(_several(found, best, settings.most), best.read)
    return _sentence(question, reads[best.read], found, best, kind)


def _as_it_is(question: Question) -> Question:
    """Give a question without the days that it asks to be confirmed: it asks how things are, and the newest holds."""
    return replace(question, dates=()) if question.asked == "yes/no" else question


def _sentence(question: Question, read: Read, found: Sequence[Candidate], best: Candidate, kind: Kind | None) -> _Said:
    """Give the sentence, after the day it was written where a date was asked for, or who said it where a person was."""
    if kind == "date" and read.date:
        return _Said(f"{day_in_words(read.date.date())}: {_flat(best.text)}", best.read)
    if kind == "person" and best.speaker and _FIRST.search(best.text):
        name = _name(best.speaker)
        return _Said(f"{name}: {_flat(best.text)}", best.read, (0, len(name)))
    goes_on = best.text.endswith("?") or (kind is None and _HOW.match(question.text) is not None)
    return _Said(_with_next(found, best) if goes_on else _flat(best.text), best.read)


def _span(question: Question, read: Read, found: Sequence[Candidate], best: Candidate, kind: Kind) -> _Said:
    """Give a span alone where it can stand so, else its sentence with the span highlighted."""
    span = _nearest(question, best)
    text, past = _flat(best.text[span.start : span.end]), _PAST.search(question.text) is not None
    resolved = in_words(text, read.date, past) if kind == "date" and read.date else None
    if not _stands_alone(question, found, best, span, kind):
        start = len(_flat(best.text[: span.start] + "|")) - 1
        return _Said(_flat(best.text), best.read, (start, start + len(text)))
    clock = time_of(best.text, span) if kind == "date" and not past else None
    said = (resolved or text) + (f", {_flat(best.text[clock.start : clock.end])}" if clock else "")
    return _alone(said, best.read, resolved)


def _alone(answer: str, source: int, resolved: str | None = None) -> _Said:
    return _Said(answer, source, (0, len(answer)), resolved)


def _nearest(question: Question, best: Candidate) -> Found:
    """Take the span that stands nearest to the words of the question."""
    asked = set(question.content)
    places = [match.start() for match in re.finditer(r"\w+", best.text) if set(words(match.group())) & asked]

    def apart(one: Found) -> tuple[bool, int, int]:
        near = sorted(abs(one.start - place) for place in places)[:3]
        return _BOUND.search(best.text[: one.start]) is not None, sum(near), one.start

    return min(best.spans, key=apart)


def _stands_alone(question: Question, found: Sequence[Candidate], best: Candidate, span: Found, kind: Kind) -> bool:
    """Tell whether a span answers without its sentence: a place, person or number may be another than was asked for."""
    text = best.text[span.start : span.end]
    if kind == "date":
        return _PARTIAL.fullmatch(text) is None
    if kind == "place":
        return any(letter.isupper() or letter.isdigit() for letter in text)
    if kind == "person":
        return " " in text or span.start > 0 or any(set(words(text)) & set(words(one.speaker or "")) for one in found)
    if kind == "number":
        counted = _HOW_MANY.search(question.text)
        return bool(counted and set(words(counted[1])) & set(words(best.text[span.end : span.end + 30])))
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


def _contact(question: Question, reads: Sequence[Read], kind: Kind) -> _Said | None:
    """Find the address or number of whom the question names; that of anybody else is no answer."""
    names = [set(words(name)) for name in question.names]
    best, fit = None, 0.4
    for index, read in enumerate(reads):
        for part in (read.sender, *read.recipients, read.header, read.text):
            for one in find(part, kind):
                own, near = set(words(part[one.start : one.end])), set(words(part[max(0, one.start - 60) : one.end]))
                value = max((len(name & near) + len(name & own)) / max(1, len(name)) for name in names)
                if value > fit:
                    best, fit = _alone(part[one.start : one.end], index), value
    return best


def _name(speaker: str) -> str:
    """Give a name without its address."""
    return _flat(speaker.partition("<")[0].strip(' "')) or speaker.strip("<> ")


def _flat(text: str) -> str:
    return " ".join(text.split())
