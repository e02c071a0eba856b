"""Question analysis: words, answer type, names, quoted phrases and dates, and whether one passage can answer it.

Questions that need a synthesis of several passages (summaries, lists, counts, comparisons, decisions, opinions) are
recognised by word lists in the prompts. Uses the wording alone. Knows no store and no model.
"""

import re
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Literal, get_args

from msgspec import Struct

from engine.text import dates
from engine.text.time_sensitive import is_foreign, listed_words, phrases, plain_words, time_sensitivity, word_lists
from engine.text.words import FUNCTION_WORDS, words
from prompts import word_patterns, word_sets

AnswerType = Literal["date", "time", "place", "person", "number", "amount", "yes/no", "other"]

FOREIGN_KINDS: tuple[Literal["time", "amount", "number", "date"], ...] = ("time", "amount", "number", "date")
_TYPES: tuple[AnswerType, ...] = (*FOREIGN_KINDS, "place", "person", "other")  # of two at one place, the first
QUESTION_KINDS = word_patterns("question_kinds")
_KINDS = [(kind, re.compile(rf"\b(?:{QUESTION_KINDS[kind]})\b", re.IGNORECASE)) for kind in _TYPES]
_ENGLISH = word_patterns("english")
_AUXILIARY = re.compile(rf"\W*(?:{_ENGLISH['auxiliary']})(?:n['’]t)?\b", re.IGNORECASE)
# Words about asking and saying, which the answering text rarely contains; as stemmed by words().
ASKING_WORDS = word_sets("question_words")["requests"]
# Words of the question itself, stemmed: the amount or the time is what answers it.
_ASKED: dict[str, frozenset[str]] = {"amount": frozenset(["much"]), "time": frozenset(["tim", "hour", "clock"])}
_BEGINS = frozenset(["start", "begin"])  # implied by any question for a next time
_TAKES_PLACE = re.compile(r"\b(?:tak(?:es?|en|ing)|took) place\b", re.IGNORECASE)
QUOTED = re.compile(r"[\"“„«]([^\"“”„«»]{2,200})[\"”»]|(?<!\w)['‘]([^'‘’]{2,200})['’](?!\w)")
_CAPITALS = re.compile(r"[^\W\d_][\w.&-]*(?:['’][^\W\d_]{2,})?")
_PAST = re.compile(rf"\b(?:{_ENGLISH['past']})\b", re.IGNORECASE)
# The next of something, not "next to" and not "who is coming".
NEXT = re.compile(r"\b(?:next(?! to\b)|upcoming|(?:my|our|the|your|his|her|their) coming)\b", re.IGNORECASE)
LAST = re.compile(r"\b(?:last|latest|most recent)\b", re.IGNORECASE)
_LISTED = word_patterns("languages")
_SOME_DAY = date(2000, 1, 1)  # any day will do to see whether a word is a date
_NOT_NAMES = frozenset((*dates.WEEKDAYS, "i", "im", "ok"))


class Question(Struct, frozen=True):
    """A question with all that its wording says."""

    text: str
    words: tuple[str, ...]  # stemmed, distinct, in order
    asked: AnswerType
    names: tuple[str, ...]  # as written: runs of capitalised words, and quoted phrases
    dates: tuple[dates.Days, ...]
    day: date  # on which it is asked
    clock: datetime | None = None  # when it is asked, if its meaning depends on the time of day
    foreign: bool = False  # not in English
    empty: frozenset[str] = frozenset()  # of its words, those that only ask, of another language

    @property
    def current(self) -> bool:
        """Return whether it asks for a present or future fact, so that newer sources win."""
        return self.asked != "other" and not self.dates and not self.past

    @property
    def coming(self) -> bool:
        """Return whether it asks when or where the next event of some kind is."""
        asks = self.asked in ("date", "time", "place") and not self.dates
        return asks and NEXT.search(self.text) is not None and time_sensitivity(self.text) is not None

    @property
    def gone(self) -> bool:
        """Return whether it asks when or where the last event of some kind was."""
        asks = self.asked in ("date", "time", "place") and not self.dates
        return asks and not self.coming and LAST.search(self.text) is not None

    @property
    def now(self) -> datetime:
        """Return the local time at which it is asked; midnight if its meaning does not depend on the time of day."""
        return self.clock.replace(tzinfo=None) if self.clock else datetime.combine(self.day, time.min)

    @property
    def subject(self) -> frozenset[str]:
        """Return the content words of the event whose next or last time it asks for."""
        side = NEXT.search(self.text) or LAST.search(self.text)
        return frozenset(self.content).difference(words(side.group()) if side else ())

    @property
    def past(self) -> bool:
        """Return whether it asks about the past."""
        return _PAST.search(self.text) is not None

    @property
    def content(self) -> tuple[str, ...]:
        """Return the content words, or all words if there are only function words."""
        asking = _ASKED.get(self.asked, frozenset[str]()) | (_BEGINS if NEXT.search(self.text) else frozenset())
        if self.asked in ("date", "time", "place") and _TAKES_PLACE.search(self.text):
            asking |= {*words("take place")}
        return tuple(word for word in self.words if word not in FUNCTION_WORDS | asking | self.empty) or self.words

    @property
    def day_words(self) -> tuple[str, ...]:
        """Return further words that a text may name the same days by: "friday 21 june" for "tomorrow"."""
        days = [each.first for each in self.dates if each.first == each.last and not each.yearly]
        near = [day for day in days if str(day.day) not in self.words]
        named = [word for day in near for word in words(f"{day:%A} {day.day} {day:%B}")]
        return tuple(word for word in dict.fromkeys(named) if word not in self.words)

    @property
    def quoted(self) -> tuple[str, ...]:
        """Return the phrases in quotation marks, as written."""
        return tuple(_quoted(self.text))


def understand(text: str, now: datetime, known: frozenset[str] = frozenset()) -> Question:
    """Analyse a question asked at `now`, which relative dates are resolved against; `known` are words of names.

    A question whose meaning does not depend on the calendar means the same at any time.
    """
    moves = time_sensitivity(text)
    moment = now.replace(second=0, microsecond=0) if moves == "clock" else datetime.combine(now, time.min)
    return _understand(text, moment, known, moves)


@lru_cache(maxsize=1 << 12)
def _understand(text: str, now: datetime, known: frozenset[str], moves: str | None) -> Question:
    # Of a question that means the same on any day, the dates that are the same then; those of no year are.
    found, *others = (dates.find(text, now.date() + timedelta(days)) for days in ((0,) if moves else (0, 1, 400)))
    all_words, foreign = tuple(dict.fromkeys(words(text))), is_foreign(text)
    telling = words(re.sub(_LISTED["empty"], " ", text, flags=re.I)) if foreign else all_words
    return Question(
        text=text,
        words=all_words,
        asked=_answer_type(text),
        names=tuple(dict.fromkeys([*_quoted(text), *_names(text, known)])),
        dates=tuple(found if moves else (one for one in found if one.yearly or all(one in each for each in others))),
        day=now.date(),
        clock=now if moves == "clock" else None,
        foreign=foreign,
        empty=frozenset(all_words).difference(telling),
    )


def _answer_type(text: str) -> AnswerType:
    """Return the answer type of the first question word; an auxiliary verb at the start asks for yes or no."""
    if is_foreign(text):
        asks = [(re.search(_LISTED[f"asks {kind}"], text, re.IGNORECASE), kind) for kind in FOREIGN_KINDS]
        return min(((match.start(), kind) for match, kind in asks if match), default=(0, "other"), key=itemgetter(0))[1]
    if _AUXILIARY.match(text):
        return "yes/no"
    found = [(match.start(), place) for place, (_, p) in enumerate(_KINDS) if (match := p.search(text))]
    return _KINDS[min(found, default=(0, len(_KINDS) - 1))[1]][0]


def _quoted(text: str) -> list[str]:
    return [(match[1] or match[2]).strip() for match in QUOTED.finditer(text)]


def _names(text: str, known: frozenset[str]) -> list[str]:
    """Return runs of capitalised words; a single one that opens a sentence counts only if known or with 's."""
    runs: list[list[str]] = []
    openers, end = set[int](), -1
    for match in _CAPITALS.finditer(text):
        word, start = match.group().rstrip("."), match.start()
        joins = bool(runs) and start == end + 1 and text[end] == " "
        may_name = word.lower() not in _NOT_NAMES | FUNCTION_WORDS and not dates.find(word, _SOME_DAY)
        if not word[:1].isupper() or not ((joins and len(word) == 1) or word in known or may_name):
            continue
        if joins:
            runs[-1].append(word)
        else:
            runs.append([word])
            opens = text[:start].rstrip()[-1:] in {"", *".?!:¿¡"} and text[match.end() :][:2] not in ("'s", "’s")
            if opens and (word not in known or word.lower() in FUNCTION_WORDS):  # "Will", "How" of "How-Downing"
                openers.add(len(runs) - 1)
        end = match.end()
    return [" ".join(run) for place, run in enumerate(runs) if len(run) > 1 or place not in openers]


Synthesis = Literal["summary", "list", "count", "comparison", "decisions", "opinions"]

_CLASSES = ("all", "mail", "tell")
_PARTS = (*get_args(Synthesis), "not")
_OPENING = re.compile(
    r"\A\W*(?:(?:hi|hello|hey|so|and|ok|okay|well|please|(?:can|could|would|will) you)\b\W*)+", re.IGNORECASE
)
_E_MAIL = re.compile(r"\be-mail", re.IGNORECASE)


def synthesis(question: str) -> Synthesis | None:
    """Return the kind of synthesis that a question asks for; None if a passage may answer it."""
    asked = _OPENING.sub("", QUOTED.sub(" _ ", question))
    tokens = ["^", *plain_words(_E_MAIL.sub("email", asked))]
    found = [(0, 0, 0, "")]  # the longest phrase decides, of several the later part, of several the first
    for language in word_lists("synthesis"):
        forms = [list(tokens)]  # the words as they are, and with some and all of the classes in place of their words
        for name in _CLASSES:
            members = listed_words("synthesis", name, language)
            forms.append([name if token in members else token for token in forms[-1]])
        for order, part in enumerate(_PARTS):
            index = phrases("synthesis", part, language)
            there = {one for form in {*map(tuple, forms)} for one in index.find(form)}
            found += [(end - first, order, -first, part) for first, end in there]
    return next((kind for kind in get_args(Synthesis) if kind == max(found)[3]), None)


_JOINS = r"(?:and|but|or|also|then|so(?! far| many| much|-))\b[,.:;]?|(?:ok|okay|well|yes|no|right|thanks)[,.;!]+"
_LEAD = re.compile(rf"(?:(?:{_JOINS})(?: |$))+", re.IGNORECASE)


def bare(text: str) -> str:
    """Return a question on one line, without its last mark."""
    return " ".join(text.split()).rstrip("?!. ")


def core(text: str) -> str:
    """Return a question without what joins it to what was said before: and, but, so."""
    line = bare(text)
    return line[found.end() :] if (found := _LEAD.match(line)) else line
