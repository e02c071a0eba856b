"""The first steps of every question, asked by a person or foreseen: its key, what it is asked with, its bank entry."""

import dataclasses
import json
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from engine.ask.keys import Key, Wording, is_model, key, reads_scores, reword
from engine.text.time_sensitive import WORDINGS, moment, plain_words, title_words, whole_document_question
from engine.types import Answer, AskOptions, Backend, Trace
from store.answers import AnswerBank, CachedAnswer, Origin, State, names_of
from store.database import Ledger
from store.history import link_documents
from store.types import Scope, replace

if TYPE_CHECKING:
    from engine.text.question import Question
    from engine.types import Evidence
    from store.hits import Vectors


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


class BankBudget(Struct, frozen=True):
    """What the bank may hold: bytes; and how many of the nearest chunks a new one must be among to be of interest."""

    bytes: int
    refresh_k: int


def wording_of(ledger: Ledger, text: str) -> Wording:
    """Return the wording of a question over the names that the archive holds; UsageError if it is empty."""
    return reword(text, lambda words: names_of(ledger, words))


def key_of(backend: Backend, ledger: Ledger, text: str, options: AskOptions, now: datetime) -> Key:
    """Return the key of a question; UsageError if it is empty."""
    backend = backend.within(options.scope)
    return _key(backend, ledger, _in_document(ledger, text, options, now), now)


_NAMED = 3  # addresses in a notice
_THREAD = 100  # mails; more of one subject are a newsletter or a series, of which the retrieved passages are read


def matched_senders(ledger: Ledger, scope: Scope) -> list[str]:
    """Return a notice where the name in --from fits senders of several addresses; an address is one sender's."""
    from engine.text.terminal import shorten
    from store.filters import is_address
    from store.provenance import senders_named

    sender = scope.sender
    if not sender or is_address(sender) or len(found := senders_named(ledger, scope.collection, sender)) < 2:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    shown = ", ".join(shorten(address, 60) for address in found[:_NAMED])
    return [f"--from {shorten(sender, 40)} fits {len(found)} addresses: {shown}{more}"]


class _Asked(Struct, frozen=True):
    """A question with its standard wording and options; `whole` if it asks about a whole document."""

    wording: Wording
    options: AskOptions
    whole: bool = False


def _in_document(ledger: Ledger, text: str, options: AskOptions, now: datetime) -> _Asked:
    """Put a question about a whole document into its standard wording, and limit it to that document."""
    found = None if options.after and not options.after.typed else whole_document_question(text)
    if found and found.name and options.scope == Scope():
        document = named_document(ledger, found.name, now)
        options = replace(options, scope=Scope(document=document))
    elif found and found.name:
        found = None
    if found is None or options.scope.document is None:
        return _Asked(wording_of(ledger, text), options)
    return _Asked(Wording(WORDINGS[found.aspect]), options, whole=True)


def named_document(ledger: Ledger, name: str, now: datetime) -> str | None:
    """Return the only meeting whose title has all words of a name and of its day; None unless there is one.

    "The budget meeting of 3 May" is one with the word budget in its title, of that day.
    """
    from engine.text.dates import DAY_NAMES, MONTH_NAMES, find
    from store.documents import titled_documents

    dated = [month.lower() for month in (*MONTH_NAMES, *DAY_NAMES)]
    days = find(name, now.date())
    wanted = [
        word
        for word in title_words(name)
        if not (days and (word[0].isdigit() or (len(word) > 2 and any(one.startswith(word) for one in dated))))
    ]
    if not days and not wanted:
        return None
    titled = titled_documents(ledger, ("transcript",), lambda _, title: set(wanted).issubset(plain_words(title)))
    found = [one.id for one in titled if not days or (one.day and any(each.holds(one.day) for each in days))]
    return found[0] if len(found) == 1 else None


def whole_of(ledger: Ledger, question: "Question", options: AskOptions) -> list[str]:
    """Return the documents that a question is about as a whole, oldest first: its meeting or mail, or a thread's mails.

    The thread is the only one whose subject has all words of its name.
    """
    from engine.text.people import without_replies
    from engine.text.question import synthesis
    from engine.text.words import FUNCTION_WORDS
    from store.documents import titled_documents

    if not synthesis(question.text):
        return []
    if options.scope.document and not options.after:
        return [options.scope.document]
    found = whole_document_question(question.text)
    if not found or not found.name or options.scope != Scope():
        return []
    wanted = set(title_words(found.name)) - FUNCTION_WORDS
    mails = titled_documents(ledger, ("mail",), lambda _, title: wanted.issubset(plain_words(title)))
    subjects = {without_replies(one.title).casefold() for one in mails}
    return [one.id for one in reversed(mails)] if wanted and len(subjects) == 1 and len(mails) <= _THREAD else []


def _key(backend: Backend, ledger: Ledger, asked: _Asked, now: datetime) -> Key:
    embedded = ledger.get("vectors") or ""  # the table of vectors, which is named for the embedder that made them
    writer, text = f"{backend.fingerprint}/{embedded}/{asked.options.k}", asked.wording.text
    at = None if asked.whole else moment(text, now, dated=is_model(backend.fingerprint))
    return key(text, asked.options.scope, writer, at)


def begin(backend: Backend, ledger: Ledger, text: str, options: AskOptions, now: datetime) -> PendingQuestion:
    """Start answering a question; UsageError if it is empty."""
    trace = Trace()
    with trace.step("key"):
        # The generation is read before all else: whatever changes from here on makes this answer look again.
        generation, asked = ledger.generation, _in_document(ledger, text, options, now)
        key = _key(backend, ledger, asked, now)
        return PendingQuestion(text, asked.options, key, generation, now, trace, asked.wording)


def understood(ledger: Ledger, text: str, now: datetime) -> "Question":
    """Analyse a question over the names that the archive holds; UsageError if it is empty."""
    from engine.text.question import understand  # more patterns than an exact hit has time to compile

    wording = wording_of(ledger, text)
    return understand(wording.text, now, wording.names)


def embed(backend: Backend, ask: PendingQuestion) -> EmbeddedQuestion:
    """Understand and embed."""
    with ask.trace.step("understand"):
        from engine.text.question import understand

        question = understand(ask.wording.text, ask.now, ask.wording.names)
    vector = backend.embed(question.text, ask.trace)
    questions = None if vector is None else backend.question_vectors()
    return EmbeddedQuestion(question, vector, questions.embedder if questions else "")


def gather_context(backend: Backend, ask: PendingQuestion, asked: EmbeddedQuestion | None = None) -> QueryContext:
    """Retrieve; understand and embed before, unless that was done."""
    asked = asked or embed(backend, ask)
    evidence = backend.retrieve(asked.question, asked.vector, ask.options, ask.trace)
    read = fingerprint(evidence, ask.key.writer)
    return QueryContext(asked.question, asked.vector, asked.embedder, evidence, read)


def fingerprint(evidence: "Evidence", writer: str) -> tuple[str, ...]:
    """Name all that a writer reads of the evidence; a model alone does not read the scores."""
    return evidence.fingerprint(scored=reads_scores(writer))


def store_answer(
    bank: AnswerBank,
    room: BankBudget,
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
    kept = CachedAnswer(*_about(ask), text, asked.read, *made, state=state, origin=origin, source=source)
    bank.put(ask.key.digest, kept, room.bytes, vector_of(asked), floor_of(ask, asked, room), asked.embedder)
    link_documents(bank.ledger, ask.key.digest, documents_of(asked.evidence))
    return kept


def documents_of(evidence: "Evidence") -> set[str]:
    """Return the documents of all chunks and their copies."""
    return {hit.chunk.document for one in evidence.passages for hit in one.all_hits}


def answer_of(kept: CachedAnswer) -> Answer:
    """Return the answer of an entry that has one."""
    return Answer.from_json(json.loads(kept.reply))


def relocate(kept: CachedAnswer, evidence: "Evidence") -> CachedAnswer:
    """Return an entry with its sources where they are now, since files are moved."""
    return dataclasses.replace(kept, reply=json.dumps(answer_of(kept).relocate(evidence.sources).to_json()))


def pending_entry(ask: PendingQuestion, read: tuple[str, ...]) -> CachedAnswer:
    """Return the entry of a question that was given another one's answer, made from `read`."""
    made = (ask.generation, "semantic", ask.now.timestamp(), ask.trace.ms()["total"])
    return CachedAnswer(*_about(ask), "", read, *made, state="pending")


def vector_of(asked: EmbeddedQuestion) -> bytes | None:
    """Return a question's vector as bytes of float32, as the ledger stores it; None without an embedder."""
    return None if asked.vector is None else asked.vector.astype("float32").tobytes()


def floor_of(ask: PendingQuestion, asked: QueryContext, room: BankBudget) -> float | None:
    """Return the cosine above which a new chunk is among the nearest; None where none can be, or without vectors."""
    if asked.vector is None or ask.options.scope.document:
        return None
    nearest = asked.evidence.nearest[: room.refresh_k]
    return nearest[-1] if len(nearest) == room.refresh_k else 0.0


def _about(ask: PendingQuestion) -> tuple[str, str, str, str | None]:
    return ask.text, ask.key.scope, ask.key.writer, ask.key.day


class Prepared(Struct, frozen=True):
    """What is now kept for a question, its reply where one was made, and the steps that took."""

    key: bytes
    kept: CachedAnswer
    reply: Answer | None
    trace: Trace


def prepare(
    ledger: Ledger,
    backend: Backend,
    room: BankBudget,
    text: str,
    options: AskOptions,
    now: datetime,
    *,
    decode: bool,
    origin: Origin = "predicted",
    source: str = "",
) -> Prepared:
    """Ready one question: with `decode` its answer is made, else only what it reads is; UsageError if it is empty.

    `source` says what foresaw it.
    """
    backend = backend.within(options.scope)
    ask = begin(backend, ledger, text, options, now)
    ask.trace.asked = False
    asked = gather_context(backend, ask)
    reply = None
    if decode:
        written = backend.generate(asked.question, asked.evidence, ask.trace, None)
        reply = replace(written.reply, question=text)
        written.keep()
    else:
        backend.prefill(asked.question, asked.evidence, ask.trace)
    return Prepared(
        ask.key.digest, store_answer(AnswerBank(ledger), room, ask, asked, reply, origin, source), reply, ask.trace
    )
