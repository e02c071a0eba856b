"""The normal form of a question: the words that ask for something, without politeness, in one form of each phrase.

What differs between two ways of asking the same is removed here. Knows no other question.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from functools import cache, lru_cache
from typing import NamedTuple

from engine.ask.keys import ASKED_FOR, BEFORE_IT, GREETING, QUESTION_WORD, WONDERING
from engine.text.question import Question, understand
from engine.text.words import base, irregular_verbs
from prompts import prompt

OWNER = "'s"  # stands behind a name or noun that owns what follows

_TOLD = r"(?:tell|remind|show|give|let|find|get|send)"
_ME = rf"(?:{ASKED_FOR})?(?:please )?{_TOLD} (?:me|us)(?: again)?(?: know)?(?: please)?"
# In front of a question: "could you tell me who ...", "I'd like to know when ...".
_LEAD = re.compile(
    rf"\A\W*(?:(?:{GREETING}\W*)*"
    rf"(?:{_ME}(?: about)?|(?:can|could) you (?:remember|recall|say)"
    r"|(?:do|does|did|would|might) (?:you|anyone|anybody|somebody|we) (?:happen to )?(?:still )?"
    r"(?:know|remember|recall|say)(?: again)?"
    rf"|{WONDERING}|i(?: want| need) to know|i wonder|i forg[eo]t|(?:any|no) idea|remind me again)\b\W*"
    rf"(?={BEFORE_IT}{QUESTION_WORD})"
    rf"|(?:{GREETING}\W*)+(?=\w))",
    re.IGNORECASE,
)
# In front of what is asked for: "please give me Ann's email", "I'm looking for the address of Ann".
_WANTED = re.compile(
    rf"\A\W*(?:{GREETING}\W*)*"
    rf"(?:{_ME}(?: of| about)?|i(?:'m| am) (?:looking for|after)|i (?:need|want)|i(?:'d| would) like"
    r"|(?:can|could|may) i (?:please )?(?:get|have|see)"
    r"|do (?:you|we) (?:happen to )?(?:still )?(?:have|know|remember|recall)|have (?:you|we) got"
    rf"|(?:{ASKED_FOR})?(?:find|look up))\s+"
    rf"(?!{BEFORE_IT}(?:{QUESTION_WORD}|(?:if|whether|to|a|an|any)\b))",
    re.IGNORECASE,
)
_TAIL = re.compile(
    r"(?:\W+(?:again|please|thanks|thank you|by the way|right|then|do you (?:know|remember|have)(?: it| that| them)?"
    r"|(?:can|could) you (?:tell|remind) me|i wonder|any idea))+\W*\Z",
    re.IGNORECASE,
)
_OWNED_ALONE = re.compile(r"\A[\w.' -]{2,60}'s? \w+(?: \w+)?\Z|\A(?:the )?\w+(?: \w+)? of [\w.' -]{2,60}\Z")
_AGAIN = re.compile(r"\bagain\W*\Z", re.IGNORECASE)
_WAS = re.compile(r"\b(what|who|where|when|which) was\b", re.IGNORECASE)
_ASKS = re.compile(r"\b(?:what|when|where|who|whose|whom|which|why|how)\b", re.IGNORECASE)
_AUX = "is|are|was|were|am|do|does|did|has|have|had|will|would|can|could|shall|should|may|might|must"
_VERBAL = re.compile(rf"\b(?:{_AUX})\b|summari[sz]e|describe|explain|list|compare", re.IGNORECASE)
# "For securing it, who ..." asks what "who ... for securing it" asks.
_LED = re.compile(
    r"\A\s*((?:in|on|at|during|by|before|after|since|according to|as of|under|for|if|when|while|as|besides|apart from"
    rf"|other than)\b(?:(?!\b(?:wh|how))[^,?])+),\s+((?:wh(?:at|en|ere|o|om|ose|ich|y)|how|{_AUX})\b[^?]+)",
    re.IGNORECASE,
)
_ABBREVIATED = re.compile(r"\b(Tues?|Wed|Thurs?|Fri|Feb|Apr|Aug|Sept?|Oct|Nov|Dec)\b\.?")
_IN_FULL = {"Tue": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Fri": "Friday", "Feb": "February",
            "Apr": "April", "Aug": "August", "Sep": "September", "Oct": "October", "Nov": "November",
            "Dec": "December"}  # fmt: skip


@cache
def _rewrites() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compile the phrases, when the first question is compared: a process that compares none is quicker."""
    lines = (line.split("  ->  ") for line in prompt("rewrites").splitlines() if not line.startswith("#"))
    return tuple((re.compile(pattern, re.IGNORECASE), instead[1:-1]) for pattern, instead in lines)


_SIGNS = str.maketrans("’‘ʼ`´‐‑‒–—", "'''''-----")
_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?(?![^\W\d_])|[^\W_]+(?:'[^\W_]+)*|[+&#%$€£]")
_DOTTED = re.compile(r"\b(?:[A-Za-z]\.){2,}")
_SHORT = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "let's": "let us"}
_CLITICS = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
_HELD = frozenset(("it", "there", "that", "here", "he", "she", "this"))  # "'s" behind them is "is"
_ASKING = frozenset(("what", "which", "who", "whom", "whose", "when", "where", "why", "how"))
_LONGEST_QUESTION = 1000  # characters
_SHORTEST = 4  # letters of a word in -ed that is no past: "need", "seed"
_DETERMINERS = frozenset(
    ("the", "a", "an", "my", "our", "your", "his", "her", "its", "their", "some", "any", "this", "both", "all")
)
# "According to Ann, what was ..." asks what "what did Ann say was ..." asks.
_NAMED = r"((?:the )?[A-Z][\w.'-]*(?: [A-Z][\w.'-]*)*)"
_SAID = (
    (re.compile(rf"\A\s*[Aa]ccording to {_NAMED},\s+([Ww]h\w+|[Hh]ow)\b"), r"\2 did \1 say"),
    (re.compile(rf"\A\s*([Ww]h\w+|[Hh]ow)\b(.*?),? according to {_NAMED}\Z"), r"\1 did \3 say\2"),
    (re.compile(rf"\A\s*{_NAMED}(?:,| -|:) what(?: is|'s) (?:his|her|their|its) "), r"what is \1's "),
    (re.compile(rf"\A\s*{_NAMED}(?:,| -|:) who(?: is|'s) (?:he|she|that|this)\Z"), r"who is \1"),
)


@lru_cache(maxsize=1 << 12)
def normal_question(question: Question) -> Question:
    """Return a question as its plain form is understood."""
    now = question.clock or datetime.combine(question.day, time.min, UTC)
    known = frozenset(word for name in question.names for word in name.split())
    return replace(understand(plain(question.text), now, known), day=question.day)


@lru_cache(maxsize=1 << 12)
def plain(text: str) -> str:
    """Return a question without polite frames, in the usual order, and with one form of common phrases.

    A text longer than any question is returned as it is, for some patterns look at it from every place.
    """
    if len(text) > _LONGEST_QUESTION:
        return text
    text = _framed(text)
    for pattern, instead in _SAID:
        text = pattern.sub(instead, text, count=1)
    text = _LED.sub(r"\2 \1", text, count=1)
    for pattern, instead in _rewrites():
        text = pattern.sub(instead, text)
    return text


def _framed(text: str) -> str:
    """Return a question without polite frames, with one kind of signs and the names of days and months in full."""
    text = unicodedata.normalize("NFKC", _without_accents(text)).translate(_SIGNS)
    text = re.sub(r"(?<=s)' (?=\w)", "'s ", " ".join(text.split()).rstrip(" ?!."))
    return _ABBREVIATED.sub(lambda match: _IN_FULL[match[1][:3]], _without_frame(text))


def _without_frame(text: str) -> str:
    """Return a question without what is said around it: "could you tell me", "please", "again"."""
    again, tail = _AGAIN.search(text), _TAIL.search(text)
    text = _LEAD.sub("", text[: tail.start()] if tail else text)
    if found := _WANTED.match(text):
        text = "what be " + text[found.end() :]
    elif (tail or _OWNED_ALONE.match(text)) and not _ASKS.search(text) and not _VERBAL.search(text):
        text = "what be " + text  # "Ann's address?"
    if again:  # "what was it again?" asks for what is
        text = _WAS.sub(r"\1 is", text, count=1)
    return text


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def tokens(text: str) -> tuple[str, ...]:
    """Return the words of a plain form as written: contractions spelled out, phrases replaced by their word.

    Behind what owns something stands `OWNER`.
    """
    return tuple(_with_phrases(_split(text)))


# Words that the plain form drops or brings in, which tell nothing of what is asked about.
_FORMAL = """
address e mail email going use uses used kind kinds type types sort sorts reason made makes belongs moment
think thoughts opinion opinions view views take attitude
"""


def literal_tokens(text: str) -> Iterator[str]:
    """Yield the words of a plain form as written, in lower case, no phrase replaced.

    A word that the plain form dropped is yielded behind "less ", and one that it brought in once more behind "more ".
    """
    formal = _FORMAL.split()
    written, formed = _lowered(_framed(text[:_LONGEST_QUESTION])), _lowered(plain(text))
    yield from formed
    yield from (f"less {word}" for word in written if word not in formed and word not in formal)
    yield from (f"more {word}" for word in formed if word not in written and word not in formal)


def _lowered(text: str) -> list[str]:
    return [token.casefold() for token in _split(text)]


def _split(text: str) -> list[str]:
    text = _DOTTED.sub(lambda match: match.group().replace(".", "").upper() + " ", text)
    return [token for match in _TOKEN.finditer(text) for token in _spelled(match.group())]


def _spelled(token: str) -> list[str]:
    low = token.casefold()
    if low in _SHORT:
        return _SHORT[low].split()
    if low.endswith("n't"):
        return [token[:-3], "not"]
    for clitic, full in _CLITICS.items():
        if low.endswith(clitic):
            return [token[: -len(clitic)], full]
    if low.endswith("'s"):
        return [token[:-2].replace("'", ""), "is" if low[:-2] in _ASKING | _HELD else OWNER]
    return [token.replace("'", "")]


class _Phrase(NamedTuple):
    words: tuple[str, ...]  # base forms
    instead: str


_PARTICLES = frozenset(("up", "off", "out", "in", "down", "over", "back", "away", "on"))
_LINKS = _PARTICLES | frozenset(("to", "for", "of", "with", "at", "from", "about", "and", "who", "what", "that"))
_BETWEEN = 3  # words between a verb and its particle: "pencil the meeting in"
_LONGEST = 8  # words of a phrase, with articles


def _with_phrases(found: Sequence[str]) -> Iterator[str]:
    """Yield the words, of each phrase in the list its word; articles inside a phrase do not matter."""
    at = 0
    while at < len(found):
        phrase, between, end = _phrase_at(found, at)
        if phrase:
            yield _in_form(phrase.instead, found[at])
            yield from between
        else:
            yield found[at]
        at = end


def _phrase_at(found: Sequence[str], at: int) -> tuple[_Phrase | None, Sequence[str], int]:
    """Return the longest phrase that begins at a word, the words inside that are none of it, and where it ends."""
    forms = [base(word.casefold()) for word in found[at : at + _LONGEST]]
    starting = _phrases().get(forms[0], ())
    for phrase in starting:
        if end := _matched(forms, phrase.words):
            return phrase, (), at + end
    for phrase in starting:
        particle = phrase.words[-1] if len(phrase.words) == 2 else ""
        if particle in _PARTICLES and particle in forms[2 : 2 + _BETWEEN]:
            end = forms.index(particle, 2)
            if _LINKS.isdisjoint(forms[1:end]) and not is_determiner(forms[end + 1] if end + 1 < len(forms) else ""):
                return phrase, found[at + 1 : at + end], at + end + 1
    return None, (), at + 1


def _matched(forms: Sequence[str], phrase: Sequence[str]) -> int:
    """Return how many words a phrase takes from the first one on, 0 if it does not stand there."""
    end = 0
    for word in phrase:
        while 0 < end < len(forms) and forms[end] in ("a", "an", "the"):
            end += 1
        if end == len(forms) or forms[end] != word:
            return 0
        end += 1
    return end


def _in_form(word: str, written: str) -> str:
    """Return a word in the past if the first word of its phrase was."""
    return word + ("d" if word.endswith("e") else "ed") if is_past(written.casefold()) else word


@cache
def _phrases() -> Mapping[str, Sequence[_Phrase]]:
    """Return the phrases by their first word, the longest first."""
    found: dict[str, list[_Phrase]] = {}
    for line in prompt("phrases").splitlines():
        word, _, others = line.partition(": ")
        for other in others.split(", ") if not line.startswith("#") else ():
            forms = tuple(base(one) for one in other.split())
            found.setdefault(forms[0], []).append(_Phrase(forms, word))
    return {first: sorted(some, key=lambda one: -len(one.words)) for first, some in found.items()}


def is_past(low: str) -> bool:
    """Return whether a word, in lower case, is the past or the participle of a verb, by its form."""
    return low in irregular_verbs() or (low.endswith("ed") and len(low) > _SHORTEST and low.isalpha())


def is_determiner(low: str) -> bool:
    """Return whether a word stands in front of a noun and names nothing."""
    return low in _DETERMINERS
