"""A question taken apart as far as a follow-up needs it: its question word, its helping verb, and what it is about.

English, by small tables; what they do not know is left whole. Knows nothing of a conversation.
"""

import re
from dataclasses import dataclass
from datetime import date

from engine.ask import dates

HELPER = (
    r"(?:(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must)"
    r"(?:n['’]t)?|am|can['’]?t|won['’]t)"
)
PREPOSITION = (
    r"(?:at|on|in|by|for|from|to|with|since|until|till|about|of|into|during|after|before|near|over|through|without"
    r"|between|against|behind|under)"
)
DETERMINER = r"(?:the|an?|my|our|your|any|some|this|that|these|those|his|her|their|its|no|all)"
_NOUN = rf"(?: (?!(?:{HELPER}|{PREPOSITION})\b)[\w'’-]+)"
ASKING = (
    rf"(?:{PREPOSITION} )?(?:what time|how (?:long|old|often|far|late|early|big|soon|well)"
    rf"|how (?:many|much){_NOUN}{{0,2}}?"
    rf"|(?:what|which|whose){_NOUN}{{0,3}}?|whom?|when|where|why|how)(?: else)?"
)
_WITH_HELPER = re.compile(rf"(?P<asking>{ASKING}) (?P<helper>{HELPER}) (?P<rest>.+)", re.IGNORECASE)
_WITHOUT = re.compile(r"(?P<asking>(?:who|what|(?:which|how many) [\w'’-]+)(?: else)?) (?P<rest>.+)", re.IGNORECASE)
_YES_NO = re.compile(rf"(?P<asking>)(?P<helper>{HELPER}) (?P<rest>.+)", re.IGNORECASE)
_OWNS = re.compile(r"(?:has|have|had)$", re.IGNORECASE)
_PHRASE = re.compile(rf"\b{DETERMINER} ", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:the|an?|my|our) ", re.IGNORECASE)
_END = re.compile(rf" (?:{PREPOSITION}|and|or|that|which|who)\b|\W*$|[,;:?]", re.IGNORECASE)
_DO = re.compile(r"(?:do|does|did|can|could|will|would|shall|should|may|might|must|won|can)\b", re.IGNORECASE)
_SAID = re.compile(r"(?:i|me|we|us|you|he|she|they|him|her|them|it|there|to|not)\b", re.IGNORECASE)
_LAST = re.compile(
    r"(?: (?:now|today|tomorrow|yesterday|tonight|again|yet|still|so|far|also|too|usually|exactly|please))+$"
)
_ACTS = (
    "accept agree apply arrive ask attend be become begin believe belong book borrow bring buy call cancel care change "
    "charge choose close collect come cook cost deal decide deliver describe discuss do drink drive eat end expect "
    "explain feel find finish fix fly get give go happen have help hold hope host include join keep know lead leave "
    "lend like live look lose love make mean meet mention move need offer open order organise organize pay perform "
    "pick plan play practise practice prefer prepare present propose put read receive recommend refuse rehearse rent "
    "repair reserve return run say see sell send set share show sing speak start stay suggest support take talk teach "
    "tell think train travel try turn use visit want wear win work write"
)
_VERBS = frozenset(_ACTS.split())
_PARTICIPLES = (
    "bought brought built chosen done found given gone held kept lost made paid put seen sent set sold taken won "
    "written going coming taking"
)
_DONE = frozenset(_PARTICIPLES.split())
_NOUNS = (
    "booking briefing building cleaning clothing evening feeding filing gathering hearing king meeting morning opening "
    "painting parking planning reading recording rehearsing ring singing spring string swimming thing training "
    "wedding shed bed seed weed feed"
)
_NAMED_FOR_AN_ACT = frozenset(_NOUNS.split())


@dataclass(frozen=True, slots=True)
class Parts:
    """A question in three: "How many bicycles", "were", "repaired on the repair day"; what is not there is empty."""

    asking: str
    helper: str
    rest: str


def bare(text: str) -> str:
    """Give a question on one line, without its last mark."""
    return " ".join(text.split()).rstrip("?!. ")


def take_apart(text: str) -> Parts | None:
    """Take a question apart; None where it is no question in form."""
    line = bare(text)
    found = _WITH_HELPER.fullmatch(line)
    if found and _OWNS.match(found["helper"]) and _PHRASE.match(found["rest"]):
        found = None  # the verb itself: who has the key
    found = found or _WITHOUT.fullmatch(line) or _YES_NO.fullmatch(line)
    if found is None:
        return None
    return Parts(found["asking"], found.groupdict().get("helper") or "", found["rest"])


def noun_of(asking: str) -> str:
    """Give the noun that a question word stands with: bicycles of "how many bicycles"."""
    found = re.match(
        rf"(?:{PREPOSITION} )?(?:what|which|whose|how many|how much) (?!else$|time$)(.+)", asking, re.IGNORECASE
    )
    return found[1] if found else ""


def topic(text: str) -> str:
    """Give the phrase that says what a question is about; empty where that is only people, or not to be told."""
    parts = take_apart(text)
    if parts is None:
        line, phrase = bare(text), _PHRASE.search(bare(text))
        return line[phrase.start() :] if phrase else line if len(line.split()) < 6 else ""
    subject, beyond = _divided(parts)
    candidates = (_thing(subject), _object(beyond), noun_of(parts.asking))
    return next((found for found in candidates if found), "")


def phrases(text: str) -> list[tuple[int, int]]:
    """Give where the phrases of a question that begin with an article stand, up to the next preposition."""
    found, parts = list[tuple[int, int]](), take_apart(text)
    for match in _ARTICLE.finditer(text):
        end = _END.search(text, match.end())
        words = text[match.start() : end.start() if end else len(text)].split(" ")
        acts = [place for place, word in enumerate(words) if place > 1 and word in _VERBS]
        if parts and _DO.match(parts.helper) and acts:
            words = words[: acts[0]]
        found.append((match.start(), match.start() + len(" ".join(words))))
    return found


def dated(text: str, today: date) -> tuple[int, int] | None:
    """Give where a date or weekday stands in a question, with its preposition; None where there is none."""
    places = [match.span() for match in re.finditer(r"[\w'’:/.-]*\w", text)][:40]
    for size in range(5, 0, -1):
        for first in range(len(places) - size + 1):
            if _is_date(text, places[first : first + size], today):
                start, end = places[first][0], places[first + size - 1][1]
                before = re.search(rf"\b{PREPOSITION} $", text[:start], re.IGNORECASE)
                return before.start() if before else start, end
    return None


def _divided(parts: Parts) -> tuple[str, str]:
    """Give what stands before the verb, and what behind it."""
    rest = _LAST.sub("", parts.rest)
    there = re.match(r"there (?:be )?", rest, re.IGNORECASE)
    if there:
        return "", rest[there.end() :]
    words = rest.split(" ")
    verb = _verb(words, parts) if parts.helper else 0
    return " ".join(words[:verb]), " ".join(words[verb + 1 :])


def asks_for_subject(parts: Parts) -> bool:
    """Tell whether the question word is what acts: "who will bring the cake", "which band played"."""
    first = parts.rest.split(" ")[0]
    about = re.match(r"(?:who|what)\b", parts.asking, re.IGNORECASE) or noun_of(parts.asking)
    acts = first in _VERBS or _is_participle(first)
    return bool(about) and (not parts.helper or (acts and not re.match("do|did", parts.helper, re.IGNORECASE)))


def _verb(words: list[str], parts: Parts) -> int:
    """Give the place of the verb, past the end where there is none."""
    least = 0 if asks_for_subject(parts) else 1
    if _DO.match(parts.helper):
        known = [place for place, word in enumerate(words) if place >= least and _acts(words, place)]
        return known[0] if known else len(words) - 1 if len(words) > 1 else len(words)
    done = (place for place, word in enumerate(words) if place >= least and _is_participle(word))
    return next(done, len(words))


def _acts(words: list[str], place: int) -> bool:
    """Tell whether a word is a verb, and no noun behind its article."""
    return words[place] in _VERBS and not (place and re.fullmatch(DETERMINER, words[place - 1], re.IGNORECASE))


def _is_participle(word: str) -> bool:
    return word in _DONE or (word.islower() and word.endswith(("ed", "ing")) and word not in _NAMED_FOR_AN_ACT)


def _thing(subject: str) -> str:
    """Give a subject that is no pronoun and no name alone."""
    return "" if _SAID.match(subject) or not re.search(r"(?:^| )[a-z]", subject) else subject


def _object(beyond: str) -> str:
    phrase = _PHRASE.search(beyond)
    if phrase:
        return beyond[phrase.start() :]
    return "" if beyond[:1].isupper() or re.match(rf"{PREPOSITION}\b", beyond) else _thing(beyond)


def _is_date(text: str, places: list[tuple[int, int]], today: date) -> bool:
    """Tell whether a stretch is a date, and would be none, or another, without the word at either end."""
    (start, after), (before, end) = places[0], places[-1]
    if len(places) == 1 and text[start:end].casefold() in dates.WEEKDAYS:
        return True
    found, less = dates.find(text[start:end], today), (text[after:end], text[start:before])
    return bool(found) and all(dates.find(part, today) != found for part in less)
