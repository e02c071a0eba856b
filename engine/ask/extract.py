"""The form of a quoted answer: a name, address, date or number alone, or its sentence with that highlighted.

For one document its header answers, too. Adds only the meaning of a relative date, and who said it. Knows scored
sentences, and not why they have their scores.
"""

import re
from collections.abc import Callable
from datetime import datetime, time
from typing import TYPE_CHECKING, get_args

from msgspec import Struct

from engine.ask import candidates
from engine.ask.candidates import Candidate, Candidates, Reading
from engine.ask.followup import WHO_SAID, followed, reason_said, says_nothing
from engine.ask.updates import latest, says_change, soonest
from engine.text.dates import spell_date
from engine.text.people import SPOKE, listing, roster
from engine.text.question import ASKING_WORDS, Question, Synthesis, core, synthesis, understand
from engine.text.relative_dates import CANCELLED, COMING, TimeConstraint, dates_in_words, event_times, time_constraint
from engine.text.spans import Kind, find, time_of, whole
from engine.text.time_sensitive import Aspect, whole_document_question
from engine.text.words import Span, words
from engine.types import Answer, Evidence, Grade, Passage, Passages, Trace, resting
from store.catalog import Catalog
from store.search import Reader
from store.types import Hit, Scope, replace

if TYPE_CHECKING:
    from engine.models.minilm import SpanReader


_PAST = re.compile(r"\b(?:did|was|were|has|had|have)\b", re.IGNORECASE)
_SENDS = r"\s+(?:has |had )?(?:sent|wrote|mailed|emailed|e-mailed|forwarded)\b"
_SENT, _SENDS_IT = (re.compile(who + _SENDS, re.IGNORECASE) for who in (r"\s*who", ""))
_PARTIAL = re.compile(r"the\s+\S+", re.IGNORECASE)  # a day of no month
_DIGIT = re.compile(r"\d")  # a day without one, such as "tomorrow", is that of an unknown day in an undated text
_FIRST = re.compile(r"\b(?:I|we)\b")
_WHY = re.compile(r"\s*(?:why|how come)\b", re.IGNORECASE)
_READ = {*get_args(Kind)} - {"place"}  # whole by rules
_EXACT: tuple[Kind, ...] = ("amount", "email", "phone", "link")  # which only a sentence with a span of the kind tells
_COUNTED: tuple[Kind, ...] = ("number", "amount", "duration")  # a sentence without one is not an answer
_TOLD = 0.6  # share of a question in the mail whose sender it asks for


class SelectedSentence(Struct, frozen=True):
    """An answer from the source at index `source`; `highlight` are offsets in it."""

    answer: str
    source: int
    highlight: tuple[int, int] | None = None
    quote: str | None = None  # its sentence; None for the source's header
    span: tuple[int, int] | None = None  # in that, of the date, name or number that answers
    before: str | None = None
    support: float = 0.0  # beside what is not older, where it has replaced that


def format_answer(
    question: Question, reads: Passages, found: Candidates, kind: Kind | None, when: TimeConstraint
) -> SelectedSentence | None:
    """Choose the sentence, and the form: a date, number or name alone, or the sentence."""
    right = [one for one in found if one.day is not False] or found
    best, former = max(right, key=lambda one: (one.score, -one.read, -one.place)), None
    if when.coming:
        best = soonest(reads, right, best, when)
    else:
        best, former = latest(question, reads, right, best, kind)
    said = _from_sentence(question, best, kind)
    if said and _WHY.match(question.text) and (reasons := reason_said(found, best)):
        said = replace(said, answer=f"{said.answer} {_flat(reasons[0].text)}")
    if said and former and former.mark and former.written and (told := _from_sentence(question, former, kind)):
        value, marked = told.answer[slice(*(told.highlight or (0, 0)))], _flat(former.marked)
        origin = f", {'meeting' if reads[former.read].is_meeting else 'mail'} of {spell_date(former.written)}"
        origin = "" if former.read == best.read else origin
        newer = [one for one in found if one is best or not (one.written and one.written <= former.written)]
        said = replace(said, before=f"{marked if value in marked else value}{origin}")
        said = replace(said, support=candidates.support_of(question, reads, newer, best)) if best.mark else said
    return replace(said, quote=best.text) if said else None


def _from_sentence(question: Question, best: Candidate, kind: Kind | None) -> SelectedSentence | None:
    """Return the answer that the best sentence gives: a span of it, who says it, or the sentence."""
    first, last = best.highlight
    if best.speaker and first == last:
        return _by_speaker(best, best.speaker)
    spans = best.spans
    if best.mark and kind:
        marked = [one for one in find(best.text, kind) if one.start < last and first < one.end]
        marked = [one for one in marked if not _DIGIT.search(best.text[first : one.start])]  # "2 and a half (23 hours)"
        spans = tuple(marked) or (spans if kind in ("date", "time") else ())
    if question.foreign and spans:
        return _in_sentence(best, spans[0])
    if kind and spans and (best.mark is None or (kind in _READ and kind != "number")):
        return _span(question, replace(best, spans=spans), kind)
    if kind == "date" and best.written and _PAST.search(question.text) and _FIRST.search(best.text):
        # Its date most likely says when; never so that it could be taken for what the sentence tells.
        day, name = spell_date(best.written), _turn_name(best)
        return SelectedSentence(f"{f'{name}, ' if name else 'written '}{day}: {_flat(best.text)}", best.read)
    if kind == "person" and best.speaker and _FIRST.search(best.text) and not find(best.marked, "person"):
        return _by_speaker(best, best.speaker)
    if best.mark is None and kind in _READ and kind != "person":
        return None  # without such a span it is not evidence
    return _in_sentence(best, Span(first, last)) if best.mark else SelectedSentence(_spoken(best), best.read)


def _in_sentence(best: Candidate, span: Span) -> SelectedSentence:
    said, text = _spoken(best), _flat(best.text[span.start : span.end])
    start = len(said) - len(_flat(best.text)) + len(_flat(best.text[: span.start] + "|")) - 1
    return SelectedSentence(said, best.read, (start, start + len(text)), span=(span.start, span.end))


def _by_speaker(best: Candidate, speaker: str) -> SelectedSentence:
    name = _name(speaker)
    said = f"{name}: {_flat(best.text)}" if name else _flat(best.text)
    return SelectedSentence(said, best.read, (0, len(name)) if name else None)


def _span(question: Question, best: Candidate, kind: Kind) -> SelectedSentence:
    """Return a span alone if it makes sense alone, else its sentence with the span highlighted."""
    first, _ = best.highlight
    span = whole(best.text, min(best.spans, key=lambda one: abs(one.start - first)), kind)
    text, past = _flat(best.text[span.start : span.end]), _PAST.search(question.text) is not None
    resolved = dates_in_words(best.text, span, best.written, past) if kind == "date" and best.written else None
    if not _stands_alone(best, span, kind):
        return _in_sentence(best, span)
    clock = time_of(best.text, span) if kind == "date" and not past else None
    clock = whole(best.text, clock, "time") if clock else None
    said = (resolved or text) + (f", {_flat(best.text[clock.start : clock.end])}" if clock else "")
    end = max(span.end, clock.end) if clock else span.end
    return replace(_alone(said, best.read), span=(min(span.start, clock.start if clock else end), end))


def _alone(answer: str, source: int) -> SelectedSentence:
    return SelectedSentence(answer, source, (0, len(answer)))


def _stands_alone(best: Candidate, span: Span, kind: Kind) -> bool:
    """Whether a span answers without its sentence: a person, number or price may be another than was asked for."""
    text = best.text[span.start : span.end]
    if kind == "date":
        return _PARTIAL.fullmatch(text) is None and (best.written is not None or _DIGIT.search(text) is not None)
    if kind == "person":
        return " " in text or span.start > 0
    others = best.text[: span.start] + best.text[span.end :]  # another class of seats, or age, may have another price
    return kind not in ("number", "place") and (kind != "amount" or not _DIGIT.search(others))


def _spoken(one: Candidate) -> str:
    """Return a sentence, in a transcript after the name of its speaker."""
    named = _turn_name(one)
    return f"{named}: {_flat(one.text)}" if named else _flat(one.text)


def _turn_name(one: Candidate) -> str | None:
    """Return the speaker of a sentence's turn; None in a mail, where a label is part of the text."""
    return one.span.speaker if one.span.speaker == one.speaker else None


def _event(question: Question, reads: Passages) -> SelectedSentence | None:
    """Return when or where the next, the last or the only event is: by its title, or else by its people and place."""
    events = [one for one in enumerate(reads) if one[1].hits[0].chunk.role == "event" and not one[1].is_outranked()]
    least, subject = max((read.trust for _, read in events), default=0), question.subject
    events = [(at, read) for at, read in events if read.trust == least and subject]
    times = [(time, at) for at, read in events for time in event_times(read.text, question.now)]
    titled = [pair for pair in times if subject <= {*words(pair[0].lines[""])}]
    if sided := question.coming or question.gone:
        found = titled or [(one, at) for one, at in times if subject - ASKING_WORDS <= {*words(one.about)}]
        found = [pair for pair in found if pair[0].is_coming(question.now) is question.coming]
    else:
        found = titled if len(titled) == 1 else []
    if found:
        one, at = (max if question.gone else min)(found, key=lambda pair: pair[0].begins)
        name = "Where" if question.asked == "place" else "When"
        said = one.when if name == "When" else one.lines.get(name)
        return replace(_alone(said, at), quote=f"{name}: {one.lines[name]}") if said else None
    if titled:  # none of them is on the side asked for: there is no other answer
        return SelectedSentence("", 0, support=1e-3) if sided else None
    named = [(at, read) for at, read in events if not sided and subject <= {*words(read.hits[0].title)}]
    lines = [(line, at) for at, read in named for line in read.text.split("\n") if line.startswith(f"{CANCELLED}: ")]
    off = [replace(_alone(f"cancelled: {line.partition(': ')[2]}", at), quote=line) for line, at in lines]
    return off[0] if off else None


def _name(speaker: str) -> str:
    return _flat(speaker.partition("<")[0].strip(' "')) or speaker.strip("<> ")


def _flat(text: str) -> str:
    return " ".join(text.split())


class QuoteSettings(Struct, frozen=True):
    """How the quote writer chooses."""

    least: float = 0.5  # support below which it declines
    forced: bool = False  # answers what needs a synthesis, too
    reader: "SpanReader | None" = None  # chooses sentences, in place of words


class Quote(Struct, frozen=True):
    """An answer in the words of its sources, or None if they hold none."""

    answer: str | None
    highlight: tuple[int, int] | None  # offsets in the answer
    source: int | None  # the index of the read it rests on
    quotes: tuple[str, ...]  # of each read a sentence, a part of its text, or ""; of `source` the one that answers
    support: float
    span: tuple[int, int] | None = None  # offsets of the part that answers, in that sentence
    synthesis: Synthesis | None = None  # what a declined question asks for that no passage answers
    reason: str = ""
    grade: Grade | None = None
    before: str | None = None


def quote(
    question: Question,
    reads: Passages,
    settings: QuoteSettings | None = None,
    scored: Candidates = (),
    reading: Reading | None = None,
) -> Quote:
    """Answer a question from what was read for it, or decline; `scored` are its candidates, if they are known."""
    settings, kind = settings or QuoteSettings(), candidates.wanted(question)
    when = time_constraint(question, kind)
    found = list(scored) or candidates.candidates(question, reads, kind, when)
    if when.coming and not any(one.day for one in found):  # nothing is to come any more: what was, by the newest source
        when = time_constraint(question, kind, max((read.date.date() for read in reads if read.date), default=None))
        found = candidates.candidates(question, reads, kind, when)
    reading = reading or _reading(question, reads, found, settings, when)
    quotes = _quotes(found := reading.found, len(reads))
    if not settings.forced and (needs := synthesis(question.text)):
        return Quote(None, None, None, quotes, reading.support, synthesis=needs)
    if kind in (*_EXACT, *_COUNTED):
        told = candidates.telling(question, reads, reading, kind)
        reading = told if told.found or kind in _EXACT else reading
        found = reading.found
    answer, support = _exact(question, kind, reads, found), reading.support
    if answer:
        support = answer.support or 1.0
        reading = replace(reading, support=support, by_words=False)
        answer = answer if support >= settings.least else None
    elif found and not _is_of_name(question, kind) and support >= settings.least:
        answer = format_answer(question, reads, found, kind, when)
    if answer is None:
        lacking = "gives what is asked for" if support >= settings.least else "is likely to answer"
        return Quote(None, None, None, quotes, support, reason=f"no sentence {lacking}")
    own = answer.quote or quotes[answer.source]
    quotes = (*quotes[: answer.source], own, *quotes[answer.source + 1 :])
    span = (answer.span or (0, len(own))) if answer.quote else None
    where = (answer.answer, answer.highlight, answer.source)
    is_told = kind not in _COUNTED or bool(find(answer.answer, kind))
    grade = (replace(reading, support=answer.support) if answer.before else reading).grade if is_told else "closest"
    return Quote(*where, quotes, support, span, grade=grade, before=answer.before if grade == "answer" else None)


def quote_after(question: Question, evidence: Evidence, settings: QuoteSettings) -> Quote:
    """Answer a follow-up from the sources of the answer before, or decline.

    It is read as asked and as typed; one that could not be completed, also with what was said before.
    """
    reads, line = evidence.passages[: evidence.leading], core(evidence.typed or question.text)
    typed, bare = understand(f"{line}?", datetime.combine(question.day, time.min)), says_nothing(line)
    behind = [] if evidence.typed else [replace(typed, text=f"{line} {_flat(evidence.said).rstrip('.')}?")]
    found = candidates.candidates(typed, reads)
    said = next((one for one in found if one.text == evidence.said), None)
    if WHO_SAID.fullmatch(core(question.text)):  # who spoke or wrote what was said before
        read = reads[said.read] if said else None
        who = said and read and (said.speaker or (not read.is_meeting and read.author_at(said.span.start)))
        if not said or not who:
            return Quote(None, None, None, ("",) * len(evidence.passages), 0.0)
        quotes = tuple(said.text if at == said.read else "" for at in range(len(evidence.passages)))
        return Quote(name := _name(who), (0, len(name)), said.read, quotes, 1.0)
    if behind and bare and _WHY.match(line):
        asked, reading = typed, Reading(reason_said(found, said) if said else [], 1.0)
    else:
        questions = [question, *[typed][bare:]] if evidence.typed else [typed]
        readings = [(one, [_read(each, reads, settings.reader) for each in (one, *behind)]) for one in questions]
        asked, reading = followed(readings, evidence.said)
        if behind and candidates.wanted(asked) in _EXACT:
            reading = replace(reading, support=1.0)
    quoted = quote(asked, reads, settings, reading=reading)
    return replace(quoted, quotes=(*quoted.quotes, *[""] * (len(evidence.passages) - len(reads))))


def _reading(
    question: Question, reads: Passages, found: list[Candidate], settings: QuoteSettings, when: TimeConstraint
) -> Reading:
    """Return the sentences as the reader scores them; by their words without one, or if it knows no such questions."""
    if settings.reader and settings.reader.languages and question.foreign:
        reading = candidates.read_meaning(settings.reader.languages, question, reads, found)
    elif settings.reader and not candidates.is_beyond(question, found):
        reading = candidates.read_sources(settings.reader, question, reads, found)
    else:
        reading = candidates.read_words(question, reads, found, when)
    best = max(reading.found, key=lambda one: one.score, default=None)
    # None answers if the best is of another day than is asked about, and none is of that.
    is_other = best and best.day is False and question.asked != "yes/no" and not any(one.day for one in found)
    return replace(reading, support=0.0) if is_other else reading


def _read(question: Question, reads: Passages, reader: "SpanReader | None") -> Reading:
    when = time_constraint(question, kind := candidates.wanted(question))
    found = candidates.candidates(question, reads, kind, when)
    if reader:
        return candidates.read_sources(reader, question, reads, found)
    return candidates.read_words(question, reads, found, when)


def _is_of_name(question: Question, kind: Kind | None) -> bool:
    """Return whether a question asks for somebody's address or number; another person's is not an answer."""
    return kind in ("email", "phone") and bool(question.names)


def _exact(question: Question, kind: Kind | None, reads: Passages, found: Candidates) -> SelectedSentence | None:
    """Return the answer by rules: of a calendar, unless other mail says that it has changed, or a mail's sender."""
    record = _event(question, reads) if question.asked in COMING and not question.dates else None
    others = (one for one in reads if record and one.hits[0].chunk.role != "event")
    changed = (frozenset(words(f"{one.header} {one.text}")) for one in others if says_change(one.text))
    if record and not any(question.subject <= told for told in changed):
        return record
    if _is_of_name(question, kind):
        return None
    sent = _SENT.match(question.text) if reads else None
    told = words(f"{reads[0].header} {reads[0].text}") if sent else ()
    is_told = candidates.share(candidates.content(question), frozenset(told)) >= _TOLD
    best = max(found, key=lambda one: one.score, default=None)
    if not sent or not is_told or (best and best.mark and _SENDS_IT.match(best.text, best.highlight[1])):
        return None
    sender = reads[0].sender if "forward" in sent.group().lower() else reads[0].author_at(0)
    return _alone(sender, 0) if sender else None


def _quotes(found: Candidates, count: int) -> tuple[str, ...]:
    best = {one.read: one.text for one in sorted(found, key=lambda one: (one.score, -one.place))}
    return tuple(best.get(read, "") for read in range(count))


def write(
    question: Question, evidence: Evidence, trace: Trace, least: float, reader: "SpanReader | None" = None
) -> Answer:
    """Answer from the evidence, or say that nothing supports an answer by at least so much."""
    with trace.step("write") as step:
        settings = QuoteSettings(least=least, reader=reader)
        if evidence.leading or WHO_SAID.fullmatch(core(question.text)):
            quoted = quote_after(question, evidence, settings)
        else:
            quoted = quote(question, evidence.passages, settings, evidence.scored)
        verdict = "declined" if quoted.answer is None else "answered"
        step.note = f"support {quoted.support:.2f}: {verdict}{quoted.reason and f': {quoted.reason}'}"
        if quoted.synthesis:
            step.note = f"declined: no passage answers a question of kind {quoted.synthesis}"
        lead, pairs = quoted.source or 0, zip(evidence.passages, quoted.quotes, strict=True)
        assert all(said in read.text for read, said in pairs), "a quote is not in its source"
        sources = resting(evidence.sources(quoted.quotes, lead), quoted.span)
    found = {name: getattr(quoted, name) for name in ("highlight", "synthesis", "grade", "before")}
    found |= {"context": _beside(evidence.passages[lead], sources[0].quote) if quoted.span and sources else None}
    return Answer(question.text, quoted.answer, "full", "quote", None, sources, trace.ms(), lead=lead, **found)


def _beside(read: Passage, quote: str) -> str:
    """Return the text of a sentence and of those beside it, of the same paragraph or turn."""
    spans, at = read.sentences(), read.text.find(quote)
    own = next((place for place, one in enumerate(spans) if one.start <= at < one.end), 0)
    part = spans[own].turn, read.hit_at(spans[own].start)
    near = [one for one in spans[max(0, own - 1) : own + 2] if (one.turn, read.hit_at(one.start)) == part]
    return read.text[near[0].start : near[-1].end]


FACTS: frozenset[Aspect] = frozenset(("people", "sender", "recipients", "subject", "date"))


def find_fact(bank: Reader, catalog: Catalog, question: Question, document: str, trace: Trace) -> Evidence | None:
    """Return the header's answer to a question as evidence; None if the header has no answer."""
    from engine.retrieval.evidence import placed  # slow to import

    asked = whole_document_question(question.text)
    if asked is None or asked.aspect not in FACTS:
        return None
    with trace.step("retrieve") as step:
        hits = sorted(bank.chunks_of([document], Scope()), key=lambda hit: hit.chunk.position)[:1]
        fact = _fact(asked.aspect, hits[0], lambda: bank.documents([document])[document]["text"]) if hits else ""
        passage = next(iter(placed(catalog, [Passage((hits[0].scored(1.0),))] if fact else [])), None)
        step.note = "the header answers" if passage else "the header has no answer"
    return Evidence((passage,), (hits[0].chunk.id,), 1.0, fact=fact) if passage else None


def _fact(aspect: Aspect, hit: Hit, text: Callable[[], str]) -> str:
    """Return an aspect from the header; empty if it has none. `text` loads the document's text."""
    if aspect == "date":
        return spell_date(hit.date.date(), weekday=True) if hit.date else ""
    if aspect == "subject":
        return " ".join(hit.title.split())
    if aspect == "sender":
        return "" if hit.is_meeting else hit.sender
    if hit.is_meeting != (aspect == "people"):
        return ""
    return roster(text(), hit.recipients) if hit.is_meeting else listing(hit.recipients)


def answer_fact(question: Question, evidence: Evidence, trace: Trace, model: str | None) -> Answer:
    """Return the header's answer; `model` names the language model in use, if any."""
    fact, sources = evidence.fact, evidence.sources(evidence.quotes or [""] * len(evidence.passages))
    end = len(fact.removesuffix(SPOKE)) if evidence.told is None else evidence.told
    return Answer(question.text, fact, "full", "quote", model, sources, trace.ms(), (0, end) if end else None)
