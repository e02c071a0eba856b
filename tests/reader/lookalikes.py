"""Questions that look like another one and ask for something else: another name, number, day, word or speaker."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from random import Random

from engine.text.words import FUNCTION_WORDS

_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|\S")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_COUNTS = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_TURNED = (("before", "after"), ("to", "from"), ("first", "last"), ("next", "last"), ("most", "least"), ("old", "new"))
_SPEAKER = re.compile(r"^\**(?P<name>[A-Z][\w .'-]{1,30}):", re.MULTILINE)


class Vocabulary:
    """The words of some questions, by kind."""

    def __init__(self, questions: Iterable[str]) -> None:
        found = [(place, word) for text in questions for place, word in enumerate(_TOKEN.findall(text))]
        self.names = sorted({word for place, word in found if place and word[0].isupper() and word.isalpha()})
        self.numbers = sorted({word for _, word in found if word.isdigit()})
        counted = Counter(word for _, word in found if self._tells(word))
        self._by_end = defaultdict[str, list[str]](list)
        for word in sorted(counted):
            self._by_end[word[-2:]].append(word)

    def like(self, word: str) -> Sequence[str]:
        """Return words with the same ending, which mostly are of the same part of speech."""
        return self._by_end[word[-2:]]

    def telling(self, text: str) -> list[str]:
        """Return the words of a text that are about something."""
        return [word for word in _TOKEN.findall(text) if self._tells(word.lower())]

    @staticmethod
    def _tells(word: str) -> bool:
        return len(word) > 2 and word.isalpha() and word.islower() and word not in FUNCTION_WORDS


def lookalike(rng: Random, question: str, text: str, answer: str, words: Vocabulary) -> str | None:
    """Return a question with one word changed, which a text does not answer; None if no word can be changed."""
    found = _TOKEN.findall(question)
    places = [place for place in range(len(found)) if _others(rng, found[place], place, text, words)]
    strong = [place for place in places if not found[place].islower()]
    for place in (rng.choice(strong if strong and rng.random() < 0.65 else places) for _ in range(3) if places):
        other = rng.choice(_others(rng, found[place], place, text, words))
        if other.lower() not in (one.lower() for one in found) and other.lower() not in answer.lower().split():
            return _replaced(question, found[place], other)
    return None


def _replaced(question: str, word: str, other: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", lambda _: other, question, count=1)


def _others(rng: Random, word: str, place: int, text: str, words: Vocabulary) -> Sequence[str]:
    """Return what may stand in place of a word of a question."""
    for group in (_MONTHS, _DAYS, _COUNTS, *_TURNED):
        if word in group:
            return [other for other in group if other != word]
    if word.isdigit():
        return [other for other in words.numbers if len(other) == len(word) and other != word]
    if place and word[0].isupper() and word.isalpha():
        speakers = [name for found in _SPEAKER.finditer(text) if word not in (name := found["name"])]
        return speakers if speakers and rng.random() < 0.6 else [name for name in words.names if name != word]
    if word in words.telling(word):
        return [other for other in words.like(word) if other != word]
    return ()
