"""What stands near a sentence that answers: its reason, and what a follow-up asks of the same document."""

import re
from collections.abc import Iterator, Sequence

from engine.ask.candidates import Candidate, content, has_sign
from engine.ask.followup import asks_who_said, core
from engine.text.question import ASKING_WORDS, Question, whose_words
from engine.text.words import FUNCTION_WORDS
from engine.types import Evidence, Passage

_BECAUSE = re.compile(r"\b(?:because|since|due to|so that|in order to|the (?:main )?reason)\b", re.IGNORECASE)
_REASON = 3  # sentences behind what it is the reason of


def reason_of(found: Sequence[Candidate], best: Candidate) -> Candidate | None:
    """Return which of the next sentences of the same turn gives a reason, where the best gives none itself."""
    if _BECAUSE.search(best.text):
        return None
    later = [one for one in found if one.read == best.read and 0 < one.place - best.place <= _REASON]
    given = (one for one in later if one.span.turn == best.span.turn and _BECAUSE.search(one.text))
    return min(given, key=lambda one: one.place, default=None)


_TELLS, _TELLS_LITTLE = 7, 3  # words that are not the question's, up to which a sentence is shown with those beside it
_SHORTEST = 4  # words of a sentence beside another: a greeting or the name below a mail has fewer


def with_neighbours(question: Question, found: Sequence[Candidate], best: Candidate) -> list[Candidate]:
    """Return a sentence with its neighbours, if it says little beyond the question.

    A sentence that repeats the question often stands next to the one that answers it: "Now to the tickets."
    """
    asks, new = best.text.endswith("?"), len(best.words - FUNCTION_WORDS - set(question.words))
    tells = not asks and has_sign(question, best.text)
    first = 0 if asks or tells or new > _TELLS_LITTLE else -1
    goes_on = any(one.span.turn == best.span.turn for one in _beside(found, best) if one.place > best.place)
    explains = goes_on and core(question.text).lower().startswith(("why", "how"))
    last = int(asks or explains or (new <= _TELLS and not tells))
    return [one for one in _beside(found, best) if first <= one.place - best.place <= last]


def _beside(found: Sequence[Candidate], best: Candidate) -> Iterator[Candidate]:
    """Yield a sentence and those right before and behind it; of a mail, only what its author says there himself."""
    for one in found:
        is_near = one.read == best.read and abs(one.place - best.place) <= 1 and not one.is_subject
        is_own = one.span.speaker is not None or one.speaker == best.speaker
        is_reply = one.span.speaker is not None and best.text.endswith("?")
        if one is best or (is_near and is_own and (is_reply or len(one.text.split()) >= _SHORTEST)):
            yield one


def span_behind(found: Sequence[Candidate], best: Candidate) -> Candidate | None:
    """Return the next sentence of the same turn where it gives the place, day ... asked for and the best does not."""
    behind = (
        one for one in found if (one.read, one.place, one.span.turn) == (best.read, best.place + 1, best.span.turn)
    )
    return next((one for one in behind if one.spans and not best.spans), None)


_CONCLUDES = re.compile(r"(?:and )?(?:so|therefore|thus|hence|that['’]?s why|that is why)\b", re.IGNORECASE)
_REACH = 300  # characters behind the sentence that was quoted


def followed(question: Question, reads: Sequence[Passage], found: Sequence[Candidate], said: str) -> list[Candidate]:
    """Return the sentences of these passages that may answer a follow-up: those with its words, or what it asks for.

    Of several the nearest behind the sentence quoted before does, and where a question has no words of its own what
    stands there; of "why?", the reason.
    """
    own = [one for one in found if one.read < len(reads)]
    asked = frozenset(content(question)) - FUNCTION_WORDS - ASKING_WORDS.union(*whose_words(question.text))
    spans = [one for one in own if one.spans]
    among = spans or [one for one in own if one.text not in said]
    fitting = [one for one in among if asked & one.words] or spans
    there = next(((index, at) for index, read in enumerate(reads) if (at := read.text.find(said)) >= 0), None)
    if there is None or not said:
        return fitting
    if asked or spans:
        far = fitting if spans else [one for one in fitting if len(asked & one.words) > 1]
        return _nearest(fitting, *there) or far
    if not core(question.text).lower().startswith("why"):
        return _nearest(among, *there)
    return _before(among, *there) if _CONCLUDES.match(said) else _nearest(_reasons(among), *there)


def _reasons(found: Sequence[Candidate]) -> list[Candidate]:
    return [one for one in found if _BECAUSE.search(one.text)]


def _before(found: Sequence[Candidate], read: int, at: int) -> list[Candidate]:
    """Return the last sentence that stands before an offset of a passage."""
    earlier = [one for one in found if one.read == read and one.span.start < at]
    return sorted(earlier, key=lambda one: one.place)[-1:]


def _nearest(found: Sequence[Candidate], read: int, at: int) -> list[Candidate]:
    """Return the first sentence that stands at an offset of a passage or near behind it."""
    near = [one for one in found if one.read == read and 0 <= one.span.start - at <= _REACH]
    return sorted(near, key=lambda one: one.place)[:1]


def who_said(question: Question, evidence: Evidence) -> tuple[int | None, str] | None:
    """Return which passage has the sentence quoted before, and who spoke or wrote it; None if nobody asks that."""
    if not asks_who_said(question.text):
        return None
    for number, read in enumerate(evidence.passages[: evidence.leading]):
        place = read.text.find(evidence.said)
        if evidence.said and place >= 0 and (who := _speaker(read, place)):
            return number, who
    return None, ""


def _speaker(read: Passage, place: int) -> str:
    """Return who speaks, or wrote, at an offset of a passage."""
    if not read.is_meeting:
        return read.author_at(place)
    spoken = next((one for one in read.sentences() if one.start <= place < one.end), None)
    return (spoken and spoken.speaker) or ""
