"""The normal form of a question, without politeness, and the features that show whether another one asks the same.

English, by `prompts/question_words.txt`; unknown words make two questions differ. Knows neither corpus
nor other questions.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from functools import cache, lru_cache
from itertools import pairwise

from engine.ask.keys import ASKED_FOR, BEFORE_IT, GREETING, QUESTION_WORD
from engine.text.question import Question, understand
from engine.text.words import base, irregular_verbs
from prompts import prompt, word_sets
from store.types import replace

_WORDS = word_sets("question_words")
_ASKING, _PERSONS, _TENSES = (  # the normal form of each word
    {word: kind.partition(" ")[2] for kind, words in _WORDS.items() if kind.startswith(name) for word in words}
    for name in ("asking ", "person ", "tense ")
)
_BE, _HAVE, _DO = _WORDS["be"], _WORDS["have"], _WORDS["do"]
_DONE_TO, _AUXILIARY = _BE | _WORDS["getting"], _BE | _HAVE | _DO | _WORDS["modal"]
_WAYS, PREPOSITIONS, _NEGATIONS, _PLACES = (_WORDS[one] for one in ("ways", "prepositions", "negations", "places"))
_ENGLISH, _FREE, _LIGHT = _WORDS["english"], _WORDS["free"], _WORDS["adverbs"] | _WORDS["light"]
_SCHEDULED, _FORMS = _WORDS["scheduled"], {*_ASKING, *_PERSONS, *_TENSES, *_NEGATIONS}
# Words that do not change what a question asks about.
_FUNCTION = _FORMS.union(_FREE - _WORDS["telling"], _WAYS, _WORDS["exactly"], _WORDS["going"])
_EXTRA = 3  # words between a form of "be" and its participle
_SUBJECTS, _DETERMINERS, _IS = _WORDS["subjects"], _WORDS["determiners"], _WORDS["with is"]


@dataclass(frozen=True, slots=True)
class QuestionFeatures:
    """One question taken apart; each field is compared by itself."""

    literal: tuple[str, ...]  # the words as asked, sorted, before any phrase was replaced, without function words
    content: tuple[str, ...]  # base forms, in order
    written: tuple[str, ...]  # the same words as written
    heads: tuple[bool, ...]  # of each: whether it is a verb, or what somebody has
    roles: tuple[str, ...]  # of each: agent, object, owner, or the preposition that it belongs to; empty: none of these
    asked_for: str  # whether who or what is asked for does it (doer), has it done (done), or is it; empty: not known
    asking: str
    subject: frozenset[str]  # who or what an auxiliary is about; empty: not known
    english: bool
    names: frozenset[str]
    numbers: tuple[str, ...]
    places: tuple[str, ...]  # which of several
    tenses: frozenset[str]
    passive: bool
    persons: frozenset[str]
    ways: frozenset[str]
    negations: int


@lru_cache(maxsize=1 << 12)
def question_features(question: Question) -> QuestionFeatures:
    """Take the normal form of a question apart."""
    words_asked = (token.casefold() for token in tokens(_framed(question.text[:_LONGEST_QUESTION])))
    literal = sorted(word for word in words_asked if word.rpartition(" ")[2] not in _FUNCTION)
    question = normal_question(question)
    found = tokens(question.text)
    # Without acronyms, and with the month of May as it is: both are also other words.
    lone = {one for one in found if len(one) > 1 and one.isupper() and one.isalpha() and not question.text.isupper()}
    plain = ["" if one in lone else one if one == "May" else one.casefold() for one in found]
    named = {word.casefold() for name in question.names for word in tokens(name)} - {OWNER}
    pairs = zip(found, plain, strict=True)
    words = _Words(plain, [low in named or (one.isupper() and one.isalpha()) for one, low in pairs])
    light = _SCHEDULED if question.asked in ("date", "time", "place") else frozenset[str]()
    telling = [place for place, word in enumerate(plain) if _tells(word) and word not in light]
    content = [base(found[place].casefold()) for place in telling]
    which = [(form, plain[place]) for form, place in zip(content, telling, strict=True)]
    asking = _among(plain, _ASKING)
    return QuestionFeatures(
        literal=tuple(literal),
        content=tuple(content),
        written=tuple(found[place] for place in telling),
        heads=tuple(words.is_head(place) for place in telling),
        roles=tuple(words.role(place) for place in telling),
        asked_for=words.asked_for(),
        asking=asking[0] if asking else "",
        subject=words.subject(),
        english=not _ENGLISH.isdisjoint(plain),
        names=frozenset(form for form, place in zip(content, telling, strict=True) if words.is_name[place]),
        numbers=tuple(sorted(form for form in content if form[0].isdigit() and form not in _PLACES)),
        places=tuple(sorted(form for form, word in which if word in _PLACES or form in _PLACES)),
        tenses=words.tenses(),
        passive=words.passive,
        persons=frozenset(_among(plain, _PERSONS)),
        ways=_WAYS.intersection(plain),
        negations=sum(word in _NEGATIONS for word in plain),
    )


class _Words:
    """The words of a question in lower case, an acronym given as "", and which of them are of names."""

    def __init__(self, plain: Sequence[str], is_name: Sequence[bool]) -> None:
        self.plain, self.is_name = plain, is_name
        self.passive = self._is_passive()
        behind = (plain[at + 1 : at + 2 + _EXTRA] for at, word in enumerate(plain) if word in _BE)
        self.progressive = any(each.endswith("ing") for some in behind for each in some)  # something is being done

    def _at(self, place: int) -> str:
        return self.plain[place] if 0 <= place < len(self.plain) else ""

    def _is_passive(self) -> bool:
        """Return whether something is done to the subject: a form of "be" before a participle."""
        for place, word in enumerate(self.plain):
            for each in self.plain[place + 1 : place + 2 + _EXTRA] if word in _DONE_TO else ():
                if is_past(each):
                    return True
                if each.endswith("ing") and each != "being":
                    break  # somebody is keeping others informed
        return False

    def tenses(self) -> frozenset[str]:
        """Return the tenses of a question; a verb's own form says it where no auxiliary does."""
        found = set(_among(self.plain, _TENSES))
        for place, word in enumerate(self.plain):
            behind = self.plain[place + 1 : place + 2 + _EXTRA]
            if word in _HAVE and any(is_past(each) or each == "been" for each in behind):
                found.add("perfect")
        if self.progressive:
            found.add("progressive")
        if not found and "be" in self.plain:
            found.add("any")
        return frozenset(found or {"past" if any(map(is_past, self.plain)) else "present"})

    def is_head(self, place: int) -> bool:
        """Return whether a word is a verb by its form or place, or a noun that somebody owns."""
        word, before = self.plain[place], self._at(place - 1)
        is_verb = word.endswith("ing") or is_past(word) or before == "to" or before in _AUXILIARY - _BE
        return is_verb or before == OWNER

    def role(self, place: int) -> str:
        """Return the role of a word in its question, by the words around it."""
        is_name, behind = self.is_name[place], self._at(self._end_of_name(place))
        if behind == OWNER:
            return "owner"
        word = self._at(self._before(place))
        acts = is_name and (behind in _AUXILIARY or is_past(behind) or (behind.endswith("s") and _tells(behind)))
        if word in PREPOSITIONS:
            modifies = is_name and not acts and bool(behind) and _tells(behind) and not behind.endswith("ing")
            return "" if modifies else word
        if word in _DO and any(one == "get" and is_past(then) for one, then in pairwise(self.plain)):
            return "object"  # did Ann get paid
        if word in _DO:
            return "agent" if is_name or not is_past(self.plain[place]) else ""
        if not (acts or word in _AUXILIARY or word in _ASKING):
            return "object"
        beside = word in _BE or behind in _BE
        if self.passive and (word in _AUXILIARY or beside):
            return "object"
        return "agent" if is_name and (self.progressive or not beside) else ""  # else what somebody is

    def _end_of_name(self, place: int) -> int:
        """Return the end of the run of names that has a word; the next place if the word is not a name."""
        end, plain, is_name = place + 1, self.plain, self.is_name
        while end < len(plain) and is_name[place]:
            joined = plain[end] == "and" and end + 1 < len(plain) and is_name[end + 1]
            if not (is_name[end] or joined):
                break
            end += 1
        return end

    def _before(self, place: int) -> int:
        """Return the place of the word in front of the noun that a word belongs to, -1 if there is none."""
        before, is_name = place - 1, self.is_name[place]
        while before >= 0:
            word = self.plain[before]
            joined = is_name and (self.is_name[before] or word == "and")
            if word == OWNER and not is_name:
                before -= 2
                continue
            if not (joined or word in _DETERMINERS):
                break
            before -= 1
        return before

    def subject(self) -> frozenset[str]:
        """Return the persons, or the base forms of the noun, after the first auxiliary that is not a form of "be"."""
        place = next((at for at, word in enumerate(self.plain, 1) if word in _AUXILIARY - _BE), len(self.plain))
        if not self._begins_subject(place):
            return frozenset()
        while self._at(place) in _DETERMINERS and self._at(place) not in _PERSONS:
            place += 1
        end = self._end_of_name(place)
        if self._at(end) == OWNER:
            place, end = end + 1, end + 2
        if self._at(end) in ("and", "or", "of"):
            return frozenset()
        return frozenset(_PERSONS.get(word) or base(word) for word in self.plain[place:end] if word and word != "and")

    def asked_for(self) -> str:
        """Return the role of the question word: who does something, or whom it is done to."""
        plain = self.plain
        at = next((place for place, word in enumerate(plain) if word in ("who", "whom", "what")), None)
        if at is None or at + 1 == len(plain):
            return ""
        verb = plain[at + 1]
        if plain[at] == "what" and not (verb in _AUXILIARY or is_past(verb)):
            return ""
        if (verb in _BE or plain[-1] in _BE) and not self.passive and not self.progressive:
            return "is"
        has_subject = verb in _DO or self._begins_subject(at + 1 + (verb in _AUXILIARY))
        if has_subject and verb in _BE and any(map(is_past, plain[at + 2 : at + 2 + _EXTRA])):
            return "beside"  # what something is done for, or with
        return "done" if has_subject or self.passive else "doer"

    def _begins_subject(self, place: int) -> bool:
        word = self._at(place)
        return bool(word) and (word in _DETERMINERS | _SUBJECTS or self.is_name[place] or self._at(place + 1) == OWNER)


def _tells(word: str) -> bool:
    """Return whether a word is part of what is asked about; an acronym, given as "", is."""
    return word not in _FREE | _LIGHT | _FORMS and (word in _PLACES or word not in _WAYS | {"by"})


def _among(plain: Iterable[str], table: dict[str, str]) -> list[str]:
    return [table[word] for word in plain if word in table]


OWNER = "'s"  # follows a name or noun that owns the next word

_TELL = r"(?:please )?(?:tell|remind|show|give|let|find|get|send) (?:me|us)(?: again)?(?: know)?(?: please)?"
# In front of what is asked for: "please give me Ann's email", "I'm looking for the address of Ann".
_WANTED = re.compile(
    rf"\A\W*(?:{GREETING}\W*)*"
    rf"(?:(?:{ASKED_FOR})?{_TELL}(?: of| about)?|i(?:'m| am) (?:looking for|after)|i (?:need|want)|i(?:'d| would) like"
    r"|(?:can|could|may) i (?:please )?(?:get|have|see)"
    r"|do (?:you|we) (?:happen to )?(?:still )?(?:have|know|remember|recall)|have (?:you|we) got"
    rf"|(?:{ASKED_FOR})?(?:find|look up))\s+"
    rf"(?!{BEFORE_IT}(?:{QUESTION_WORD}|(?:if|whether|to|a|an|any)\b))",
    re.IGNORECASE,
)
_OWNED_ALONE = re.compile(r"\A[\w.' -]{2,60}'s? \w+(?: \w+)?\Z|\A(?:the )?\w+(?: \w+)? of [\w.' -]{2,60}\Z")
_AUX = "is|are|was|were|am|do|does|did|has|have|had|will|would|can|could|shall|should|may|might|must"
_ASKS = re.compile(rf"\b{QUESTION_WORD}|\b(?:{_AUX})\b|summari[sz]e|describe|explain|list|compare", re.IGNORECASE)


@cache
def _rewrites() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compile the phrases, when the first question is compared: a process that compares none is quicker."""
    lines = (line.split("  ->  ") for line in prompt("rewrites").splitlines() if not line.startswith("#"))
    return tuple((re.compile(pattern, re.IGNORECASE), instead[1:-1]) for pattern, instead in lines)


_SIGNS = str.maketrans("’‘ʼ`´‐‑‒–—", "'''''-----")
_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th)?(?![^\W\d_])|[^\W_]+(?:'[^\W_]+)*|[+&#%$€£]")
_SHORT = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "let's": "let us"}
_CLITICS = {"'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would"}
_LONGEST_QUESTION = 1000  # characters


@lru_cache(maxsize=1 << 12)
def normal_question(question: Question) -> Question:
    """Return a question as its plain form is understood."""
    now = question.clock or datetime.combine(question.day, time.min, UTC)
    known = frozenset(word for name in question.names for word in name.split())
    return replace(understand(plain(question.text), now, known), day=question.day)


@lru_cache(maxsize=1 << 12)
def plain(text: str) -> str:
    """Return a question without polite frames, in the usual order, and with one form of common phrases."""
    if len(text) > _LONGEST_QUESTION:  # some patterns look at a text from every place
        return text
    text = _framed(text)
    for pattern, instead in _rewrites():
        text = pattern.sub(instead, text)
    return text


def _framed(text: str) -> str:
    """Return a question with one kind of signs, without what is said before it: "please give me"."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = unicodedata.normalize("NFKC", bare).translate(_SIGNS)
    text = re.sub(r"(?<=s)' (?=\w)", "'s ", " ".join(text.split()).rstrip(" ?!."))
    if found := _WANTED.match(text):
        text = "what be " + text[found.end() :]
    elif _OWNED_ALONE.match(text) and not _ASKS.search(text):
        text = "what be " + text  # "Ann's address?"
    return text


def tokens(text: str) -> tuple[str, ...]:
    """Return the words of a plain form as written, contractions spelled out; after an owner comes `OWNER`."""
    return tuple(token for match in _TOKEN.finditer(text) for token in _spelled(match.group()))


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
        return [token[:-2].replace("'", ""), "is" if low[:-2] in _IS else OWNER]
    return [token.replace("'", "")]


def is_past(low: str) -> bool:
    """Return whether a word, in lower case, is the past or the participle of a verb, by its form."""
    ends = low.endswith("ed") and len(low) > 4 and low.isalpha()  # not "need", "seed"
    return ends or low in irregular_verbs()
