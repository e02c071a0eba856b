"""Which newer mail changes what an older one says, and which of its sentences says how it is now.

Words of change are in prompts/changes.txt. Meetings are left out: what is said in one is no notice of a change.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from engine.ask.candidates import Candidate, content, share
from engine.text.question import Question
from engine.text.spans import Found
from engine.text.time_sensitive import occurrences, plain_words, word_lists
from engine.text.words import FUNCTION_WORDS, words
from engine.types import Passage

# Of the question's words, that a message must have to change what another says; and one with the same subject.
_SAYS_NEW, _SAME_TITLE = 0.6, 0.5


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
    behind = _announced(found, best, former.words.union(content(question)))
    return None if behind is best else (found, behind)


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

    new = [replace(one, spans=tuple(span for span in one.spans if _is_new(one, span, former))) for one in update]
    return _announced(new, max(new, key=order), former.words.union(content(question)))


def _is_new(one: Candidate, span: Found, former: Candidate) -> bool:
    said, before = (" ".join(text.split()) for text in (one.text[span.start : span.end], former.text))
    return said not in before


def _announced(found: Sequence[Candidate], best: Candidate, known: frozenset[str]) -> Candidate:
    """Return the sentence behind one that says that something has changed, and not what it is now; else that one."""
    after = [one for one in found if (one.read, one.place) == (best.read, best.place + 1)]
    goes_on = after and after[0].span.turn == best.span.turn and not best.spans
    only_announces = says_change(best.text) and not (best.words - known - _change_words())
    return after[0] if goes_on and only_announces else best


def says_change(text: str) -> bool:
    """Return whether a text says that something is no longer as it was."""
    tokens = plain_words(text)
    phrases = (phrase for parts in word_lists("changes").values() for phrase in parts["new"])
    return any(True for phrase in phrases for _ in occurrences(phrase, tokens))


@cache
def _change_words() -> frozenset[str]:
    """Return the words of change as `words` stems them, with those that say nothing."""
    listed = (word for parts in word_lists("changes").values() for phrase in parts["new"] for word in phrase)
    return FUNCTION_WORDS.union(*(words(word.strip("*.")) for word in listed), words("please sorry unfortunately"))


def _title_words(read: Passage) -> frozenset[str]:
    return frozenset(words(read.hits[0].title))
