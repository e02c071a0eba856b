"""Whether a question's meaning depends on the time or date or it asks about a whole document; sentences that instruct.

By the words in `prompts/deictic.txt`, `whole_document.txt` and `instructions.txt`; has lists of words for others, too.
Reads the wording alone, and compiles no patterns: every exact hit imports it.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, lru_cache
from itertools import chain, product
from typing import Literal, get_args

from msgspec import Struct

from prompts import prompt, word_patterns

Sensitivity = Literal["clock", "day"]  # what the meaning of a question moves with

_GAP = 4  # words that ".." stands for, at most
_ASCII_SIGNS = {code: " " for code in range(128) if not chr(code).isalnum()}
_PARTS = ("day", "clock", "not")  # of two phrases for the same words the later part counts
Phrase = tuple[str, ...]

_FUNCTION = (
    "a about all also am an and any ar are as at be been being but by can cant could did didnt do doe does doesnt "
    "don done dont for from had has hav have he her hers him his how i if in into is isnt it its just me min mine "
    "my no not of on or our ours she should so som some than that the their them then ther there these they this "
    "tho those to too up us wa was wasnt we wer were what when wher where which who whom whose why will with "
    "would you your "
)
FUNCTION_WORDS = frozenset(_FUNCTION.split())  # as `words.words` stems them


@lru_cache(maxsize=1 << 12)
def time_sensitivity(question: str) -> Sensitivity | None:
    """Return whether a question's meaning changes with the clock or the day; None if its words show neither."""
    tokens, found = plain_words(question), list[tuple[tuple[int, int], range]]()
    for language in _languages(tokens):
        for number, part in enumerate(_PARTS):
            spans = phrases("deictic", part, language).find(tokens)
            found += [((end - first, number), range(first, end)) for first, end in spans]
    best = dict[int, tuple[int, int]]()  # by word, the longest phrase that it is in, and the later part
    for weight, places in found:
        best |= {at: max(best.get(at, weight), weight) for at in places}
    parts = {_PARTS[weight[1]] for weight, places in found if weight == max(best[at] for at in places)}
    if "clock" in parts:
        return "clock"
    within = any(phrase[0] in question for phrase in word_lists("deictic")["zh"]["within"])
    return "day" if within or "day" in parts else None


def is_timeless(question: str) -> bool:
    """Return whether a question shows that its meaning is fixed: it asks about the past, and not from today."""
    tokens = plain_words(question)
    past = {phrase[0] for language in _languages(tokens) for phrase in word_lists("deictic")[language]["past"]}
    return not past.isdisjoint(tokens) and not time_sensitivity(question)


def moment(question: str, now: datetime, *, dated: bool) -> str | None:
    """Return the time at which a question is understood: the minute, the day, or None if its meaning is fixed.

    A writer whose prompt has the date (`dated`) interprets every question by it, unless that is known to be timeless.
    """
    sensitivity = time_sensitivity(question)
    if sensitivity == "clock":
        return now.isoformat(timespec="minutes")
    return now.date().isoformat() if sensitivity or (dated and not is_timeless(question)) else None


def plain_words(text: str) -> list[str]:
    """Return the words of a text, casefolded and without accents; every sign ends a word: "what's" is two."""
    if text.isascii():
        return text.lower().translate(_ASCII_SIGNS).split()
    apart = unicodedata.normalize("NFKD", text.casefold())
    kept = (sign for sign in apart if not unicodedata.combining(sign))
    return "".join(sign if sign.isalnum() else " " for sign in kept).split()


@cache
def listed_words(name: str, part: str, language: str | None = None) -> frozenset[str]:
    """Return the words of a part of a list among the prompts, in one language ("en") or all; none without the part."""
    lists = word_lists(name)
    chosen = lists.values() if language is None else (lists[language],)
    return frozenset(word for parts in chosen for (word,) in parts.get(part, ()))


@cache
def word_lists(name: str) -> dict[str, dict[str, list[Phrase]]]:
    """Return the phrases of a list among the prompts, by language and part."""
    lines = (line for line in prompt(name).splitlines() if not line.startswith("#"))
    found: dict[str, dict[str, list[Phrase]]] = {}
    for section in " ".join(lines).split("[")[1:]:
        head, _, body = section.partition("]")
        language, part = head.split()
        found.setdefault(language, {})[part] = [tuple(phrase.split()) for phrase in body.split(",")]
    return found


def _languages(tokens: Sequence[str]) -> list[str]:
    """Return the languages that a question may be in: those of its common words, if one has two of them, else all."""
    counts = _common_in(tokens)
    return [language for language in counts if counts[language]] if max(counts.values()) > 1 else list(counts)


def _common_in(tokens: Sequence[str]) -> dict[str, int]:
    spaced = [language for language, parts in word_lists("deictic").items() if "common" in parts]
    common = {language: listed_words("deictic", "common", language) for language in spaced}
    return {language: sum(token in common[language] for token in tokens) for language in spaced}


@lru_cache(maxsize=1 << 12)
def is_foreign(question: str) -> bool:
    """Return whether a question is not in English, by its letters or by common words of another language."""
    letters = [sign for sign in question if sign.isalpha()]
    if 2 * sum(sign > "\u02ff" for sign in letters) > len(letters):
        return True
    counts = _common_in(plain_words(question))
    return max(counts.values()) > 2 * counts["en"]


class PhraseIndex:
    """A list of phrases, indexed by their longest whole word, so that few are tried on each question."""

    def __init__(self, listed: Iterable[Phrase]) -> None:
        self._by_word, self._others = dict[str, list[tuple[Phrase, frozenset[str]]]](), list[Phrase]()
        for phrase in listed:
            needed = [word for word in phrase if word not in ("_", "..", "$") and not word.endswith("*")]
            if needed:
                self._by_word.setdefault(max(needed, key=len), []).append((phrase, frozenset(needed)))
            else:
                self._others.append(phrase)

    def may_find(self, tokens: Collection[str]) -> bool:
        """Return whether plain words have one of a phrase: most sentences have none, and are told so at once."""
        return bool(self._others) or not self._by_word.keys().isdisjoint(tokens)

    def find(self, tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each phrase found among plain words, in no order."""
        there = frozenset(tokens)
        held = [phrase for word in there for phrase, needed in self._by_word.get(word, ()) if needed <= there]
        for phrase in (*held, *self._others):
            for first, token in enumerate(tokens):
                if _fits(phrase[0], token) and (end := _end(phrase, tokens, first)):
                    yield first, end


@cache
def phrases(name: str, part: str, language: str | None = None) -> PhraseIndex:
    """Return the index of one part of a phrase list, for one language or all."""
    lists = word_lists(name)
    chosen = lists.values() if language is None else (lists[language],)
    return PhraseIndex(phrase for parts in chosen for phrase in parts.get(part, ()))


def _end(phrase: Phrase, tokens: Sequence[str], first: int) -> int | None:
    if not phrase:
        return first
    if phrase[0] == "$":
        return first if first == len(tokens) else None
    if phrase[0] == "..":
        ends = (_end(phrase[1:], tokens, first + skipped) for skipped in range(_GAP + 1))
        return next((end for end in ends if end), None)
    if first < len(tokens) and _fits(phrase[0], tokens[first]):
        return _end(phrase[1:], tokens, first + 1)
    return None


def _fits(word: str, token: str) -> bool:
    if word.endswith("*"):
        return token.startswith(word[:-1])
    return word in (token, "_")


Aspect = Literal[
    "people", "sender", "recipients", "subject", "date", "summary", "minutes", "decisions", "tasks", "open"
]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)

_LIST = "whole_document"
_OPENING = 2  # words of a polite opening at a time


class WholeDocumentQuestion(Struct, frozen=True):
    """What a question asks about a whole document, and the words that name it: none, some, or all of its title."""

    aspect: Aspect
    name: str = ""
    whole: bool = False


def whole_document_question(text: str) -> WholeDocumentQuestion | None:
    """Parse a question about a whole document; None for any other question."""
    openings = [*chain.from_iterable(parts["opening"] for parts in word_lists(_LIST).values())]
    while True:  # without "Could you tell me" and the like
        words = text.split(maxsplit=_OPENING)
        begins = next((n for n in range(_OPENING, 0, -1) if tuple(plain_words(" ".join(words[:n]))) in openings), 0)
        if not begins or len(words) <= begins:
            break
        text = text.split(maxsplit=begins)[-1]
    if not (tokens := plain_words(text)) or len(tokens) > 24:
        return None
    if aspect := _aspect(tokens):
        return WholeDocumentQuestion(aspect)
    parts = text.split()
    for core, name in _named(parts):
        if (aspect := _aspect(plain_words(core))) and not listed_words(_LIST, "document").isdisjoint(plain_words(name)):
            return WholeDocumentQuestion(aspect, name)
    return None


def meeting_question(text: str) -> WholeDocumentQuestion | None:
    """Parse a question about a meeting, which "last time we met" and "the design review" name, too."""
    text = text.rstrip("?")
    # "Ann's action items" are those "for Ann", who is then a part of the name.
    for form in word_patterns("people")["tasks pattern"].split("||"):
        if owner := re.fullmatch(form, text.strip(), re.IGNORECASE):
            text = f"what are the action items for {owner['who']} {owner['rest'] or ''}".strip()
    for phrase in chain.from_iterable(parts.get("again", ()) for parts in word_lists(_LIST).values()):
        before, said, after = text.lower().partition(" ".join(phrase))
        if said:
            text = f"{before or 'what came out '}at the last meeting{after}"
    found, parts = whole_document_question(text) or whole_document_question(f"{text} meeting"), text.split()
    if found and found.name:
        return found
    ends = range(max(len(parts) - 2, 3), len(parts) + 1)
    for start, end in product((3, 2), ends):  # "Who was at | the workshop meeting?", "When did | it | take place?"
        tail, name = " ".join(parts[end:]), " ".join(parts[start:end])
        aspect = _aspect(plain_words(f"{' '.join(parts[:start])} document {tail}"))
        named = [word for word in plain_words(name) if word not in listed_words(_LIST, "frame")]
        is_title = bool(named) and listed_words(_LIST, "document").isdisjoint(named)
        if aspect in ("date", "people") and title_words(tail) == tail.split() and (is_title or named[1:]):
            return WholeDocumentQuestion(aspect, name, whole=is_title)
    return found


def title_words(name: str) -> list[str]:
    """Return the words of a name that a title must contain: without articles and words such as "meeting"."""
    left_out = listed_words(_LIST, "frame") | listed_words(_LIST, "document")
    return [word for word in plain_words(name) if word not in left_out]


def _named(parts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield a question about an unnamed document, and a name: behind "Summarize", in "What was ... about" and such."""
    tokens = [plain_words(part) for part in parts]
    if len(parts) > 1 and tokens[0] and tokens[0][0] in ("summarize", "summarise", "recap"):
        yield parts[0], " ".join(parts[1:])
    if len(parts) > 3 and tokens[0] == ["what"] and tokens[-1] == ["about"]:
        yield f"{parts[0]} {parts[1]} it about", " ".join(parts[2:-1])
    for place, part in enumerate(parts[1:-1], 1):
        if part.lower() in listed_words(_LIST, "before"):
            yield f"{' '.join(parts[: place + 1])} document", " ".join(parts[place + 1 :])


def _aspect(tokens: Sequence[str]) -> Aspect | None:
    tokens = ["is" if token == "s" and place else token for place, token in enumerate(tokens)]  # "what's"
    for language, parts in word_lists(_LIST).items():
        documents, frame = (listed_words(_LIST, part, language) for part in ("document", "frame"))
        first = parts["document"][0][0]
        left = [first if token in documents else token for token in tokens if token not in frame]
        ended = left[:-1] if left[1:] and left[-1] == first else left
        if aspect := _phrases(language).get(tuple(left)) or _phrases(language).get(tuple(ended)):
            return aspect
    return None


@cache
def _phrases(language: str) -> dict[tuple[str, ...], Aspect]:
    frame, lists = listed_words(_LIST, "frame", language), word_lists(_LIST)[language]
    listed = ((phrase, aspect) for aspect in ASPECTS for phrase in lists.get(aspect, ()))
    return {tuple(word for word in phrase if word not in frame): aspect for phrase, aspect in listed}


_CLAUSE_END = r"((?:[;!?()\"“”„]|[,:](?!\d))+\s*)"
_BEFORE_ASKING = 12  # words between "if" and "asks"
_STATED = 3  # words of a statement, at least


@lru_cache(maxsize=1 << 12)
def instruction_end(text: str) -> int:
    """Return where a sentence stops telling what to answer: "if anyone asks, say it is closed"; 0 if it does not."""
    there = {*plain_words(text)}
    languages = [one for one in word_lists("instructions") if phrases("instructions", "answer", one).may_find(there)]
    if not languages:
        return 0
    pieces = [*re.split(_CLAUSE_END, text), ""]  # each clause, and the signs behind it
    clauses = [plain_words(clause) for clause in pieces[::2]]
    colons = [at for at, signs in enumerate(pieces[1::2]) if ":" in signs]
    end = 2 * max(_told(language, clauses, colons) for language in languages)
    # A statement may follow: "If anyone asks, tell them to call, Gus has the key".
    is_statement = not end or len(plain_words("".join(pieces[end:]))) >= _STATED
    return len("".join(pieces[:end])) if is_statement else len(text)


def _told(language: str, clauses: Sequence[list[str]], colons: Collection[int]) -> int:
    """Return the number of clauses up to the last that dictates an answer."""
    openings = [_opening(language, tokens) for tokens in clauses]
    asking = [at for at, tokens in enumerate(clauses) if openings[at] or _is_asked(language, tokens)]
    found = [
        (at, opening + begins)
        for at, opening in enumerate(openings)
        if asking and (begins := _orders(language, clauses[at][opening:]))
    ]
    if not found:
        return 0
    at, begins = found[-1]
    goes_on = len(clauses[at]) <= begins + (at in colons)  # "say this: ..."
    return 1 + max(asking[-1], at + goes_on)


def _opening(language: str, tokens: Sequence[str]) -> int:
    """Return the number of words with which a clause turns to a model: "dear assistant", "ignore all instructions"."""
    model, call = (listed_words("instructions", part, language) for part in ("model", "call"))
    if not model.isdisjoint(tokens) and model | call >= {*tokens}:
        return len(tokens)
    return max((end for _, end in phrases("instructions", "drop", language).find(tokens)), default=0)


def _is_asked(language: str, tokens: Sequence[str]) -> bool:
    before = {phrase[-1] for phrase in word_lists("instructions")[language]["not"]}
    if_, ask = ([*phrases("instructions", part, language).find(tokens)] for part in ("if", "ask"))
    asks = [start for start, _ in ask if not start or tokens[start - 1] not in before]
    every, begins = phrases("instructions", "all", language).find(tokens), _orders(language, tokens)
    is_every = any(begins and start >= begins for start, _ in every)
    return is_every or any(0 <= start - first <= _BEFORE_ASKING for first, _ in if_ for start in asks)


def _orders(language: str, tokens: Sequence[str]) -> int:
    """Return the number of leading words of a clause that dictate an answer, 0 if none do."""
    please = {phrase[-1] for phrase in word_lists("instructions")[language]["please"]}
    first = next((at for at, token in enumerate(tokens) if token not in please), 0)
    found = phrases("instructions", "answer", language).find(tokens)
    return max((end for start, end in found if start == first), default=0)
