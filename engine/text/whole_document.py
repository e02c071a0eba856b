"""Detects questions about a whole document: attendees, date, summary, decisions, tasks.

Matches the phrases in `prompts/whole_document.txt`. Compiles no patterns, because it runs on every question.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal, get_args

from engine.text.time_sensitive import plain_words, word_lists

Aspect = Literal["people", "sender", "recipients", "subject", "date", "summary", "decisions", "tasks", "open"]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)

# The standard wording of each aspect. It is the cache key, so all wordings share one answer, and what a model is asked.
WORDINGS: dict[Aspect, str] = {
    "people": "Who was there?",
    "sender": "Who sent it?",
    "recipients": "Who received it?",
    "subject": "What is the subject?",
    "date": "When was it?",
    "summary": "Summarize the whole document?",
    "decisions": "What was decided?",
    "tasks": "Who does what by when?",
    "open": "What are the open questions?",
}
_LIST = "whole_document"
_LONGEST = 24  # words
_OPENING = 2  # words of a polite opening at a time
_OPENERS = ("summarize", "summarise", "recap")  # "Summarize the budget meeting"


@dataclass(frozen=True, slots=True)
class WholeDocumentQuestion:
    """What a question asks about a whole document, and the words that name the document, empty if none do."""

    aspect: Aspect
    name: str = ""


def whole_document_question(text: str) -> WholeDocumentQuestion | None:
    """Return what a question asks about a whole document; None for any other question."""
    text = _without_opening(text)
    if not (tokens := plain_words(text)) or tokens[0] not in _beginnings() or len(tokens) > _LONGEST:
        return None
    if aspect := _aspect(tokens):
        return WholeDocumentQuestion(aspect)
    parts = text.split()
    for core, name in chain(_named_between(parts), _splits(parts)):
        if (aspect := _aspect(plain_words(core))) and not _anywhere("document").isdisjoint(plain_words(name)):
            return WholeDocumentQuestion(aspect, name)
    return None


def _without_opening(text: str) -> str:
    """Return a question without "Could you tell me" and the like."""
    while True:
        words = text.split(maxsplit=_OPENING)
        begins = next((n for n in range(_OPENING, 0, -1) if tuple(plain_words(" ".join(words[:n]))) in _openings()), 0)
        if not begins or len(words) <= begins:
            return text
        text = text.split(maxsplit=begins)[-1]


def title_words(name: str) -> list[str]:
    """Return the words of a name that a title must contain: without articles and words such as "meeting"."""
    return [word for word in plain_words(name) if word not in _anywhere("frame") | _anywhere("document")]


def _named_between(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield "Summarize" and what follows; "What was ... about" and what is between."""
    tokens = [plain_words(part) for part in parts]
    if len(parts) > 1 and tokens[0] and tokens[0][0] in _OPENERS:
        yield parts[0], " ".join(parts[1:])
    if len(parts) > 3 and tokens[0] == ["what"] and tokens[-1] == ["about"]:
        yield f"{parts[0]} {parts[1]} it about", " ".join(parts[2:-1])


def _splits(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split at each preposition: yield the question with a placeholder for the document, and the document's name."""
    for place, part in enumerate(parts[1:-1], 1):
        if part.lower() in _anywhere("before"):
            core, name = " ".join(parts[:place]), " ".join(parts[place + 1 :])
            yield f"{core} {part} document", name


def _aspect(tokens: Sequence[str]) -> Aspect | None:
    """Return what these words ask about an unnamed document."""
    return next((found for language in _languages() if (found := _aspect_in(language, tokens))), None)


def _aspect_in(language: str, tokens: Sequence[str]) -> Aspect | None:
    documents, frame = _words(language, "document"), _words(language, "frame")
    first = next(iter(word_lists(_LIST)[language]["document"]))[0]
    tokens = ["is" if token == "s" and place else token for place, token in enumerate(tokens)]  # "what's"
    left = [first if token in documents else token for token in tokens if token not in frame]
    ended = left[:-1] if left[1:] and left[-1] == first else left
    phrases = _phrases(language)
    return phrases.get(tuple(left)) or phrases.get(tuple(ended))


def _languages() -> Sequence[str]:
    return tuple(word_lists(_LIST))


@cache
def _openings() -> frozenset[tuple[str, ...]]:
    return frozenset(chain.from_iterable(word_lists(_LIST)[language]["opening"] for language in _languages()))


@cache
def _beginnings() -> frozenset[str]:
    """Return the words that such questions begin with."""
    firsts = (phrase[0] for language in _languages() for phrase in _phrases(language))
    return frozenset(firsts) | _anywhere("frame")


@cache
def _anywhere(part: str) -> frozenset[str]:
    return frozenset(chain.from_iterable(_words(language, part) for language in _languages()))


@cache
def _words(language: str, part: str) -> frozenset[str]:
    return frozenset(word for (word,) in word_lists(_LIST)[language][part])


@cache
def _phrases(language: str) -> dict[tuple[str, ...], Aspect]:
    """Return what each phrase asks for, without the words of "frame"."""
    frame, lists = _words(language, "frame"), word_lists(_LIST)[language]
    return {
        tuple(word for word in phrase if word not in frame): aspect for aspect in ASPECTS for phrase in lists[aspect]
    }
