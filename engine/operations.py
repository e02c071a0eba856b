"""Operations on an open session: ingest, embed, search, show, check; one function each.

`READS` has the read-only ones, which the background server runs by name: a new one is a function there, and a function
that shows its result. Also turns typed filters (people, days, a collection) into a scope.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, datetime, time
from functools import partial
from itertools import chain, islice
from pathlib import Path
from time import monotonic
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Literal, get_type_hints
from urllib.parse import unquote

from msgspec import convert

from engine.session import Session
from engine.text.terminal import line, opening, run_opener, typed, valid_text
from engine.types import AskOptions, Check, Filters, Listing, ListOptions, LoopKind, Person, Report, Source, Trace
from store.errors import Locked, PkbError, UsageError
from store.home import Home, existing
from store.types import Scope, Vectors, replace

if TYPE_CHECKING:
    from engine.ingest.imap import Fetched, MailAccount, MailConnection
    from engine.ingest.pipeline import Ingest, Settled, Summary
    from engine.types import Evidence
    from store.catalog import Problem, SourceRoot
    from store.integrity import Finding, Repaired


def missing_vectors(opened: Session) -> int:
    """Count the chunks without a vector of the embedder in use, which may be another than made those there are."""
    changed = opened.ledger.get("vectors") and opened.question_embedder is None
    return opened.ledger.count("chunks") if changed else opened.ledger.unembedded


def embed(opened: Session) -> Iterator[tuple[int, int]]:
    """Fill in missing vectors, then tidy the tables; DiskFull."""
    from engine.ingest.chunking import embed
    from store.documents import VectorStore

    opened.ledger.renew()
    with opened.home.naming_disk("pkb ingest"):
        vectors = VectorStore(opened.ledger, opened.tables)
        try:
            for step in embed(vectors, opened.embedder, opened.locks, partial(_meet, opened), opened.cluster):
                yield step
                if opened.mapped.is_behind() or not step[1]:  # before questions are to find the last ones
                    with opened.locks.writer(), vectors.keeping_chunks():
                        _index(opened)
            tidy(opened)
        finally:
            if not opened.mapped.is_behind():  # else it takes a question long to read them: the next update lists them
                vectors.show()


def tidy(opened: Session) -> None:
    """Bring the mapped index up to date, then compact the tables where that is worth it."""
    with opened.locks.writer():
        _index(opened)
    _compact(opened)


_FEWEST, _WORN = 10, 0.1  # documents, and of all: where so many were removed, their texts go at once


def _index(opened: Session, *, frees: bool = True) -> None:
    """Bring the mapped index up to date; documents on which ledger and tables differ are removed from both before."""
    from engine.models.runtime import release
    from store.database import DOUBTFUL

    if frees:  # to look through a million files and messages for it takes seconds
        release()  # what parsing, compacting and embedding took
    opened.mapped.update()
    if opened.ledger.get(DOUBTFUL):
        opened.knowledge.recover()
        opened.mapped.update()


def _compact(opened: Session, removed: int = 0) -> None:
    """Compact the tables where that is worth it, unless somebody writes or reads for long: then another run does."""
    is_worn = removed >= max(_FEWEST, _WORN * opened.catalogue.counts()["documents"])
    if opened.knowledge.is_untidy or is_worn:
        with suppress(Locked), opened.locks.rewriter(0.0):
            with opened.locks.alone(0.0, 1):
                pass  # nobody reads for long, for whom all would be written in vain
            opened.knowledge.compact(opened.locks.alone)


def _meet(opened: Session, ids: Sequence[str], vectors: Vectors) -> None:
    """Note which kept questions new chunks are near to: idle answers those first."""
    from store.answers import RefreshCandidates

    hints = RefreshCandidates(opened.ledger)
    for key, row in opened.question_vectors.affected_by(vectors):
        hints.add([key], ids[row], opened.now.timestamp())


def search(opened: Session, text: str, scope: "Scope", k: int) -> "Evidence":
    """Retrieve without answering."""
    from engine.ask.keys import understood
    from engine.retrieval.evidence import gather

    question, catalogue = understood(opened.ledger, text, opened.now), opened.catalogue  # NoStore before a lock is made
    with opened.locks.reader():
        return gather(opened.reader, catalogue, opened.question_embedder, question, AskOptions(scope, k), Trace())


def search_results(opened: Session, text: str, scope: "Scope", k: int) -> list[tuple[Source, ...]]:
    """Retrieve without answering; return the places of each passage, with its text as their quote."""
    found = search(opened, text, scope, k)
    return [replace(found, passages=(one,)).sources([one.text]) for one in found.passages]


def documents(opened: Session, path: str, message_id: str | None) -> "list[dict[str, Any]]":
    """Return the documents that a file holds, or those of a Message-ID, with the lines that sources name."""
    from engine.ingest.transcripts import turns_to_read
    from engine.retrieval.evidence import shown

    known, wanted = opened.catalogue, (message_id or "").strip("<>")
    places = [p for p in known.places_in(path) if not wanted or p.message_id == wanted]
    if path.startswith("mid:"):  # RFC 2392
        found = known.documents_with_message_id(unquote(path.removeprefix("mid:")))
        places = [p for one in found for p in known.places(one)[:1] if p.item >= 0]
    with opened.locks.reader():
        rows = shown(opened.reader, opened.catalogue, places)
    return [row | {"turns": turns_to_read(row["text"])} if row["kind"] == "transcript" else row for row in rows]


def open_source(opened: Session, source: "Source", instead: str) -> None:
    """Open the file of a source in its program, an attached one as a private copy; PkbError, which names `instead`."""
    from engine.ingest.files import attached_file

    path, message, place = source.path, source.message_id, source.place
    if source.role == "attachment" and (found := attached_file(path, message or (source.title, source.date), place)):
        name, message = re.sub(r"[^\w.() -]", "_", found[0].rpartition("/")[2]).lstrip(".")[-100:], None
        shutil.rmtree(opened.home.opened, ignore_errors=True)  # of the file opened before
        opened.home.opened.mkdir(mode=0o700, parents=True)
        copy = opened.home.opened / (name or "file")
        copy.touch(0o600)
        copy.write_bytes(found[1])
        path = str(copy)
    run_opener(opening(path, message, instead, opened.environ, sys.platform), instead)


def thread(opened: Session, title: str, people: Sequence[str]) -> "list[dict[str, Any]]":
    """Return the mails of a subject, with or without "Re:", to or from one of these people: newest first, as shown."""
    from engine.retrieval.evidence import shown
    from engine.text.people import bare_title, name_and_address
    from store.documents import titled_documents

    def keys(people: Iterable[str]) -> set[str]:
        return {(name_and_address(one)[1] or one).casefold() for one in people}

    found = titled_documents(opened.ledger, ("mail",), lambda _, other: bare_title(other) == bare_title(title) != "")
    places = [place for one in found for place in opened.catalogue.places(one.id)[:1]]
    with opened.locks.reader():
        rows = shown(opened.reader, opened.catalogue, places)
    return [row for row in rows if keys(people) & keys([row["sender"], *row["recipients"]])]


_LINES = re.compile(r"(?::|, lines )\d+-\d+(?: of the (?:message|text))?\Z")  # behind the file of a source


def source_number(typed: str) -> int | None:
    """Return the number of a source; None for the name of a file, which may be made of digits: ./3."""
    return int(typed) if typed.isascii() and typed.isdecimal() and len(typed) <= 4 else None  # no answer has more


def list_documents(opened: Session, options: "ListOptions") -> "Listing":
    """Return documents by date, and how many there are."""
    from engine.retrieval.evidence import listed

    catalogue, about = opened.catalogue, None
    with opened.locks.reader():
        if options.about:
            from engine.ask.archive import documents_about

            about = documents_about(opened.reader, catalogue, options.scope, options.about)
        return listed(opened.reader, catalogue, options, about)


def noted(problems: "Iterable[Problem]") -> list[dict[str, Any]]:
    """Return items by kind: those that were skipped, that look misread, that were left out; as JSON shows them."""
    from engine.ingest.types import KINDS, LEFT_OUT

    told = {kind: said for kind, (_, said, _) in KINDS.items()} | {state: f"left out as {state}" for state in LEFT_OUT}
    order, found = ["skipped", *told], dict[tuple[str, str], list[dict[str, Any]]]()
    for one in problems:
        for kind in [*(["skipped"] if one.reason else []), *one.kinds]:
            found.setdefault((kind, told.get(kind, one.reason)), []).append({"path": one.path, "item": one.item})
    ranked = sorted(found.items(), key=lambda pair: order.index(pair[0][0]))
    return [{"kind": kind, "meaning": said, "count": len(items), "items": items} for (kind, said), items in ranked]


def problems(opened: Session) -> list[dict[str, Any]]:
    """Return the problems recorded for all files, grouped by kind; an empty list if there is no home."""
    roots = opened.catalogue.roots() if opened.there else []
    return noted(dict.fromkeys(one for root in roots for one in opened.catalogue.problems(root.path)))


def open_loops(opened: Session, scope: Scope, kind: LoopKind | None, limit: int | None) -> Report:
    """Return open tasks and unanswered questions, by the words of later documents."""
    from engine.retrieval.open_loops import open_loops

    catalogue = opened.catalogue
    with opened.locks.reader():
        return open_loops(opened.reader, catalogue, scope, kind, limit, opened.now, opened.me)


def meeting(opened: Session, name: str, scope: "Scope", since: bool) -> "Report":
    """Return what the newest meeting of a name brought, or what changed since; UsageError if it fits none."""
    from engine.retrieval.reports import report_meeting

    catalogue = opened.catalogue.within(scope)
    with opened.locks.reader():
        return report_meeting(opened.reader, catalogue, name, scope, opened.now.date(), since=since)


_WRITING_S = 60.0  # a digest's model; where that is over, the rest is quoted


def digest(opened: Session, scope: "Scope", in_words: bool) -> "Report":
    """Return what the days since a scope's first brought, by their words, and the cached answers that changed.

    With `in_words` a language model that is no small one tells the items, where they support what it says.
    """
    from engine.retrieval.reports import report_digest
    from store.answers import Notices

    since, catalogue = datetime.combine(scope.since or opened.now, time.min), opened.catalogue.within(scope)
    is_part = scope.collection or opened.collection or scope.sender or scope.recipient
    changed = [] if is_part else Notices(opened.ledger).changed(since.timestamp())
    with opened.locks.reader():
        found = report_digest(opened.reader, catalogue, scope, opened.now.date(), changed)
    return _in_words(opened, found) if in_words and found.items else found


def _in_words(opened: Session, found: "Report") -> "Report":
    from engine.llm.generate import in_words

    until = monotonic() + _WRITING_S
    try:
        if (model := opened.model) is None or model.roles:
            return found
        items = in_words(model.load, found.items, lambda: monotonic() < until)
    except PkbError as error:  # a cron mail is better without words than not sent
        return replace(found, writer=f"in quotes alone: {error.message}")
    told = "; ".join(filter(None, [f"in words of {model.name} where a source supports them", model.warning]))
    return replace(found, items=tuple(items), writer=told)


def people(opened: Session, name: str, scope: "Scope", limit: int) -> tuple[Person, ...]:
    """Return up to `limit` people whom a name or an address may stand for, with what is told of them; without, all."""
    from engine.ask.contacts import Directory

    catalogue = opened.catalogue.within(scope)
    parts = (opened.reader, catalogue, lambda: opened.me, scope.inside(catalogue.collection), opened.ties)
    with opened.locks.reader():
        return tuple(Directory(*parts).people(name, limit))


def completed(opened: Session, text: str, before: list[Any]) -> str:
    """Return a follow-up that the language model has rewritten, by the turns before it; empty if there is no model."""
    from engine.ask.followup import Turn, with_model  # more patterns than a search has time to compile

    model = opened.model_for("condense")
    return with_model(model.load)(text, convert(before, list[Turn])) if model else ""


_OWN = search_results, documents, thread, list_documents, open_loops, meeting, digest, people, completed
# By the name under which the background server runs them, too; what they take and return may travel.
READS: dict[str, Callable[..., Any]] = {one.__name__: one for one in _OWN}


def types_of(operation: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the type of what an operation takes beside the session, as a tuple, and that of what it returns."""
    _, *taken, returned = get_type_hints(operation).values()
    return GenericAlias(tuple, tuple(taken)), returned


def check(opened: Session, *, read_data: bool, repair: bool) -> "tuple[list[Finding], Repaired]":
    """Examine the store, after repairing it if asked to; returns the findings and what is left to the next ingest."""
    opened.refuse_reader()
    if repair:
        opened.refuse_unsafe()
    else:
        _ = opened.ledger  # NoStore before LanceDB is imported
    from store import integrity

    if repair and integrity.ledger_is_damaged(opened.home):  # the tables go, too: it alone knows their sources
        opened.make()
        with opened.locks.exclusive():
            integrity.rebuild_ledger(opened.home)
        opened.on_notice(f"rebuilt {opened.home.ledger}: all documents must be read again")
    ledger = opened.lasting_ledger if repair else opened.ledger
    parts, repaired = (opened.home, ledger, opened.tables), integrity.Repaired()
    with opened.locks.exclusive() if repair else opened.locks.writer():
        if repair:
            repaired = integrity.repair(*parts, opened.knowledge)
        return list(integrity.examine(*parts, read_data=read_data)), repaired


OnProgress = Callable[[str, int, int | None], None]  # a step's name, how far it is, and how far it goes, if known


def ingest(
    opened: Session,
    roots: "Sequence[SourceRoot]",
    missing: "Sequence[SourceRoot]",
    *,
    prune: bool,
    restore: bool = False,
    on_progress: OnProgress = lambda *_: None,
    settled: "Settled | None" = None,
) -> "tuple[Summary, list[SourceRoot]]":
    """Bring every root up to date; returns the missing ones whose documents were kept. DiskFull."""
    with opened.home.naming_disk("pkb ingest"):
        finish_forgetting(opened, on_progress)
        opened.ledger.renew()
        run = ingest_run(opened, prune=prune, restore=restore, settled=settled)
        with opened.locks.writer(), opened.ledger.many_changes():
            if opened.ledger.count("chunks"):
                _index(opened)  # what is removed here is read again below
            # A single file is not a disk: if its folder exists and it does not, it was removed.
            there = [root for root in missing if prune or Path(root.path).parent.exists()]
            lost = [one for one in there if prune or os.fsencode(one.path) in opened.catalogue.files(one.path)]
            for root in lost:
                run.drop_root(root)
            for root in roots:
                for progress in run.run(root):
                    on_progress(*progress)
                    if progress[0] == "keep" and opened.mapped.is_behind():
                        _index(opened, frees=False)
                opened.catalogue.mark_read(root.path, opened.now)
            opened.knowledge.remove_leftovers(opened.home.kv)
            _index(opened)
        _compact(opened, run.summary.removed)
    return run.summary, [root for root in missing if root not in lost]


def ingest_run(opened: Session, *, prune: bool, restore: bool = False, settled: "Settled | None" = None) -> "Ingest":
    """Make an ingest run, which leaves files that are not settled for later."""
    from engine.ingest.chunking import read_ahead
    from engine.ingest.pipeline import Guard, Ingest
    from engine.ingest.types import ParseLimits

    experiment, chosen = opened.settings.experiment, opened.settings.ingest
    states, reads = frozenset(chosen.leave_out.split()), chosen.attachments == "read"
    limits = ParseLimits(file_bytes=chosen.file_bytes, leave_out=states, attachments=reads)
    limits = replace(limits, ocr=chosen.ocr, seconds=600.0) if chosen.ocr else limits  # a page takes seconds
    guard = Guard(experiment.gone_share, experiment.gone_count, prune)
    aside = (opened.home.data, opened.home.cache)
    read_all = opened.cluster.read_all if opened.cluster else read_ahead
    parts = (opened.ledger, opened.knowledge, limits, guard, settled)
    return Ingest(*parts, restore=restore, aside=aside, read_all=read_all)


def finish_forgetting(opened: Session, on_progress: OnProgress) -> None:
    """Finish a `pkb forget` that was killed; if others are reading, the next run does it."""
    from engine.text.words import content_words
    from store.erasure import Eraser, is_unfinished

    if is_unfinished(opened.ledger) and not opened.home.source:
        with suppress(Locked), opened.locks.exclusive():
            eraser = Eraser(opened.home, opened.ledger, opened.tables, opened.mapped, content_words)
            erased = eraser.finish(opened.now.timestamp(), on_progress)
            if erased.left:
                opened.on_notice(f"something forgotten is still in {line(erased.left[0])}; try: pkb forget")


def absolute_path(path: Path) -> Path:
    """Return an absolute path without dots and tildes; a tilde that is nobody's home is a name like any other."""
    with suppress(RuntimeError, ValueError):
        path = path.expanduser()
    return Path(os.path.normpath(path.absolute()))


def choose_roots(
    opened: Session, paths: Sequence[Path], kind: str | None, collection: str | None
) -> "tuple[list[SourceRoot], list[SourceRoot]]":
    """Return the roots to look at, and the known ones that are not there; UsageError for a named one that is not."""
    known = opened.catalogue.roots() if opened.there else []
    if not paths and not known:
        raise UsageError("no folder given", "pkb ingest ~/Mail")
    asked = list(dict.fromkeys(place_of(opened, path) for path in paths))
    if gone := [str(path) for path in asked if not path.exists()]:
        raise UsageError(f"{gone[0]} does not exist; nothing was changed", "pkb ingest FOLDER")
    before = {root.path: root for root in known}
    there = asked or [Path(path) for path in before if Path(path).exists()]
    missing = [] if asked else [root for path, root in before.items() if not Path(path).exists()]
    outermost = [path for path in there if not any(other in path.parents for other in there)]
    return [root_at(str(path), before, kind, collection) for path in outermost], missing


def place_of(opened: Session, path: Path) -> Path:
    """Return an absolute path: of a mail account that of the folder it is read into, of a source that of its file."""
    path = path if os.path.lexists(absolute_path(path)) else Path(_LINES.sub("", str(path)))
    if not str(path).lower().startswith("imap"):  # most have no account, and need not wait for TLS
        return absolute_path(path)
    from engine.ingest.imap import place_at

    return place_at(opened.home.mail, str(path)) or absolute_path(path)


AskPassword = Callable[["MailAccount"], str | None]  # None: nobody is there
_NOBODY, _TERMINAL = "no password: no keyring has it, and nobody is here to type it", "the same command at a terminal"


def connect(opened: Session, account: "MailAccount", ask: AskPassword) -> "tuple[MailConnection, str | None]":
    """Log in to a mail account; returns the password, too, if it was typed. NoPassword after three tries."""
    from engine.ingest.imap import MailConnection, NoPassword, kept_password

    kept, error = kept_password(account), NoPassword(f"{line(str(account))}: {_NOBODY}", _TERMINAL)
    for password in islice(chain([kept] if kept else [], iter(partial(ask, account), None)), 3):
        try:
            connection = MailConnection(account, password, opened.settings.ingest.ca)
        except NoPassword as refused:
            error = refused
        else:
            return connection, None if password == kept else password
    raise error


def fetch(
    opened: Session, connection: "MailConnection", on_progress: OnProgress, *, restore: bool = False
) -> "Fetched":
    """Read new mail of an account into its folder below the home; `ingest` indexes it. PkbError, DiskFull."""
    from engine.ingest.imap import MailReader
    from engine.ingest.mail import read_mail
    from engine.ingest.types import ParseLimits, item_or_bug
    from store.erasure import Tombstones

    tombstones, limits = Tombstones(opened.ledger), ParseLimits()

    def is_forgotten(raw: bytes) -> bool:
        found = item_or_bug(0, lambda: read_mail(raw, limits, 0)).document
        return found is not None and bool(tombstones.found(found, ""))

    checks = is_forgotten if len(tombstones) and not restore else lambda _: False
    with opened.home.naming_disk("pkb ingest"), opened.locks.mail():
        return MailReader(connection, opened.home.mail, limits.message_bytes, checks, on_progress, restore).read()


def root_at(path: str, before: "dict[str, SourceRoot]", kind: str | None, collection: str | None) -> "SourceRoot":
    """Fill in missing options from an earlier ingest of this folder, or of the nearest one above it."""
    from store.catalog import SourceRoot

    above = next((before[str(p)] for p in (Path(path), *Path(path).parents) if str(p) in before), None)
    usual = SourceRoot(path, above.collection if above else line(Path(path).name) or "/", above.kind if above else None)
    return SourceRoot(path, collection or usual.collection, kind or usual.kind)


def refuse_missing(summary: "Summary", missing: "Sequence[SourceRoot]") -> None:
    """Raise PkbError if so much has disappeared that a disk may be missing."""
    if summary.refused:
        message = f"{summary.refused:,} documents disappeared at once and were kept: a disk may be missing"
        raise PkbError(message, "pkb ingest --prune, to remove them")
    if missing:
        where = line(missing[0].path)
        raise PkbError(f"{where} is missing; its documents were kept: a disk may be missing", "pkb ingest --prune")


CacheUse = Literal["use", "refresh", "off", "stale"]
# Whether an answer may be read from the cache, whether it is kept there, and whether new mail may have changed it.
CACHE_USES: dict[CacheUse, tuple[bool, bool, bool]] = {
    "use": (True, True, False), "refresh": (False, True, False), "off": (False, False, False),
    "stale": (True, True, True),
}  # fmt: skip


def scope_of(opened: Session, filters: Filters) -> Scope:
    """Return the scope of --from, --to, --since, --until, --in and --doc; UsageError names a value that is invalid."""
    since, until, document = filters.since, filters.until, filters.document
    flags = {"--from": filters.sender, "--to": filters.recipient, "--in": filters.collection, "--doc": document}
    for flag, name in flags.items():
        if name is not None and not typed(name, flag).strip():  # which would limit nothing
            raise UsageError(f"{flag} is empty", "pkb ask --help")
    first = None if since is None else _day("--since", since, opened.now)
    last = None if until is None else _day("--until", until, opened.now, end=True)
    if first and last and first >= last:
        raise UsageError(f"--since {since} is after --until {until}", "pkb ask --help")
    who, whom, where, _ = (None if name is None else valid_text(name.strip()) for name in flags.values())
    if "me" in (str(who).lower(), str(whom).lower()):
        if not opened.me:
            raise UsageError("pkb does not know which address is yours", "pkb me YOU@EXAMPLE.ORG")
        mine = "\n".join(opened.me)
        who, whom = (mine if name and name.lower() == "me" else name for name in (who, whom))
    who, whom = (name and _with_ties(opened, name) for name in (who, whom))
    if opened.collection not in (None, where := where or opened.collection):
        raise UsageError(f"this view is limited to the collection {opened.collection}")
    if where is not None and where not in (known := opened.catalogue.by_collection()):
        raise UsageError(f"no collection {where}, only {', '.join(known) or 'none'}", "pkb stats")
    scope = Scope(who, whom, first, last, where)
    if document is None:
        return scope
    # The days only choose the document: within it, a question has the same answer with and without them.
    return replace(scope, since=None, until=None, document=document_named(opened, document, scope))


def _with_ties(opened: Session, name: str) -> str:
    """Return a name with the addresses that the user has joined with those of senders of that name."""
    if not opened.ties.same or re.search(r"[@.\n]", name):  # an address, a domain, or several
        return name
    from store.catalog import senders_named

    return "\n".join([name, *sorted(opened.ties.others(senders_named(opened.ledger, None, name)))])


def document_named(opened: Session, name: str, scope: Scope) -> str:
    """Return the document that a file name or words of a title identify, among those of the scope's days.

    UsageError if there is none, or more than one. An exact title takes precedence over titles that contain it.
    """
    from store.documents import titled_documents

    shown = opened.catalogue.within(scope)
    of_file = {place.document for place in shown.places_in(str(place_of(opened, Path(name))))}
    wanted = name.casefold().split()

    def accepts(document: str, title: str) -> bool:
        return document in of_file if of_file else all(word in title.casefold() for word in wanted)

    titled = titled_documents(opened.ledger, ("transcript", "mail", "file"), accepts)
    found = [one for one in titled if scope.has_day(one.day) and shown.places(one.id)]
    found = [one for one in found if one.title.casefold().split() == wanted] or found
    if len(found) == 1:
        return found[0].id
    if not found:
        raise UsageError(f"--doc {name} matches no document", "pkb list")
    # Days alone, because titles are text of mail.
    days = ", ".join(str(one.day or "no date") for one in found[:3]) + (", ..." if len(found) > 3 else "")
    raise UsageError(f"--doc {name} matches {len(found)} documents ({days}); choose with --since and --until",
                     f"pkb list {name}")  # fmt: skip


def _day(flag: str, day: str, now: datetime, *, end: bool = False) -> date:
    """Return the first day of a day, month or year, or with `end` the day after it; UsageError naming the flag."""
    from engine.text.dates import first_day

    try:
        return first_day(day, now.date(), end=end)
    except (ValueError, OverflowError):
        example = "2024-05-03, 2024-05, 2024, 30d, yesterday or last week"
        raise UsageError(f"{flag} {day} is not a day like {example}", "pkb ask --help") from None


def unfit_places(home: Home) -> list[Check]:
    """Return why it is not safe to write to this home: the problems that `doctor` finds with its folder and space.

    Where it cannot be written to at all, nothing: the error of the first write says so.
    """
    if not os.access(existing(home.data), os.R_OK | os.W_OK | os.X_OK):
        return []
    return [check for check in (home_check(home), space_check(home)) if check.state == "bad"]


def home_check(home: Home) -> Check:
    """Check that the folder of a home is there, writable and private."""
    place = existing(home.data)
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        found = f"{place} is not a folder that you can read and write"
        return Check("home", "bad", found, "fix its permissions, or set PKB_HOME to another folder")
    if place != home.data:
        return Check("home", "note", f"{home.data} will be created by the first ingest", "pkb ingest FOLDER")
    mode = home.data.stat().st_mode & 0o777
    found = f"{home.data}, mode {mode:o}"
    return Check("home", "bad", found, "pkb doctor --data --repair") if mode & 0o077 else Check("home", "ok", found)


def space_check(home: Home) -> Check:
    """Check the free space on the disk of a home."""
    free = shutil.disk_usage(existing(home.data)).free
    step = None if free >= 2 << 30 else "free some disk space"
    return Check("space", "bad" if free < 200 << 20 else "note" if step else "ok", f"{free / 1e9:.1f} GB free", step)
