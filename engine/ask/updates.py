"""Which sentence is current: the newest of those with the same content, and changes by newer mail.

Words of change in mail are in prompts/changes.txt; statements in a meeting do not count as changes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, product
from operator import attrgetter

from engine.ask.candidates import NO_ANSWER, Candidate, Candidates, candidates, content, share, wanted
from engine.ask.keys import is_negated, same_answer
from engine.text.dates import Days
from engine.text.people import name_and_address
from engine.text.question import Question
from engine.text.relative_dates import TimeConstraint, resolve, time_constraint
from engine.text.spans import Kind, find
from engine.text.time_sensitive import instruction_end, phrases, plain_words
from engine.text.words import FUNCTION_WORDS, Span, words
from engine.types import Evidence, Passage, Passages, Trust
from prompts import word_patterns
from store.types import replace

_AS_LIKELY = 0.6  # least share of the best sentence's margin over no answer, for a sentence with another value
# Share of the question that a sentence, its subject and its neighbours must cover to be one of several answers, to take
# the place of another, and to be shown beside another of equal trust.
_TOUCHES, _CLAIMS, _SURE = 0.5, 0.6, 0.8
_AS_MUCH = 0.8  # of what a less trusted sentence says of the question, that a more trusted one must
_SECURE: tuple[Kind | None, ...] = (None, "number", "email", "phone", "link")  # what nobody else in a thread changes
_CLAUSES = re.compile(r"[^\w\s'’-]")
_OF = re.compile(r"\bof\b(?: (?:the|an?|our|my|your|his|her|their)\b)?", re.IGNORECASE)
# The wanted thing, which may come before the thing it belongs to.
_CALLED = frozenset(words("price cost fee charge date day time hour place room number code new right correct"))
_REPORTED = re.compile(r"\b(?:would|was|were|had|wrote|told|said|thought|used to)\b", re.IGNORECASE)
_PAST = re.compile(r"\b(?:was|were|had)\b", re.IGNORECASE)
_UNSURE = re.compile(rf"\b(?:{word_patterns('english')['unsure']})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sentence that answers a question, how far who says it counts, and since when pkb knows of it."""

    said: Candidate
    kind: Kind | None  # asked for
    read: Passage
    trust: Trust
    covers: float
    asked: frozenset[str]  # words of the question
    about: frozenset[str]  # those of them in its sentence and subject
    answers: tuple[frozenset[str], ...]  # the words of each span of the kind asked for, else each number

    @property
    def origin(self) -> tuple[str, bool]:
        """Return the address that it came from, or another identity of the sender, and whether that is in doubt."""
        address = name_and_address(self.read.sender)[1] or self.read.sender or self.read.document
        return address, self.trust == Trust.WARNED

    def outranks(self, other: "_Claim") -> bool:
        """Return whether this claim weighs more: by its sender's trust, and between two unknown senders by date."""
        if self.trust != other.trust or self.trust == Trust.KNOWN or self.origin == other.origin:
            return self.trust > other.trust
        if self.seen and other.seen and abs(self.seen - other.seen) >= timedelta(days=1):
            return self.seen < other.seen
        return self.read.date is not None and other.read.date is not None and self.read.date < other.read.date

    @property
    def seen(self) -> datetime | None:
        """Return when pkb first saw its document."""
        return next((datetime.fromisoformat(one.first_seen) for one in self.read.sources if one.first_seen), None)

    @property
    def is_worth_telling(self) -> bool:
        """Return whether its sentence has a word of the question, and is not a heading: a name alone says nothing."""
        return not self.asked.isdisjoint(self.said.words) and not NO_ANSWER.fullmatch(self.said.text)

    def agrees(self, other: "_Claim") -> bool:
        """Return whether another says this too: all its spans or numbers, any of two who count alike, or its words."""
        if not self.answers or not other.answers:
            return same_answer(self.said.text, other.said.text)
        same = [any(one <= two or two <= one for two in other.answers) for one in self.answers]
        return any(same) if self.trust == other.trust else all(same)

    def differs(self, other: "_Claim") -> bool:
        """Return whether this says something else of the same: with a span or number, or in many of the same words."""
        if 2 * len(self.about & other.about) < len(self.asked) or self.agrees(other):
            return False
        own, others = (frozenset(filter(str.isalpha, one.said.words - FUNCTION_WORDS)) for one in (self, other))
        alike = 2 * len(own & others) >= min(len(own), len(others))
        return alike or bool(self.kind and self.answers and other.answers)


def settled(question: Question, evidence: Evidence) -> Evidence:
    """Return evidence without answers that a sender who is trusted more contradicts; senders that differ are rivals."""
    kind = wanted(question)
    found = candidates(question, evidence.passages, kind, time_constraint(question, kind))
    all_claims = _claims(question, evidence.passages, found)
    claims = [one for one in all_claims if one.covers >= _TOUCHES]
    lost = list[_Claim]()  # what differs from claims of more trust that cover as much of the question
    for one in claims:
        least = max(_CLAIMS, _AS_MUCH * one.covers)
        above = [other for other in claims if other.outranks(one) and other.covers >= least]
        lost += [one] if any(map(one.differs, above)) and not any(map(one.agrees, above)) else []
    told = [one for one in claims if one.covers >= _SURE and not one.read.is_meeting]
    sure = [one for one in told if not any(one is other for other in lost)]
    rivals = [one for one in sure if any(one.origin != other.origin and one.differs(other) for other in sure)]
    beside = _beside([one for one in all_claims if not any(one is other for other in lost)])
    marked = [_marked(question, one, lost, [*lost, *rivals], beside) for one in evidence.passages]
    return replace(evidence, passages=tuple(marked), scored=() if lost else tuple(found))


def _beside(claims: Sequence[_Claim]) -> _Claim | None:
    """Return a known sender's claim if the best sentence is another sender's and says something else."""
    doubted = [one for one in claims if one.trust < Trust.KNOWN and one.covers >= _TOUCHES]
    best = max(doubted, key=lambda one: one.said.score, default=None)
    known = [one for one in claims if best and one.trust == Trust.KNOWN and one.answers and not one.agrees(best)]
    known = [one for one in known if one.is_worth_telling]
    return max(known, key=lambda one: (one.covers, one.said.score), default=None)


def _claims(question: Question, reads: Passages, found: Candidates) -> list[_Claim]:
    kind, asked, whole = wanted(question), content(question), frozenset(content(question))
    own = [[one for one in found if one.read == number] for number in range(len(reads))]
    is_told = any(read.trust_of(hit) < Trust.KNOWN for read in reads for hit in read.hits)  # whatever is known beside
    claims = list[_Claim]()
    for one in found:
        read = reads[one.read]
        covers = share(asked, _around(own[one.read], one) | _title_words(read))
        if not covers or (covers < _TOUCHES and (not is_told or read.is_meeting)):
            continue
        answers = _answers(question, one, kind)
        if (answers or not kind) and not one.text.endswith("?"):
            about = whole & (one.words | _title_words(read) if kind or whole & one.words else frozenset())
            trust = read.trust_of(read.hit_at(one.span.start))
            claims.append(_Claim(one, kind, read, trust, covers, whole, about, answers))
    return claims


def _answers(question: Question, one: Candidate, kind: Kind | None) -> tuple[frozenset[str], ...]:
    """Return the words of each part of a sentence that may answer: spans of the kind asked for, numbers, a speaker."""
    if not kind:
        numbers = (word for word in one.words.difference(question.words) if any(map(str.isdigit, word)))
        return tuple(frozenset([number]) for number in numbers)
    spans = one.spans or (find(one.text, "time") if kind == "date" else ())
    parts = [one.text[span.start : span.end] for span in spans]
    return tuple(frozenset(words(part)) - FUNCTION_WORDS for part in parts)


def _marked(
    question: Question, read: Passage, lost: Sequence[_Claim], rivals: Sequence[_Claim], beside: _Claim | None
) -> Passage:
    own = (one for one in rivals if one.read is read and one.is_worth_telling)
    best = max(own, key=lambda one: one.said.score, default=None)
    least = max((one.trust for one in lost if one.read.document == read.document), default=-1)
    outranked = frozenset(hit.chunk.id for hit in read.hits if read.trust_of(hit) <= least)
    # Else a sentence that might have answered, but was left out as it dictates the answer.
    asked, title = content(question), _title_words(read)
    texts = (read.text[span.start : span.end] for span in read.sentences())
    told = (one for one in texts if instruction_end(one) and share(asked, frozenset(words(one)) | title) >= _SURE)
    rival, known = best.said.text if best else next(told, ""), beside.said.text if beside else ""
    return replace(read, rival=rival, beside=known if beside and beside.read is read else "", outranked=outranked)


def latest(
    question: Question, reads: Passages, found: Candidates, best: Candidate, kind: Kind | None
) -> tuple[Candidate, Candidate | None]:
    """Return the newest sentence with the best one's value, and the last one before it with another value.

    The best itself where the newest says the same, the question asks for what was, or nobody knows when it was said.
    """
    if question.past or (question.dates and question.asked != "yes/no") or best.written is None:
        return best, None
    values, order = _Values(question, reads, found, best, kind), attrgetter("written", "score")
    told = [one for one in found if one.written and values.gives(one)]
    newest = max((one for one in told if one is best or values.replaces(one, best)), key=order)
    newest = max((one for one in found if values.corrects(one, newest)), key=order, default=newest)
    older = (one for one in told if values.replaces(newest, one) or values.corrects(newest, one))
    former = [one for one in older if not values.same(newest, one)]
    is_same = values.same(newest, best) and is_negated(newest.text) == is_negated(best.text)
    return best if is_same else newest, max(former, key=order, default=None)


@dataclass(frozen=True, slots=True)
class _Values:
    """What sentences give of what a question asks for, beside what the best one gives."""

    question: Question
    reads: Passages
    found: Candidates
    best: Candidate
    kind: Kind | None

    def gives(self, one: Candidate) -> bool:
        """Return whether a sentence may give it: a span of the kind that the best one has, rather than nothing."""
        is_of_kind = bool(self._spans(one)) >= bool(self._spans(self.best)) and not NO_ANSWER.fullmatch(one.text)
        return one is self.best or (is_of_kind and (one.mark.margin > 0 if one.mark else not self.best.mark))

    def replaces(self, new: Candidate, old: Candidate) -> bool:
        """Return whether a sentence changes what an older one gave: it names that, or tells it of the same thing.

        Who says it wrote or read the older message, or goes on in its thread, and is not trusted less. Of persons that
        several people name, each may be right.
        """
        now, before = self.reads[new.read], self.reads[old.read]
        trust, least = (read.trust_of(read.hit_at(one.span.start)) for read, one in ((now, new), (before, old)))
        if trust < least or not (new.written and old.written and old.written < new.written) or _is_unsure(new.text):
            return False
        is_open = trust == Trust.KNOWN and self.kind != "person"
        known = _names([*_writers(before, old), *((before.sender, *before.recipients) if is_open else ())])
        is_known = any(one <= two or two <= one for one in _names(_writers(now, new)) for two in known)
        is_thread = _title_words(before) - FUNCTION_WORDS <= _title_words(now) and bool(now.hits[0].title)
        said = _around([one for one in self.found if one.read == new.read and one.written == new.written], new)
        is_about = is_thread and is_known and not said.isdisjoint(self._value(old) - self._value(new))
        is_likely = is_about or self._is_likely(new, old, said, is_thread)
        likely = self._names(old, new, said) or (is_likely and self._is_alike(new, old))
        return likely and (is_known or (is_open and is_thread and self.kind not in _SECURE))

    def _names(self, old: Candidate, new: Candidate, said: frozenset[str]) -> bool:
        """Return whether words beside a newer value name the older one: all its numbers, or all that it is."""
        former = self._value(old) - self._value(new)
        numbers = frozenset(word for word in former if any(map(str.isdigit, word)))
        return bool(former) and bool(new.mark or new.spans) and (numbers or former) <= said

    def corrects(self, new: Candidate, old: Candidate) -> bool:
        """Return whether one of the next sentences of a message gives another value, and says that this is a change."""
        is_next = 0 < new.place - old.place <= 2  # sentences behind it
        is_behind = new.read == old.read and new.written == old.written and is_next
        is_told = bool(new.spans and old.spans) and says_change(new.text) and _REPORTED.search(old.text) is not None
        return is_behind and is_told and not new.words.isdisjoint(content(self.question)) and not _is_unsure(new.text)

    def _is_likely(self, new: Candidate, old: Candidate, said: frozenset[str], is_thread: bool) -> bool:
        """Return whether two sentences are about as likely as the best to answer; by words, whether the newer is."""
        if new.mark and old.mark and self.best.mark:
            is_near = min(new.mark.margin, old.mark.margin) >= _AS_LIKELY * self.best.mark.margin
            return is_near and (is_thread or share(content(self.question), new.words) >= _TOUCHES)
        asked = content(self.question)
        least = max(_TOUCHES if is_thread and new.spans else _CLAIMS, share(asked, old.words))
        return share(asked, said if new.spans else new.words) >= least

    def _is_alike(self, new: Candidate, old: Candidate) -> bool:
        """Return whether no word asked for has another in its place, or before it: "second payment", "youth choir"."""
        asked = frozenset(content(self.question))
        parts = [words(part) for part in _CLAUSES.split(_OF.sub(" ", new.text))]
        known = asked.union(words(old.text), self._value(new), _title_words(self.reads[old.read]), _CALLED)
        if any(b in asked and a not in known | FUNCTION_WORDS for part in parts for a, b in pairwise(part)):
            return False
        lost = asked.difference(*parts)
        aside = [FUNCTION_WORDS | (self._value(one) if one.mark or one.spans else set()) for one in (old, new)]
        said = ([word for word in words(one.text) if word not in aside[one is new]] for one in (old, new))
        pairs = map(pairwise, said)
        return not any((a in lost and b == d) or (b in lost and a == c) for (a, b), (c, d) in product(*pairs))

    def same(self, one: Candidate, other: Candidate) -> bool:
        """Return whether two sentences give one value: overlapping days, or the words of one in the other."""
        first, second = self._days(one), self._days(other)
        if first and second:
            return any(a.first <= b.last and b.first <= a.last for a, b in product(first, second))
        if not any(each.mark or each.spans for each in (one, other)):
            return same_answer(one.text, other.text)
        own, others = self._value(one), self._value(other)
        return own <= others or others <= own or (self.kind == "person" and not own.isdisjoint(others))

    def _spans(self, one: Candidate) -> list[Span]:
        """Return the spans of the kind asked for that meet what the reader marked; of persons and places none."""
        first, last = one.highlight
        spans = find(one.text, self.kind) if self.kind and self.kind not in ("person", "place") else []
        return [span for span in spans if span.start < last and first < span.end]

    def _days(self, one: Candidate) -> list[Days]:
        said = [one.text[span.start : span.end] for span in self._spans(one)] if self.kind == "date" else []
        return [days for each in said if one.written and (days := resolve(each, one.written))]

    def _value(self, one: Candidate) -> frozenset[str]:
        first, last = (one.spans[0].start, one.spans[0].end) if one.spans and not one.mark else one.highlight
        said = frozenset(words(one.text[first:last] or one.speaker or "")) - FUNCTION_WORDS
        return said - frozenset(self.question.words) or said


def _is_unsure(text: str) -> bool:
    """Return whether a sentence speaks of the past, a wish, a belief or a condition, and of no change."""
    return bool(_UNSURE.search(text) or (_PAST.search(text) and not says_change(text)))


def _writers(read: Passage, one: Candidate) -> tuple[str, ...]:
    return read.recipients if read.is_meeting else (read.author_at(one.span.start),)


def _names(people: Sequence[str]) -> list[frozenset[str]]:
    return [name for one in people if (name := frozenset(words(name_and_address(one)[0] or one)))]


def soonest(reads: Passages, found: Candidates, best: Candidate, when: TimeConstraint) -> Candidate:
    """Return, of the sentences that cover as much of the question as the best, the one with the earliest occurrence.

    A newer sentence can cancel an occurrence; if none is left to come, the best sentence stays.
    """
    about = tuple(when.about)
    least = share(about, best.words)
    coming = [one for one in found if one.begins and share(about, one.words) >= least]
    changed = [(one.written, _title_words(reads[one.read])) for one in coming if says_change(one.text)]
    left = list[Candidate]()
    for one in coming:  # without those that a newer document changed
        newer = [other for at, other in changed if one.written and at and one.written < at]
        left += [one] if _title_words(reads[one.read]) not in newer and not (newer and len(about) > 1) else []
    return min(left, key=lambda one: (one.begins or datetime.max, one.read, one.place), default=best)


def _around(own: Candidates, one: Candidate) -> frozenset[str]:
    return frozenset[str]().union(*(other.words for other in own if abs(other.place - one.place) <= 1))


def says_change(text: str) -> bool:
    """Return whether a text says that something is no longer as it was."""
    return any(phrases("changes", "new").find(plain_words(text)))


def _title_words(read: Passage) -> frozenset[str]:
    return frozenset(words(read.hits[0].title))
