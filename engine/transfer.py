"""Export of cached answers as JSON objects, import of them into another home.

An imported answer counts as stale until a question, or an idle run, has found the same evidence for it here.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import version
from typing import Any, BinaryIO, Literal, get_args

from msgspec import Struct, convert

from engine.ask.keys import (
    PendingQuestion,
    answer_of,
    begin,
    documents_of,
    embed,
    fingerprint,
    gather_context,
    is_model,
    scope_of,
    vector_of,
)
from engine.ask.updates import settled
from engine.operations import OnProgress
from engine.serve.process import Broken, refuse
from engine.session import Session
from engine.text.question import Synthesis, understand
from engine.types import SCHEMA, Answer, AskOptions, Evidence, Source, Trace, grouped, json_values
from store.answers import AnswerBank, CachedAnswer, Origin, RejectedAnswers
from store.errors import PkbError, UsageError
from store.history import link_documents
from store.types import Scope, replace

Row = dict[str, Any]
Imported = Literal["imported", "cached", "missing", "other_model", "other_day", "rejected", "no_room"]
OUTCOMES: tuple[Imported, ...] = ("imported", "cached", "missing", "other_model", "other_day", "rejected", "no_room")
_LONGEST = 4 << 20  # bytes of a line: fifty long sources take a tenth of it
_NEVER = 0  # the generation of an answer that was never found valid here
_LARGEST = 1 << 62  # of an integer
_LONGEST_MS = 86_400_000.0  # of a stage: a day
_MOST_TAU = 1.001  # a cosine, rounded
_FIRST_YEAR = 2000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all control characters but a tab and a line feed


class ExportedAnswer(Struct, frozen=True):
    """A cached answer as a file holds it: what its key was made of, its evidence, and the answer itself."""

    key: str  # in hex
    scope: Scope
    writer: str
    day: str | None
    evidence: tuple[str, ...]
    created: datetime
    made_ms: float
    origin: Origin
    source: str
    tau: float | None
    uses: int
    reply: Answer

    def to_json(self) -> Row:
        """Return the answer as JSON values."""
        return {"schema": SCHEMA, "kind": "answer", **json_values(self), "reply": self.reply.to_json()}

    @property
    def sources_asked(self) -> int:
        """Return how many sources were asked for; ValueError."""
        return int(self.writer.rpartition("/")[2])


class ImportReport(Struct, frozen=True):
    """How many answers came to what, and the numbers of the lines that could not be read."""

    counts: Mapping[str, int]
    corrupt: tuple[int, ...]

    def to_json(self) -> Row:
        """Return the report as JSON values."""
        return {"schema": SCHEMA, **self.counts, "corrupt": list(self.corrupt)}


def export(opened: Session) -> Iterator[Row]:
    """Yield what a file begins with, then each cached answer, the most used first."""
    bank = AnswerBank(opened.ledger)  # NoStore before anything is written
    yield {"schema": SCHEMA, "kind": "export", "version": version("pkb"), "created": opened.now.isoformat()}
    for key, cached in bank.answered():
        yield _exported(opened, key, cached).to_json()


def _exported(opened: Session, key: bytes, cached: CachedAnswer) -> ExportedAnswer:
    created = datetime.fromtimestamp(cached.created, opened.now.tzinfo)
    about = (key.hex(), scope_of(cached.scope), cached.writer, cached.day, cached.evidence, created, cached.made_ms)
    return ExportedAnswer(*about, cached.origin, cached.source, cached.tau, cached.uses, answer_of(cached))


def import_answers(
    opened: Session, lines: Iterable[bytes | None], name: str, on_progress: OnProgress = lambda *_: None
) -> ImportReport:
    """Import the answers of an export that hold here; a line of None is too long to be one.

    UsageError if the file, called `name` in messages, is no export, or is redacted.
    """
    numbered = enumerate(lines, 1)
    _check_header(next(numbered, (1, b""))[1], name)
    opened.on_wait()
    importer, counts, corrupt = Importer(opened), Counter[Imported](), list[int]()
    for number, line in numbered:
        if line is not None and not line.strip():
            continue
        try:
            exported = read_line(line)
            counts.update([importer.put(exported)] if exported else [])
            on_progress("import", counts.total(), None)
        except (Broken, UsageError):  # an empty question, too
            corrupt.append(number)
    return ImportReport({outcome: counts[outcome] for outcome in OUTCOMES}, tuple(corrupt))


def lines_of(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines of a file; None for one that is too long, which is never held as a whole."""
    while line := file.readline(_LONGEST):
        ended = line.endswith(b"\n") or len(line) < _LONGEST
        yield line if ended else None
        while not ended:
            line = file.readline(_LONGEST)
            ended = line.endswith(b"\n") or not line


def _check_header(line: bytes | None, name: str) -> None:
    try:
        header = _object(line)
    except Broken:
        header = {}
    if header.get("kind") != "export" or not isinstance(header.get("schema"), int):
        raise UsageError(f"{name} is not an export of pkb", "pkb export answers.jsonl")
    if header["schema"] != SCHEMA:
        raise PkbError(
            f"{name} was written by another version of pkb", "upgrade pkb on both machines, and export again"
        )
    if header.get("redacted"):  # earlier versions of pkb could mask names
        raise UsageError(f"{name} is redacted, and cannot be imported", "pkb export answers.jsonl")


def read_line(line: bytes | None) -> ExportedAnswer | None:
    """Return the answer in a line after the first, None for an abstract of earlier versions; Broken."""
    row = _object(line)
    if row.get("schema") != SCHEMA or row.get("kind") not in ("answer", "abstract"):
        raise Broken("a line of another kind")
    if row["kind"] == "abstract":
        return None
    try:
        read = convert(row | {"reply": json_values(Answer.from_json(row["reply"]))}, ExportedAnswer)
        _check(read)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Broken(f"an answer without {type(error).__name__}") from None
    return read


def _check(read: ExportedAnswer) -> None:
    """Raise ValueError if a value cannot be stored, or no cached answer can have it."""
    "".join((read.reply.question, read.source, read.writer, read.day or "", *read.evidence)).encode()
    read.created.timestamp()
    reply, sources = read.reply, read.reply.sources
    spans = (reply.highlight, len(reply.text or "")), *((source.span, len(source.quote)) for source in sources)
    sound = (
        read.created.tzinfo is not None and read.created.year >= _FIRST_YEAR,
        read.sources_asked > 0,
        all(0 <= ms <= _LONGEST_MS for ms in (read.made_ms, *reply.ms.values())),
        "total" in reply.ms,
        min(read.uses, *(reply.tokens or {}).values(), 0) == 0,
        read.tau is None or 0 <= read.tau <= _MOST_TAU,
        not any(map(_CONTROL.search, _shown(read))),
        is_model(read.writer) or (reply.writer, reply.model, reply.adapter) == ("quote", None, None),
        reply.correction is None,  # which is told once
        reply.synthesis is None or reply.synthesis in get_args(Synthesis),
        not any(source.copy for source in sources[:1]),
        0 <= reply.lead < max(1, len(grouped(sources))),
        all(span is None or 0 <= span[0] <= span[1] <= length for span, length in spans),
    )
    if not all(sound):
        raise ValueError


def _shown(read: ExportedAnswer) -> Iterator[str]:
    """Yield the texts of an answer that are shown and that no message here is compared with."""
    reply = read.reply
    texts = (reply.question, reply.text, reply.before, reply.context, reply.model, reply.adapter, read.source)
    yield from filter(None, (*texts, *(reply.tokens or {})))


def _object(line: bytes | None) -> Row:
    """Return the JSON object in a line; Broken."""
    try:
        row = json.loads((line or b"").decode(), parse_constant=refuse, parse_float=_finite, parse_int=_limited)
    except (ValueError, RecursionError):  # of which bad UTF-8 is one
        raise Broken("a line that is no JSON") from None
    if not isinstance(row, dict):
        raise Broken("a line without keys")
    return row


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(digits)
    return value


def _limited(digits: str) -> int:
    if abs(value := int(digits)) > _LARGEST:
        raise ValueError(digits)
    return value


class Importer:
    """Puts exported answers into the cache of one home."""

    def __init__(self, opened: Session) -> None:
        self._opened, self._bank = opened, AnswerBank(opened.lasting_ledger)
        self._backend = opened.backend

    def put(self, exported: ExportedAnswer) -> Imported:
        """Store an answer, unless it would not be made here in the same way from the same messages.

        UsageError if its question is empty.
        """
        self._opened.ledger.renew()
        ask = self._asked(exported)
        if ask.key.writer != exported.writer:
            return "other_model"
        if ask.key.day != exported.day:
            return "other_day"
        if self._keeps_its_own(ask, exported):
            return "cached"
        if self._is_rejected(ask, exported.reply):
            return "rejected"
        found = self._standing(ask, exported)
        return "missing" if found is None else self._store(ask, exported, *found)

    def _asked(self, exported: ExportedAnswer) -> PendingQuestion:
        """Ask its question as it was asked: one that names its document itself has a key with that document."""
        opened, options = self._opened, AskOptions(exported.scope, exported.sources_asked)
        backend = self._backend.within(exported.scope)
        ask = partial(begin, backend, opened.ledger, exported.reply.question, now=opened.now)
        asked, document = ask(options), exported.scope.document
        if asked.key.digest.hex() != exported.key and document and exported.scope == Scope(document=document):
            named = ask(replace(options, scope=Scope()))
            return named if named.key.digest.hex() == exported.key else asked
        return asked

    def _keeps_its_own(self, ask: PendingQuestion, exported: ExportedAnswer) -> bool:
        """Return whether an answer of this home stays: a newer one, one that is valid, or the same."""
        own = self._bank.find(ask.key.digest)
        if own is None or own.state != "answered":
            return False
        newer = own.created >= exported.created.timestamp()
        return newer or own.generation == self._opened.ledger.generation or own.evidence == exported.evidence

    def _is_rejected(self, ask: PendingQuestion, reply: Answer) -> bool:
        rejected = RejectedAnswers(self._opened.ledger).find(ask.key.digest)
        return rejected is not None and rejected[0] == (reply.text or "")

    def _standing(self, ask: PendingQuestion, exported: ExportedAnswer) -> tuple[Answer, Evidence] | None:
        """Return an answer with the places of its sources here; None if its messages differ here.

        Nor where names of people here give its question another form, or where a source does not say what it quotes.
        """
        if ask.key.digest.hex() != exported.key:
            return None
        question = understand(ask.wording.text, ask.now, ask.wording.names)
        evidence = settled(question, self._opened.retriever.reread(exported.evidence, exported.reply.scores))
        found = fingerprint(evidence, exported.writer) == exported.evidence
        if not found or not self._is_supported(ask, exported.reply, evidence):
            if not self._are_indexed(exported.evidence[:-1]):
                return None
            context = gather_context(self._backend, ask)  # how chunks were joined is known by retrieval alone
            if context.read != exported.evidence or not self._is_supported(ask, exported.reply, context.evidence):
                return None
            evidence = context.evidence
        moved = _relocated(exported.reply, evidence)
        return (moved, evidence) if moved else None

    def _is_supported(self, ask: PendingQuestion, reply: Answer, evidence: Evidence) -> bool:
        """Return whether evidence supports an answer, which may have been changed in the file.

        Quotes must be quoted here too; of a model's words some must be in it, and all addresses and links.
        """
        if reply.text is None:
            return True
        if not is_model(ask.key.writer):
            question = understand(ask.wording.text, ask.now, ask.wording.names)
            return self._backend.generate(question, evidence, Trace(asked=False), None).reply.text == reply.text
        from engine.llm.generate import ParsedAnswer, cite

        shown = range(len(evidence.passages))
        said = ParsedAnswer(reply.text, tuple(number + 1 for number in shown))
        return cite(said, ask.wording.text, evidence.passages, shown).stands

    def _are_indexed(self, chunks: Sequence[str]) -> bool:
        with self._opened.locks.reader():
            return len(self._opened.reader.chunks(chunks)) == len(set(chunks))

    def _store(self, ask: PendingQuestion, exported: ExportedAnswer, reply: Answer, evidence: Evidence) -> Imported:
        reply = replace(reply, matched_question=None, similarity=None)
        key, created = ask.key, min(exported.created, self._opened.now).timestamp()
        about = (reply.question, key.scope, key.writer, key.day, json.dumps(reply.to_json()), exported.evidence)
        made = (_NEVER, reply.tier, created, exported.made_ms)
        answer = CachedAnswer(*about, *made, origin=exported.origin, source=exported.source, tau=exported.tau)
        asked = embed(self._backend, ask)
        vector, budget = vector_of(asked), self._opened.room.bytes
        if not self._bank.has_room(key.digest, answer, budget, vector):
            return "no_room"
        self._bank.put(key.digest, answer, budget, vector, None, asked.embedder)
        link_documents(self._opened.ledger, key.digest, documents_of(evidence))
        return "imported" if self._opened.ledger.is_current else "missing"


def _relocated(reply: Answer, evidence: Evidence) -> Answer | None:
    """Return an answer with the places of its evidence; None if a quote is not in its passage."""
    quotes = list[str]()

    def sources(by_rank: Sequence[str], lead: int) -> tuple[Source, ...]:
        quotes.extend(by_rank)
        return evidence.sources(by_rank, lead) if len(by_rank) == len(evidence.passages) else ()

    moved = reply.relocate(sources)
    if len(quotes) != len(evidence.passages):
        return None
    pairs = zip(quotes, evidence.passages, strict=True)
    return moved if all(quote in passage.text for quote, passage in pairs) else None
