"""Forgetting: find the documents and questions that a request names, and erase them while nothing else runs."""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf, log2
from pathlib import Path
from shlex import quote

from engine.ingest.mail import read_mail
from engine.ingest.types import LEFT_OUT, ParseLimits
from engine.inventory import optional_parts
from engine.operations import OnProgress, absolute_path, place_of
from engine.session import Session
from engine.text.people import REPLIED, bare_title
from engine.text.terminal import count, line
from engine.text.words import FUNCTION_WORDS, RunIndex, WordRun, content_words, readings, word_runs, words
from engine.types import Source
from store.catalog import FormerNames
from store.documents import names_of_text, own_texts, quoting
from store.erasure import Erased, Eraser, answers_to, is_unfinished, names_of, questions_of, stored_questions
from store.errors import PkbError, UsageError
from store.locks import blocked, naming_writer
from store.readers import UserBook
from store.types import FEW_WORDS, Row, Scope, address, among, batches, is_rewritten, is_within, plain_words

_AT_ONCE = 5000  # documents in one condition
_HEADER = re.compile(rb"\A(?:[^\n]+\n)*")


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: files, folders and Message-IDs, limited by a scope; or a question."""

    targets: tuple[str, ...] = ()
    scope: Scope = field(default_factory=Scope)
    question: str | None = None
    quoting: bool = False  # also the messages that quote one of them
    deleted: bool = False  # only what the index no longer has


@dataclass(frozen=True, slots=True)
class Related:
    """Another document that holds some of the sentences, and why it `stays` even if quoting ones go."""

    row: Row
    sentences: int  # 0: a passage too short to be found elsewhere
    replies: bool
    stays: str

    @property
    def reason(self) -> str:
        """Return in words why it is named."""
        held = count(self.sentences, "sentence") if self.sentences else "" if self.stays else "a passage"
        verb = "has" if self.stays else "quotes"
        return ", ".join(filter(None, (self.stays, "replies" * self.replies, held and f"{verb} {held}")))


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """What would be forgotten, as things stood at a `generation` of the index."""

    documents: tuple[Row, ...] = ()  # newest first
    removed: tuple[str, ...] = ()  # ids of those that the index no longer has
    questions: tuple[str, ...] = ()  # as they are kept
    answers: int = 0  # cached ones to the questions
    left_out: tuple[tuple[str, Row], ...] = ()  # mail in files of the home that the index leaves out, by path
    copies: int = 0  # files in which the documents stand
    related: tuple[Related, ...] = ()  # other documents that hold their text
    left: int = 0  # removed ones that are not named
    generation: int = -1
    request: ForgetRequest = field(default_factory=ForgetRequest)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to forget; what an older pkb removed has left no names."""
        return not (self.ids or self.questions or self.left_out or (self.request.deleted and not self.request.targets))

    @property
    def ids(self) -> list[str]:
        """Return the ids of all documents, stored or removed."""
        return [*(row["id"] for row in self.documents), *self.removed]

    @property
    def quoted_by(self) -> int:
        """Count the documents that quote them and would keep that text."""
        return len({one.row["id"] for one in self.related if not one.stays}.difference(self.ids))


def plan(opened: Session, request: ForgetRequest) -> ForgetPlan:
    """Find what a request names; UsageError if a file or a Message-ID was never indexed, or nothing is named."""
    if request.question is not None:
        from engine.ask.keys import normalise  # those that differ at most in case, spaces and punctuation

        wanted, kept = normalise(request.question), stored_questions(opened.ledger)
        questions = tuple(sorted(one for one in kept if normalise(one) == wanted))
        return ForgetPlan(questions=questions, answers=answers_to(opened.ledger, questions), request=request)
    if not request.targets and request.scope == Scope() and not request.deleted:
        raise UsageError("say what to forget", "pkb forget --help")
    if request.scope != Scope() and request.deleted:
        raise UsageError("removed documents have no sender, day or collection any more", "pkb forget --deleted")
    with opened.locks.reader(), naming_writer(opened.home.ledger):
        return _plan(opened, request)


def _plan(opened: Session, request: ForgetRequest, related: Sequence[Related] | None = None) -> ForgetPlan:
    """Find it; to look through all texts for what is `related` takes long."""
    aside = _aside(opened)
    named, removed = _documents(opened, request, aside), {*FormerNames(opened.ledger).documents()}
    copies, others = _same_message(opened, named)
    related = _related(opened, named | copies, others) if related is None else related
    ids = sorted(named | copies | {one.row["id"] for one in related if request.quoting and not one.stays})
    files = {place.path for one in ids for place in opened.catalogue.places(one)}
    rows, count_words = _rows(opened, ids), opened.reader.frequencies
    questions = questions_of(opened.ledger, opened.tables, content_words, count_words, ids)
    return ForgetPlan(
        documents=tuple(rows),
        removed=tuple(sorted(named & removed)),
        questions=questions,
        answers=answers_to(opened.ledger, questions),
        left_out=_left_out(opened, request, aside, {row["message_id"] for row in rows} - {None}),
        copies=len(files),
        related=tuple(related),
        left=len(removed - named),
        generation=opened.ledger.generation,
        request=request,
    )


def forget(opened: Session, planned: ForgetPlan, on_progress: OnProgress) -> Erased:
    """Erase what was planned, or with nothing planned what a killed run left; PkbError if something remains."""
    from engine.serve.process import lock_of, stop

    opened.refuse_unsafe()
    for home in (opened.home, *UserBook(opened.home).homes()):
        if not stop(home, 20.0):  # seconds for it to end: deleted text may be in its memory
            raise blocked("a background server does not end", lock_of(home), step="pkb serve --stop")
    with opened.locks.sole("idle") as alone:
        if not alone:
            raise blocked("pkb idle is running", opened.home.locks / "idle.lock")
        with opened.locks.exclusive(), naming_writer(opened.home.ledger):
            ledger, ids = opened.lasting_ledger, planned.ids
            with ledger.transaction():  # waits for other writers, such as answering processes
                pass
            planned = _unchanged(opened, planned)
            names = [name for row in planned.documents for name in _names(opened, row)]
            names += [name for _, name in names_of_text(opened.tables, ids)]
            names += [name for path, _ in planned.left_out for one in _read(Path(path)) for name in names_of(one)]
            files = {place.path for one in ids for place in opened.catalogue.places(one)}
            for part in optional_parts():
                part.forget(opened, files.union(path for path, _ in planned.left_out))
            eraser = Eraser(opened.home, ledger, opened.tables, opened.mapped, content_words)
            erased = eraser.erase(ids, names, planned.questions, opened.now.timestamp(), on_progress)
    if left := erased.left:
        shown = ", ".join(map(line, left[:3])) + (", ..." if len(left) > 3 else "")
        raise PkbError(f"forgotten, but {len(left)} places still hold some of it: {shown}", "pkb forget")
    return erased


def _aside(opened: Session) -> dict[str, Row]:
    """Return the headers of account mail that is left out of the index, by file."""
    mail, limits, found = opened.home.mail, ParseLimits(), dict[str, Row]()
    kept = opened.catalogue.problems(str(mail)) if mail.is_dir() else ()
    for path in sorted({one.path for one in kept if {*LEFT_OUT} & {*one.kinds}}):
        with suppress(OSError), Path(path).open("rb") as file:  # removed by hand
            header = _HEADER.match(file.read(limits.header_bytes))
            if header and (one := read_mail(header[0], limits).document):
                row = {name: getattr(one, name) for name in ("id", "title", "sender", "message_id", "date")}
                found[path] = row | {"recipients": list(one.recipients)}
    return found


def _left_out(
    opened: Session, request: ForgetRequest, aside: Mapping[str, Row], ids: Collection[str]
) -> tuple[tuple[str, Row], ...]:
    """Return the mail that is left out of the index and named, within the scope, or has one of some Message-IDs."""
    named = {path for target in request.targets for path in _aside_named(opened, target, aside)}
    chosen = named if request.targets or request.deleted else aside.keys()
    inside = set[str]()
    for path in chosen:
        above = [one.collection for one in opened.catalogue.roots() if Path(path).is_relative_to(one.path)]
        about = {"recipients": "\n".join(aside[path]["recipients"]), "collections": above}
        if is_within(aside[path] | {"kind": "mail", "local": None} | about, request.scope):
            inside.add(path)
    return tuple((path, row) for path, row in aside.items() if path in inside or row["message_id"] in ids)


def _aside_named(opened: Session, target: str, aside: Mapping[str, Row]) -> list[str]:
    """Return the files of mail that is left out, which a Message-ID, file or folder names."""
    paths, wanted = _paths(opened, place_of(opened, Path(target))), target.strip().removeprefix("<").removesuffix(">")
    below = [path for path in aside if any(Path(path).is_relative_to(one) for one in paths)]
    return below or [path for path, row in aside.items() if row["message_id"] == wanted]


def _unchanged(opened: Session, planned: ForgetPlan) -> ForgetPlan:
    """Return the plan as it is now, where it names what the user was shown: another version of it would stay."""
    known = planned.related if planned.generation == opened.ledger.generation else None
    now = _plan(opened, planned.request, known) if planned.ids else planned
    if ({*now.ids}, now.left_out) != ({*planned.ids}, planned.left_out):
        raise PkbError("these messages have just changed; nothing was forgotten", "the same command again")
    return now


def _documents(opened: Session, request: ForgetRequest, aside: Mapping[str, Row]) -> set[str]:
    """Return the ids of the documents that a request names, within its scope: no removed one is within any."""
    removed = {*FormerNames(opened.ledger).documents()}
    if not request.targets and not request.deleted:
        return {*opened.reader.by_date(request.scope, (), None, oldest=False)[0]}
    named = {one for target in request.targets for one in _named(opened, target, aside)}
    if request.deleted:
        return named & removed if request.targets else removed
    if request.scope == Scope():
        return named
    return {*opened.reader.by_date(request.scope, (), None, oldest=False, of=[*named])[0]}


def _named(opened: Session, target: str, aside: Mapping[str, Row]) -> set[str]:
    """Return the documents, former ones too, of a Message-ID, id, file or folder; UsageError if there is none."""
    former, message_id = FormerNames(opened.ledger), target.strip().removeprefix("<").removesuffix(">")
    stored = opened.catalogue.documents_with_message_id(message_id) or _known(opened, [target])
    if found := {*stored, *former.documents(f"id\0{message_id}")}:
        return found
    place = place_of(opened, Path(target))
    if not target.endswith(place.name) and len(opened.catalogue.places_in(str(place))) > 1:  # its lines were named
        raise UsageError(f"{line(str(place))} holds several documents", "pkb forget 1, the number of the source")
    paths = _paths(opened, place)
    for path in paths:
        if found := {*opened.catalogue.documents_below(path), *former.documents(f"path\0{path}")}:
            return found
    found = _known(opened, _read(Path(paths[0])))
    if found or is_unfinished(opened.ledger) or _aside_named(opened, target, aside):
        return found  # none: the same command again, which still has to be finished
    ids = (one for path in paths for one in former.documents(f"path\0{path}", removed=False))
    for now in (now for one in ids for now in opened.catalogue.places(one)):
        alone = len(opened.catalogue.places_in(now.path)) == 1
        step = f"pkb forget {quote(now.path if alone else now.document)}"
        raise UsageError(f"what was in {line(target)} is now at {line(now.path)}", step)
    raise UsageError(f"{line(target)} was never indexed: no file, folder or Message-ID", "pkb list --paths")


def documents_of(opened: Session, source: Source) -> list[str]:
    """Return the document of a source, by its text: another one may have its Message-ID."""
    places = opened.catalogue.places_in(source.path)
    ids = sorted({place.document for place in places if place.message_id == source.message_id})
    rows = opened.tables.select("chunks", among("document", ids), ["document", "text"]) if len(ids) > 1 else []
    return sorted({row["document"] for row in rows if source.quote in row["text"]}) or ids or [source.path]


def _paths(opened: Session, path: Path) -> list[str]:
    """Return the paths that a file may be indexed by: as named, without links, and as its root was named."""
    here = absolute_path(path)
    real = Path(os.path.realpath(here))
    roots = [(Path(root.path), os.path.realpath(root.path)) for root in opened.catalogue.roots()]
    linked = [root / real.relative_to(end) for root, end in roots if real.is_relative_to(end)]
    return list(dict.fromkeys(map(str, (here, real, *linked))))


def _known(opened: Session, ids: Collection[str]) -> set[str]:
    """Return those of some ids that are of documents which are, or were, indexed."""
    removed = FormerNames(opened.ledger).documents()
    return {one for one in ids if opened.catalogue.places(one)}.union({*ids}.intersection(removed))


def _read(path: Path) -> list[str]:
    """Return the ids of the documents of a file: it may have been moved since it was indexed."""
    from engine.ingest.files import read

    return [one.document.id for one in read(path, ParseLimits(leave_out=frozenset())) if one.document]


def _same_message(opened: Session, ids: Collection[str]) -> tuple[set[str], set[str]]:
    """Return the other documents with the Message-IDs of some: copies, and others, as anybody can write one."""
    named = {row["id"]: row for row in _rows(opened, ids) if row["message_id"]}
    by_id = {row["message_id"]: opened.catalogue.documents_with_message_id(row["message_id"]) for row in named.values()}
    pairs = [(one, two) for two, row in named.items() for one in {*by_id[row["message_id"]]} - named.keys()]
    rows = {row["id"]: row for row in _rows(opened, {one for one, _ in pairs})} | named
    texts = own_texts(opened.tables, [*{one for pair in pairs for one in pair}])
    own = {one: f" {' '.join(plain_words(chr(10).join(texts.get(one, ()))))} " for pair in pairs for one in pair}
    copies = {one for one, two in pairs if _is_copy(rows[one], own[one], rows[two], own[two])}
    return copies, {one for one, _ in pairs} - copies


def _is_copy(row: Row, own: str, original: Row, words: str) -> bool:
    """Return whether a message is another, perhaps with a banner in front or, by a mailing list, anything around it."""
    before, found, after = own.partition(words)
    added, listed = len(before.split()) + len(after.split()), is_rewritten(row["sender"], row["recipients"])
    same = bare_title(row["title"]) == bare_title(original["title"]) and words.strip() and found
    if not same or not (listed or address(row["sender"]) == address(original["sender"])):
        return False
    return not added or (added < len(words.split()) >= FEW_WORDS and (listed or not after.strip()))


_MOST_SEARCHED = 2000  # documents whose sentences are looked for in all others
_PRIOR = 300  # texts of no archive in particular, which have no word of it
_FUNCTION, _LETTER = 1.0, 2.0  # bits of a function word, and of a letter of an unspaced script
_HABITUAL, _COMMON, _SHARE = 3, 30, 0.02  # documents with a run that cannot quote it; all those of other subjects
_SKEW = timedelta(days=1)  # between the clocks of writer and quoter, and of a meeting without a time


@dataclass(frozen=True, slots=True)
class _Source:
    """A run of words of what is named: its sentence there, the documents it is from, and others that hold it."""

    sentence: int
    rows: list[Row]
    holders: list[Row]

    def is_before(self, row: Row) -> bool:
        """Return whether a document is older than all these, so that it cannot quote them."""
        first = min((one["date"] for one in self.rows if one["date"]), default=None)
        return bool(first and row["date"] and row["date"] < first - _SKEW)

    def is_common(self, most: float) -> bool:
        """Return whether it is nobody's own: older documents have it, or its sender writes it often, or all do."""
        titles, senders = {bare_title(one["title"]) for one in self.rows}, {one["sender"] for one in self.rows}
        others = [row for row in self.holders if bare_title(row["title"]) not in titles]
        return len(others) > most or sum(row["sender"] in senders or self.is_before(row) for row in others) >= _HABITUAL


def _related(opened: Session, ids: Collection[str], same: Collection[str]) -> list[Related]:
    """Return the other documents with sentences of some, and those of the `same` Message-ID, newest first."""
    named = {row["id"]: row for row in _rows(opened, ids)}
    sources = _sources(opened, named) if len(named) <= _MOST_SEARCHED else {}
    index, titles = RunIndex(sources), {bare_title(row["title"]) for row in named.values()}
    likely = f"regexp_like(concat(title, ' ', text), '(?i){index.pattern}')"  # 14 times as fast as to look in Python
    texts = opened.tables.each("documents", ["id", "title", "text"], likely) if sources else ()
    others = (
        (row, "" if bare_title(row["title"]) in titles else row["title"]) for row in texts if row["id"] not in named
    )
    all_held = ((row["id"], index.found(f"{title}\n\n{row['text']}")) for row, title in others)
    held = {one: runs for one, runs in all_held if runs}
    whole = quoting(opened.ledger, ids)  # those that quote a passage as it is, however short
    rows = {row["id"]: row for row in _rows(opened, {*held, *whole, *same} - named.keys())}
    for one, runs in held.items():
        for run in runs:
            sources[run].holders.append(rows[one])
    most = max(_COMMON, _SHARE * opened.catalogue.counts()["documents"])
    own, found = {run: source for run, source in sources.items() if not source.is_common(most)}, list[Related]()
    for one, row in rows.items():
        held_here = [own[run] for run in held.get(one, ()) if run in own]
        answers = bare_title(row["title"]) in titles
        if held_here or one in same or (answers and one in whole):
            older = bool(held_here) and all(source.is_before(row) for source in held_here)
            stays = "same Message-ID, another text" if one in same else "older" if older else ""
            sentences = len({source.sentence for source in held_here})
            found.append(Related(row, sentences, answers and REPLIED.match(row["title"]) is not None, stays))
    return found


def _sources(opened: Session, named: Mapping[str, Row]) -> dict[WordRun, _Source]:
    own, found, number = own_texts(opened.tables, [*named]), dict[WordRun, _Source](), 0
    texts = [(row, readings(text)) for one, row in named.items() for text in (row["title"], *own.get(one, ()))]
    weights = _weights(opened, {word for _, read in texts for one in read for word in plain_words(one)})
    for row, read in texts:
        number += len(read[0])  # more than it has sentences
        for run, sentence in (pair for one in read for pair in word_runs(one, weights)):
            found.setdefault(run, _Source(number + sentence, [], [])).rows.append(row)
    return found


def _weights(opened: Session, vocabulary: Collection[str]) -> dict[str, float]:
    """Return the bits of words: as many as each halves the number of texts that have it."""
    stems = {word: next(iter(words(word)), word) for word in vocabulary}
    counted, texts = opened.reader.frequencies([*stems.values()]), opened.reader.totals().chunks + _PRIOR
    bits = {word: log2(texts / (counted.get(stem, 0) + 1)) for word, stem in stems.items()}
    bits |= dict.fromkeys((word for word, stem in stems.items() if stem in FUNCTION_WORDS), _FUNCTION)
    return bits | dict.fromkeys((word for word in stems if len(word) == 1 and not word.isascii()), _LETTER)


def _rows(opened: Session, ids: Iterable[str]) -> list[Row]:
    found = (opened.reader.documents(some, texts=False) for some in batches([*ids], _AT_ONCE))
    rows = [row for some in found for row in some.values()]
    for row in rows:
        row["recipients"] = row["recipients"].split("\n") if row["recipients"] else []
    return sorted(rows, key=lambda row: (-row["date"].timestamp() if row["date"] else inf, row["id"]))


def _names(opened: Session, row: Row) -> list[str]:
    """Return the names by which a stored document is recognised when its file is read again."""
    if row["kind"] == "mail" or row["message_id"]:
        return names_of(row["id"])
    day = row["date"].date().isoformat() if row["date"] else ""
    kept_at = [f"{place.path}\0{row['title']}\0{day}" for place in opened.catalogue.places(row["id"])]
    return [name for one in kept_at or [""] for name in names_of(row["id"], one)]
