"""What stands near a sentence that answers: its reason, and what a follow-up asks of the same document."""

import re
from collections.abc import Sequence

from engine.ask.candidates import Candidate, content
from engine.ask.followup import asks_who_said
from engine.text.question import ASKING_WORDS, Question
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


def span_behind(found: Sequence[Candidate], best: Candidate) -> Candidate | None:
    """Return the next sentence of the same turn where it gives the place, day ... asked for and the best does not."""
    behind = (
        one for one in found if (one.read, one.place, one.span.turn) == (best.read, best.place + 1, best.span.turn)
    )
    return next((one for one in behind if one.spans and not best.spans), None)


def followed(question: Question, found: Sequence[Candidate], said: str) -> list[Candidate]:
    """Return the sentences that may answer a follow-up: with a span of the kind asked for, or with its words.

    One without words of its own, such as "why not?", is answered by what follows the sentence quoted before.
    """
    if spans := [one for one in found if one.spans]:
        return spans
    asked = frozenset(content(question)) - FUNCTION_WORDS - ASKING_WORDS
    if asked:
        return [one for one in found if asked & one.words and one.text not in said]
    before = next(((one.read, one.place) for one in found if one.text in said), None)
    return [one for one in found if before and (one.read, one.place) == (before[0], before[1] + 1)]


def who_said(question: Question, evidence: Evidence) -> tuple[int, str] | None:
    """Return which passage has the sentence quoted before, and who spoke or wrote it; None where nobody asks that."""
    if not (evidence.said and asks_who_said(question.text)):
        return None
    for number, read in enumerate(evidence.passages[: evidence.leading]):
        place = read.text.find(evidence.said)
        if place >= 0 and (who := _speaker(read, place)):
            return number, who
    return None


def _speaker(read: Passage, place: int) -> str:
    """Return who speaks, or wrote, at an offset of a passage."""
    if not read.is_meeting:
        return read.author_at(place)
    spoken = next((one for one in read.sentences() if one.start <= place < one.end), None)
    return (spoken and spoken.speaker) or ""
