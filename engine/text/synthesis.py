"""Questions that need a synthesis of several passages: summaries, lists, counts, comparisons, decisions, opinions.

No one passage answers them. They are told by the words in `prompts/synthesis.txt` alone.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, get_args

from engine.text.question import POLITE, QUOTED
from engine.text.time_sensitive import Phrase, occurrences, plain_words, word_lists

Synthesis = Literal["summary", "list", "count", "comparison", "decisions", "opinions"]

_CLASSES = ("all", "mail", "tell")
_PARTS = (*get_args(Synthesis), "not")
_OPENING = re.compile(
    r"\A\W*(?:(?:hi|hello|hey|so|and|ok|okay|well|please|(?:can|could|would|will) you)\b\W*)+", re.IGNORECASE
)
_E_MAIL = re.compile(r"\be-mail", re.IGNORECASE)


class _Match(NamedTuple):
    """A phrase found in a question: of how many words, in the order in which parts outweigh each other."""

    length: int
    order: int
    first: int
    part: str


def synthesis(question: str) -> Synthesis | None:
    """Return what kind of synthesis a question asks for; None if a passage may answer it."""
    asked = POLITE.sub("", _OPENING.sub("", QUOTED.sub(" _ ", question)))
    tokens = ["^", *plain_words(_E_MAIL.sub("email", asked))]
    found = max((one for language in word_lists("synthesis") for one in _matches(language, tokens)), default=None)
    return next((kind for kind in get_args(Synthesis) if found and found.part == kind), None)


def _matches(language: str, tokens: Sequence[str]) -> Iterator[_Match]:
    lists, forms = word_lists("synthesis")[language], _forms(language, tokens)
    for order, part in enumerate(_PARTS):
        for phrase in lists.get(part, ()):
            for form in (form for form in forms if _required(phrase).issubset(form)):
                yield from (_Match(end - first, order, -first, part) for first, end in occurrences(phrase, form))


def _forms(language: str, tokens: Sequence[str]) -> list[list[str]]:
    """Return the words of a question as they are, and with some and all of the classes in place of their words."""
    classes = [_class(language, name) for name in _CLASSES]
    forms = [list(tokens)]
    for name, members in zip(_CLASSES, classes, strict=True):
        forms.append([name if token in members else token for token in forms[-1]])
    return list({tuple(form): form for form in forms}.values())


@cache
def _required(phrase: Phrase) -> frozenset[str]:
    """Return the words that stand in a phrase as they are; most questions lack one, which is soon seen."""
    return frozenset(word for word in phrase if word.isalnum() or word == "^")


@cache
def _class(language: str, name: str) -> frozenset[str]:
    """Return the words that a word of the phrases of a language stands for."""
    return frozenset(word for (word,) in word_lists("synthesis")[language].get(name, ()))
