"""Has the reader mark which span of each sentence of the sources may answer a question, and says how likely one does.

Rules leave out what the reader does not tell: headings and the like, and turns of a meeting that are somebody else's
than of whom the question names.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import TYPE_CHECKING

from engine.ask.candidates import ME, WISH, YOU, Candidate, asks, content, coverage, idf_of, named, share, speaking
from engine.ask.time_constraints import TimeConstraint
from engine.text.question import Question, whose_words
from engine.text.time_sensitive import plain_words
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Grade, Passage

if TYPE_CHECKING:
    from engine.models.reader import Mark, SpanReader, WindowScores

RETRIEVAL = 5.0  # of a passage's score, beside the reader's
_ENGLISH_TEXT = "what when where who which why how is are did does has have the a and to of for on at by from it i we"
_ENGLISH = frozenset(_ENGLISH_TEXT.split())
ANSWERS = 0.85  # probability of an answer, from which it is one and not the closest passage
# Log odds fitted on LoCoMo and the judged mails and meetings in equal parts, and moved so that even odds, below which
# pkb declines by default, are those of one right answer in four.
_START = -1.5
_MARGIN = 0.1  # of the best span
_LEAD, _MOST_LEAD = 0.14, 20.0  # its lead on the best that says something else
_SHARE = 1.5  # share of the question's words in its source
_OTHERS, _NO_SPEAKER = -1.1, -0.2  # share of what a talk says of it that is about others, less a half
_TELLING = 5  # words of a sentence that tell its language
_LESS = 0.1  # of the share of a question that is said, for words alone
_SHARP = 4.0  # a turn that says all that is asked counts as much as e^4 turns that say nothing of it
NO_ANSWER = re.compile(
    r"\W*(?:(?:re|fwd?|from|to|cc|bcc|sent|date|subject|attendees|attachments?)\s*:.*|(?:https?://|www\.)\S+|\S+@\S+"
    r"|[\w .()&-]+\.(?:docx?|pdf|xlsx?|pptx?|jpe?g|png|gif|zip|txt|htm)\W*"
    r"|(?:hi|hello|hey|dear|thanks|thank you|regards|best|cheers|sincerely)\b[\w ,.!-]{0,40}|reacted to .*|\[.*\])\W*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Sentences, scored, and how likely the best of them answers."""

    found: list[Candidate]
    support: float
    by_words: bool = False

    @property
    def grade(self) -> Grade:
        """Return what the best then is; words alone find the closest passage, and do not tell whether it answers."""
        return "answer" if self.support >= ANSWERS and not self.by_words else "closest"


def read_sources(
    reader: "SpanReader", question: Question, reads: Sequence[Passage], found: Sequence[Candidate]
) -> Reading:
    """Have the sources read: reading only the best ones first would save a tenth of the time."""
    known, marks = [one for one in found if _may_answer(question, one, reads)], _Marks()
    chunks = list(_chunks(reads))
    texts = reader.read(question.text, [(one.header, one.text) for one in chunks])
    for chunk, windows in zip(chunks, texts, strict=True):
        for key, mark in _marks(question, chunk, windows, [one for one in known if chunk.holds(one)]):
            marks[key] = max(mark, marks.get(key, mark), key=lambda one: one.score)
    marked = [_marked(one, marks.get((one.read, one.place)), reads) for one in known]
    best = max(marked, key=lambda one: one.score, default=None)
    if best is None or best.mark is None:
        return Reading(marked, 0.0)
    return Reading(marked, support_of(question, reads, marked, best))


def read_words(
    question: Question, reads: Sequence[Passage], found: Sequence[Candidate], when: TimeConstraint
) -> Reading:
    """Return the sentences by their words; how likely one answers is how much of the question is said."""
    asked = [word for word in content(question) if not when.coming or word not in when.words]
    held = [_told(read).union(*(one.words for one in found if one.read == number)) for number, read in enumerate(reads)]
    told = max((share(asked, each) for each in held), default=0.0)
    said = max((share(asked, one.words) for one in found), default=0.0)
    less = 0 if _is_foreign(question) else _LESS  # whose words for asking are counted, too: no answer says them
    return Reading(list(found), max(0.0, (told + said) / 2 - less), by_words=True)


def _is_foreign(question: Question) -> bool:
    return _ENGLISH.isdisjoint(plain_words(question.text))


def is_beyond(question: Question, found: Sequence[Candidate]) -> bool:
    """Return whether the reader was not trained on such questions or sources: yes or no, or another language."""
    best = max(found, key=lambda one: one.score, default=None)
    said = plain_words(best.text) if best else []
    is_foreign = len(said) >= _TELLING and _ENGLISH.isdisjoint(said)
    return question.asked == "yes/no" or is_foreign or _is_foreign(question)


def _told(read: Passage) -> frozenset[str]:
    """Return the words of a source, with those of its header and of who took part."""
    return frozenset(words(f"{read.header} {read.sender} {' '.join(read.recipients)} {read.text}"))


_Marks = dict[tuple[int, int], "Mark"]  # by source and sentence, their offsets those of the source's text


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part of the source at index `read`, which begins at the offset `at` of its text."""

    read: int
    at: int
    header: str
    text: str

    def holds(self, one: Candidate) -> bool:
        """Return whether a sentence begins in it."""
        return one.read == self.read and 0 <= one.span.start - self.at < len(self.text)


def _chunks(reads: Sequence[Passage]) -> Iterator[_Chunk]:
    for number, read in enumerate(reads):
        at = 0
        for chunk in read.chunks:
            yield _Chunk(number, at, f"{chunk.header}\n", chunk.text)
            at += len(chunk.text) + 1


def _marks(
    question: Question, chunk: _Chunk, windows: "Sequence[WindowScores]", inside: Sequence[Candidate]
) -> "Iterator[tuple[tuple[int, int], Mark]]":
    """Yield the best span of each sentence, that of who says it where a person is asked for, and it is the likelier."""
    for window in windows:
        marks = ((one, window.best(max(0, one.span.start - chunk.at), one.span.end - chunk.at)) for one in inside)
        found = [(one, mark) for one, mark in marks if mark]
        by = window.best(-len(chunk.header), len(chunk.text)) if question.asked == "person" and found else None
        said = [pair for pair in found if by and pair[0].speaker and _is_speaker(by, pair[0], chunk)]
        most = max(said, key=lambda pair: pair[1].evidence, default=None)
        for one, mark in found:
            is_said = by and most and one is most[0] and by.score > mark.score
            span = (one.span.start, one.span.start) if is_said else (mark.start + chunk.at, mark.end + chunk.at)
            yield (one.read, one.place), replace(by if by and is_said else mark, start=span[0], end=span[1])


def _is_speaker(mark: "Mark", one: Candidate, chunk: _Chunk) -> bool:
    """Return whether a span is the name in front of a turn or of a mail, of whoever says a sentence."""
    source = chunk.header[mark.start :] if mark.start < 0 else chunk.text[mark.start :]
    name = source[: mark.end - mark.start].casefold()
    return bool(name) and name in (one.speaker or "").casefold()


def _marked(one: Candidate, mark: "Mark | None", reads: Sequence[Passage]) -> Candidate:
    score = mark.score + RETRIEVAL * reads[one.read].score if mark else -100.0
    return replace(one, mark=mark, score=score)


def support_of(question: Question, reads: Sequence[Passage], found: Sequence[Candidate], best: Candidate) -> float:
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


def _about_others(question: Question, talk: Sequence[Candidate]) -> float | None:
    """Return the share of what is said of the matter that is about other persons, less a half.

    None where a question names no speaker, or asks for the words of one, so that those of others do not matter.
    """
    persons = frozenset[str]() if WISH.search(question.text) else speaking(named(question), talk)
    idf = idf_of([word for word in content(question) if word not in persons], [one.words for one in talk])
    if not persons or not idf or whose_words(question.text):
        return None
    turns = defaultdict[tuple[int, int], list[Candidate]](list)
    for one in talk:
        turns[one.read, one.span.turn].append(one)
    weights = [exp(_SHARP * coverage(idf, frozenset().union(*(one.words for one in turn)))) for turn in turns.values()]
    own = (weight * _about(persons, turn) for weight, turn in zip(weights, turns.values(), strict=True))
    return 0.5 - sum(own) / sum(weights)


def _about(persons: frozenset[str], turn: Sequence[Candidate]) -> float:
    """Return the share of "I" and "you" in a turn that refer to one of these people; 0.5 if there are none."""
    said = " ".join(one.text for one in turn).lower().replace("’", "'").replace("'", " ").split()
    mine, yours = sum(word in ME for word in said), sum(word in YOU for word in said)
    first = (mine + 0.5) / (mine + yours + 1)
    return 1 - first if persons.isdisjoint(words(turn[0].speaker or "")) else first


def _may_answer(question: Question, one: Candidate, reads: Sequence[Passage]) -> bool:
    """Return whether a sentence tells anything, and in a meeting of whom the question names, as far as that is told."""
    if NO_ANSWER.fullmatch(one.text) or asks(one.text):
        return False
    read = reads[one.read]
    asked = named(question).intersection(*[words(" ".join(read.recipients))]) if read.is_meeting else frozenset[str]()
    return not asked or not asked.isdisjoint(words(f"{one.speaker or ''} {one.text}"))
