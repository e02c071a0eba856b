"""The form of an answer that is quoted: a name or address, a span alone, its sentence, or several sentences.

Adds nothing of its own but what a relative date means, and who said it. Knows sentences that were scored, and not why.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from engine.ask.candidates import (
    Candidate,
    CandidateWeights,
    candidates,
    content,
    event_fit,
    own_words,
    share,
    tells_own,
    wanted,
)
from engine.ask.followup import followed, reason_of, span_behind, who_said, with_neighbours
from engine.ask.support import support
from engine.ask.time_constraints import NONE, TimeConstraint, time_constraint
from engine.ask.updates import choose, newest_update, soonest
from engine.llm.prompt import Segments
from engine.models.types import LanguageModel
from engine.text.dates import spell_date
from engine.text.question import Question, Synthesis, synthesis, whose_words
from engine.text.relative_dates import dates_in_words
from engine.text.spans import NO_TIME, Found, Kind, find, line_named, line_of, time_of, whole
from engine.text.words import words
from engine.types import Answer, Evidence, GeneratedAnswer, Passage, Trace, resting

_BROAD = re.compile(
    r"\b(?:summari[sz]e|describe|discuss\w*|explain|opinions?|th(?:ink|ought)s?|views?|attitudes?|conclu\w+|deci\w+"
    r"|advantages?|disadvantages?|reasons?|suggest\w*|recommend\w*|introduc\w+|talk\w*|propos\w+|agree\w*|disagree\w*"
    r"|respon\w+|concerns?|what (?:did|do|does|were|was|is|are) (?:the )?"
    r"(?:group|team|committee|members|meeting(?= about| say)))\b",
    re.IGNORECASE,
)
_WHY = re.compile(r"\s*why\b", re.IGNORECASE)
_PAST = re.compile(r"\b(?:did|was|were|has|had|have)\b", re.IGNORECASE)
_SENT = re.compile(r"\s*who(?: has| had)? (?:sent|wrote|mailed|emailed|e-mailed|forwarded)\b", re.IGNORECASE)
# After these a day is where something begins or ends, not when it is.
_BOUND = re.compile(r"\b(?:from|since|until|till|by|before|after|starting|instead of)\s+$", re.IGNORECASE)
_PARTIAL = re.compile(r"the\s+\S+", re.IGNORECASE)  # a day of no month
_DIGIT = re.compile(r"\d")  # a day without one, such as "tomorrow", is that of an unknown day in an undated text
_FIRST = re.compile(r"\b(?:I|we)\b")
_OTHER_PRICE = re.compile(r"[^.!?]{0,40}\b\d[\d.,]*\s+for\b", re.IGNORECASE)
# Signs that a sentence without a day says when.
_OCCASION = re.compile(
    r"\b(?:after|before|as soon as|once|when|until|till|during|every|each|daily|weekly|monthly|soon|later|right away"
    r"|immediately|not yet|postponed|cancel(?:l?ed)?|spring|summer|autumn|fall|winter|weekend|week|month|quarter|year"
    r"|morning|afternoon|evening)\b",
    re.IGNORECASE,
)
_ANYONE = re.compile(
    r"\W*(?:did|does|do|has|have|had|is|are|was|were) (?:any|some) ?(?:one|body)(?: else)? (?:\w+ly )?(\w+)",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"\b(?:none|no one|nobody|nothing|a (?:few|couple|lot)|several|dozens|hundreds|thousands|half|both|free|until"
    r"|since)\b",
    re.IGNORECASE,
)
# Who asks so wants whoever said or wrote the sentence, unless that tells what somebody else said.
_ASKS_TELLER = re.compile(
    r"\W*who (?P<verb>(?:told|informed|warned|reminded|notified|let|wrote|promised|asked)(?= (?:to )?(?:me|us)\b)"
    r"|said|says|mentioned|announced|reported|suggested|proposed|claimed|complained|thinks|thought|believes|recommended"
    r"|objected|offered|promised|reckons)\b",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"\b(?!(?:I|We|He|She|They|You|It)\b)[A-Z][\w'’-]+ (?:has |had )?"
    r"(?:said|says|told|informs|informed|mentioned|wrote)\b"
    r"|\b(?:according to|(?:call|mail|message|heard|word) from)\b"
)
_BEHIND = ("place", "date", "time", "money", "amount", "duration", "number")
_NOUN = re.compile(r"\s([\w'’-]+)")
_ASKS_TITLE = re.compile(
    r"\W*who(?:['’]s|\s+(?:is|was|are|were))\s+(?:the|our|my|your|his|her|their|[\w ]+['’]s)\b", re.I
)
_TITLE_BEFORE = re.compile(r"([^,;.!?]{2,60}),\s+\Z")
_TITLE_BEHIND = re.compile(r"\s*(?:,|\bis\b|\bwas\b)\s+(?:the|our|my|an?)?\s*([^,;.!?]{2,60})")


@dataclass(frozen=True, slots=True)
class SentenceWeights:
    """How a sentence is chosen, and how many an answer has; fitted on public sets, see docs/log.md."""

    most: int = 3  # sentences of an answer to a broad question
    near: float = 0.6  # of sentences that are so near the best one, the newest holds
    sign: float = 0.6  # that a sentence says what has changed; less so much where it says what no longer holds


@dataclass(frozen=True, slots=True)
class SelectedSentence:
    """An answer from the source at index `source`; `highlight` are offsets in it.

    `quote` is its sentence, None for the source's header; `span` the date, name or number in that which answers.
    """

    answer: str
    source: int
    highlight: tuple[int, int] | None = None
    resolved: str | None = None
    quote: str | None = None
    span: tuple[int, int] | None = None


def format_answer(
    question: Question,
    reads: Sequence[Passage],
    found: Sequence[Candidate],
    kind: Kind | None,
    forms: SentenceWeights,
    when: TimeConstraint = NONE,
) -> SelectedSentence | None:
    """Choose the form: a name or address, a span alone, its sentence, or several sentences."""
    right = [one for one in found if one.day is not False] or found
    unread = _untimed(question, right, when) if kind in ("date", "time") and not question.past else None
    if unread and not (right := _timed(question, right, when, unread)):
        return _no_time(unread)
    best = choose(_as_it_is(question), reads, right, forms.near, forms.sign)
    if when.coming:
        best = soonest(reads, right, best, when)
    elif update := newest_update(question, reads, right, best):
        found, best = update
    if (act := _ANYONE.match(question.text)) and not best.words.issuperset(words(act[1])):
        return None  # that it is not said does not mean that nobody does
    if kind in ("email", "phone") and question.names:
        return _contact(question, reads, kind)
    if (sent := _SENT.match(question.text)) and (sender := _sender(reads[0], sent.group())):
        return _alone(sender, 0)
    said = _from_sentence(question, reads, found, best, kind, forms)
    return replace(said, quote=None if best.is_subject else best.text) if said else None


def _untimed(question: Question, found: Sequence[Candidate], when: TimeConstraint) -> Candidate | None:
    """Return a line of the event that is asked about, where its time could not be read."""
    asked = _about(question, when)
    lines = (one for one in found if one.event and not one.event.timed and event_fit(asked, one.event)[0])
    return max(lines, key=lambda one: one.text == NO_TIME, default=None)


def _timed(question: Question, found: Sequence[Candidate], when: TimeConstraint, unread: Candidate) -> list[Candidate]:
    """Return the sentences that give a time and say at least as much of what is asked as the title of an event."""
    assert unread.event
    asked = _about(question, when)
    least = event_fit(asked, unread.event)[0]
    return [one for one in found if one.spans and (one.event is not None or share(asked, one.words) >= least)]


def _no_time(line: Candidate) -> SelectedSentence:
    assert line.event
    return SelectedSentence(f"{line.event.title}: the time cannot be read", line.read, quote=line.text)


def _about(question: Question, when: TimeConstraint) -> tuple[str, ...]:
    return tuple(word for word in content(question) if word not in when.words)


def _sender(read: Passage, asked: str) -> str:
    """Return who sent a passage, or wrote it where another message is quoted; empty if that is not known."""
    return read.sender if "forward" in asked.lower() else read.author_at(0)


def _from_sentence(
    question: Question,
    reads: Sequence[Passage],
    found: Sequence[Candidate],
    best: Candidate,
    kind: Kind | None,
    forms: SentenceWeights,
) -> SelectedSentence | None:
    """Return the answer that the best sentence gives: a span of it, several sentences, or the sentence, if any."""
    if kind == "person" and best.speaker and _is_told(question, best):
        return _by_speaker(best, best.speaker)
    if kind and best.spans and not (kind == "person" and best.speaker and tells_own(question, best.text)):
        return _span(question, found, best, kind)
    if kind in _BEHIND and (behind := span_behind(found, best)):
        return SelectedSentence(_spoken(best, behind), best.read)
    if kind in ("date", "time") and not _tells_when(question, best):
        return None
    if kind in ("duration", "number", "amount") and not _VAGUE.search(best.text):
        return None  # what has no such span says nothing of it
    if kind is None and _BROAD.search(question.text):
        return SelectedSentence(_several(reads, found, best, forms.most), best.read)
    return _sentence(question, found, best, kind)


def _tells_when(question: Question, best: Candidate) -> bool:
    """Return whether a sentence without a day says when: of an event, at what time, after what, or of its own day."""
    return bool(best.event or _own_day(question, best) or _OCCASION.search(best.text) or find(best.text, "time"))


def _own_day(question: Question, best: Candidate) -> bool:
    """Return whether a question about the past is answered in the first person: its date most likely says when."""
    return bool(best.written and _PAST.search(question.text) and _FIRST.search(best.text))


def _as_it_is(question: Question) -> Question:
    """Return a question without the days that it asks to be confirmed: it asks how things are, and the newest holds."""
    return replace(question, dates=()) if question.asked == "yes/no" else question


def _sentence(question: Question, found: Sequence[Candidate], best: Candidate, kind: Kind | None) -> SelectedSentence:
    """Return sentence, with when it was written where a date was asked for, or who said it where a person was.

    The day of a mail is not that of what it tells, and is not said in a way that it could be taken for it.
    """
    if kind == "date" and best.written and _own_day(question, best):
        day, name = spell_date(best.written), _turn_name(best)
        said = f"{name}, {day}: {_flat(best.text)}" if name else f"written {day}: {_flat(best.text)}"
        return SelectedSentence(said, best.read)
    if kind == "person" and best.speaker and _FIRST.search(best.text):
        return _by_speaker(best, best.speaker)
    if _WHY.match(question.text) and (reason := reason_of(found, best)):
        return SelectedSentence(_spoken(best, reason), best.read)
    return SelectedSentence(_spoken(*with_neighbours(question, found, best)), best.read)


def _is_told(question: Question, best: Candidate) -> bool:
    """Return whether "who told us ..." is answered by the author of a sentence, who does not report somebody else."""
    if not (asked := _ASKS_TELLER.match(question.text)) or _REPORTS.search(best.text):
        return False
    own = re.search(rf"\b(?:I|we|he|she|they)\s+(?:\w+\s+)?{asked['verb']}\b", best.text, re.IGNORECASE)
    return own is not None or best.words.isdisjoint(words(asked["verb"]))


def _by_speaker(best: Candidate, speaker: str) -> SelectedSentence:
    """Return a sentence after the name of its speaker, which is the answer."""
    name = _name(speaker)
    said = f"{name}: {_flat(best.text)}" if name else _flat(best.text)
    return SelectedSentence(said, best.read, (0, len(name)) if name else None)


def _span(question: Question, found: Sequence[Candidate], best: Candidate, kind: Kind) -> SelectedSentence:
    """Return a span alone where it can stand so, else its sentence with the span highlighted."""
    span = whole(best.text, _nearest(question, best, kind), kind)
    span = _counted(question, best.text, span) if kind == "number" else span
    text, past = _flat(best.text[span.start : span.end]), _PAST.search(question.text) is not None
    resolved = dates_in_words(best.text, span, best.written, past) if kind == "date" and best.written else None
    if not _stands_alone(question, found, best, span, kind):
        said = _spoken(best)
        start = len(said) - len(_flat(best.text)) + len(_flat(best.text[: span.start] + "|")) - 1
        return SelectedSentence(said, best.read, (start, start + len(text)), span=(span.start, span.end))
    clock = time_of(best.text, span) if kind == "date" and not past else None
    clock = whole(best.text, clock, "time") if clock else None
    said = (resolved or text) + (f", {_flat(best.text[clock.start : clock.end])}" if clock else "")
    end = max(span.end, clock.end) if clock else span.end
    return replace(_alone(said, best.read, resolved), span=(min(span.start, clock.start if clock else end), end))


def _counted(question: Question, text: str, span: Found) -> Found:
    """Return a number with the things counted, where they stand right behind it: "231 signatures"."""
    end = span.end
    while (noun := _NOUN.match(text, end)) and not set(words(noun[1])).isdisjoint(question.counted):
        end = noun.end()
    return Found(span.start, end)


def _alone(answer: str, source: int, resolved: str | None = None) -> SelectedSentence:
    return SelectedSentence(answer, source, (0, len(answer)), resolved)


def _nearest(question: Question, best: Candidate, kind: Kind) -> Found:
    """Return the span nearest to the words of the question; for a person, prefer one whose title is asked for."""
    asked = set(question.content)
    title = own_words(question) if _ASKS_TITLE.match(question.text) else frozenset[str]()
    places = [match.start() for match in re.finditer(r"\w+", best.text) if set(words(match.group())) & asked]

    def apart(one: Found) -> tuple[int, bool, int, int]:
        near = sorted(abs(one.start - place) for place in places)[:3]
        bound = _BOUND.search(best.text[: one.start]) is not None
        return _titled(best.text, one, title) if kind == "person" else 0, bound, sum(near), one.start

    return min(best.spans, key=apart)


def _titled(text: str, name: Found, title: frozenset[str]) -> int:
    """Return 0 if a title follows a name, as in "Rob Cone, the manager", 1 if it precedes the name, else 2."""
    sides = (_TITLE_BEHIND.match(text, name.end), _TITLE_BEFORE.search(text[: name.start]))
    said = (match and 2 * len(title.intersection(words(match[1]))) > len(title) for match in sides)
    return next((place for place, one in enumerate(said) if one), 2)


def _stands_alone(question: Question, found: Sequence[Candidate], best: Candidate, span: Found, kind: Kind) -> bool:
    """Whether a span answers without its sentence: a place, person or number may be another than was asked for."""
    text = best.text[span.start : span.end]
    if kind == "date":
        return _PARTIAL.fullmatch(text) is None and (best.written is not None or _DIGIT.search(text) is not None)
    if kind == "place":
        return any(letter.isupper() or letter.isdigit() for letter in text)
    if kind == "person":
        return " " in text or span.start > 0 or any(set(words(text)) & set(words(one.speaker or "")) for one in found)
    if kind == "number":
        return not set(question.counted).isdisjoint(words(best.text[span.start : span.end + 30]))
    if kind == "money":  # another class of seats, or age, may have another price
        return len(best.spans) == 1 and not _OTHER_PRICE.match(best.text, span.end)
    return True


def _spoken(*parts: Candidate) -> str:
    """Join sentences; in a transcript each speaker is named once in a row."""
    said, speaker = list[str](), None
    for one in parts:
        named = _turn_name(one)
        said.append(f"{named}: {_flat(one.text)}" if named and named != speaker else _flat(one.text))
        speaker = named
    return " ".join(said)


def _turn_name(one: Candidate) -> str | None:
    """Return whose turn a sentence stands in; None in a mail, where a label is part of the text."""
    return one.span.speaker if one.span.speaker == one.speaker else None


def _several(reads: Sequence[Passage], found: Sequence[Candidate], best: Candidate, most: int) -> str:
    """Join the best sentences of one document; those of several are a list, each with its source, day and speaker."""
    good = [one for one in found if one.score > best.score / 2 or one is best]
    chosen = sorted(sorted(good, key=lambda one: -one.score)[:most], key=lambda one: (one.read, one.place))
    own: dict[str, list[Candidate]] = {}
    for one in chosen:
        own.setdefault(reads[one.read].document, []).append(one)
    if len(own) == 1:
        return _spoken(*chosen)
    return "\n".join(_listed(parts, best.read) for parts in own.values())


def _listed(parts: Sequence[Candidate], lead: int) -> str:
    """Return the sentences of one document as a line of a list: its number among the sources, day and speaker."""
    first = parts[0]
    number = 1 if first.read == lead else first.read + (2 if first.read < lead else 1)
    who = _name(first.speaker) if first.speaker and not _turn_name(first) else ""
    about = ", ".join(filter(None, (spell_date(first.written) if first.written else "", who)))
    return f"[{number}] {about}: {_spoken(*parts)}" if about else f"[{number}] {_spoken(*parts)}"


def _contact(question: Question, reads: Sequence[Passage], kind: Kind) -> SelectedSentence | None:
    """Find the address or number of whom the question names; that of anybody else is no answer."""
    names, best, fit = [set(words(name)) for name in question.names], None, 0.4
    for index, read in enumerate(reads):
        for part in () if read.is_outranked() else (read.sender, *read.recipients, read.header, read.text):
            for one in find(part, kind):
                if kind == "phone" and not _is_line_asked(question.text, line_of(part, one)):
                    continue
                own, near = set(words(part[one.start : one.end])), set(words(part[max(0, one.start - 60) : one.end]))
                value = max((len(name & near) + len(name & own)) / max(1, len(name)) for name in names)
                if value > fit:
                    best, fit = _alone(part[one.start : one.end], index), value
    return best


def _is_line_asked(question: str, line: str) -> bool:
    """Return whether a number of this line answers; a fax, mobile or pager must be labelled as such."""
    asked = line_named(question)
    return line == asked or (asked in ("", "home", "office") and line not in ("fax", "pager"))


def _name(speaker: str) -> str:
    """Return a name without its address."""
    return _flat(speaker.partition("<")[0].strip(' "')) or speaker.strip("<> ")


def _flat(text: str) -> str:
    return " ".join(text.split())


def of_whom(question: Question, reads: Sequence[Passage], found: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentences of those whose words a question asks for, where they speak in a source; else all.

    In a mail of somebody else the sentences that name them are kept. None is left if none is of what is asked about.
    """
    asked = whose_words(question.text)
    spoken = {name for read in reads if read.is_meeting for name in read.recipients if _is_one_of(name, asked)}
    if not spoken:
        return list(found)
    own = [
        one for one in found if (one.span.speaker in spoken if reads[one.read].is_meeting else _tells_of(one, asked))
    ]
    topic = frozenset(content(question)).difference(*asked)
    return own if not topic or any(_is_about(topic, one, found) for one in own) else []


def _is_about(topic: frozenset[str], one: Candidate, found: Sequence[Candidate]) -> bool:
    """Return whether a sentence, the question before it or the sentence before it in its turn has one of the words."""
    before = [other for other in found if (other.read, other.place) == (one.read, one.place - 1)]
    goes_on = [other for other in before if other.text.endswith("?") or other.span.turn == one.span.turn]
    return any(topic & other.words for other in (one, *goes_on))


def _is_one_of(person: str, asked: Sequence[frozenset[str]]) -> bool:
    return any(name <= frozenset(words(person)) for name in asked)


def _tells_of(one: Candidate, asked: Sequence[frozenset[str]]) -> bool:
    return _is_one_of(one.speaker or "", asked) or any(name <= one.words for name in asked)


@dataclass(frozen=True, slots=True)
class QuoteSettings:
    """How the quote writer chooses; fitted on public sets, see docs/log.md."""

    weights: CandidateWeights = field(default_factory=CandidateWeights)
    forms: SentenceWeights = field(default_factory=SentenceWeights)
    least: float = 0.5  # support below which it declines
    forced: bool = False  # answers what needs a synthesis, too


@dataclass(frozen=True, slots=True)
class Quote:
    """An answer in the words of its sources, or None if they hold none.

    `highlight` are offsets in `answer`, `source` the index of the read it rests on; `quotes` has one sentence per read,
    each an exact part of its text ("" where that has none), of that read the one the answer was taken from. `resolved`
    says what a relative date means; `span` are offsets in the quote of `source` of the part that answers. `synthesis`
    is what a declined question asks for that no passage answers, `reason` the strongest for answering or declining.
    """

    answer: str | None
    highlight: tuple[int, int] | None
    source: int | None
    quotes: tuple[str, ...]
    support: float
    resolved: str | None = None
    span: tuple[int, int] | None = None
    synthesis: Synthesis | None = None
    reason: str = ""


def quote(
    question: Question,
    reads: Sequence[Passage],
    settings: QuoteSettings | None = None,
    leading: int = 0,
    told: str = "",
    scored: Sequence[Candidate] = (),
) -> Quote:
    """Answer a question from what was read for it, or decline; `scored` are its candidates, if they are known.

    A follow-up is answered from the first `leading` passages alone; `told` was quoted from one of them before.
    """
    settings, kind = settings or QuoteSettings(), wanted(question)
    when = time_constraint(question, kind)
    found = list(scored) or candidates(question, reads, kind, when, settings.weights)
    if when.coming and not any(one.day for one in found):  # nothing is to come any more: what was, by the newest source
        when = time_constraint(question, kind, max((read.date.date() for read in reads if read.date), default=None))
        found = candidates(question, reads, kind, when, settings.weights)
    supported = support(question, reads, found, when)
    found = of_whom(question, reads, found)
    quotes = _quotes(found, len(reads))
    if not settings.forced and (needs := synthesis(question.text)):
        return Quote(None, None, None, quotes, supported.value, synthesis=needs)
    if kind == "money":
        found = [one for one in found if one.spans]
    found = followed(question, reads[:leading], found, told) if leading else found
    is_supported = supported.value >= settings.least
    answers = bool(found) and (bool(leading) or is_supported)
    said = format_answer(question, reads, found, kind, settings.forms, when) if answers else None
    if said is None:
        reason = "no sentence gives what is asked for" if is_supported else supported.con
        return Quote(None, None, None, quotes, supported.value, reason=reason)
    own = said.quote or quotes[said.source]
    quotes = (*quotes[: said.source], own, *quotes[said.source + 1 :])
    span = (said.span or (0, len(own))) if said.quote else None
    where = (said.answer, said.highlight, said.source)
    return Quote(*where, quotes, supported.value, said.resolved, span, reason=supported.pro if is_supported else "")


def _quotes(found: Sequence[Candidate], count: int) -> tuple[str, ...]:
    best: list[Candidate | None] = [None] * count
    for one in found:
        held = best[one.read]
        if one.is_subject:
            continue
        if held is None or one.score > held.score:
            best[one.read] = one
    return tuple(one.text if one else "" for one in best)


def write(question: Question, evidence: Evidence, trace: Trace, least: float) -> GeneratedAnswer:
    """Answer from the evidence, or say that nothing supports an answer by at least so much."""
    return GeneratedAnswer(quoted_answer(question, evidence, trace, least)[0])


def quoted_answer(question: Question, evidence: Evidence, trace: Trace, least: float) -> tuple[Answer, float]:
    """Return the answer that `write` gives, and the probability that the evidence holds one."""
    with trace.step("write") as step:
        known = (QuoteSettings(least=least), evidence.leading, evidence.said, evidence.scored)
        quoted = _who_said(question, evidence) or quote(question, evidence.passages, *known)
        step.note = _note(quoted)
        lead = quoted.source or 0
        sources = resting(evidence.sources(_checked(evidence, quoted), lead), quoted.span)
    ms = trace.ms()
    reply = Answer(
        question=question.text,
        text=quoted.answer,
        tier="full",
        writer="quote",
        model=None,
        sources=sources,
        ms=ms | {"first_token": ms["total"]},
        highlight=quoted.highlight,
        lead=lead,
        synthesis=quoted.synthesis,
    )
    return reply, quoted.support


def _who_said(question: Question, evidence: Evidence) -> Quote | None:
    """Return who spoke or wrote the sentence quoted before, or that nobody knows; None if nobody asks that."""
    if (found := who_said(question, evidence)) is None:
        return None
    read, who = found
    quotes = tuple(evidence.said if each == read else "" for each in range(len(evidence.passages)))
    return Quote(name := _name(who), (0, len(name)), read, quotes, 1.0) if who else Quote(None, None, None, quotes, 0.0)


def _note(quoted: Quote) -> str:
    if quoted.synthesis:
        return f"declined: no passage answers a question of kind {quoted.synthesis}"
    verdict = "declined" if quoted.answer is None else "answered"
    return f"support {quoted.support:.2f}: {verdict}{quoted.reason and f': {quoted.reason}'}"


def _checked(evidence: Evidence, quoted: Quote) -> list[str]:
    """Hold the promise that a quote stands in its source."""
    pairs = list(zip(evidence.passages, quoted.quotes, strict=True))
    assert all(said in read.text for read, said in pairs), "a quote is not in its source"
    return [said for _, said in pairs]


def draft_answers(model: LanguageModel, question: Question, evidence: Evidence, segments: Segments) -> list[list[int]]:
    """Return texts that an answer may repeat, as token ids, the likeliest last."""
    said = quote(question, evidence.passages, QuoteSettings(least=-math.inf, forced=True))
    lead = "" if model.frame.closing else " "  # a template's answer begins its line
    answers = [model.tokens(lead + one) for one in _answers(said, segments)]
    return [list(chain(*segments.ids[1:])), *answers]


def _answers(said: Quote, segments: Segments) -> Iterator[str]:
    """Yield a quote in the form of an answer with its chunk's number: the sentence, the answer, the span asked for."""
    if said.answer is None or said.source is None:
        return
    shown, sentence = segments.prompt, said.quotes[said.source]
    numbers = [number for number, source in enumerate(shown.sources, 1) if source == said.source]
    number = next((number for number in numbers if sentence in shown.chunks[number - 1]), None)
    start, stop = said.highlight or (0, None)
    for one in dict.fromkeys((sentence, said.answer, said.answer[start:stop])):
        if one and number:
            yield f"{one} [{number}]"
