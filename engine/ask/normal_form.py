"""The normal form of a question: the words that ask for something, without politeness, in one form of each phrase.

What differs between two ways of asking the same is removed here. Knows no other question.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from functools import cache, lru_cache

from engine.ask.keys import ASKED_FOR, BEFORE_IT, GREETING, QUESTION_WORD, WONDERING
from engine.text.question import Question, understand
from engine.text.words import irregular_verbs
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
_ASKS = re.compile(r"\b(?:what|when|where|who|whose|whom|which|why|how)\b", re.IGNORECASE)
_AUX = "is|are|was|were|am|do|does|did|has|have|had|will|would|can|could|shall|should|may|might|must"
_VERBAL = re.compile(rf"\b(?:{_AUX})\b|summari[sz]e|describe|explain|list|compare", re.IGNORECASE)


@cache
def _rewrites() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compile the phrases, when the first question is compared: a process that compares none is quicker."""
    lines = (line.split("  ->  ") for line in prompt("rewrites").splitlines() if not line.startswith("#"))
    return tuple((re.compile(pattern, re.IGNORECASE), instead[1:-1]) for pattern, instead in lines)


_SIGNS = str.maketrans("’‘ʼ`´‐‑‒–—", "'''''-----")
_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?(?![^\W\d_])|[^\W_]+(?:'[^\W_]+)*|[+&#%$€£]")
_SHORT = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "let's": "let us"}
_CLITICS = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
_HELD = frozenset(("it", "there", "that", "here", "he", "she", "this"))  # "'s" behind them is "is"
_ASKING = frozenset(("what", "which", "who", "whom", "whose", "when", "where", "why", "how"))
_LONGEST_QUESTION = 1000  # characters
_SHORTEST = 4  # letters of a word in -ed that is no past: "need", "seed"
_DETERMINERS = frozenset(
    ("the", "a", "an", "my", "our", "your", "his", "her", "its", "their", "some", "any", "this", "both", "all")
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
    for pattern, instead in _rewrites():
        text = pattern.sub(instead, text)
    return text


def _framed(text: str) -> str:
    """Return a question without polite frames, with one kind of signs."""
    text = unicodedata.normalize("NFKC", _without_accents(text)).translate(_SIGNS)
    text = re.sub(r"(?<=s)' (?=\w)", "'s ", " ".join(text.split()).rstrip(" ?!."))
    return _without_frame(text)


def _without_frame(text: str) -> str:
    """Return a question without what is said around it: "could you tell me", "please", "again"."""
    tail = _TAIL.search(text)
    text = _LEAD.sub("", text[: tail.start()] if tail else text)
    if found := _WANTED.match(text):
        text = "what be " + text[found.end() :]
    elif (tail or _OWNED_ALONE.match(text)) and not _ASKS.search(text) and not _VERBAL.search(text):
        text = "what be " + text  # "Ann's address?"
    return text


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def tokens(text: str) -> tuple[str, ...]:
    """Return the words of a plain form as written, contractions spelled out; behind an owner stands `OWNER`."""
    return tuple(_split(text))


def literal_tokens(text: str) -> Iterator[str]:
    """Yield the words of a question without its polite frame as written, in lower case."""
    return (token.casefold() for token in _split(_framed(text[:_LONGEST_QUESTION])))


def _split(text: str) -> list[str]:
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


def is_past(low: str) -> bool:
    """Return whether a word, in lower case, is the past or the participle of a verb, by its form."""
    return low in irregular_verbs() or (low.endswith("ed") and len(low) > _SHORTEST and low.isalpha())


def is_determiner(low: str) -> bool:
    """Return whether a word stands in front of a noun and names nothing."""
    return low in _DETERMINERS
