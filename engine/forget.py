"""Forgetting what the user names: which documents and questions that is, and erasing them while nothing else runs."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.inventory import Unlearning, of_unknown_training, trained_on, unlearn
from engine.operations import OnProgress, absolute_path
from engine.session import Session
from engine.text.terminal import line
from store.errors import Locked, PkbError, UsageError
from store.filters import among, documents_within
from store.locks import Lease
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
    were trained on some of it.
    """

    documents: tuple[dict[str, Any], ...] = ()
    questions: tuple[str, ...] = ()
    copies: int = 0
    quoted_by: int = 0
    adapters: "tuple[Unlearning, ...]" = ()
    request: ForgetRequest = field(default_factory=ForgetRequest)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to forget."""
        return not self.documents and not self.questions


def plan(opened: Session, request: ForgetRequest) -> ForgetPlan:
    """Find what a request names; UsageError where a file or a Message-ID is not indexed, or nothing is named."""
    if request.question is not None:
        questions = _same_questions(opened, request.question)
        return ForgetPlan(questions=questions, adapters=trained_on(opened, (), questions), request=request)
    if not request.targets and documents_within(request.scope) is None:
        raise UsageError("nothing named to forget", "pkb forget --help")
    with opened.locks.reader():
        return _plan(opened, request)


def _plan(opened: Session, request: ForgetRequest) -> ForgetPlan:
    ids = _with_copies(opened, _documents(opened, request))
    quoting = _quoting(opened, ids)
    ids = _with_copies(opened, [*ids, *quoting]) if request.quoting else ids
    places = [place for one in ids for place in opened.catalogue.places(one)]
    files, others = {place.path for place in places}, {*quoting} - {*ids}
    return ForgetPlan(tuple(_rows(opened, ids)), (), len(files), len(others), trained_on(opened, ids, ()), request)


def forget(opened: Session, planned: ForgetPlan, on_progress: OnProgress) -> "Erased":
    """Erase what was planned, or with nothing planned what a killed run left; PkbError if something remains."""
    from engine.serve.process import stop
    from store.erasure import Eraser

    ledger = opened.lasting_ledger
    if not stop(opened.home, _STOP_S):  # deleted text may be in its memory
        raise Locked("the background server does not end", "pkb serve --stop")
    ids = [row["id"] for row in planned.documents]
    with opened.locks.idle() as alone, ExitStack() as held:
        if not alone:
            raise Locked("pkb idle is running", "try again when it is done")
        training = Lease(opened.home.locks / "train.lock")
        if not training.acquire():  # it may have read what is to be forgotten
            raise Locked("pkb adapter train is running", "try again when it is done")
        held.callback(training.release)
        with opened.locks.bench(), opened.locks.exclusive():
            _require_unchanged(opened, planned)
            names = [name for row in planned.documents for name in _names(opened, row)]
            _note_mirrors(opened, ids)
            unlearn(opened, trained_on(opened, ids, planned.questions))
            eraser, now = Eraser(opened.home, ledger, opened.tables, opened.mapped), opened.now.timestamp()
            erased = eraser.erase(ids, names, planned.questions, now, on_progress)
    objects, unreached = _clear_mirrors(opened)
    if left := [*erased.left, *unreached]:
        shown = ", ".join(map(line, left[:3])) + (", ..." if len(left) > 3 else "")
        places = f"{len(left)} places still hold" if erased.left else "mirrors may still hold"
        remedy = "pkb forget" if erased.left else "pkb forget; for a mirror that is gone, pkb kv drop URL --gone"
        raise PkbError(f"forgotten, but {places} some of it: {shown}", remedy)
    return replace(erased, objects=objects)


def _require_unchanged(opened: Session, planned: ForgetPlan) -> None:
    """Refuse to forget what is no longer what the user was shown: another version of it would stay."""
    if planned.documents:
        now = {row["id"] for row in _plan(opened, planned.request).documents}
        if now != {row["id"] for row in planned.documents}:
            raise PkbError("these messages have just changed; nothing was forgotten", "the same command again")


def is_unfinished(opened: Session) -> bool:
    """Return whether a run was killed before its end."""
    from store.erasure import is_unfinished
    from store.kv_mirror import pending_removal

    return is_unfinished(opened.ledger) or bool(pending_removal(opened.ledger).urls)


# Mirrors: their objects of forgotten documents, and of what was computed behind them.


@dataclass(frozen=True, slots=True)
class MirrorObjects:
    """How many objects of some documents a mirror holds; None where it cannot be reached."""

    url: str  # fit to be shown
    objects: int | None


def mirrored(opened: Session, planned: ForgetPlan) -> list[MirrorObjects]:
    """Count the objects that forgetting would remove from each known mirror."""
    from store.kv_mirror import Mirror
    from store.remote import masked

    found, names = list[MirrorObjects](), set(_object_names(opened, [row["id"] for row in planned.documents]))
    for url in _mirrors(opened):
        try:
            count = len(Mirror(url, opened.home.share).named(names))
        except (OSError, ImportError, PkbError):
            count = None
        found.append(MirrorObjects(masked(url), count))
    return found


def _mirrors(opened: Session) -> list[str]:
    """Return the mirrors that were pushed to, and the one that is read; none without their key."""
    from store.kv_mirror import KEY_FILE, pushed_to

    remote = opened.settings.kv.remote
    urls = [*pushed_to(opened.ledger), *([remote] if remote and not remote.startswith("https://") else [])]
    return list(dict.fromkeys(urls)) if (opened.home.share / KEY_FILE).exists() else []


def _object_names(opened: Session, ids: Sequence[str]) -> list[str]:
    """Return what the names of the objects of documents begin with, in any mirror; none without the key."""
    from store.kv_index import keys_of_documents
    from store.kv_mirror import KEY_FILE, MirrorKey

    path = opened.home.share / KEY_FILE
    if not path.exists():
        return []
    key = MirrorKey(path, create=False)
    return sorted(key.name(one) for one in keys_of_documents(opened.ledger, ids))


def _note_mirrors(opened: Session, ids: Sequence[str]) -> None:
    """Note what is to be removed from mirrors, before what tells it is erased: a kill must not lose it."""
    from store.kv_mirror import PendingRemoval, pending_removal, put_pending_removal

    if ids and (urls := _mirrors(opened)):
        before = pending_removal(opened.ledger)
        names = {*before.names, *_object_names(opened, ids)}
        put_pending_removal(opened.ledger, PendingRemoval(tuple({*before.urls, *urls}), tuple(sorted(names))))


def _clear_mirrors(opened: Session) -> tuple[int, list[str]]:
    """Remove what is noted; returns how many objects went, and why mirrors were not reached, which stay noted."""
    from store.kv_folder import KvFolder
    from store.kv_mirror import Mirror, mirror_error, pending_removal, put_pending_removal

    pending, removed, unreached = pending_removal(opened.ledger), 0, dict[str, str]()
    if not pending.urls:
        return 0, []
    local = KvFolder(opened.ledger, opened.home.kv)
    nodes = {key: size for key, size, state in local.index.sizes() if state == "complete"}
    for url in pending.urls:
        try:
            removed += Mirror(url, opened.home.share).forget(pending.names, nodes, local.path_of)
        except PkbError as error:
            unreached[url] = error.message
        except (OSError, ImportError) as error:
            unreached[url] = mirror_error(url, error).message
    put_pending_removal(opened.ledger, replace(pending, urls=tuple(unreached)))
    return removed, list(unreached.values())


def kept_elsewhere(opened: Session) -> list[str]:
    """Return where copies may be that this machine does not reach, and what to type."""
    remote = opened.settings.kv.remote
    found = []
    if remote and remote.startswith("https://"):
        found.append("a peer may hold KV of it (kv.remote); type there: pkb forget")
    if names := of_unknown_training(opened):
        found.append(f"{', '.join(names)} may remember it, as trained on your answers; type: pkb adapter rm {names[0]}")
    if (opened.home.share / "peers").exists():
        found.append("machines that share with this one may hold KV of it; type there: pkb forget")
    return found


def _same_questions(opened: Session, question: str) -> tuple[str, ...]:
    """Return the kept questions that differ at most in case, spaces and punctuation."""
    from engine.ask.keys import normalise
    from store.erasure import stored_questions

    wanted = normalise(question)
    return tuple(sorted(one for one in stored_questions(opened.ledger) if normalise(one) == wanted))


def _documents(opened: Session, request: ForgetRequest) -> list[str]:
    """Return the ids of the documents that a request names, within its scope."""
    limit = documents_within(request.scope)
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
