"""The sentences of the sources that may answer: scored by words and the kind of answer, marked by the reader.

The scores choose if there is no reader. Headings, and turns of people other than the named one, are left out. Knows no
corpus beyond the sources that it receives.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from math import exp, log
from typing import TYPE_CHECKING

from msgspec import Struct

from engine.ask.question_features import plain
from engine.text.question import FOREIGN_KINDS, QUESTION_KINDS, Question
from engine.text.relative_dates import COMING, NONE, TimeConstraint, is_of_day, resolve
from engine.text.spans import Kind, find, time_of
from engine.text.time_sensitive import instruction_end, plain_words
from engine.text.words import FUNCTION_WORDS, Span, words
from engine.types import Grade, Passage, Passages
from prompts import word_patterns, word_sets
from store.types import Chunk, replace

if TYPE_CHECKING:
    from engine.models.minilm import Mark, SpanReader, WindowScores
    from engine.models.types import Embedder


ME = frozenset(["i", "me", "my", "mine", "myself", "we", "us", "our", "ours"])
YOU = frozenset(["you", "your", "yours", "yourself"])


def named(question: Question) -> frozenset[str]:
    """Return the words of the names in a question."""
    return frozenset(word for name in question.names for word in words(name))


def share(wanted: Sequence[str], held: frozenset[str]) -> float:
    """Return the share of the wanted words that are among those held."""
    return sum(word in held for word in wanted) / len(wanted) if wanted else 0.0


def idf_of(wanted: Sequence[str], said: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the inverse frequency of each wanted word over sentences."""
    counts = {word: sum(word in each for each in said) for word in wanted}
    return {word: log(1 + (len(said) - count + 0.5) / (count + 0.5)) for word, count in counts.items()}


def coverage(idf: Mapping[str, float], said: frozenset[str]) -> float:
    """Return the share of the wanted words, by idf, that were said."""
    total = sum(idf.values())
    return sum(value for word, value in idf.items() if word in said) / total if total > 0 else 0.0


_ASIDE = re.compile(word_patterns("english")["aside"], re.IGNORECASE)
# A line between a message and one that it quotes.
_SEPARATOR = re.compile(r"[\W_]*(?:(?:original|forwarded) message|forwarded by\b.*)?[\W_]*", re.IGNORECASE | re.DOTALL)
_REQUEST = re.compile(r"\bplease\b|\b(?:could|can|would|will) (?:you|someone|somebody|everyone)\b", re.IGNORECASE)
_CLOSING, _GREETING = re.compile(word_patterns("languages")["closing"], re.IGNORECASE), 40  # characters at most
_LISTED = word_sets("question_words")
_MEETING = frozenset(words("meeting"))
TASK_WORDS = frozenset(words(" ".join(_LISTED["task"])))  # say what to do with an answer, not what it is about


class Candidate(Struct, frozen=True):
    """One sentence of the source at index `read`; `spans` are offsets in `text` of what the question may ask for."""

    read: int
    place: int  # its number among the sentences of the source
    span: Span
    text: str
    words: frozenset[str]
    speaker: str | None
    spans: tuple[Span, ...]
    day: bool | None = None  # of a day that the question names (True), of another (False), unknown (None)
    score: float = 0.0
    written: datetime | None = None  # with its source, or as the message that the source quotes there
    begins: datetime | None = None  # the earliest coming occurrence, if the question asks for the next one
    mark: "Mark | None" = None  # of the reader, in the passage

    @property
    def marked(self) -> str:
        """Return the span that the reader marked, else all of it."""
        return self.text[slice(*self.highlight)]

    @property
    def highlight(self) -> tuple[int, int]:
        """Return the offsets in it of what the reader marked, else its own."""
        at = self.span.start
        return (self.mark.start - at, self.mark.end - at) if self.mark else (0, len(self.text))


Candidates = Sequence[Candidate]


def content(question: Question) -> tuple[str, ...]:
    """Return the words of the question that say what it is about."""
    # A meeting has a day and a place, which the talk at it need not be about.
    empty = TASK_WORDS - _MEETING if question.asked in COMING else TASK_WORDS
    return tuple(word for word in question.content if word not in empty) or question.content


def candidates(
    question: Question, reads: Passages, kind: Kind | None = None, when: TimeConstraint = NONE
) -> list[Candidate]:
    """Return every sentence of the sources, scored, in their order."""
    found = [_read(question, read, i, kind, when) for i, read in enumerate(reads)]
    idf = idf_of(content(question), [one.words for each in found for one in each])
    best, scored = max((read.score for read in reads), default=0.0) or 1.0, list[Candidate]()
    for read, each in zip(reads, found, strict=True):
        for place, one in enumerate(each):
            before = each[place - 1].words if place else frozenset[str]()
            own, near = coverage(idf, one.words), coverage(idf, before)
            of_kind = bool(one.spans) * (_CAPITAL if kind in ("place", "person") else _OF_KIND)
            day = _OF_DAY * (is_of_day(question, one.written) or one.day is True)
            score = _SOURCE * read.score / best + _WORDS * own + _NEAR * near + of_kind + day - asks(one.text)
            scored.append(replace(one, score=score - _ASIDE_LESS * bool(_ASIDE.match(one.text))))
    return scored


# What each sign counts for: the score of the source, words of the question in a sentence and in the one before it, a
# span of the kind asked for (told by little but a capital for places and persons), a day that the question names.
_SOURCE, _WORDS, _NEAR, _OF_KIND, _CAPITAL, _OF_DAY, _ASIDE_LESS = 2.0, 2.0, 0.6, 2.0, 0.7, 0.8, 2.0


def _read(question: Question, read: Passage, index: int, kind: Kind | None, when: TimeConstraint) -> list[Candidate]:
    found, whole = list[Candidate](), read.text
    for place, span in enumerate(read.sentences()):
        span = replace(span, start=span.start + instruction_end(whole[span.start : span.end]))
        text, written = whole[span.start : span.end], read.hit_at(span.start).written
        if _SEPARATOR.fullmatch(text) or read.is_outranked(span.start):
            continue
        if question.foreign and len(text) <= _GREETING and _CLOSING.match(text):
            continue
        parts = ((one, text[one.start : one.end]) for one in (find(text, kind) if kind else ()))
        spans = tuple(one for one, said in parts if kind and _may_answer(said, question, written, kind, when))
        # In a mail anybody can write "Ann:" in front of a line, and what it quotes or forwards is not its sender's.
        author, label = read.author_at(span.start), span.speaker or ""
        if read.is_meeting:
            author, label = span.speaker or ("" if read.recipients else read.sender), ""
        elif label and not set(words(label)) <= set(words(author)):
            author = ""
        else:
            label = ""
        begins, where = when.soonest(text, written) or (None, None)
        if where and kind in ("date", "time"):
            said = where if kind == "date" else time_of(text, where)
            spans = (said,) if said else ()
        # All that was written on that day is of it.
        day = None if is_of_day(question, written) else when.spoken(text, written)
        about = frozenset(words(label)) | named(question).intersection(words(author))
        told = (when.told(text, day) | about, author or None, spans, day)
        found.append(Candidate(index, place, span, text, *told, begins=begins, written=written))
    return found


def _may_answer(span: str, question: Question, written: datetime | None, kind: Kind, when: TimeConstraint) -> bool:
    """Leave out what only repeats the question, and "last week" or "in March" gone by where it asks how things are."""
    said = words(span)
    if not said or set(said) <= set(question.words):
        return False
    if kind != "date" or written is None:
        return True
    if when.words and not is_of_day(question, written) and when.meets(span, written) is False:
        return False
    if not question.current or any(map(str.isdigit, span)):
        return True
    days = resolve(span, written)
    return days is None or days.last >= written.date()


def asks(text: str) -> bool:
    """Return whether a sentence is a question, and not a request."""
    return text.rstrip("\"”')*] ").endswith(("?", "？", "か。")) and not _REQUEST.search(text)


_ASKED: tuple[Kind, ...] = ("email", "phone", "duration", "date", "link")
_KINDS = [(kind, re.compile(rf"\b(?:{QUESTION_KINDS[f'span {kind}']})\b", re.IGNORECASE)) for kind in _ASKED]
_NOUNS: tuple[tuple[Kind, str], ...] = (("email", "email"), ("phone", "(?:phone|mobile|cell)(?: number)?"))
_CONTACTS = [(kind, re.compile(QUESTION_KINDS["owned"].replace("NOUN", noun), re.IGNORECASE)) for kind, noun in _NOUNS]
_DEFINITION = re.compile(r"\s*[Ww]ho(?:['’]s| is| are| was| were)\s+[A-Z][\w.,'’ -]*\?*\s*$")


def wanted(question: Question) -> Kind | None:
    """Return which kind of span a question asks for, if any."""
    if question.foreign:
        return next((kind for kind in FOREIGN_KINDS if kind == question.asked), None)
    if named_kind := next((kind for kind, pattern in _KINDS if pattern.search(question.text)), None):
        return named_kind
    form = plain(question.text)
    if contact := next((kind for kind, pattern in _CONTACTS if pattern.match(form)), None):
        return contact
    asked = question.asked
    if asked == "yes/no" or asked == "other" or (asked == "person" and _DEFINITION.match(question.text)):
        return None
    return asked


RETRIEVAL = 5.0  # of a passage's score, beside the reader's
_ENGLISH = _LISTED["common"]
ANSWERS = 0.85  # probability of an answer, from which it is one and not the closest passage
# Log odds fitted on LoCoMo and the judged mails and meetings in equal parts, and moved so that even odds, below which
# pkb declines by default, are those of one right answer in four.
_START = -1.5
_MARGIN = 0.1  # of the best span
_LEAD, _MOST_LEAD = 0.14, 20.0  # its lead on the best that says something else
_SHARE = 1.5  # share of the question's words in its source
_OTHERS, _NO_SPEAKER = -1.1, -0.2  # share of what a talk says of it that is about others, less a half
_TELLING = 5  # words of a sentence that identify its language
_LESS = 0.1  # of the share of a question that is said, for words alone
_SHARP = 4.0  # a turn that covers the question weighs as much as e^4 turns that cover none of it
NO_ANSWER = re.compile(rf"\W*(?:{word_patterns('english')['no answer']})\W*", re.IGNORECASE | re.DOTALL)


class Reading(Struct, frozen=True):
    """Sentences, scored, and how likely the best of them answers."""

    found: list[Candidate]
    support: float
    by_words: bool = False

    @property
    def grade(self) -> Grade:
        """Return the grade of the best; words alone find the closest passage, not whether it answers."""
        return "answer" if self.support >= ANSWERS and not self.by_words else "closest"


def read_sources(reader: "SpanReader", question: Question, reads: Passages, found: Candidates) -> Reading:
    """Have the sources read: reading only the best ones first would save a tenth of the time."""
    names, known = named(question), list[Candidate]()
    marks = dict[tuple[int, int], "Mark"]()  # by source and sentence, their offsets those of the source's text
    for one in found:  # with content and, in a meeting, about a person that the question names, if known
        asked = names.intersection(words(" ".join(reads[one.read].recipients))) if reads[one.read].is_meeting else None
        if not (NO_ANSWER.fullmatch(one.text) or asks(one.text)) and not (
            asked and asked.isdisjoint(words(f"{one.speaker or ''} {one.text}"))
        ):
            known.append(one)
    parts = list[tuple[int, int, Chunk]]()
    for number, read in enumerate(reads):  # each chunk with its source, and where it begins in the text of that
        starts = accumulate((len(chunk.text) + 1 for chunk in read.chunks), initial=0)
        parts += [(number, at, chunk) for at, chunk in zip(starts, read.chunks, strict=False)]
    texts = reader.read(question.text, [(f"{chunk.header}\n", chunk.text) for *_, chunk in parts])
    for (number, at, chunk), windows in zip(parts, texts, strict=True):
        inside = [one for one in known if one.read == number and 0 <= one.span.start - at < len(chunk.text)]
        for key, mark in _marks(question, chunk, at, windows, inside):
            marks[key] = max(mark, marks.get(key, mark), key=lambda one: one.score)
    marked = list[Candidate]()
    for one in known:
        best_mark = marks.get((one.read, one.place))
        score = best_mark.score + RETRIEVAL * reads[one.read].score if best_mark else -100.0
        marked.append(replace(one, mark=best_mark, score=score))
    best = max(marked, key=lambda one: one.score, default=None)
    return Reading(marked, support_of(question, reads, marked, best) if best and best.mark else 0.0)


def read_words(question: Question, reads: Passages, found: Candidates, when: TimeConstraint) -> Reading:
    """Return the sentences by their words; how likely one answers is how much of the question is said."""
    asked = [word for word in content(question) if not when.coming or word not in when.words]
    held = [_told(read).union(*(one.words for one in found if one.read == number)) for number, read in enumerate(reads)]
    told = max((share(asked, each) for each in held), default=0.0)
    said = max((share(asked, one.words) for one in found), default=0.0)
    # The words for asking are counted, too, in another language: no answer says them.
    less = 0 if _ENGLISH.isdisjoint(plain_words(question.text)) else _LESS
    return Reading(list(found), max(0.0, (told + said) / 2 - less), by_words=True)


# Fitted on half of 100 questions in six languages, each also asked without the documents that answer it.
_BASE, _WHOLE, _NEAR_IT, _COVERS, _AHEAD, _SHARED = -6.0, 7.9, 1.4, 0.87, 5.3, 0.2


def read_meaning(embedder: "Embedder", question: Question, reads: Passages, found: Candidates) -> Reading:
    """Return the sentences by how near their vectors, and those of their sources, are to the question's."""
    kind, said = wanted(question), content(question)
    told = [one for one in found if not (NO_ANSWER.fullmatch(one.text) or asks(one.text))]
    told = [one for one in told if one.spans or not kind]
    asked = embedder.embed_question(question.text)
    rows = embedder.embed([f"{reads[one.read].hits[0].title}: {one.text}" for one in told])
    known = [[float(hit.vector @ asked) for hit in read.hits if hit.vector is not None] for read in reads]
    near = {(one.read, one.place): float(row @ asked) for one, row in zip(told, rows, strict=True)}
    whole = [max(each, default=0.0) for each in known]
    scores = {
        (one.read, one.place): near[one.read, one.place] + whole[one.read] + _SHARED * share(said, one.words)
        for one in told
    }
    marked = [replace(one, score=scores.get((one.read, one.place), -100.0)) for one in found]
    if not told:
        return Reading(marked, 0.0, by_words=True)
    best = max(marked, key=lambda one: one.score)
    lead = best.score - max((one.score for one in marked if one.read != best.read), default=best.score)
    covers = share(said, best.words) + share(said, _told(reads[best.read]))
    odds = _BASE + _WHOLE * whole[best.read] + _NEAR_IT * near[best.read, best.place] + _COVERS * covers
    return Reading(marked, 1 / (1 + exp(-odds - _AHEAD * min(lead, 1.0))), by_words=True)


def is_beyond(question: Question, found: Candidates) -> bool:
    """Return whether the reader was not trained on such questions or sources: yes or no, or another language."""
    best = max(found, key=lambda one: one.score, default=None)
    said = plain_words(best.text) if best else []
    is_foreign = len(said) >= _TELLING and _ENGLISH.isdisjoint(said)
    is_foreign = is_foreign or question.foreign or _ENGLISH.isdisjoint(plain_words(question.text))
    return is_foreign or question.asked == "yes/no"


def _told(read: Passage) -> frozenset[str]:
    return frozenset(words(f"{read.header} {read.sender} {' '.join(read.recipients)} {read.text}"))


def _marks(
    question: Question, chunk: Chunk, at: int, windows: "Sequence[WindowScores]", inside: Candidates
) -> "Iterator[tuple[tuple[int, int], Mark]]":
    """Yield the best span of each sentence, that of who says it where a person is asked for, and it is the likelier."""
    header = f"{chunk.header}\n"
    for window in windows:
        marks = ((one, window.best(max(0, one.span.start - at), one.span.end - at)) for one in inside)
        found = [(one, mark) for one, mark in marks if mark]
        by = window.best(-len(header), len(chunk.text)) if question.asked == "person" and found else None
        # The name in front of a turn or of a mail.
        source = (header if by.start < 0 else chunk.text)[by.start :] if by else ""
        name = source[: by.end - by.start].casefold() if by else ""
        said = [pair for pair in found if name and name in (pair[0].speaker or "").casefold()]
        most = max(said, key=lambda pair: pair[1].evidence, default=None)
        for one, mark in found:
            is_said = by and most and one is most[0] and by.score > mark.score
            span = (one.span.start, one.span.start) if is_said else (mark.start + at, mark.end + at)
            yield (one.read, one.place), replace(by if by and is_said else mark, start=span[0], end=span[1])


def support_of(question: Question, reads: Passages, found: Candidates, best: Candidate) -> float:
    """Return how likely the best of some marked sentences answers, as it leads on those that say something else."""
    assert best.mark
    said = frozenset(words(best.marked)) - FUNCTION_WORDS
    others = (one.score for one in found if one.mark and not said & frozenset(words(one.marked)))
    lead = min(_MOST_LEAD, best.score - max(others, default=best.score - _MOST_LEAD))
    source = reads[best.read]
    talk = [one for one in found if reads[one.read].is_meeting] if source.is_meeting else []
    aside = _about_others(question, talk)
    odds = _START + _MARGIN * best.mark.margin + _LEAD * lead + _SHARE * share(content(question), _told(source))
    return 1 / (1 + exp(-odds - _OTHERS * (_NO_SPEAKER if aside is None else aside)))


def telling(question: Question, reads: Passages, reading: Reading, kind: Kind) -> Reading:
    """Return the sentences with a span of the kind: less likely to answer, if the best of all is another's source."""
    found = [one for one in reading.found if one.spans or (one.mark and find(one.text, kind))]
    first, best = (max(each, key=lambda one: one.score, default=None) for each in (reading.found, found))
    if first and best and best.mark and best.read != first.read:
        return replace(reading, found=found, support=support_of(question, reads, reading.found, best))
    return replace(reading, found=found)


def _about_others(question: Question, talk: Candidates) -> float | None:
    """Return the share of what is said of the matter that is about others, less a half; None if no speaker is named."""
    persons = named(question).intersection(*[words(" ".join({one.speaker or "" for one in talk}))])
    idf = idf_of([word for word in content(question) if word not in persons], [one.words for one in talk])
    if not persons or not idf:
        return None
    turns = defaultdict[tuple[int, int], list[Candidate]](list)
    for one in talk:
        turns[one.read, one.span.turn].append(one)
    weights = [exp(_SHARP * coverage(idf, frozenset().union(*(one.words for one in turn)))) for turn in turns.values()]
    own = (weight * _about(persons, turn) for weight, turn in zip(weights, turns.values(), strict=True))
    return 0.5 - sum(own) / sum(weights)


def _about(persons: frozenset[str], turn: Candidates) -> float:
    """Return the share of "I" and "you" in a turn that refer to one of these people; 0.5 if there are none."""
    said = " ".join(one.text for one in turn).lower().replace("’", "'").replace("'", " ").split()
    mine, yours = sum(word in ME for word in said), sum(word in YOU for word in said)
    first = (mine + 0.5) / (mine + yours + 1)
    return 1 - first if persons.isdisjoint(words(turn[0].speaker or "")) else first
