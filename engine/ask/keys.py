"""The exact tier: what makes two questions the same. Light to import, for a hit must not wait."""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import pairwise

from msgspec import Struct, convert

from engine.text.time_sensitive import common_words, plain_words
from engine.types import json_values
from prompts import version
from store.errors import UsageError
from store.types import Scope

_QUOTE = "quote-13"  # raised when the same evidence would be quoted in another way
_MODEL = "model-4"  # raised when the same evidence would be put to a model in another form, or its answer cut elsewhere
_ROLES = "roles-5"  # raised when a model with a role adapter would choose another answer
_GATE = "gate-3"  # raised when the reader would choose other sources, or judge the same answer in another way
_PROMPTS = ("answer", "question", "roles", "notes", "lines")
_TRAILING = " .?!…,;:。？！、"  # not all punctuation: C and C# are two things
_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")
_ABBREVIATIONS = frozenset(("AM", "IT", "US", "WHO"))
_WORD = re.compile(r"[^\W\d_]{2,}")
_LONGEST_THANKS = 60  # characters, with the signs around them
# Words of a clause inside a question, whose verb is not that of the question.
_IN_CLAUSES = """
that which who whom say says said tell tells told think thinks thought know knows knew believe believes believed
want wants wanted mean means meant do does did has have had will would can could should made wrote sent
"""
_CLAUSES = frozenset(_IN_CLAUSES.split())
_THANKS = re.compile(rf"(?:\s*[{_TRAILING[1:]}-][{_TRAILING}-]*(?:please|thanks|thank you))+\Z", re.IGNORECASE)

# Parts of what is said around a question, for regular expressions without case.
QUESTION_WORD = r"(?:what|when|where|who|whose|whom|which|why|how)\b"
BEFORE_IT = r"(?:in |on |at |for |from |to |with |by )?"  # "in which year"
GREETING = r"(?:hi|hello|hey|so|and|but|ok|okay|well|now|please|sorry|again|just|um|uh|quick question)\b"
ASKED_FOR = r"(?:can|could|would|will) you (?:please )?"
WONDERING = r"i(?: am|'m) (?:trying to (?:remember|recall|find out)|wondering)|i(?:'d| would) like to know"

# Returns, of some words and pairs of words, those that name people of the archive, as it writes them.
Names = Callable[[Sequence[str]], Mapping[str, str]]


class Key(Struct, frozen=True):
    """All that an answer depends on, except the data: question as read, scope, writer, and maybe the day or minute."""

    question: str
    scope: str
    writer: str
    day: str | None

    @property
    def digest(self) -> bytes:
        """Return the key of the bank."""
        parts = json.dumps([self.question, self.scope, self.writer, self.day]).encode()
        return blake2b(parts, digest_size=16).digest()


class Wording(Struct, frozen=True):
    """A question in the form that is understood, embedded and answered, and the words in it that name people.

    Questions of one wording have one answer by construction: nothing else of them is read.
    """

    text: str
    names: frozenset[str] = frozenset()


def reword(question: str, names: Names) -> Wording:
    """Return the wording of a question: names as the archive writes them, one form of spaces, signs and final marks.

    "Could you tell me who wrote?" has the wording of "Who wrote?". Capitals stay, since they tell names that the
    archive does not know, but not those of English function words.
    UsageError where nothing is left of it.
    """
    text = _even(question)
    if not text:
        raise UsageError("the question is empty", 'pkb ask "when is rehearsal?"')
    found = list(_WORD.finditer(text))
    spelled = _spelled(text, found, names)
    for match in reversed(found):
        text = text[: match.start()] + (spelled.get(match) or _lowered(match[0])) + text[match.end() :]
    return Wording(_opened(text) + "?", frozenset(spelled.values()))


def _even(question: str) -> str:
    """Normalize a question: NFKC, single spaces, straight apostrophes, no punctuation at the end, no polite frame."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", question).translate(_APOSTROPHES))
    text = _unframed(" ".join(text.split()).rstrip(_TRAILING))
    return text.lower() if " " in text and _opened(text).isupper() else text  # as it is when it is read again


def _unframed(text: str) -> str:
    """Return a question without "could you tell me" in front of a question word, and without "please" at its end.

    What stands behind "tell me" is put in the order of a question: "when rehearsal is" is "when is rehearsal".
    """
    thanks = _THANKS.search(text, max(0, len(text) - _LONGEST_THANKS))
    text = text[: thanks.start()] if thanks else text
    found = None if re.match(QUESTION_WORD, text, re.IGNORECASE) else _frame().match(text)
    if found is None:
        return text
    own = text[found.end() :]
    return _reordered(own) if found["asked"] else own


def _reordered(text: str) -> str:
    """Return "when rehearsal is" as "when is rehearsal"; a text in another order as it is."""
    found = _embedded().match(text)
    if found is None or not _CLAUSES.isdisjoint(found["noun"].lower().split()):
        return text
    return f"{found['asking']} {found['verb']} {found['noun']}{text[found.end() :]}"


@cache
def _frame() -> re.Pattern[str]:
    """Compile the pattern of a polite frame; most questions have none."""
    told = rf"(?:{ASKED_FOR})?(?:please )?(?:tell|remind|show|give|let) (?:me|us)(?: again)?(?: know)?(?: please)?"
    known = r"(?:do|would|might) you (?:happen to )?(?:still )?(?:know|remember|recall)(?: again)?"
    wondering = rf"{WONDERING}|i(?: want| need) to know|i wonder|i forg[eo]t|any idea"
    asked = rf"(?P<asked>{told}|{known}|(?:can|could) you (?:remember|recall|say)|{wondering})\b\W*"
    greetings = rf"(?:{GREETING}\W*)"
    return re.compile(rf"\W*(?:{greetings}*{asked}|{greetings}+)(?={BEFORE_IT}{QUESTION_WORD})", re.IGNORECASE)


@cache
def _embedded() -> re.Pattern[str]:
    """Compile the pattern of a question in the order of a statement: question word, a noun or name, a form of "be"."""
    asking = r"(?i:when|where|who|why|(?:what|how)(?: [a-z]+)??|(?:which|whose) [a-z]+)"
    noun = r"(?:(?i:the|an?|my|our|your|his|her|its|their|this|these|those)\b|[A-Z])[\w.' -]{1,50}?|[\w'-]+"
    verb = r"(?i:is|are|was|were)\b(?!')"
    return re.compile(rf"\A(?P<asking>{asking}) (?!{verb})(?P<noun>{noun}) (?P<verb>{verb})")


def _lowered(word: str) -> str:
    """Return a function word in lower case, unless its capitals may be an abbreviation's; any other word as it is."""
    lower = word.lower()
    return lower if lower in common_words("en") and word not in _ABBREVIATIONS else word


def _opened(text: str) -> str:
    """Return a text that begins with a capital, where that is one letter."""
    first = text[0].upper()
    return first + text[1:] if len(first) == 1 and unicodedata.is_normalized("NFKC", first + text[1:]) else text


def _spelled(text: str, found: Sequence[re.Match[str]], names: Names) -> dict[re.Match[str], str]:
    """Return the names of people in a text, spelled as in the archive."""
    folded = ["".join(plain_words(match[0])) for match in found]
    beside = [
        (one, two) for one, two in pairwise(range(len(found))) if text[found[one].end() : found[two].start()] == " "
    ]
    pairs = {f"{folded[one]} {folded[two]}": (one, two) for one, two in beside}
    typed = [match[0] for match in found if match[0][0].isupper()]
    known = names([*folded, *typed, *pairs])
    forms = {
        place: form for place, match in enumerate(found) if (form := known.get(folded[place]) or known.get(match[0]))
    }
    for pair, places in pairs.items():
        if pair in known:
            forms |= dict(zip(places, known[pair].split(" "), strict=True))
    return {found[place]: form for place, form in forms.items()}


def normalise(question: str) -> str:
    """Fold a text for comparison: NFKC, case, white space, trailing punctuation; idempotent."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", question).casefold())
    return " ".join(folded.split()).rstrip(_TRAILING)


def key(question: str, scope: Scope, writer: str, moment: str | None) -> Key:
    """Make the key of a question, given its wording and the time that it is understood at."""
    limits = json_values(scope)
    if scope.document is None:
        del limits["document"]  # keys from before stay as they are
    return Key(question, json.dumps(limits), writer, moment)


def scope_of(limits: str) -> Scope:
    """Return the scope of a key."""
    return convert(json.loads(limits), Scope)


def by_quotes(least: float, reader: str = "") -> str:
    """Name the quote writer, and the version of the reader that it has."""
    return "/".join((_QUOTE, *filter(None, [reader]), str(least)))


def by_model(fingerprint: str, most: int, *options: str) -> str:
    """Name a language model as a writer: its files, the wording of its prompt, the tokens it may write.

    `options` says what else its words depend on, where it is not as usual: how a prompt is read.
    """
    return "/".join((_MODEL, fingerprint, version(*_PROMPTS), str(most), *filter(None, options)))


def by_roles(adapter: str) -> str:
    """Name what a role adapter, known by its digest, adds to a model: its requests, and the quote writer."""
    return f"{_ROLES} {version('roles', 'check')} {adapter} {_QUOTE}"


def by_gate(least: float, reader: str) -> str:
    """Name what judges a model's answers with a reader, and quotes in their place; empty without a reader."""
    return reader and f"{_GATE} {by_quotes(least, reader)}"


def is_model(writer: str) -> bool:
    """Return whether a writer is a language model, which is told the date."""
    return writer.startswith(_MODEL)


def reads_scores(writer: str) -> bool:
    """Return whether an answer depends on the scores of its sources: a quoted one, alone or beside a model's."""
    return not is_model(writer) or any(f"/{name} " in writer for name in (_ROLES, _GATE))
