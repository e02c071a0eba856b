"""The exact tier: the key of a question, and the first steps of every question, asked or predicted.

Also whether two answers say the same. Light to import, since a hit must not wait.
"""

import dataclasses
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, convert

from engine.settings import Settings
from engine.text import time_sensitive
from engine.text.terminal import shorten
from engine.text.time_sensitive import FUNCTION_WORDS, listed_words, plain_words, title_words, whole_document_question
from engine.types import Answer, AskOptions, Backend, Evidence, Trace, json_values
from prompts import version, word_patterns, word_sets
from store.answers import AnswerBank, CachedAnswer, Origin, State, names_of
from store.database import Ledger
from store.errors import UsageError
from store.history import link_documents
from store.types import Scope, Vectors, is_address, replace

if TYPE_CHECKING:
    from engine.text.question import Question


_QUOTE = "quote-15"  # raised when the same evidence would be quoted in another way
_MODEL = "model-4"  # raised when the same evidence would be put to a model in another form, or its answer cut elsewhere
_ROLES = "roles-5"  # raised when a model with a role adapter would choose another answer
_GATE = "gate-3"  # raised when the reader would choose other sources, or judge the same answer in another way
_PROMPTS = ("answer", "question", "roles", "notes", "lines")
_TRAILING = " .?!…,;:。？！、"  # not all punctuation: C and C# are two things
_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")
_ABBREVIATIONS = frozenset(("AM", "IT", "US", "WHO"))
_WORD = re.compile(r"[^\W\d_]{2,}")
_THANKS = re.compile(rf"(?:\s*[{_TRAILING[1:]}-][{_TRAILING}-]*(?:please|thanks|thank you))+\Z", re.IGNORECASE)

# Phrases around a question, for case-insensitive regular expressions.
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
    archive does not know, but not those of English function words. UsageError if nothing is left of it.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", question).translate(_APOSTROPHES))
    if not (text := _unframed(" ".join(text.split()).rstrip(_TRAILING))):
        raise UsageError("the question is empty", 'pkb ask "when is rehearsal?"')
    text = text.lower() if " " in text and _opened(text).isupper() else text  # as it is when it is read again
    found = list(_WORD.finditer(text))
    spelled = _spelled(text, found, names)
    for match in reversed(found):  # a function word in lower case, unless its capitals may be an abbreviation's
        is_common = match[0].lower() in listed_words("deictic", "common", "en") and match[0] not in _ABBREVIATIONS
        word = spelled.get(match) or (match[0].lower() if is_common else match[0])
        text = text[: match.start()] + word + text[match.end() :]
    return Wording(_opened(text) + "?", frozenset(spelled.values()))


def _unframed(text: str) -> str:
    """Return a question without "could you tell me" in front of a question word, and without "please" at its end."""
    thanks = _THANKS.search(text, max(0, len(text) - 60))  # with the signs around them
    text = text[: thanks.start()] if thanks else text
    found = None if re.match(QUESTION_WORD, text, re.IGNORECASE) else _frame().match(text)
    if found is None:
        return text
    own = text[found.end() :]
    found = _embedded().match(own) if found["asked"] else None
    if found is None or not word_sets("question_words")["clause"].isdisjoint(found["noun"].lower().split()):
        return own
    # In the order of a question: "when rehearsal is" is "when is rehearsal".
    return f"{found['asking']} {found['verb']} {found['noun']}{own[found.end() :]}"


@cache
def _frame() -> re.Pattern[str]:
    """Compile the pattern of a polite frame; most questions have none."""
    told = rf"(?:{ASKED_FOR})?(?:please )?(?:tell|remind|show|give|let) (?:me|us)(?: again)?(?: know)?(?: please)?"
    who = r"(?:(?:do|would|might) you|does any(?:one|body))"
    known = rf"{who} (?:happen to )?(?:still )?(?:know|remember|recall)(?: again)?"
    wondering = rf"{WONDERING}|i(?: want| need) to know|i wonder|i forg[eo]t|any idea"
    asked = rf"(?P<asked>{told}|{known}|(?:can|could) you (?:remember|recall|say)|{wondering})\b\W*"
    greetings = rf"(?:{GREETING}\W*)"
    return re.compile(rf"\W*(?:{greetings}*{asked}|{greetings}+)(?={BEFORE_IT}{QUESTION_WORD})", re.IGNORECASE)


@cache
def _embedded() -> re.Pattern[str]:
    asking = r"(?i:when|where|who|why|(?:what|how)(?: [a-z]+)??|(?:which|whose) [a-z]+)"
    noun = r"(?:(?i:the|an?|my|our|your|his|her|its|their|this|these|those)\b|[A-Z])[\w.' -]{1,50}?|[\w'-]+"
    verb = r"(?i:is|are|was|were)\b(?!')"
    return re.compile(rf"\A(?P<asking>{asking}) (?!{verb})(?P<noun>{noun}) (?P<verb>{verb})")


def _opened(text: str) -> str:
    """Return a text that begins with a capital, where that is one letter."""
    first = text[0].upper()
    return first + text[1:] if len(first) == 1 and unicodedata.is_normalized("NFKC", first + text[1:]) else text


def _spelled(text: str, found: Sequence[re.Match[str]], names: Names) -> dict[re.Match[str], str]:
    folded = ["".join(plain_words(match[0])) for match in found]
    near = pairwise(range(len(found)))
    beside = (pair for pair in near if text[found[pair[0]].end() : found[pair[1]].start()] == " ")
    pairs = {f"{folded[one]} {folded[two]}": (one, two) for one, two in beside}
    typed = [match[0] for match in found if match[0][0].isupper()]
    known = names([*folded, *typed, *pairs])
    forms = {place: form for place, one in enumerate(found) if (form := known.get(folded[place]) or known.get(one[0]))}
    for pair, places in pairs.items():
        if pair in known:
            forms |= dict(zip(places, known[pair].split(" "), strict=True))
    return {found[place]: form for place, form in forms.items()}


def normalise(question: str) -> str:
    """Fold a text for comparison: NFKC, case, white space, trailing punctuation; idempotent."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", question).casefold())
    return " ".join(folded.split()).rstrip(_TRAILING)


_SAME_F1 = 0.8  # of content words, from which one answer says only a little more than the other
_NEGATION = re.compile(r"no|not|never|none|without|cannot|(?:ca|do|did|does|is|was|were|are|could|would|should|wo)nt")


def same_answer(one: str | None, other: str | None, span: str = "", other_span: str = "") -> bool:
    """Return whether two answers say the same; None and "" mean that there is no answer.

    `span` is the highlighted part of an answer, if any: the date, name or number that was asked for.
    """
    if not one or not other:
        return not one and not other
    if normalise(one) == normalise(other):
        return True
    from engine.text.words import words  # more patterns than an exact hit has time to compile

    if is_negated(one) == is_negated(other):  # "at the front desk" is no more so in "not at the front desk"
        if span and other_span:
            return normalise(span) == normalise(other_span)
        if words(span) and f" {' '.join(words(span))} " in f" {' '.join(words(other))} ":
            return True
    shorter, longer = sorted((_content(one), _content(other)), key=len)
    extra = Counter(longer) - Counter(shorter)  # a negation or a number more can change an answer
    says_else = (_NEGATION.fullmatch(word) or any(map(str.isdigit, word)) for word in extra)
    left = iter(longer)
    is_part = bool(shorter) and all(word in left for word in shorter)  # in order
    return is_part and 2 * len(shorter) >= _SAME_F1 * (len(shorter) + len(longer)) and not any(says_else)


def _content(text: str) -> list[str]:
    from engine.text.words import words

    return [word for word in words(text) if word not in FUNCTION_WORDS or _NEGATION.fullmatch(word)]


def is_negated(text: str) -> bool:
    """Return whether a text has a negation."""
    return any(map(_NEGATION.fullmatch, _content(text)))


def agreed(reply: Answer) -> Answer:
    """Return a new reply without the mark of a rival on sources that say the same as its first in other words."""
    found = list(reply.sources)  # done once: an exact hit has no time to compare words
    for at, one in enumerate(found[1:], 1):
        if one.rival and one.quote != found[0].quote and not time_sensitive.instruction_end(one.quote):
            found[at] = replace(one, rival=not same_answer(found[0].quote, one.quote, reply.span))
    return replace(reply, sources=tuple(found))


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
    """Name a role adapter's additions to a model, by its digest: its requests, and the quote writer."""
    return f"{_ROLES} {version('roles')} {adapter} {_QUOTE}"


def by_gate(least: float, reader: str) -> str:
    """Name the judge of a model's answers with a reader, which quotes in their place; empty without a reader."""
    return reader and f"{_GATE} {by_quotes(least, reader)}"


def is_model(writer: str) -> bool:
    """Return whether a writer is a language model, whose prompt has the date."""
    return writer.startswith(_MODEL)


class PendingQuestion(Struct, frozen=True):
    """One question on its way; `generation` is that of the knowledge bank when it was begun."""

    text: str
    options: AskOptions
    key: Key
    generation: int
    now: datetime
    trace: Trace
    wording: Wording


class EmbeddedQuestion(Struct, frozen=True):
    """A question as it is understood, once the exact tier has nothing for it; `embedder` made its vector."""

    question: "Question"
    vector: "Vectors | None"
    embedder: str


class QueryContext(EmbeddedQuestion, frozen=True):
    """What a question is answered from; `read` names all that its writer reads of the evidence."""

    evidence: "Evidence"
    read: tuple[str, ...]


def wording_of(ledger: Ledger, text: str) -> Wording:
    """Return the wording of a question over the names that the archive holds; UsageError if it is empty."""
    return reword(text, lambda words: names_of(ledger, words))


def key_of(backend: Backend, ledger: Ledger, text: str, options: AskOptions, now: datetime) -> Key:
    """Return the key of a question; UsageError if it is empty."""
    return _key(backend.within(options.scope), ledger, *_in_document(ledger, text, options, now), now)


_NAMED = 3  # addresses in a notice
_END = 5  # newest mails of a thread whose status is asked
_THREAD = 100  # mails; more of one subject are a newsletter or a series, of which the retrieved passages are read


def matched_senders(ledger: Ledger, scope: Scope) -> list[str]:
    """Return a notice where the name in --from fits senders of several addresses; an address is one sender's."""
    from store.catalog import senders_named

    sender = (scope.sender or "").partition("\n")[0]  # addresses that are joined with a name come behind it
    is_name = sender and not is_address(sender)
    found = senders_named(ledger, scope.collection, sender) if is_name else []
    if len(found) < 2:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    shown = ", ".join(shorten(address, 60) for address in found[:_NAMED])
    return [f"--from {shorten(sender, 40)} fits {len(found)} addresses: {shown}{more}"]


def _in_document(ledger: Ledger, text: str, options: AskOptions, now: datetime) -> tuple[Wording, AskOptions, bool]:
    """Return a question's wording, its options, and whether it is about a whole document, which it is limited to."""
    found = None if options.after and not options.after.typed else whole_document_question(text)
    if found and found.name and options.scope == Scope():
        options = replace(options, scope=Scope(document=named_document(ledger, found.name, now)))
    elif found and found.name:
        found = None
    if found is None or options.scope.document is None:
        return wording_of(ledger, text), options, False
    return Wording(word_patterns("wordings")[found.aspect]), options, True


def named_document(ledger: Ledger, name: str, now: datetime) -> str | None:
    """Return the only meeting with all words of a name in its title, of its day, as "the budget meeting of 3 May"."""
    from engine.text.dates import find, without_days
    from store.documents import titled_documents

    days = find(name, now.date())
    wanted = without_days(title_words(name), days)
    if not days and not wanted:
        return None
    titled = titled_documents(ledger, ("transcript",), lambda _, title: set(wanted).issubset(plain_words(title)))
    found = [one.id for one in titled if not days or (one.day and any(each.holds(one.day) for each in days))]
    return found[0] if len(found) == 1 else None


def whole_of(ledger: Ledger, question: "Question", options: AskOptions) -> list[str]:
    """Return the documents that a question is about as a whole, oldest first: its meeting or mail, or a thread's mails.

    The thread is the only one whose subject has all words of its name; of one whose status is asked, its end.
    """
    from engine.text.people import bare_title
    from engine.text.question import synthesis
    from store.documents import titled_documents

    status = re.fullmatch(word_patterns("people")["status pattern"], question.text.strip(" ?"), re.IGNORECASE)
    if not (status or synthesis(question.text)):
        return []
    if options.scope.document and not options.after:
        return [options.scope.document]
    found = whole_document_question(question.text)
    name = status[1] if status else found.name if found else ""
    if not name or options.scope != Scope():
        return []
    wanted = set(title_words(name)) - FUNCTION_WORDS
    mails = titled_documents(ledger, ("mail",), lambda _, title: wanted.issubset(plain_words(title)))
    subjects = {bare_title(one.title) for one in mails}
    read = mails[:_END] if status else mails
    return [one.id for one in reversed(read)] if wanted and len(subjects) == 1 and len(mails) <= _THREAD else []


def _key(backend: Backend, ledger: Ledger, wording: Wording, options: AskOptions, whole: bool, now: datetime) -> Key:
    embedded = ledger.get("vectors") or ""  # the table of vectors, which is named for the embedder that made them
    at = None if whole else time_sensitive.moment(wording.text, now, dated=is_model(backend.fingerprint))
    return key(wording.text, options.scope, f"{backend.fingerprint}/{embedded}/{options.k}", at)


def begin(backend: Backend, ledger: Ledger, text: str, options: AskOptions, now: datetime) -> PendingQuestion:
    """Start answering a question; UsageError if it is empty."""
    trace = Trace()
    with trace.step("key"):
        # The generation is read first: any later change makes this answer stale.
        generation = ledger.generation
        wording, options, whole = _in_document(ledger, text, options, now)
        key = _key(backend, ledger, wording, options, whole, now)
        return PendingQuestion(text, options, key, generation, now, trace, wording)


def understood(ledger: Ledger, text: str, now: datetime) -> "Question":
    """Analyse a question over the names that the archive holds; UsageError if it is empty."""
    from engine.text.question import understand  # more patterns than an exact hit has time to compile

    wording = wording_of(ledger, text)
    return understand(wording.text, now, wording.names)


def embed(backend: Backend, ask: PendingQuestion) -> EmbeddedQuestion:
    """Understand and embed; of an exact question about the archive, return what was found for it, as a QueryContext."""
    with ask.trace.step("understand"):
        from engine.text.question import understand

        question = understand(ask.wording.text, ask.now, ask.wording.names)
    if found := backend.count(question, ask.options, ask.trace):
        return QueryContext(question, None, "", found, fingerprint(found, ask.key.writer))
    vector = backend.embed(question.text, ask.trace)
    questions = None if vector is None else backend.question_vectors()
    return EmbeddedQuestion(question, vector, questions.embedder if questions else "")


def gather_context(backend: Backend, ask: PendingQuestion, asked: EmbeddedQuestion | None = None) -> QueryContext:
    """Retrieve; understand and embed before, unless that was done."""
    asked = asked or embed(backend, ask)
    if isinstance(asked, QueryContext):
        return asked
    evidence = backend.retrieve(asked.question, asked.vector, ask.options, ask.trace)
    return QueryContext(asked.question, asked.vector, asked.embedder, evidence, fingerprint(evidence, ask.key.writer))


def fingerprint(evidence: Evidence, writer: str) -> tuple[str, ...]:
    """Name all that a writer reads of the evidence; a model alone does not read the scores, as quotes do."""
    scored = not is_model(writer) or any(f"/{name} " in writer for name in (_ROLES, _GATE))
    return evidence.fingerprint(scored=scored)


def store_answer(
    bank: AnswerBank,
    settings: Settings,
    ask: PendingQuestion,
    asked: QueryContext,
    reply: Answer | None,
    origin: Origin = "user",
    source: str = "",
) -> CachedAnswer:
    """Keep a reply under its question; None if it was only read ahead, which takes no answer's place that holds."""
    there = bank.find(ask.key.digest) if reply is None else None
    if there and there.state == "answered" and there.evidence == asked.read:
        return there
    state: State = "answered" if reply else "prefilled"
    text, tier = (json.dumps(reply.to_json()), reply.tier) if reply else ("", "full")
    made = (ask.generation, tier, ask.now.timestamp(), ask.trace.ms()["total"])
    about = (ask.text, ask.key.scope, ask.key.writer, ask.key.day)
    kept = CachedAnswer(*about, text, asked.read, *made, state=state, origin=origin, source=source)
    # The cosine above which a new chunk is among the nearest; none is in one document, or without vectors.
    nearest, floor = asked.evidence.nearest[: settings.experiment.refresh_k], None
    if asked.vector is not None and not ask.options.scope.document:
        floor = nearest[-1] if len(nearest) == settings.experiment.refresh_k else 0.0
    bank.put(ask.key.digest, kept, settings.bank.bytes, vector_of(asked), floor, asked.embedder)
    link_documents(bank.ledger, ask.key.digest, documents_of(asked.evidence))
    return kept


def documents_of(evidence: Evidence) -> set[str]:
    """Return the documents of all chunks and their copies."""
    return {hit.chunk.document for one in evidence.passages for hit in one.all_hits}


def answer_of(kept: CachedAnswer) -> Answer:
    """Return the answer of an entry that has one."""
    return Answer.from_json(json.loads(kept.reply))


def relocate(kept: CachedAnswer, evidence: Evidence) -> CachedAnswer:
    """Return an entry with its sources where they are now, since files are moved."""
    return dataclasses.replace(kept, reply=json.dumps(answer_of(kept).relocate(evidence.sources).to_json()))


def pending_entry(ask: PendingQuestion, read: tuple[str, ...]) -> CachedAnswer:
    """Return the entry of a question that was given another one's answer, made from `read`."""
    made = (ask.generation, "semantic", ask.now.timestamp(), ask.trace.ms()["total"])
    return CachedAnswer(ask.text, ask.key.scope, ask.key.writer, ask.key.day, "", read, *made, state="pending")


def vector_of(asked: EmbeddedQuestion) -> bytes | None:
    """Return a question's vector as bytes of float32, as the ledger stores it; None without an embedder."""
    return None if asked.vector is None else asked.vector.astype("float32").tobytes()
