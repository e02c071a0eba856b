"""The form of an answer that is quoted: a name or address, a span alone, its sentence, or several sentences.

Adds nothing of its own but what a relative date means, and who said it. Knows sentences that were scored, and not why.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.ask.candidates import Candidate, Read
from engine.ask.choose import choose
from engine.ask.moments import day_in_words, in_words
from engine.ask.question import Question
from engine.ask.spans import Found, Kind, find, time_of
from engine.ask.words import words

_BROAD = re.compile(
    r"\b(?:summari[sz]e|describe|discuss\w*|explain|opinions?|th(?:ink|ought)s?|views?|attitudes?|conclu\w+|deci\w+"
    r"|advantages?|disadvantages?|reasons?|suggest\w*|recommend\w*|introduc\w+|talk\w*|propos\w+|agree\w*|disagree\w*"
    r"|respon\w+|concerns?|what (?:did|do|does|were|was|is|are) (?:the )?(?:group|team|committee|members|meeting))\b",
    re.IGNORECASE,
)
_HOW = re.compile(r"\s*(?:why|how)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(?:did|was|were|has|had|have)\b", re.IGNORECASE)
_SENT = re.compile(r"\s*who(?: has| had)? (?:sent|wrote|mailed|emailed|e-mailed|forwarded)\b", re.IGNORECASE)
_HOW_MANY = re.compile(r"how many\s+(\w+)", re.IGNORECASE)
# After these a day is where something begins or ends, not when it is.
_BOUND = re.compile(r"\b(?:from|since|until|till|by|before|after|starting|instead of)\s+$", re.IGNORECASE)
_PARTIAL = re.compile(r"the\s+\S+", re.IGNORECASE)  # a day of no month
_FIRST = re.compile(r"\b(?:I|we)\b")


@dataclass(frozen=True, slots=True)
class Forms:
    """How a sentence is chosen, and how many an answer has; fitted on public sets, see docs/log.md."""

    most: int = 3  # sentences of an answer to a broad question
    near: float = 0.6  # of sentences that are so near the best one, the newest holds
    sign: float = 0.6  # that a sentence says what has changed; less so much where it says what no longer holds


@dataclass(frozen=True, slots=True)
class Said:
    """An answer from the source at index `source`; `highlight` are offsets in it.

    `quote` is the sentence that it was taken from; None where that is the source's header.
    """

    answer: str
    source: int
    highlight: tuple[int, int] | None = None
    resolved: str | None = None
    quote: str | None = None


def say(
    question: Question, reads: Sequence[Read], found: Sequence[Candidate], kind: Kind | None, forms: Forms
) -> Said | None:
    """Choose the form: a name or address, a span alone, its sentence, or several sentences."""
    right = [one for one in found if one.day is not False] or found
    best = choose(_as_it_is(question), reads, right, forms.near, forms.sign)
    if kind in ("email", "phone") and question.names:
        return _contact(question, reads, kind)
    if _SENT.match(question.text) and reads[0].sender:
        return _alone(reads[0].sender, 0)
    return replace(_from_sentence(question, reads[best.read], found, best, kind, forms), quote=best.text)


def _from_sentence(
    question: Question, read: Read, found: Sequence[Candidate], best: Candidate, kind: Kind | None, forms: Forms
) -> Said:
    """Return the answer that the best sentence gives: a span of it, several sentences, or the sentence."""
    if kind and best.spans:
        return _span(question, read, found, best, kind)
    if kind is None and _BROAD.search(question.text):
        return Said(_several(found, best, forms.most), best.read)
    return _sentence(question, read, found, best, kind)


def _as_it_is(question: Question) -> Question:
    """Give a question without the days that it asks to be confirmed: it asks how things are, and the newest holds."""
    return replace(question, dates=()) if question.asked == "yes/no" else question


def _sentence(question: Question, read: Read, found: Sequence[Candidate], best: Candidate, kind: Kind | None) -> Said:
    """Give the sentence, after the day it was written where a date was asked for, or who said it where a person was."""
    if kind == "date" and read.date:
        return Said(f"{day_in_words(read.date.date())}: {_flat(best.text)}", best.read)
    if kind == "person" and best.speaker and _FIRST.search(best.text):
        name = _name(best.speaker)
        return Said(f"{name}: {_flat(best.text)}", best.read, (0, len(name)))
    goes_on = best.text.endswith("?") or (kind is None and _HOW.match(question.text) is not None)
    return Said(_with_next(found, best) if goes_on else _flat(best.text), best.read)


def _span(question: Question, read: Read, found: Sequence[Candidate], best: Candidate, kind: Kind) -> Said:
    """Give a span alone where it can stand so, else its sentence with the span highlighted."""
    span = _nearest(question, best)
    text, past = _flat(best.text[span.start : span.end]), _PAST.search(question.text) is not None
    resolved = in_words(text, read.date, past) if kind == "date" and read.date else None
    if not _stands_alone(question, found, best, span, kind):
        start = len(_flat(best.text[: span.start] + "|")) - 1
        return Said(_flat(best.text), best.read, (start, start + len(text)))
    clock = time_of(best.text, span) if kind == "date" and not past else None
    said = (resolved or text) + (f", {_flat(best.text[clock.start : clock.end])}" if clock else "")
    return _alone(said, best.read, resolved)


def _alone(answer: str, source: int, resolved: str | None = None) -> Said:
    return Said(answer, source, (0, len(answer)), resolved)


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


def _contact(question: Question, reads: Sequence[Read], kind: Kind) -> Said | None:
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
