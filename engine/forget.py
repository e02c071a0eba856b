"""Forgetting what the user names: which documents and questions that is, and erasing them while nothing else runs."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.inventory import remove_adapter, trained_adapters
from engine.operations import OnProgress, absolute_path
from engine.session import Session
from engine.text.terminal import line
from store.errors import Locked, PkbError, UsageError
from store.filters import among, documents_within
from store.types import Scope, in_own_zone

if TYPE_CHECKING:
    from store.erasure import Erased

_STOP_S = 20.0  # for the background server to end
_AT_ONCE = 5000  # documents in one condition
_COLUMNS = ("id", "kind", "title", "sender", "recipients", "message_id", "date", "local")


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What to forget: files, folders and Message-IDs, limited by a scope; or a question.

    With `quoting`, also the messages that quote one of them.
    """

    targets: tuple[str, ...] = ()
    scope: Scope = field(default_factory=Scope)
    question: str | None = None
    quoting: bool = False


@dataclass(frozen=True, slots=True)
class ForgetPlan:
    """What would be forgotten: documents, newest first, and questions as they are kept.

    `copies` is the number of files in which they stand, `quoted_by` that of other documents that quote them. `adapters`
    go with them: earlier versions of pkb trained them on answers.
    """

    documents: tuple[dict[str, Any], ...] = ()
    questions: tuple[str, ...] = ()
    copies: int = 0
    quoted_by: int = 0
    adapters: tuple[str, ...] = ()
    request: ForgetRequest = field(default_factory=ForgetRequest)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to forget."""
        return not self.documents and not self.questions


def plan(opened: Session, request: ForgetRequest) -> ForgetPlan:
    """Find what a request names; UsageError where a file or a Message-ID is not indexed, or nothing is named."""
    if request.question is not None:
        questions = _same_questions(opened, request.question)
        return ForgetPlan(questions=questions, adapters=trained_adapters(opened) if questions else (), request=request)
    if not request.targets and request.scope == Scope():
        raise UsageError("nothing named to forget", "pkb forget --help")
    with opened.locks.reader():
        return _plan(opened, request)


def _plan(opened: Session, request: ForgetRequest) -> ForgetPlan:
    ids = _with_copies(opened, _documents(opened, request))
    quoting = _quoting(opened, ids)
    ids = _with_copies(opened, [*ids, *quoting]) if request.quoting else ids
    places = [place for one in ids for place in opened.catalogue.places(one)]
    files, others = {place.path for place in places}, {*quoting} - {*ids}
    return ForgetPlan(
        tuple(_rows(opened, ids)), (), len(files), len(others), trained_adapters(opened) if ids else (), request
    )


def forget(opened: Session, planned: ForgetPlan, on_progress: OnProgress) -> "Erased":
    """Erase what was planned, or with nothing planned what a killed run left; PkbError if something remains."""
    from engine.serve.process import stop
    from store.erasure import Eraser

    ledger = opened.lasting_ledger
    if not stop(opened.home, _STOP_S):  # deleted text may be in its memory
        raise Locked("the background server does not end", "pkb serve --stop")
    ids = [row["id"] for row in planned.documents]
    with opened.locks.idle() as alone:
        if not alone:
            raise Locked("pkb idle is running", "try again when it is done")
        with opened.locks.exclusive():
            _require_unchanged(opened, planned)
            names = [name for row in planned.documents for name in _names(opened, row)]
            for name in planned.adapters:
                remove_adapter(opened, name)
            eraser, now = Eraser(opened.home, ledger, opened.tables, opened.mapped), opened.now.timestamp()
            erased = eraser.erase(ids, names, planned.questions, now, on_progress)
    if left := erased.left:
        shown = ", ".join(map(line, left[:3])) + (", ..." if len(left) > 3 else "")
        raise PkbError(f"forgotten, but {len(left)} places still hold some of it: {shown}", "pkb forget")
    return erased


def _require_unchanged(opened: Session, planned: ForgetPlan) -> None:
    """Refuse to forget what is no longer what the user was shown: another version of it would stay."""
    if planned.documents:
        now = {row["id"] for row in _plan(opened, planned.request).documents}
        if now != {row["id"] for row in planned.documents}:
            raise PkbError("these messages have just changed; nothing was forgotten", "the same command again")


def is_unfinished(opened: Session) -> bool:
    """Return whether a run was killed before its end."""
    from store.erasure import is_unfinished

    return is_unfinished(opened.ledger)


def kept_elsewhere(opened: Session) -> list[str]:
    """Return where copies may be that this machine does not reach, and what to type."""
    from store.remote import masked

    found = []
    if opened.settings.kv.remote:
        found.append("a peer may hold KV of it (kv.remote); type there: pkb forget")
    if (opened.home.share / "peers").exists():
        found.append("machines that share with this one may hold KV of it; type there: pkb forget")
    if (key := opened.home.share / "mirror.key").exists():  # of a version that copied KV, encrypted, to other places
        places = ", ".join(map(masked, json.loads(opened.ledger.get("kv.mirrors") or "[]")))
        found.append(f"a mirror of an earlier version may hold KV of it; delete {places or 'it'}, and {key}")
    return found


def _same_questions(opened: Session, question: str) -> tuple[str, ...]:
    """Return the kept questions that differ at most in case, spaces and punctuation."""
    from engine.ask.keys import normalise
    from store.erasure import stored_questions

    wanted = normalise(question)
    return tuple(sorted(one for one in stored_questions(opened.ledger) if normalise(one) == wanted))


def _documents(opened: Session, request: ForgetRequest) -> list[str]:
    """Return the ids of the documents that a request names, within its scope."""
    limit = documents_within(request.scope, opened.tables.people(request.scope))
    if not request.targets:
        return sorted(row["id"] for row in opened.tables.select("documents", limit or "true", ["id"]))
    named = sorted({one for target in request.targets for one in _named(opened, target)})
    if limit is None:
        return named
    found = set[str]()
    for some in _batches(named):
        condition = f"{among('id', some)} AND {limit}"
        found.update(row["id"] for row in opened.tables.select("documents", condition, ["id"]))
    return sorted(found)


def _named(opened: Session, target: str) -> list[str]:
    """Return the documents of a Message-ID, file or folder; UsageError if there is none, and no run is unfinished."""
    identified = re.fullmatch(r"<?([^\s<>/]+@[^\s<>/]+)>?", target)
    if identified and (found := opened.catalogue.documents_with_message_id(identified[1])):
        return found
    if found := opened.catalogue.documents_below(str(absolute_path(Path(target)))):
        return found
    if is_unfinished(opened):  # the same command again: it is no longer indexed, and still to be erased
        return []
    raise UsageError(f"{line(target)} is not indexed: no file, folder or Message-ID", "pkb list --paths")


def _with_copies(opened: Session, ids: Sequence[str]) -> list[str]:
    """Add the copies of messages: same Message-ID and sender, another content, such as the footer of a list.

    Their tombstones would remove those when their files are next read.
    """
    own = {(row["message_id"], row["sender"].casefold()) for row in _rows(opened, ids) if row["message_id"]}
    same = {one for message_id, _ in own for one in opened.catalogue.documents_with_message_id(message_id)}
    copies = (row for row in _rows(opened, sorted(same)) if (row["message_id"], row["sender"].casefold()) in own)
    return sorted({*ids, *(row["id"] for row in copies)})


def _quoting(opened: Session, ids: Sequence[str]) -> set[str]:
    """Return the other documents that quote one of these."""
    from store.documents import quoting

    return quoting(opened.ledger, ids) - {*ids}


def _rows(opened: Session, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return what is shown of documents, newest first."""
    rows = [row for some in _batches(ids) for row in opened.tables.select("documents", among("id", some), _COLUMNS)]
    for row in rows:
        row["date"] = in_own_zone(row["date"], row.pop("local"))
        row["recipients"] = row["recipients"].split("\n") if row["recipients"] else []
    return sorted(
        rows, key=lambda row: (row["date"] is None, -row["date"].timestamp() if row["date"] else 0, row["id"])
    )


def _names(opened: Session, row: dict[str, Any]) -> list[str]:
    """Return what a stored document is recognised by when its file is read again."""
    from store.erasure import names_of

    if row["kind"] == "mail" or row["message_id"]:
        return names_of(row["id"], row["message_id"], row["sender"])
    day = row["date"].date().isoformat() if row["date"] else ""
    kept_at = [f"{place.path}\0{row['title']}\0{day}" for place in opened.catalogue.places(row["id"])]
    return [name for one in kept_at or [""] for name in names_of(row["id"], None, row["sender"], one)]


def _batches(ids: Sequence[str]) -> list[Sequence[str]]:
    return [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]
