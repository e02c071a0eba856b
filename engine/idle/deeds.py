"""What a chunk tells that can be asked for: what somebody did, and what is to take place; with its day or place or not.

Knows shapes of English sentences alone. What it takes for a deed may be none: then nobody asks the question.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from engine.ask.spans import find
from engine.ask.words import FUNCTION_WORDS, words
from engine.idle.people import said
from engine.idle.verbs import base
from store.hits import Hit

_EVENTS = (
    "appointment barbecue birthday breakfast brunch ceremony class competition concert conference contest course "
    "deadline dinner event exam exhibition fair festival flight funeral game graduation gala hearing hike inauguration "
    "interview launch lecture lesson lunch match meeting party performance picnic presentation race reception recital "
    "rehearsal retreat reunion review seminar session show speech summit tour tournament training trip vacation visit "
    "wedding workshop audition call"
)
_EVENT = re.compile(  # of zero width, for "the end of the party" holds two that may be one
    rf"\b(?=(?:the|an?|our|my|your|his|her|their|this|next|\w+['’]s) (?P<event>(?P<before>(?:[\w'’&-]+ ){{0,3}}?)"
    rf"(?:{'|'.join(_EVENTS.split())}))\b(?! (?:me|you|us|him|her|them|it)\b))",
    re.IGNORECASE,
)
_ADVERBS = r"(?:(?:just|also|recently|finally|even|actually|already|really|once|both|all|then|\w+ly) )?"
_SUBJECT = r"(?P<who>I|[Ww]e|[A-Z][a-z]+(?: [A-Z][\w.'’-]+){0,2})"
_AHEAD = r"(?:(?:['’]m|['’]re| am| are| is) (?:going|planning) to|['’]ll| will)"
_DEED = re.compile(
    rf"(?:^|(?<=[\s,;(—-])){_SUBJECT}(?P<ahead>{_AHEAD})? {_ADVERBS}(?P<verb>[a-z]+)(?P<rest>(?: [\w'’&$-]+){{1,9}})"
)
_STOPS = re.compile(
    r" (?:and|but|so|because|which|who|when|while|after|before|since|if|though|although|where|as|cause|cuz)\b.*| -.*"
)
_VAGUE = re.compile(r" (?:it|that|this|so|you|them|him|her|like|all|up|very|not|been|some of)\b", re.IGNORECASE)
_MATTER = re.compile(r"\b(?:the|an?|our|my|this|these|some|new) (?P<name>[\w'’&-]+(?: [\w'’&-]+){1,3})")
_TELLING = 8  # words of a sentence that says something of a matter
_OWN = {"my": "their", "our": "their", "me": "them", "us": "them", "myself": "themselves", "your": "the", "you": "them"}
_THING = re.compile(
    r" (?:an?|the|some|two|three|new|my|our|his|her|their) (?!bit |lot |few |couple |while )", re.IGNORECASE
)
_SAYING_TEXT = "say think know feel mean hope guess love like want need be have do see hear seem wish get"
_SAYING = frozenset(_SAYING_TEXT.split())


@dataclass(frozen=True, slots=True)
class Deed:
    """Somebody did something: "Ann", "paint", "a lake"; `dated` where the sentence says when."""

    who: str
    verb: str
    rest: str
    dated: bool
    ahead: bool  # is still to be done
    of_thing: bool  # the rest begins with what it is done to


@dataclass(frozen=True, slots=True)
class Event:
    """Something takes place; `dated` and `placed` where its sentence says when and where."""

    name: str
    dated: bool
    placed: bool


def deeds(hit: Hit) -> Iterator[Deed]:
    """Give what the speakers of a chunk say that they did or will do, and what it says that those it names did."""
    for who, text in said(hit):
        if not text.startswith((">", "[")) and not text.rstrip().endswith("?"):
            yield from _deeds(text, who)


def matters(hit: Hit) -> Iterator[tuple[str, str]]:
    """Give what the speakers of a chunk say something about, each with who: of every one what is told in most words."""
    longest = dict[str, str]()
    for who, text in said(hit):
        if who and len(text.split()) >= _TELLING and not text.startswith((">", "[")):
            days = [day.start for day in find(text, "date")]
            for match in _MATTER.finditer(text):
                end = min((day for day in days if day > match.start("name")), default=match.end())
                name = _phrase(text[match.start("name") : min(end, match.end())])
                if len(words(name)) > max(1, len(words(longest.get(who, "")))):
                    longest[who] = name
    yield from longest.items()


def events(hit: Hit) -> Iterator[Event]:
    """Give what a chunk says takes place."""
    for _, text in said(hit):
        for match in _EVENT.finditer(text):
            name = " ".join(match["event"].split())
            if not set(words(match["before"])) & FUNCTION_WORDS and not find(name, "date"):
                yield Event(name, bool(find(text, "date") or find(text, "time")), bool(find(text, "place")))


def _deeds(text: str, speaker: str) -> Iterator[Deed]:
    dated = bool(find(text, "date"))
    for match in _DEED.finditer(text):
        who = speaker if match["who"] in ("I", "we", "We") else match["who"]
        ahead = match["ahead"] is not None
        verb = match["verb"] if ahead else base(match["verb"])
        rest = _rest(match["rest"])
        named = set(words(who)) - FUNCTION_WORDS and not find(who, "date")
        if named and verb and verb not in _SAYING | FUNCTION_WORDS and set(words(rest)) - FUNCTION_WORDS:
            yield Deed(who, verb, rest, dated, ahead, _THING.match(f" {rest}") is not None)


def _phrase(text: str) -> str:
    """Give the words up to the first that only joins others."""
    found = list[str]()
    for word in text.split():
        if set(words(word)) <= FUNCTION_WORDS or base(word.lower()):
            break
        found.append(word)
    return " ".join(found)


def _rest(text: str) -> str:
    """Take off what is another clause, the date, and what only its context explains."""
    text = _STOPS.sub("", text)
    for span in reversed(find(text, "date")):
        text = re.sub(r"(?: (?:on|in|at|by|since|around|the))*\s*$", "", text[: span.start]) + text[span.end :]
    if _VAGUE.match(text):
        return ""
    turned = [_OWN.get(word.lower(), word) for word in text.split()]
    while turned and turned[-1].lower() in FUNCTION_WORDS:
        turned.pop()
    return " ".join(turned)
