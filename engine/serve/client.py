"""The client of the resident process, which answers over its socket all but exact hits.

If no process runs, the client starts one and waits for it. If none is wanted, or it does not start, ends, hangs or
declines, this process does the work. Every exact hit imports this module: heavy imports are inside functions.
"""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from threading import Lock
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from engine import operations
from engine.session import Session
from engine.types import AskOptions, AskResult, ListOptions, OnText, json_values
from store.errors import PkbError
from store.types import Scope

if TYPE_CHECKING:
    from engine.ask.followup import Write
    from engine.operations import OnProgress
    from engine.serve.process import ServerLink
    from store.jobs import IdleReport, IdleRequest

T = TypeVar("T")
P = ParamSpec("P")

_TIMEOUT_S = 10.0  # for a process to accept a connection
_SOON_S = 0.5  # for an idle process to stop; pkb does not wait for a busy one
_POLL_S = 0.02


def unknown_person(opened: Session, scope: Scope) -> str | None:
    """Return a notice that --from or --to fits nobody at all, where one does not."""
    from store.catalog import senders_named

    for role, word in (("sender", "from"), ("recipient", "to")):
        name = getattr(scope, role)
        if name is None or (role == "sender" and senders_named(opened.ledger, scope.collection, name)):
            continue  # most are known without a table
        options = ListOptions(Scope(collection=scope.collection, **{role: name}), limit=0)
        if not call(opened, operations.list_documents, options).total:
            return f"no indexed message is {word} {name}; try: a name, an address or @domain"
    return None


def call(opened: Session, operation: Callable[Concatenate[Session, P], T], *given: P.args, **named: P.kwargs) -> T:
    """Have the resident process run an operation of `READS`, or run it here; what it takes is given in order."""
    assert not named
    opened.on_wait()  # before slow imports
    if _server_may_answer(opened) and (link := reach_or_start(opened)):
        from engine.serve.process import Broken, request, unpack

        with suppress(Broken), closing(link):
            asked = request(opened, "", AskOptions(), streams=False)
            link.send("call", {"name": operation.__name__, "request": asked, "given": json_values(list(given))})
            frame = next(link.answers(opened.on_beat))
            if frame["kind"] == "found":
                found: T = unpack(operations.types_of(operation)[1], frame.get("result"))
                return found
    return operation(opened, *given, **named)


def wants(opened: Session) -> bool:
    """Return whether settings and environment allow a resident process, and the home is a safe place for its files."""
    return "off" not in (opened.environ.get("PKB_DAEMON"), opened.settings.serve.daemon) and not opened.unsafe


def _server_may_answer(opened: Session) -> bool:
    """Return whether the resident process may answer: not once this process has opened tables or a model."""
    mine = "tables" in opened.__dict__ or ("models" in opened.__dict__ and opened.models.claimed)
    if not opened.there or mine or not wants(opened):
        return False
    return not (opened.ledger.temporary or opened.embeddings_damaged)


def ask_server(opened: Session, text: str, options: AskOptions, say: OnText, *, streams: bool) -> AskResult | None:
    """Answer through the resident process; None if this process must, which then may load a model."""
    if not _server_may_answer(opened):
        return None
    from engine.serve.process import Broken, answered, request, start

    if link := reach_or_start(opened):
        with suppress(Broken), closing(link):
            link.send("ask", {"request": request(opened, text, options, streams=streams)})
            for frame in link.answers(opened.on_beat):
                if frame["kind"] != "piece":
                    return answered(frame.get("answer"))  # Broken where it declines
                say(str(frame.get("text")))
    if opened.model and not opened.settings.model.is_served:
        opened.models.claim()  # before another process starts, and loads a model
    if link:
        start(opened)
    return None


def reach_or_start(opened: Session, timeout_s: float = _TIMEOUT_S) -> "ServerLink | None":
    """Connect to the resident process, and start it where none runs; None if none accepts a connection in time."""
    from engine.serve.process import TRIES, lock_of, start
    from store.locks import Lease

    until, started, lock = time.monotonic() + timeout_s, 0, Lease(lock_of(opened.home))
    while (link := reach(opened)) is None and time.monotonic() < until:
        if started < TRIES:
            started += start(opened)
        elif not lock.is_taken():
            break
        time.sleep(_POLL_S)
    return link


def reach(opened: Session) -> "ServerLink | None":
    """Connect to the resident process; one of another version or with other settings is stopped."""
    from engine.serve.process import connect, identity, stop

    link = connect(opened.home)
    if link and link.hello.get("identity") != identity(opened.home, opened.environ):
        link.close()
        stop(opened.home, _SOON_S)
        return None
    return link


_WORDS = 3  # of a question, before they say what it is about


class ReadAhead:
    """Has the resident process read the sources of a question while it is typed, for a local model; mutable."""

    _lock = Lock()  # requests of the page come in several threads

    def __init__(self) -> None:
        self._link: ServerLink | None = None
        self._words, self._started = list[str](), False

    def typed(self, opened: Session, text: str, options: "AskOptions") -> None:
        """Read ahead for a question as far as it is typed; a process that is not there is started, not waited for."""
        from sqlite3 import Error

        from engine.serve.process import Broken, request, start

        words = text.split()
        if len(words) < _WORDS or words == self._words:
            return
        try:
            with self._lock:
                model, keeps = opened.settings.model, opened.keeps_tensors and opened.settings.kv.reuse != "off"
                if not (model.is_local and keeps and _server_may_answer(opened)):
                    return
                if (link := self._link or reach(opened)) is None:
                    self._started = self._started or start(opened)
                    return
                self._link, self._words = link, words
                link.send("ahead", {"request": request(opened, text, options, streams=False)})
        except (Broken, PkbError, OSError, Error):  # the question will say it
            self.end()

    def end(self) -> None:
        """Stop reading at once: the question is asked, or dropped."""
        with self._lock:
            if self._link:
                self._link.close()
            self._link, self._words = None, []


def follow_up_writer(opened: Session) -> "Write | None":
    """Return a function by which a model rewrites a follow-up as a whole question; None if pkb quotes."""
    if opened.model is None:
        return None
    return lambda text, before: call(opened, operations.completed, text, json_values(list(before)))


def work(opened: Session, request: "IdleRequest", on_progress: "OnProgress") -> "IdleReport":
    """Run idle jobs in the resident process, or in this one where there is none."""
    link = reach(opened) if opened.there and wants(opened) and not request.dry_run else None
    if link is not None:
        from engine.serve.process import Broken, unpack
        from store.jobs import IdleReport

        # Else finished jobs are recorded; the current one starts again.
        with suppress(Broken), closing(link):
            link.send("idle", {"request": json_values(request), "now": opened.now.isoformat()})
            for frame in link.answers():
                if frame["kind"] != "piece":
                    return unpack(IdleReport, frame.get("report"))
                on_progress(*unpack(tuple[str, int, int | None], frame.get("progress")))
    from engine.idle.scheduler import run_idle

    return run_idle(opened, request, on_progress)
