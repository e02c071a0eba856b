"""What a question asks for: its words, kind, names, quoted phrases and dates, and whether it is about now.

Reads the wording alone: knows nothing of the bank, of models, or of answers.
"""

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from engine.text import dates
from engine.text.words import FUNCTION_WORDS, words

AnswerType = Literal["date", "time", "place", "person", "number", "amount", "yes/no", "other"]

# The first of these words in a question decides; of two that start together, the one that stands first here.
_WORDING: tuple[tuple[AnswerType, str], ...] = (
    ("time", r"(?:what|which) time|what hour|what o['’]?clock"),
    (
        "amount",
        r"how much|what (?:do|does|did|will|would) [^?]{1,80} cost"
        r"|what (?:is|was|are|were) the (?:\w+ )?(?:price|cost|budget|fee|amount|salary|rent)",
    ),
    ("number", r"how (?:many|old|often|long|far|tall|big|large)|(?:what|which) (?:\w+ )?(?:number|age|percentage)"),
    ("date", r"when|(?:what|which) (?:\w+ )?(?:date|day|week|weekend|month|year|season)s?|how long ago"),
    ("place", r"where|(?:what|which) (?:\w+ )?(?:city|town|country|place|room|location|state|venue|address)"),
    ("person", r"who|whose|whom|(?:what|which) (?:person|people|colleague|speaker|friend)"),
    ("other", r"what|which|why|how|summari[sz]e|describe|explain|tell"),
)
_KINDS = tuple((kind, re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)) for kind, pattern in _WORDING)
_AUXILIARY = re.compile(
    r"\W*(?:is|are|was|were|am|do|does|did|has|have|had|can|could|will|would|should|may|might|must)(?:n['’]t)?\b", re.I
)
_ASKING = (
    "accord attitud com concern describ discuss discussion document email explain group mail meet mention messag next "
    "opinion participant peopl person regard relat said say summarise summariz summary talk team tell think "
    "thought told toward upcom view "
)
# Words of asking, not of what is asked about: few who said a thing said that they did. In the form that words() gives.
ASKING_WORDS = frozenset(_ASKING.split())
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{2,200})[\"”»]|(?<!\w)['‘]([^'‘’]{2,200})['’](?!\w)")
_CAPITALS = re.compile(r"[^\W\d_][\w.&-]*(?:['’][^\W\d_]{2,})?")
# What is said before a question out of politeness, and asks nothing.
POLITE = re.compile(
    r"\A\W*(?:(?:hi|hello|hey|so|and|ok|okay|well|please)\b\W*)*"
    r"(?:(?:(?:can|could|would|will) you |please )+(?:please )?(?:tell|remind|show) me(?: again)?"
    r"|(?:tell|remind) me(?: again)?"
    r"|(?:do|does|would) (?:you|anyone|anybody|somebody) (?:happen to )?(?:know|remember|recall)"
    r"|i(?:['’]d| would) like to know|i want to know|i wonder|any idea)\b\W*"
    r"(?=(?:what|when|where|who|whose|whom|which|why|how|if|whether)\b)",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:did|was|were|had|ago|last|previous(?:ly)?|first|initial(?:ly)?|original(?:ly)?)\b", re.IGNORECASE
)
# The next of something: not what stands next to it, and not who is coming. `time_sensitive` finds all of these too, so
# that what depends on the day is kept for a day.
NEXT = re.compile(r"\b(?:next(?! to\b)|upcoming|(?:my|our|the|your|his|her|their) coming)\b", re.IGNORECASE)
_SOME_DAY = date(2000, 1, 1)  # with days before and after it
_NO_NAMES = frozenset((*dates.WEEKDAYS, "i", "im", "ok"))


@dataclass(frozen=True, slots=True)
class Question:
    """One question understood."""

    text: str
    words: tuple[str, ...]  # distinct, in order
    asked: AnswerType
    names: tuple[str, ...]  # as written: runs of capitalised words, and quoted phrases
    dates: tuple[dates.Days, ...]
    day: date  # on which it is asked

    @property
    def current(self) -> bool:
        """Return whether it asks for a fact as it is or will be, so that of two answers the newer one holds."""
        return self.asked != "other" and not self.dates and not self.past

    @property
    def coming(self) -> bool:
        """Return whether it asks for the day, the hour or the place of the next of something."""
        return self.asked in ("date", "time", "place") and not self.dates and NEXT.search(self.text) is not None

    @property
    def past(self) -> bool:
        """Return whether it asks for what was."""
        return _PAST.search(self.text) is not None

    @property
    def content(self) -> tuple[str, ...]:
        """Return the words that are no function words, or all where there is no other."""
        return tuple(word for word in self.words if word not in FUNCTION_WORDS) or self.words

    @property
    def day_words(self) -> tuple[str, ...]:
        """Return words by which a text may name a day that it names another way: of "tomorrow", "friday 21 june"."""
        days = [each.first for each in self.dates if each.first == each.last and not each.yearly]
        near = [day for day in days if str(day.day) not in self.words]
        named = [word for day in near for word in words(f"{day:%A} {day.day} {day:%B}")]
        return tuple(word for word in dict.fromkeys(named) if word not in self.words)

    @property
    def quoted(self) -> tuple[str, ...]:
        """Return the phrases in quotation marks, as written."""
        return tuple(_quoted(self.text))


def understand(text: str, now: datetime) -> Question:
    """Read a question asked at `now`, whose date anchors what is relative."""
    return Question(
        text=text,
        words=tuple(dict.fromkeys(words(text))),
        asked=_asked(text),
        names=tuple(dict.fromkeys([*_quoted(text), *_names(text)])),
        dates=tuple(dates.find(text, now.date())),
        day=now.date(),
    )


def _asked(text: str) -> AnswerType:
    """Take the kind of the first question word; an auxiliary at the start asks for yes or no."""
    text = POLITE.sub("", text)
    if _AUXILIARY.match(text):
        return "yes/no"
    found = [(match.start(), place) for place, (_, p) in enumerate(_KINDS) if (match := p.search(text))]
    return _KINDS[min(found)[1]][0] if found else "other"


def _quoted(text: str) -> list[str]:
    return [(match[1] or match[2]).strip() for match in _QUOTED.finditer(text)]


def _names(text: str) -> list[str]:
    """Join neighbouring capitalised words; one alone that opens a sentence counts only with 's."""
    runs: list[list[str]] = []
    openers, end = set[int](), -1
    for match in _CAPITALS.finditer(text):
        word, start = match.group().rstrip("."), match.start()
        joins = bool(runs) and start == end + 1 and text[end] == " "
        if not word[:1].isupper() or not ((joins and len(word) == 1) or _may_name(word)):
            continue
        if joins:
            runs[-1].append(word)
        else:
            runs.append([word])
            openers |= (
                {len(runs) - 1} if _opens(text[:start]) and text[match.end() :][:2] not in ("'s", "’s") else set()
            )
        end = match.end()
    return [" ".join(run) for place, run in enumerate(runs) if len(run) > 1 or place not in openers]


def _opens(before: str) -> bool:
    return not before.strip() or before.rstrip()[-1] in ".?!:"


def _may_name(word: str) -> bool:
    return word.lower() not in _NO_NAMES | FUNCTION_WORDS and not dates.find(word, _SOME_DAY)
