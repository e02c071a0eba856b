"""Which sentence says how things are now: the newest of those that say the same, and what newer mail has changed.

Words of change in mail are in prompts/changes.txt; what is said in a meeting is no notice of a change. Whoever asks
again is told first, and once, that an answer is no longer what it was, and which message changed it: at once when new
mail did, or with the first hit after an idle run found out.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from engine.ask.candidates import Candidate, candidates, content, share, wanted
from engine.ask.keys import normalise
from engine.ask.prepare import answer_of
from engine.ask.time_constraints import TimeConstraint, time_constraint
from engine.text.commitments import instruction_end
from engine.text.people import name_and_address
from engine.text.question import Question
from engine.text.spans import Kind, find
from engine.text.terminal import shorten
from engine.text.time_sensitive import phrases, plain_words, word_lists
from engine.text.words import FUNCTION_WORDS, words
from engine.types import FIRST_MAIL, Answer, Correction, Passage, Source, Trust
from store.answers import CachedAnswer, Notice

if TYPE_CHECKING:
    from engine.types import Evidence


# Of the question's words, that a message must have to change what another says; and one with the same subject.
_SAYS_NEW, _SAME_TITLE = 0.6, 0.5
_SAID = 0.3  # of the question, that a newer sentence must say
_SAME, _SOURCE = 0.9, 0.6  # of the best sentence's fit, and of its source's score, that a newer one must have
# Of the question, that a sentence must say, with its subject and those beside it, to be one of several answers, to take
# the place of another, and to be told beside another that counts as much.
_TOUCHES, _CLAIMS, _SURE = 0.5, 0.6, 0.8
_AS_MUCH = 0.8  # of what a less trusted sentence says of the question, that a more trusted one must
_SAME_TIME = timedelta(days=1)


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
        """Return the address that it came from, or what else tells who sent it, and whether that is in doubt."""
        address = name_and_address(self.read.sender)[1] or self.read.sender or self.read.document
        return address, self.trust == Trust.WARNED

    def outranks(self, other: "_Claim") -> bool:
        """Return whether this counts more: by who says it, and of two whom nobody knows, by who said it first."""
        if self.trust != other.trust or self.trust == Trust.KNOWN or self.origin == other.origin:
            return self.trust > other.trust
        if self.seen and other.seen and abs(self.seen - other.seen) >= _SAME_TIME:
            return self.seen < other.seen
        return self.read.date is not None and other.read.date is not None and self.read.date < other.read.date

    @property
    def seen(self) -> datetime | None:
        """Return when pkb first saw its document."""
        return next((datetime.fromisoformat(one.first_seen) for one in self.read.sources if one.first_seen), None)

    def agrees(self, other: "_Claim") -> bool:
        """Return whether another says this too: all its spans or numbers, any of two who count alike, or its words."""
        if not self.answers or not other.answers:
            return same_answer(self.said.text, other.said.text)
        same = [any(one <= two or two <= one for two in other.answers) for one in self.answers]
        return any(same) if self.trust == other.trust and not says_change(self.said.text) else all(same)

    def differs(self, other: "_Claim") -> bool:
        """Return whether this says something else of the same: with a span or number, or in many of the same words."""
        if 2 * len(self.about & other.about) < len(self.asked) or self.agrees(other):
            return False
        own, others = (frozenset(filter(str.isalpha, one.said.words - FUNCTION_WORDS)) for one in (self, other))
        changes = says_change(self.said.text) and 2 * len(own & others & self.asked) >= len(self.asked)
        alike = changes or 2 * len(own & others) >= min(len(own), len(others))
        return alike or bool(self.kind and self.answers and other.answers)


def settled(question: Question, evidence: "Evidence") -> "Evidence":
    """Return evidence without answers from chunks that say something else than a sender who is trusted more.

    Passages of several senders that differ are marked as rivals.
    """
    if evidence.leading:
        return evidence
    kind = wanted(question)
    found = candidates(question, evidence.passages, kind, time_constraint(question, kind))
    all_claims = _claims(question, evidence.passages, found)
    claims = [one for one in all_claims if one.covers >= _TOUCHES]
    lost = [one for one in claims if _loses(one, claims)]
    told = [one for one in claims if one.covers >= _SURE and not one.read.is_meeting]
    sure = [one for one in told if not any(one is other for other in lost)]
    rivals = [one for one in sure if any(one.origin != other.origin and one.differs(other) for other in sure)]
    beside = _beside([one for one in all_claims if not any(one is other for other in lost)])
    marked = [_marked(one, lost, [*lost, *rivals], beside) for one in evidence.passages]
    marked = [one if one.rival else replace(one, rival=_left_out(question, one)) for one in marked]
    return replace(evidence, passages=tuple(marked), scored=() if lost else tuple(found))


def _beside(claims: Sequence[_Claim]) -> _Claim | None:
    """Return what a known sender says of some of what is asked, where the best sentence is of another and says else."""
    doubted = [one for one in claims if one.trust < Trust.KNOWN and one.covers >= _TOUCHES]
    best = max(doubted, key=lambda one: one.said.score, default=None)
    known = [one for one in claims if best and one.trust == Trust.KNOWN and one.answers and not one.agrees(best)]
    return max(known, key=lambda one: (one.covers, one.said.score), default=None)


def _left_out(question: Question, read: Passage) -> str:
    """Return a sentence that was left out as it tells what to answer, and may else have answered."""
    asked, title = content(question), _title_words(read)
    texts = (read.text[span.start : span.end] for span in read.sentences())
    told = (one for one in texts if instruction_end(one) and share(asked, frozenset(words(one)) | title) >= _SURE)
    return next(told, "")


def _claims(question: Question, reads: Sequence[Passage], found: Sequence[Candidate]) -> list[_Claim]:
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
        if (answers or not kind or says_change(one.text)) and not one.text.endswith("?"):
            about = whole & (one.words | _title_words(read) if kind or whole & one.words else frozenset())
            claims.append(
                _Claim(one, kind, read, read.trust_of(read.hit_at(one.span.start)), covers, whole, about, answers)
            )
    return claims


def _answers(question: Question, one: Candidate, kind: Kind | None) -> tuple[frozenset[str], ...]:
    """Return the words of each part of a sentence that may answer: spans of the kind asked for, numbers, a speaker."""
    if not kind:
        numbers = (word for word in one.words.difference(question.words) if any(map(str.isdigit, word)))
        return tuple(frozenset([number]) for number in numbers)
    spans = one.spans or (find(one.text, "time") if kind == "date" else ())
    parts = [one.text[span.start : span.end] for span in spans]
    return tuple(frozenset(words(part)) - FUNCTION_WORDS for part in parts)


def _loses(one: _Claim, claims: Sequence[_Claim]) -> bool:
    """Return whether a claim is another than one that counts more and says as much of what is asked."""
    least = max(_CLAIMS, _AS_MUCH * one.covers)
    above = [other for other in claims if other.outranks(one) and other.covers >= least]
    return any(map(one.differs, above)) and not any(map(one.agrees, above))


def _marked(read: Passage, lost: Sequence[_Claim], rivals: Sequence[_Claim], beside: _Claim | None) -> Passage:
    best = max((one for one in rivals if one.read is read), key=lambda one: one.said.score, default=None)
    least = max((one.trust for one in lost if one.read.document == read.document), default=-1)
    outranked = frozenset(hit.chunk.id for hit in read.hits if read.trust_of(hit) <= least)
    said, known = (one.said.text if one else "" for one in (best, beside))
    return replace(read, rival=said, beside=known if beside and beside.read is read else "", outranked=outranked)


_RIVALS = 2  # in notices


def sender_notices(reply: Answer) -> list[str]:
    """Return what other senders say where not all say the same, and why an answer's only source may be somebody else's.

    A mail that was forged in the name and address of who is quoted is told by its warnings.
    """
    first, others = reply.sources[0], [one for one in reply.sources[1:] if not one.copy]
    orders = [one for one in (first, *others) if one.rival and instruction_end(one.quote)]
    left_out = [f"a sentence that tells what to answer was left out, from {_sender(one)}" for one in orders[:_RIVALS]]
    if not reply.answered:
        return left_out
    rivals = [one for one in others if one.rival and one.quote != first.quote and one not in orders]
    strange = [one for one in rivals if one.sender != first.sender or set(one.warnings) ^ set(first.warnings)]
    told = [f"another mail, from {_sender(one)}, says: {shorten(one.quote, 160)}" for one in strange[:_RIVALS]]
    trusted = [first, *(one for one in others if one.quote and same_answer(first.quote, one.quote, reply.span))]
    alone = all(one.warnings and FIRST_MAIL not in one.warnings for one in trusted)
    return [*([f"the answer rests on a doubtful mail alone, from {_sender(first)}"] if alone else []), *told, *left_out]


def _sender(source: Source) -> str:
    return shorten(source.sender, 80) + "".join(f" ({shorten(one, 80)})" for one in source.warnings)


def choose(question: Question, reads: Sequence[Passage], found: Sequence[Candidate], near: float) -> Candidate:
    """Return the best sentence; where the question asks how things are, the newest of those less than `near` below it.

    What has no date, or rivals without one, is left as it is.
    """
    best = max(found, key=_order)
    rivals = [one for one in found if one.score >= best.score - near and _rival_sentence(one, best, reads)]
    known = [one.written for one in rivals if one.written is not None]
    if not question.current or len(known) < len(rivals):
        return best
    return max((one for one in rivals if one.written == max(known)), key=_order)


def _rival_sentence(one: Candidate, best: Candidate, reads: Sequence[Passage]) -> bool:
    """Return whether a sentence says something of the same matter."""
    close = one.fit >= _SAME * best.fit and reads[one.read].score >= _SOURCE * reads[best.read].score
    return one is best or (close and one.fit >= _SAID and bool(one.spans) >= bool(best.spans))


def _order(one: Candidate) -> tuple[float, int, int]:
    return one.score, -one.read, -one.place


def soonest(reads: Sequence[Passage], found: Sequence[Candidate], best: Candidate, when: TimeConstraint) -> Candidate:
    """Return, of the sentences that say as much of what is asked as the best, the one whose occurrence is the soonest.

    What a newer sentence has changed is no occurrence any more; where nothing is to come, the best is left.
    """
    about = tuple(when.about)
    least = share(about, best.words)
    coming = [one for one in found if one.begins and share(about, one.words) >= least]
    changed = [one for one in coming if says_change(one.text)]
    left = [one for one in coming if not any(_is_outdated(one, other, reads, when) for other in changed)]
    return min(left, key=lambda one: (one.begins or datetime.max, one.read, one.place), default=best)


def _is_outdated(one: Candidate, change: Candidate, reads: Sequence[Passage], when: TimeConstraint) -> bool:
    """Return whether a newer sentence changes another: of the same title, or of a matter that the question tells."""
    old, new = reads[one.read], reads[change.read]
    same = old.hits[0].title == new.hits[0].title or len(when.about) > 1
    return same and old.date is not None and new.date is not None and old.date < new.date


def newest_update(
    question: Question, reads: Sequence[Passage], found: Sequence[Candidate], best: Candidate
) -> tuple[Sequence[Candidate], Candidate] | None:
    """Return the sentences of the newest mail that changes what the best sentence says, and the one that answers.

    Where the best sentence is itself of the newest mail, that is the one behind it if it only announces a change.
    None where nothing has changed, or the question asks for what was.
    """
    if question.past or question.dates or reads[best.read].is_meeting or best.written is None:
        return None
    if update := _update(question, reads, found, best):
        return update, _changed_sentence(question, update, best)
    older = [one for one in found if one.written and one.written < best.written and not reads[one.read].is_meeting]
    former = max(older, key=lambda one: one.score, default=None)
    if former is None:
        return None
    behind = _announced(found, _with_new_spans(best, former), former.words.union(content(question)))
    return None if behind.place == best.place else (found, behind)


def _update(
    question: Question, reads: Sequence[Passage], found: Sequence[Candidate], best: Candidate
) -> list[Candidate]:
    """Return the sentences of the newest mail that says that something of what is asked has changed."""
    assert best.written
    asked, title = content(question), _title_words(reads[best.read])
    least = max(_SAYS_NEW, share(asked, best.words | title))
    newer = (
        [one for one in found if one.read == number and one.written and one.written > best.written]
        for number, read in enumerate(reads)
        if not read.is_meeting and not read.hits[0].is_quoted
    )

    def telling(own: Sequence[Candidate]) -> list[Candidate]:
        about = _title_words(reads[own[0].read])
        signs = [one for one in own if says_change(one.text)]
        if signs and title <= about <= title | _change_words():
            said = share(asked, about.union(*(one.words for one in own)))
            return list(own) if said >= _SAME_TITLE else []
        places = {one.place + step for one in signs if share(asked, _around(own, one)) >= least for step in (0, 1)}
        near = [one for one in own if one.place in places]
        return near if not best.spans or any(one.spans for one in near) else []

    updates = [told for own in newer if own and (told := telling(own))]
    return max(updates, key=lambda own: max(filter(None, (one.written for one in own))), default=[])


def _around(own: Sequence[Candidate], one: Candidate) -> frozenset[str]:
    """Return the words of a sentence and of those next to it."""
    return frozenset[str]().union(*(other.words for other in own if abs(other.place - one.place) <= 1))


def _changed_sentence(question: Question, update: Sequence[Candidate], former: Candidate) -> Candidate:
    """Return the sentence of an update that answers: with a span where the former has one, a change, the best."""

    def order(one: Candidate) -> tuple[bool, float, int]:
        return bool(one.spans) >= bool(former.spans), one.score + says_change(one.text), -one.place

    new = [_with_new_spans(one, former) for one in update]
    return _announced(new, max(new, key=order), former.words.union(content(question)))


def _with_new_spans(one: Candidate, former: Candidate) -> Candidate:
    """Leave out the days, places ... that the former sentence gave: a change takes them back."""
    before = " ".join(former.text.split())
    new = (span for span in one.spans if " ".join(one.text[span.start : span.end].split()) not in before)
    return replace(one, spans=tuple(new))


def _announced(found: Sequence[Candidate], best: Candidate, known: frozenset[str]) -> Candidate:
    """Return the sentence behind one that says that something has changed, and not what it is now; else that one."""
    after = [one for one in found if (one.read, one.place) == (best.read, best.place + 1)]
    goes_on = after and after[0].span.turn == best.span.turn and not best.spans
    only_announces = says_change(best.text) and not (best.words - known - _change_words())
    return after[0] if goes_on and only_announces else best


def says_change(text: str) -> bool:
    """Return whether a text says that something is no longer as it was."""
    return any(phrases("changes", "new").find(plain_words(text)))


@cache
def _change_words() -> frozenset[str]:
    """Return the words of change as `words` stems them, with those that say nothing."""
    listed = (word for parts in word_lists("changes").values() for phrase in parts["new"] for word in phrase)
    return FUNCTION_WORDS.union(*(words(word.strip("*.")) for word in listed), words("please sorry unfortunately"))


def _title_words(read: Passage) -> frozenset[str]:
    return frozenset(words(read.hits[0].title))


def change_of(cached: CachedAnswer, reply: Answer, evidence: "Evidence") -> Correction | None:
    """Return how a new answer differs from a cached one, of other evidence; None if it does not, or nobody saw that."""
    before, seen = answer_of(cached), cached.origin == "user" or cached.uses > 0
    if not seen or same_answer(before.text, reply.text, before.span, reply.span):
        return None
    return Correction("changed", before.text or "", _cause(cached, reply, evidence))


def _cause(cached: CachedAnswer, reply: Answer, evidence: "Evidence") -> Source | None:
    """Return the message that changed an answer: of the new ones that which the new answer rests on, else the best."""
    known = set(cached.evidence)
    new = [read for read in evidence.passages if not known.issuperset(chunk.id for chunk in read.chunks)]
    places = [read.sources[0] for read in new if read.sources]
    rests = reply.sources[0].path if reply.answered and reply.sources else None
    return next((one for one in places if one.path == rests), next(iter(places), None))


def correction_of(notice: Notice, reply: Answer) -> Correction | None:
    """Return what a stored notice tells beside a reply; None if that says again what was said before the change."""
    if same_answer(notice.before, reply.text, other_span=reply.span):
        return None
    cause = Source.from_json(json.loads(notice.cause)) if notice.cause else None
    return Correction(notice.kind, notice.before, reply.correction.cause if reply.correction else cause)


_SAME_F1 = 0.8  # of content words, from which one answer says only a little more than the other
_NEGATION = re.compile(
    r"no|not|never|none|without|cannot|cant|dont|(?:did|does|is|was|were|are|could|would|should|wo)nt"
)


def same_answer(one: str | None, other: str | None, span: str = "", other_span: str = "") -> bool:
    """Return whether two answers say the same; None and "" mean that there is no answer.

    `span` is the highlighted part of an answer, if any: the date, name or number that was asked for.
    """
    if not one or not other:
        return not one and not other
    if normalise(one) == normalise(other):
        return True
    if _is_negated(one) == _is_negated(other):  # "at the front desk" is no more so in "not at the front desk"
        if span and other_span:
            return normalise(span) == normalise(other_span)
        if words(span) and f" {' '.join(words(span))} " in f" {' '.join(words(other))} ":
            return True
    shorter, longer = sorted((_content(one), _content(other)), key=len)
    extra = Counter(longer) - Counter(shorter)  # a negation or a number more can change an answer
    says_else = (_NEGATION.fullmatch(word) or any(map(str.isdigit, word)) for word in extra)
    return _nearly_contains(longer, shorter) and not any(says_else)


def _content(text: str) -> list[str]:
    return [word for word in words(text) if word not in FUNCTION_WORDS or _NEGATION.fullmatch(word)]


def _is_negated(text: str) -> bool:
    return any(map(_NEGATION.fullmatch, words(text)))


def _nearly_contains(longer: list[str], shorter: list[str]) -> bool:
    """Return whether a list holds another in order, and is not much longer."""
    left = iter(longer)
    in_order = all(word in left for word in shorter)
    return bool(shorter) and in_order and 2 * len(shorter) >= _SAME_F1 * (len(shorter) + len(longer))
