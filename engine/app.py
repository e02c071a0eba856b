"""The Python API: one home, and every operation on it.

The commands, a page, a server or a notebook call this and need nothing below it. It prints nothing; slow operations
report progress to a function. Everything heavy (LanceDB, a language model) is opened when first needed.
"""

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial, wraps
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar

from engine import operations
from engine.operations import CACHE_USES, CacheUse, OnProgress, absolute_path, scope_of
from engine.serve.client import ask_server, call, work
from engine.session import Session, session
from engine.settings import save
from engine.text.terminal import line, opening, run_opener, typed, valid_text
from engine.types import NO_FILTERS, AskOptions, Filters, LoopKind, grouped
from store.errors import Locked, NoModel, PkbError, UsageError, disk_failure
from store.home import Home
from store.types import Scope, fold, is_address, replace

if TYPE_CHECKING:
    from engine.forget import ForgetPlan
    from engine.ingest.follow import Intervals
    from engine.ingest.imap import Fetched, MailAccount
    from engine.ingest.pipeline import Summary
    from engine.types import Answer, AskResult, Check, Listing, ListOptions, OnText, OpenLoop, Person, Report, Source
    from engine.watcher import WatchListener
    from store.catalog import SourceRoot
    from store.erasure import Erased
    from store.history import HistoryEntry
    from store.integrity import Finding
    from store.jobs import IdleReport, IdleRequest

T = TypeVar("T")
_RECENT = "30d"  # in which open loops are looked for
_ALL = 1_000_000  # jobs of an idle run by default


_UMASK, _FOUND = Lock(), list[int]()  # of the process; what each that is open found


@contextmanager
def _private_files() -> Iterator[None]:
    """Make every file that the process writes readable only by its user, including those of LanceDB's threads.

    The last one that ends, of however many there are at a time, brings back the umask that the first one found.
    """
    with _UMASK:
        _FOUND.append(os.umask(0o077))
    try:
        yield
    finally:
        with _UMASK:
            before = _FOUND.pop()
            if not _FOUND:
                os.umask(before)


def answer(opened: Session, text: str, options: AskOptions, say: "OnText | None" = None) -> "AskResult":
    """Answer one question; a generated answer is streamed to `say`. On a full or failing disk it is not cached."""
    from sqlite3 import Error

    streamed, options = list[str](), opened.limited(options)
    if opened.ledger.temporary:
        opened.reopen()  # there may be room again
    opened.ledger.renew()
    try:
        made = _answer(opened, text, options, say, streamed)
    except (OSError, RuntimeError, ValueError, Error) as error:
        if opened.ledger.temporary or (why := disk_failure(error, opened.home.data)) is None:
            raise
        opened.stop_writing(why)
        made = _answer(opened, text, options, say, streamed)
    return replace(made, keep=partial(_keep, opened, made))


def _answer(opened: Session, text: str, options: AskOptions, say: "OnText | None", streamed: list[str]) -> "AskResult":
    from engine.ask.pipeline import Miss

    def more(piece: str) -> None:
        streamed.append(piece)
        if say:
            say(piece)

    if not isinstance(exact := opened.asker.exact(text, options, opened.now), Miss):
        return exact
    opened.on_wait()  # before slow imports
    if (found := ask_server(opened, text, options, more, streams=say is not None)) is not None:
        return found
    begun = "".join(streamed)
    made = exact.asker.finish(exact, more if say and not begun else None)
    if begun and (whole := made.reply.text) is not None:  # the process has streamed a part of it, or of another
        more(whole[len(begun) :] if whole.startswith(begun) else f"\n{whole}")
    return made


def _keep(opened: Session, made: "AskResult") -> None:
    """Store the KV that was read for a shown answer, if the disk allows it."""
    from sqlite3 import Error

    try:
        made.keep()
    except (OSError, RuntimeError, Error) as error:
        if (why := disk_failure(error, opened.home.data)) is None:
            raise
        opened.on_notice(f"{why}: what the model read is not cached; try: pkb doctor")


class Pkb:
    """A knowledge base: index mail and meetings, ask questions, work ahead.

    `Pkb()` is the home that the commands use. `Pkb(folder)` keeps everything, caches and settings too, in one folder.
    Use it as a context manager, or call `close`; while it is open, files that the process writes are its user's alone.
    Methods raise PkbError, whose message says what to do.
    """

    def __init__(
        self,
        home: "str | os.PathLike[str] | None" = None,
        *,
        server: bool = False,
        environ: Mapping[str, str] | None = None,
        collection: str | None = None,
        read_only: bool = False,
    ) -> None:
        """Open a home; with `server`, questions go to its background server, which is started on demand.

        With `collection`, nothing of others is seen; with `read_only`, questions are not recorded.
        """
        environ = dict(os.environ if environ is None else environ)
        if home is not None:
            folder = absolute_path(Path(home))
            environ |= Home(folder, folder / "cache", folder / "config.toml").environ
        if not server:
            environ["PKB_DAEMON"] = "off"
        self._stack = ExitStack()
        self._stack.enter_context(_private_files())
        self._session = self._stack.enter_context(session(environ))
        self._session.collection, self._session.read_only = collection, read_only

    @property
    def session(self) -> Session:
        """Return the session of the home, reopened if the home was removed meanwhile."""
        self._session.look_again()
        return self._session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the language model and close the databases; the object cannot be used afterwards."""
        self._stack.close()

    def use_cluster(self, engine: str) -> None:
        """Have files parsed and chunks embedded by a cluster of Ray: `ray` on this machine, or ray://HOST:PORT."""
        from engine.ingest.chunking import Cluster

        self.session.cluster = cluster = Cluster(engine)
        self._stack.callback(cluster.close)

    def ingest(
        self,
        paths: "Sequence[str | os.PathLike[str]]" = (),
        *,
        kind: Literal["mail", "mbox", "transcript"] | None = None,
        collection: str | None = None,
        prune: bool = False,
        restore: bool = False,
        embed: bool = True,
        on_progress: OnProgress = lambda *_: None,
    ) -> "Summary":
        """Index new, changed and removed files of these folders, or of all indexed before; then embed what is new.

        With `restore`, forgotten documents are indexed again. Raise PkbError if a disk seems to be missing: nothing
        of it is removed without `prune`; also, at the end, where a mail account cannot be read.
        """
        failed = self.fetch(paths, restore=restore)[1]
        summary, missing = self.index(
            paths, kind=kind, collection=collection, prune=prune, restore=restore, on_progress=on_progress
        )
        if embed:
            with suppress(NoModel):  # keyword search needs none
                for done, left in self.embed():
                    on_progress("embed", done, done + left)
        operations.refuse_missing(summary, missing)
        for error in failed:
            raise error
        return summary

    def index(
        self,
        paths: "Sequence[str | os.PathLike[str]]" = (),
        *,
        kind: str | None = None,
        collection: str | None = None,
        prune: bool = False,
        restore: bool = False,
        on_progress: OnProgress = lambda *_: None,
    ) -> "tuple[Summary, list[SourceRoot]]":
        """Index files, and what `fetch` read, for keyword search alone; returns the known folders that are missing."""
        session = self.session
        roots, missing = operations.choose_roots(session, [Path(path) for path in paths], kind, collection)
        session.make()
        return operations.ingest(session, roots, missing, prune=prune, restore=restore, on_progress=on_progress)

    def accounts(self, paths: "Sequence[str | os.PathLike[str]]" = ()) -> "list[MailAccount]":
        """Return the mail accounts (imaps://...) among some paths; where there are no paths, those read before."""
        opened, named = self.session, [str(path) for path in paths]
        if not named and opened.there:
            named = [root.path for root in opened.catalogue.roots() if Path(root.path).exists()]
        named = [path for path in named if path.lower().startswith("imap") or str(opened.home.mail) in path]
        if not named:  # most have folders alone, and need not wait for TLS
            return []
        from engine.ingest.imap import account_at

        return [account for path in named if (account := account_at(opened.home.mail, path))]

    def fetch(
        self,
        paths: "Sequence[str | os.PathLike[str]]" = (),
        *,
        ask: "operations.AskPassword" = lambda _: None,
        keep: "Callable[[MailAccount, str], None]" = lambda *_: None,
        restore: bool = False,
        progress: "Callable[[], AbstractContextManager[OnProgress]]" = lambda: nullcontext(lambda *_: None),
    ) -> "tuple[list[Fetched], list[PkbError]]":
        """Read new mail of the accounts among some paths into the home, for `index`; of all accounts without paths.

        The password is that of the keyring, or the one that `ask` returns, which goes to `keep` if it is right. Returns
        the errors of accounts that were read before, too, and raises that of another.
        """
        done: list[Fetched] = []
        failed: list[PkbError] = []
        for account in self.accounts(paths):
            self.session.make()
            try:
                connection, typed = operations.connect(self.session, account, ask)
                with connection, progress() as on_progress:
                    if typed:
                        keep(account, typed)
                    done.append(operations.fetch(self.session, connection, on_progress, restore=restore))
            except PkbError as error:
                failed.append(error)
                if not account.place(self.session.home.mail).exists():
                    raise
        return done, failed

    def embed(self) -> Iterator[tuple[int, int]]:
        """Compute missing embeddings, newest chunks first; yields how many are done and left. NoModel."""
        self.session.refuse_reader()
        if operations.missing_vectors(self.session):
            yield from operations.embed(self.session)

    def watch(
        self,
        paths: "Sequence[str | os.PathLike[str]]",
        listener: "WatchListener",
        *,
        kind: str | None = None,
        collection: str | None = None,
        intervals: "Intervals | None" = None,
        polling: bool = False,
        embed: bool = True,
        passwords: "Mapping[MailAccount, str | None] | None" = None,
        idle: Sequence[str] = (),
    ) -> NoReturn:
        """Index changes in these folders, and accounts with their `passwords`, as they happen, until an exception.

        `idle` is the command that runs idle jobs, in a process of its own, while nothing changes and nobody is there.
        """
        from engine.ingest.follow import Follow, Intervals
        from engine.watcher import IdleRuns, Watcher

        session, intervals, accounts = self.session, intervals or Intervals(), self.accounts(paths)
        for account in accounts:
            session.make()
            account.place(session.home.mail).mkdir(mode=0o700, parents=True, exist_ok=True)
        roots, missing = operations.choose_roots(session, [Path(path) for path in paths], kind, collection)
        session.make()
        with suppress(Locked):  # else at the next change
            operations.ingest(session, [], missing, prune=False)
        environ, home = session.environ, session.home
        self.close()  # each step opens the home for itself
        with _private_files(), Follow(intervals, polling=polling, aside=[str(home.data), str(home.cache)]) as follow:
            runs = IdleRuns(idle, intervals, listener, environ)
            watcher = Watcher(follow, runs, embeds=embed)
            for root in (*roots, *missing):
                watcher.add(root)
            for account in accounts:
                about = (account, str(account.place(home.mail)), (passwords or {}).get(account))
                Thread(target=watcher.follow_account, args=about, daemon=True).start()
            with closing(runs):
                while True:
                    watcher.step()

    def ask(
        self,
        question: str,
        *,
        k: int | None = None,
        cache: CacheUse = "use",
        on_text: "OnText | None" = None,
        **filters: str | None,
    ) -> "Answer":
        """Answer a question from the index; `on_text` is given its text while it is generated, or judged.

        `k` is the number of sources to retrieve. Filters are `sender`, `recipient`, `since`, `until` ("2024-05-03",
        "2024-05" or "30d"), `collection` and `document` (a file, or words of a title). With `cache="refresh"` a cached
        answer is ignored and replaced, with "off" nothing is read from or written to any cache, with "stale" one is
        served even if new mail may change it.
        """
        result = self.answer(question, self.options(self.scope(**filters), k, cache), on_text)
        result.keep()
        return result.reply

    def options(self, scope: "Scope", k: int | None = None, cache: CacheUse = "use") -> "AskOptions":
        """Return the options of a question, by default with the number of sources in the settings."""
        return AskOptions(scope, self.session.settings.ask.k if k is None else k, *CACHE_USES[cache])

    def answer(self, question: str, options: "AskOptions", on_text: "OnText | None" = None) -> "AskResult":
        """Answer a question, with the trace of how; call the result's `keep` when the answer has been shown."""
        return answer(self.session, typed(question), options, on_text)

    def scope(self, filters: Filters = NO_FILTERS, /, **named: str | None) -> "Scope":
        """Return the scope of a question; UsageError if a day, a collection or a document does not exist."""
        filters = replace(filters, **named)
        return scope_of(self.session, filters) if filters or self.session.collection else Scope()

    def search(self, query: str, *, k: int = 10, **filters: str | None) -> "list[Source]":
        """Return the best matching passages, best first; the quote of each is its whole text."""
        return [source for found in self.find(query, self.scope(**filters), k) for source in found]

    def find(self, query: str, scope: "Scope", k: int) -> "list[tuple[Source, ...]]":
        """Return the best matching passages, best first: the places of each, with its text as their quote."""
        return call(self.session, operations.search_results, typed(query), scope, k)

    def list_documents(self, options: "ListOptions") -> "Listing":
        """Return documents by date, without their text, and how many there are."""
        return call(self.session, operations.list_documents, options)

    def todo(self, *, kind: LoopKind | None = None, limit: int | None = 20, **filters: str | None) -> "list[OpenLoop]":
        """Return tasks not done and questions not answered, by the words of mail and meetings.

        What is due comes first, then the newest. The filters are those of `ask`; without a day or a document, those of
        the last 30 days are read.
        """
        return list(self.open_loops(replace(Filters(kind=kind), **filters), limit).items)

    def open_loops(self, filters: Filters = NO_FILTERS, limit: int | None = 20) -> "Report":
        """Return what `todo` does, and how many there are."""
        if not (filters.since or filters.until or filters.document):
            filters = replace(filters, since=_RECENT)
        return call(self.session, operations.open_loops, self.scope(filters), filters.kind, limit)

    def meeting(self, name: str = "", filters: Filters = NO_FILTERS, *, before: bool = False) -> "Report":
        """Return what the newest meeting of a name brought, or the last; `before`: what changed since. UsageError."""
        return call(self.session, operations.meeting, typed(name).strip() or "last", self.scope(filters), before)

    def digest(self, filters: Filters = NO_FILTERS, *, in_words: bool = False) -> "Report":
        """Return dates to come, tasks, decisions, new people and changed answers since a day, by default in 7 days.

        With `in_words` a language model tells what it can, for a minute at most.
        """
        scope = self.scope(filters if filters.since else replace(filters, since="7d"))
        return call(self.session, operations.digest, scope, in_words)

    def people(self, name: str = "", *, limit: int = 20, collection: str | None = None) -> "tuple[Person, ...]":
        """Return the people whom a name or an address may stand for, with what is told of them; else who wrote most."""
        return call(self.session, operations.people, valid_text(name), self.scope(collection=collection), limit)

    def tie_people(self, name: str, *, same: Sequence[str] = (), apart: Sequence[str] = ()) -> None:
        """Join addresses with those of a person for good, or set some apart; UsageError where it is unclear whose."""
        same, apart = ([fold(valid_text(one).strip()) for one in some] for some in (same, apart))
        if wrong := [one for one in (*same, *apart) if not (is_address(one) and self.people(one))]:
            raise UsageError(f"{line(wrong[0])} is not the address of an indexed message", "pkb people NAME")
        if not name or not {*same}.isdisjoint(apart):
            raise UsageError("name a person, and each address once", "pkb people NAME --same ADDRESS --apart ADDRESS")
        found = [one.addresses for one in self.people(name)] if same else []
        others = [one[0] for one in found if one and {*one}.isdisjoint(same)]
        if same and len(others) != 1 and (others or len(same) == 1):
            why = "several people fit" if others else "no other person fits"
            raise UsageError(f"{why} {line(name)}", f"pkb people ADDRESS --same {same[0]}")
        opened, made = self.session, self.session.ties.changed([*others, *same], apart)
        told = ("people.same", "; ".join(map(", ".join, made.same))), ("people.apart", ", ".join(sorted(made.apart)))
        for key, value in told:
            opened.override(key, save(opened.home.config, key, value))
        opened.lasting_ledger.raise_generation()  # answers about them are others now

    def show(self, path: "str | os.PathLike[str]", message_id: str | None = None) -> list[dict[str, Any]]:
        """Return the documents indexed from a file, or of a URI mid:ID, with text and the lines that sources name."""
        place = str(path) if str(path).startswith("mid:") else str(operations.place_of(self.session, Path(path)))
        return call(self.session, operations.documents, place, message_id)

    def last_answer(self) -> "Answer":
        """Return the answer to the question asked last; PkbError if it is not cached."""
        from engine.ask.pipeline import last_answer
        from engine.backends import Retriever

        return last_answer(self.session.ledger, Retriever(self.session).reread)

    def source(self, number: int) -> "Source":
        """Return a source of the last answer by the number that `pkb ask` shows; UsageError if there is none."""
        groups = grouped(self.last_answer().sources)
        if not groups:
            raise UsageError("the last answer has no sources", 'pkb ask "QUESTION"')
        if not 0 < number <= len(groups):
            raise UsageError(f"no source {number}: the last answer has {len(groups)}", "pkb show 1")
        return groups[number - 1][0]

    def show_source(self, source: "Source") -> list[dict[str, Any]]:
        """Return the document of a source, as `show` does; PkbError if it is no longer indexed."""
        if not (rows := call(self.session, operations.documents, source.path, source.message_id)):
            raise PkbError(f"{line(source.path)} is no longer indexed", "pkb ingest")
        # A chat is a document a day, without Message-IDs.
        return [row for row in rows if (row["title"], row["date"]) == (source.title, source.date)] or rows

    def thread(self, row: "Mapping[str, Any]") -> list[dict[str, Any]]:
        """Return the mails of the thread of a document that `show` returned, newest first; of another one, itself."""
        people = tuple(filter(None, (row["sender"], *row["recipients"]))) if row["kind"] == "mail" else ()
        return call(self.session, operations.thread, row["title"], people) or [dict(row)]

    def open_source(self, number: int) -> "Source":
        """Open a source of the last answer in the system's program, or that of PKB_OPENER; returns it when that ends.

        An attached file is copied to where only this user can read it. PkbError if that fails.
        """
        source = self.source(number)
        operations.open_source(self.session, source, f"pkb show {number}")
        return source

    def open_file(self, path: str, message_id: str | None = None) -> None:
        """Open an indexed file as `open_source` does; UsageError if it is not indexed."""
        instead = f"pkb show {path}"
        if not (rows := self.show(path, message_id)):
            raise UsageError(f"{path or 'this path'} is not indexed", "pkb list --paths")
        run_opener(opening(rows[0]["path"], message_id, instead, self.session.environ, sys.platform), instead)

    def idle(
        self,
        *,
        budget_s: float = 600,
        force: bool = True,
        dry_run: bool = False,
        on_progress: OnProgress = lambda *_: None,
    ) -> "IdleReport":
        """Run background jobs for at most `seconds`; without `force`, only while the machine is idle."""
        from store.jobs import IdleRequest

        return self.run_jobs(IdleRequest(time.monotonic(), budget_s, _ALL, dry_run, force), on_progress)

    def run_jobs(self, request: "IdleRequest", on_progress: OnProgress = lambda *_: None) -> "IdleReport":
        """Run background jobs, in the background server if there is one; then, in the time left, those of users."""
        from store.readers import UserBook

        session = self.session
        report = work(session, request, on_progress)
        for home in () if request.dry_run else UserBook(session.home).homes():
            session.models.forget()
            session.models.free()
            with suppress(PkbError), Pkb(server=True, environ={**session.environ, **home.environ}) as other:
                other.run_jobs(request, on_progress)
        return report

    def export(self) -> Iterator[dict[str, Any]]:
        """Yield what an export begins with, then cached answers, as `pkb export` prints them."""
        from engine.inventory import export

        return export(self.session)

    def stats(self) -> dict[str, Any]:
        """Return sizes, cache hits by tier and the time they saved, as `pkb stats --json` prints them."""
        from engine.health import gather

        return gather(self.session)

    def check(self, *, read_data: bool = False, repair: bool = False) -> "list[Finding]":
        """Verify index and caches, after repairs if `repair`; with `read_data` all files are read."""
        return operations.check(self.session, read_data=read_data, repair=repair)[0]

    def doctor(self) -> "Iterator[Check]":
        """Yield what was found of this machine, check by check."""
        from engine.health import doctor

        return doctor(self.session)

    def reject(self, question: str | None = None) -> "HistoryEntry":
        """Drop the last answer, or that to a question, from the cache, as wrong; PkbError if there is none."""
        from engine.ask.semantic import reject_answer

        last = reject_answer(self.session.lasting_ledger, self.session.now, self.session.collection, question)
        if last is None:
            raise PkbError("the last question has no cached answer", 'pkb ask "QUESTION" --cache refresh')
        return last

    def plan_forgetting(
        self,
        targets: Sequence[str],
        scope: "Scope",
        *,
        question: str | None = None,
        quoting: bool = False,
        deleted: bool = False,
    ) -> "ForgetPlan":
        """Plan what to forget: files, folders, Message-IDs or numbers of sources, or a question."""
        from engine.forget import ForgetRequest, documents_of, plan

        self.session.refuse_reader()
        named = list[str]()
        for target in targets:
            number = operations.source_number(target)
            named += [target] if number is None else documents_of(self.session, self.source(number))
        return plan(self.session, ForgetRequest(tuple(named), scope, question, quoting, deleted))

    def forget(self, planned: "ForgetPlan", on_progress: OnProgress = lambda *_: None) -> "Erased":
        """Erase what was planned, with all that was made from it; PkbError if any of it is still found afterwards."""
        from engine.forget import forget

        return forget(self.session, planned, on_progress)


def takes_filters(call: Callable[..., T], options: Mapping[str, Any]) -> Callable[..., T]:
    """Return a function with these options, by name and annotation, in place of `filters`, which `call` takes."""

    @wraps(call)
    def run(**given: Any) -> T:
        return call(filters=Filters(**{name: given.pop(name, None) for name in options}), **given)

    own, parameters = inspect.signature(call), list[inspect.Parameter]()
    for one in own.parameters.values():
        spread = [one.replace(name=name, default=None, annotation=kind) for name, kind in options.items()]
        parameters += spread if one.name == "filters" else [one]
    vars(run)["__signature__"] = own.replace(parameters=parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": own.return_annotation}
    return run
