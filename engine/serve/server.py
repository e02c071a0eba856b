"""The resident process: one thread serves all connections, another works off the queue of their requests.

The first knows frames but no questions; the second no sockets: its results go to the `send` of each request. The
process stops when idle.
"""

import asyncio
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib import import_module
from importlib.metadata import version
from math import inf
from threading import Condition, Thread
from typing import Any

from engine.llm.resident import ResidentModel
from engine.operations import READS, types_of
from engine.serve.process import LIMIT, Broken, Frame, Request, answer, decode, encode, own_peer, unpack
from engine.session import Session
from engine.settings import Settings
from engine.types import AskOptions, Trace, json_values
from store.database import FAILURES
from store.errors import NoModel, PkbError
from store.locks import Lease

_HEADROOM = 1.15  # of the memory that a model may use: tables, embedder and buffers beside it


class WorkerState:
    """The open home of a resident process, for one thread; `yield_point` is called between two steps of a model."""

    def __init__(self, environ: Mapping[str, str], yield_point: Callable[[], None]) -> None:
        self._environ = environ
        self._base = Session(environ)
        self.models = ResidentModel(self._base.home.shared, yield_point)
        self._tried = False  # to load the configured model

    @contextmanager
    def session(self, asked: Request) -> Iterator[Session]:
        """Open a session for one question: its own settings and time, on the state that is open already."""
        time.tzset()  # the time zone may have changed
        opened = self._opened(asked.settings)
        opened.now, opened.keeps_tensors, opened.collection = asked.now, asked.keeps_tensors, asked.collection
        ledger = opened.ledger
        before = ledger.epoch
        ledger.renew(asked.epoch)
        try:
            yield opened
        finally:
            ledger.renew(before)  # of the idle jobs that this question interrupts
            vars(opened).clear()  # it refers to itself, and would hold what it read until garbage collection

    def _opened(self, settings: Settings) -> Session:
        """Return a session on what is open already; without a loaded embedder it looks for one itself."""
        base, opened = self._base, Session(self._environ)
        opened.settings, opened.models = settings, self.models
        opened.ledger = base.lasting_ledger  # on a full disk the client answers
        opened.tables, opened.mapped = base.tables, base.mapped
        if settings.embed == base.settings.embed:
            with suppress(NoModel):
                opened.embedder, opened.question_vectors = base.embedder, base.question_vectors
        return opened

    def own(self) -> Session:
        """Return a session for the process's own jobs: the settings and the time as they are now."""
        opened = self._opened(self._base.settings)
        # After any waiting question: planning idle jobs retrieves hundreds of times.
        opened.before_retrieval = lambda: self.models.yield_point()
        return opened

    def warm(self) -> None:
        """Run a question without a model, to import and open what the next one needs."""
        from engine.ask.extract import write
        from engine.ask.keys import begin, gather_context

        for name in ("engine.ask.archive", "engine.ask.contacts", "engine.retrieval.reports"):
            import_module(name)
        opened = self.own()
        ask = begin(opened.backend, opened.ledger, "what", AskOptions(), opened.now)
        asked = gather_context(opened.backend, ask)
        write(asked.question, asked.evidence, ask.trace, opened.settings.ask.decline_below, opened.span_reader)
        _ = opened.asker, opened.rules()  # which import what they are made of

    @property
    def lacks_model(self) -> bool:
        """Return whether the configured model is still to be loaded."""
        return self._base.settings.model.is_local and not self._tried and self.models.loaded is None

    def load(self) -> None:
        """Load the configured model, unless another process has one in memory; unload it where one waits to load it."""
        if self.models.wanted:
            self.models.forget()
            self.models.free()
            self._tried = False
        elif self.lacks_model and self.models.claim():
            self._tried = True  # a failure is repeated, and reported, by the next question
            if found := self.own().model:
                model = found.load().model
                for name in ("engine.llm.generate", "engine.ask.extract"):
                    import_module(name)
                cache, ids = model.begin(), model.tokens("When?")
                model.prefill(cache, ids)  # kernels are compiled at the first step, longer than an answer takes
                next(model.decode(cache, ids, 1), None)

    def close(self) -> None:
        """Close the files of the home; a loaded model stays."""
        self.models.close()
        self.roll_back()
        if "ledger" in self._base.__dict__:
            self._base.ledger.close()
        self._base = Session(self._environ)

    def roll_back(self) -> None:
        """Roll back an interrupted transaction."""
        if "ledger" in self._base.__dict__:
            self._base.ledger.roll_back()

    def needs_other_model(self, asked: Request) -> bool:
        """Return whether a question needs another model than the configured one."""
        own, other = self._base.settings.model, asked.settings.model
        return other.is_local and (other.name, other.revision) != (own.name, own.revision)

    def is_large(self) -> bool:
        """Return whether this process exceeds its share of memory, after freeing as much as it can."""
        from engine.models.runtime import release, resident, total

        most = total() * self._base.settings.model.memory_share * _HEADROOM
        if resident() > most:
            self.close()
            release()
        return resident() > most


_LOOK_S = 0.25  # between checks of the model's locks
Send = Callable[[str, Mapping[str, Any]], None]


class Cancelled(KeyboardInterrupt):
    """The client has closed its connection: an interrupt over the socket."""


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A client's request; `send` sends a frame back."""

    frame: Frame
    send: Send
    cancelled: bool = False
    answered: bool = False  # what remains is caching for later questions

    @property
    def is_idle(self) -> bool:
        """Return whether questions interrupt it: idle jobs, and reading ahead."""
        return str(self.frame["kind"]) in ("idle", "ahead")


class RequestQueue(Thread):
    """Runs the requests of all clients; `done` is called after each, and at the end: `sound` unless by a bug."""

    def __init__(self, environ: Mapping[str, str], done: Callable[[], None]) -> None:
        super().__init__(name="requests", daemon=True)
        self.state, self._done = WorkerState(environ, self.yield_point), done
        self._waiting, self._idle = deque[QueuedRequest](), deque[QueuedRequest]()
        self._changed, self._ended, self.running = Condition(), False, list[QueuedRequest]()
        self.answered, self.large, self.sound = 0, False, False

    def add(self, job: QueuedRequest) -> None:
        """Queue a request."""
        with self._changed:
            (self._idle if job.is_idle else self._waiting).append(job)
            self._changed.notify()

    def end(self) -> None:
        """Have the thread end at its next yield point."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def run(self) -> None:
        """Warm up, then run the requests."""
        try:
            self._quietly(lambda: self.state.own().asker)  # imports and opens what every request needs
            if not self._waiting:  # else it is the first request that imports and opens the rest
                self._quietly(self.state.warm)
            while job := self._next():
                self._do(job)
            self.sound = True
        finally:
            self.state.close()
            self._ended = True
            self._done()

    def yield_point(self) -> None:
        """Interrupt a cancelled request; in idle jobs, run waiting questions first."""
        while self._is_idle_run and self._waiting:
            if not self._waiting[0].cancelled and self._needs_all(self._waiting[0]):
                raise Cancelled
            self._do(self._waiting.popleft())
        if self._ended or (self.running and self.running[-1].cancelled):
            raise Cancelled
        if self._is_idle_run:
            self.state.models.yield_to_questions()

    def _quietly(self, work: Callable[[], object]) -> None:
        """Run a warm-up step; the next question repeats, and reports, its failure."""
        try:
            work()
        except (Cancelled, *FAILURES):
            self.state.close()

    def _next(self) -> QueuedRequest | None:
        """Wait for the next request; meanwhile unload the model if another process wants one, and reload it later."""
        while not self._ended:
            with self._changed:
                if self._waiting or self._idle:
                    return (self._waiting or self._idle).popleft()
                looks = self.state.models.claimed or self.state.lacks_model
                self._changed.wait(_LOOK_S if looks else None)
                found = self._waiting or self._idle or self._ended
            if not found:
                self._quietly(self.state.load)
        return None

    def _do(self, job: QueuedRequest) -> None:
        self.running.append(job)
        try:
            if not job.cancelled:  # by a client that is gone
                kinds = {"ask": self._ask, "idle": self._idle_run, "ahead": self._ahead, "call": self._call}
                kinds[job.frame["kind"]](job)
        except (Cancelled, Broken, *FAILURES):
            if len(self.running) > 1:  # files of the idle jobs that it interrupted stay open
                self.state.roll_back()
            else:
                self.state.close()
            if not job.answered:  # the client then runs it itself, and reports the error
                job.send("declined", {})
        finally:
            self.running.pop()
            self.large = self.large or (not self.running and self.state.is_large())
            self._done()

    @property
    def _is_idle_run(self) -> bool:
        return bool(self.running) and self.running[-1].is_idle

    def _needs_all(self, job: QueuedRequest) -> bool:
        """Return whether a request needs idle jobs, or reading ahead, to end first: either for another model."""
        asked = [one.frame.get("request") for one in (job, self.running[-1]) if one.frame["kind"] != "idle"]
        try:
            return any(self.state.needs_other_model(unpack(Request, one)) for one in asked)
        except Broken:
            return False

    def _ask(self, job: QueuedRequest) -> None:
        asked = unpack(Request, job.frame.get("request"))
        say = (lambda text: job.send("piece", {"text": text})) if asked.streams else None
        with self.state.session(asked) as opened:
            answered = opened.asker.ask(asked.text, asked.options, asked.now, say)
            self.answered, job.answered = self.answered + 1, True
            job.send("answered", {"answer": answer(answered)})
            answered.keep()

    def _ahead(self, job: QueuedRequest) -> None:
        """Read the sources of a question while it is typed; the server replaces its frame when more is."""
        from engine.ask.keys import begin, gather_context

        frame: Frame | None = None
        with suppress(Cancelled, PkbError):  # whatever is wrong, the question says it
            while frame is not job.frame:
                frame = job.frame
                asked, goes_on = unpack(Request, frame.get("request")), partial(lambda read: job.frame is read, frame)
                with self.state.session(asked) as opened:
                    options = opened.limited(asked.options)
                    backend = opened.backend.within(options.scope)
                    found = gather_context(backend, begin(backend, opened.ledger, asked.text, options, asked.now))
                    backend.prefill(found.question, found.evidence, Trace(asked=False, goes_on=goes_on))
        job.send("done", {})

    def _call(self, job: QueuedRequest) -> None:
        if (operation := READS.get(str(job.frame.get("name")))) is None:
            raise Broken("an operation of another name")
        given = unpack(types_of(operation)[0], job.frame.get("given"))
        with self.state.session(unpack(Request, job.frame.get("request"))) as opened:
            job.send("found", {"result": json_values(operation(opened, *given))})

    def _idle_run(self, job: QueuedRequest) -> None:
        from engine.idle.scheduler import run_idle
        from store.jobs import IdleRequest

        opened, asked = self.state.own(), unpack(IdleRequest, job.frame.get("request"))
        opened.now = datetime.fromisoformat(str(job.frame.get("now")))
        report = run_idle(opened, asked, lambda *progress: job.send("piece", {"progress": progress}))
        job.send("done", {"report": json_values(report)})


_BEAT_S = 0.5  # between heartbeats; a client waits four times as long before it takes this process for hung
_POLL_S = 2.0  # between checks whether to stop, while idle
_GRACE_S = 3.0  # for the current request after a signal
_SOON_S = 0.2  # for the current warm-up: the next question may be waiting for the lock


@dataclass(slots=True, eq=False)
class Connection:
    """A connection and its pending request."""

    out: asyncio.StreamWriter
    job: QueuedRequest | None = None

    @property
    def unsent(self) -> int:
        """Return the bytes that its client has not read yet."""
        return self.out.transport.get_write_buffer_size()


class Server:
    """The server process: it exits when stopped, idle for too long, over its memory limit, or without its lock."""

    def __init__(
        self, listener: socket.socket, lease: Lease, environ: Mapping[str, str], identity: str, idle_s: float | None
    ) -> None:
        """Serve an environment; `idle_s` are the idle seconds after which the process stops, None for never."""
        self._listener, self._lease, self._idle_s = listener, lease, idle_s
        self._hello = {"identity": identity, "version": version("pkb")}
        self._connections, self._changed = set[Connection](), asyncio.Event()
        self._requests = RequestQueue(environ, partial(self._from_thread, self._changed.set))
        self._since, self._last, self._last_heartbeat = time.time(), time.monotonic(), 0.0
        self._stopping, self._quit_at = False, inf
        self._bug: BaseException | None = None  # in what serves a connection: it ends the process

    def run(self) -> bool:
        """Serve; pending requests are answered before it stops, unless a signal ends it. False after a bug."""
        return asyncio.run(self._run())

    async def _run(self) -> bool:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._note_bug)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._quit)
        self._accepting = await asyncio.start_unix_server(self._talk, sock=self._listener, limit=LIMIT)
        self._requests.start()
        while self._requests.is_alive() and time.monotonic() < self._quit_at + _GRACE_S:
            is_unsent = any(one.unsent for one in self._connections)  # which is waited for within the grace period
            waits = self._busy() or (is_unsent and time.monotonic() - self._last < _GRACE_S)
            if self._stopping and not waits:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _BEAT_S if waits else _POLL_S)
            self._changed.clear()
            if self._bug:
                raise self._bug
            if time.monotonic() - self._last_heartbeat >= _BEAT_S:
                self._last_heartbeat = time.monotonic()
                for caller in [one for one in self._connections if one.job and not one.unsent]:
                    self._send(caller, "beat", {})
            if self._busy():
                self._last = time.monotonic()
            idle = self._idle_s is not None and time.monotonic() - self._last > self._idle_s
            if not self._stopping and (idle or self._requests.large or self._lease.lost):
                self._begin_stop()
        sound = self._requests.is_alive() or self._requests.sound
        self._requests.end()
        self._requests.join(_GRACE_S if self._requests.running else _SOON_S)
        return sound

    def _note_bug(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._bug = context.get("exception") or RuntimeError(context["message"])
        self._changed.set()

    def _busy(self) -> bool:
        return any(one.job for one in self._connections)

    def _quit(self) -> None:
        """Stop as soon as the current request can be cancelled."""
        self._quit_at = time.monotonic()
        self._requests.end()
        self._changed.set()

    async def _talk(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        """Serve a connection until it is closed or malformed; none of another user."""
        caller, pid = Connection(out), None
        with suppress(OSError):
            pid = own_peer(out.get_extra_info("socket"))
        if pid is None:
            out.transport.abort()
            return
        self._connections.add(caller)
        self._send(caller, "hello", self._hello)
        try:
            while caller in self._connections:  # a frame may have dropped it
                self._handle(caller, decode(await reader.readline()))
                self._changed.set()
        except (OSError, ValueError, Broken):  # a line beyond the limit is the second
            pass
        finally:
            self._drop(caller)

    def _handle(self, caller: Connection, frame: Frame) -> None:
        kind = frame["kind"]
        if kind in ("ask", "call", "idle", "ahead") and caller.job is None and not self._stopping:
            caller.job = QueuedRequest(frame, partial(self._from_thread, self._deliver, caller))
            self._requests.add(caller.job)
        elif kind == "ahead" and caller.job and caller.job.frame["kind"] == kind:
            caller.job.frame = frame  # more is typed
        elif kind == "status":
            from engine.models.runtime import resident

            jobs, model = sum(one.job is not None for one in self._connections), self._requests.state.models.loaded
            made = {"pid": os.getpid(), "version": self._hello["version"], "since": self._since, "jobs": jobs}
            made |= {"answered": self._requests.answered, "model": model, "memory": resident()}
            self._send(caller, "status", made)
        elif kind == "stop":
            self._begin_stop()
        else:
            self._drop(caller)

    def _send(self, caller: Connection, kind: str, values: Mapping[str, Any]) -> None:
        """Send a frame, now or once the client reads."""
        if caller in self._connections:
            try:
                caller.out.write(encode(kind, values))
            except Broken:
                self._drop(caller)

    def _drop(self, caller: Connection) -> None:
        if caller in self._connections:
            self._connections.remove(caller)
            caller.out.transport.abort()
            if caller.job and not caller.job.answered:
                caller.job.cancelled = True
            self._changed.set()

    def _deliver(self, caller: Connection, kind: str, values: Mapping[str, Any]) -> None:
        caller.job = caller.job if kind == "piece" else None
        self._send(caller, kind, values)
        self._changed.set()

    def _from_thread(self, call: Any, *given: Any) -> None:
        """Have a function called by the thread that serves the connections, unless that has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *given)

    def _begin_stop(self) -> None:
        """Accept no more requests: the next client starts another process."""
        self._stopping, self._last = True, time.monotonic()
        for caller in self._connections:
            if caller.job and caller.job.is_idle:
                caller.job.cancelled = True
        self._accepting.close()
