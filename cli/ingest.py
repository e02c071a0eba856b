"""`pkb ingest`: read folders, show progress, and sum up; once, or until a signal comes."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from cli import output
from cli.output import Tick, agreed, bars, duration, open_pkb
from engine.app import Pkb
from engine.operations import missing_vectors, noted, refuse_missing, unfit_places
from engine.text.terminal import count, line, size
from store.errors import NoModel, PkbError, UsageError

if TYPE_CHECKING:
    from engine.ingest.follow import Followed
    from engine.ingest.imap import Fetched, MailAccount
    from engine.ingest.pipeline import Summary


_LISTED = 10
_LONGEST_SEARCH = 10.0  # seconds
_DENIED = "; on a Mac, allow your terminal: System Settings, Privacy & Security, Full Disk Access"
When = Literal["auto", "now", "background", "later"]
_MANY = 500  # chunks; a slow CPU embeds them in half a minute
_REST_S = 120.0  # before idle jobs: the load of embedding is over, and somebody may have left the machine
_In = Annotated[str | None, typer.Option("--in", metavar="NAME", help="Its collection (default: the folder's).")]
_Engine = Annotated[str | None, typer.Option(metavar="ray", help="Parse and embed on a cluster: ray, ray://HOST:PORT.")]
_Quiet = Annotated[str | None, typer.Option(metavar="TIME", help="With --watch: wait for such a pause (default: 5s).")]
_Poll = Annotated[str | None, typer.Option(metavar="TIME", help="With --watch: poll this often, without file events.")]


def ingest(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH...", help="Folders, files, imaps://NAME@SERVER; else those before."),
    ] = None,
    kind: Annotated[Literal["mail", "mbox", "transcript"] | None, typer.Option(help="Kind of every file.")] = None,
    collection: _In = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove documents of missing files, however many.")] = False,
    restore: Annotated[bool, typer.Option("--restore", help="Index forgotten messages of these paths again.")] = False,
    vectors: Annotated[When, typer.Option(help="When to compute embeddings; keyword search works at once.")] = "auto",
    engine: _Engine = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running, and index changes as they happen.")] = False,
    quiet: _Quiet = None,
    poll: _Poll = None,
    find: Annotated[bool, typer.Option("--find", help="Find mail of other programs, and ask what to index.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --find: index all of it without asking.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Index mail and transcripts: new, changed and removed files.

    Example: pkb ingest ~/Mail ~/Meetings
    """
    if find:
        paths = _find(paths, yes=yes, as_json=as_json, watch=watch)
    if watch:
        alone = {"PATH --restore": restore, "--prune": prune, f"--engine={engine}": engine}
        if first := next((words for words, given in alone.items() if given), ""):
            step = f"pkb ingest {first}, then: pkb ingest --watch"
            raise UsageError(f"{first.split()[-1]} cannot be combined with --watch", step)
        _watch(paths or [], quiet, poll, as_json=as_json, kind=kind, collection=collection, embed=vectors != "later")
    if (quiet, poll) != (None, None):
        raise UsageError("--quiet and --poll are for --watch", "pkb ingest --watch --quiet 5s")
    if restore and not paths:
        raise UsageError("--restore needs the files or folders to restore", "pkb ingest FILE --restore")
    began, paths = time.perf_counter(), paths or []
    with open_pkb() as pkb:
        if engine:
            logging.disable()  # Ray would print its progress, and errors of tasks with values in them
            pkb.use_cluster(engine)
            vectors = "now" if vectors in ("auto", "background") else vectors  # by this process, which has the cluster
        for check in unfit_places(pkb.session.home):
            output.say(f"pkb: warning: {check.found}; try: {check.next_step}")
        fetched, failed = pkb.fetch(paths, ask=ask_password, keep=offer_keeping, restore=restore,
                                    progress=partial(bars, quiet=as_json))  # fmt: skip
        with bars(quiet=as_json) as tick:
            summary, missing = pkb.index(
                paths, kind=kind, collection=collection, prune=prune, restore=restore, on_progress=tick
            )
        chunks = pkb.session.ledger.count("chunks")
        if not as_json:
            _show_fetched(fetched)
            _show(summary, chunks)
        left = _embed(pkb, vectors, quiet=as_json)
        if as_json:
            output.data(_row(summary, chunks, left, time.perf_counter() - began) | {"accounts": fetched})
    refuse_missing(summary, missing)
    for error in failed:
        raise error
    raise typer.Exit(3 if summary.problems else 0)


def _find(paths: list[Path] | None, *, yes: bool, as_json: bool, watch: bool) -> list[Path]:
    """Show where mail is, and ask which of it to index; with JSON, it is only listed, or indexed if all is to be."""
    from engine.ingest.scan import find_mail

    if paths:
        raise UsageError("--find looks in your home folder, and takes no path", "pkb ingest --find")
    if watch and as_json and not yes:
        raise UsageError("--json asks nothing", "pkb ingest --find --yes --watch --json")
    places, ends = [], time.monotonic() + _LONGEST_SEARCH
    with bars(quiet=as_json, stay=False) as tick:
        for one in find_mail(Path.home(), lambda: time.monotonic() > ends):
            places.append(one)
            tick("find", len(places), None)
    if as_json and not yes:
        output.data({"found": places})
        raise typer.Exit
    for one in places if not as_json else ():
        said = f"{one.problem}{_DENIED}" if one.problem else f"{count(one.files, 'file')}, {size(one.bytes)}"
        print(f"{one.program}: {line(one.path)}: {'at least ' if one.least else ''}{said}")
    readable = [Path(one.path) for one in places if not one.problem]
    step = "pkb ingest --find --yes"
    if not (chosen := [path for path in readable if agreed(f"index {path}?", yes=yes, default=True, step=step)]):
        raise PkbError("nothing to index", "pkb ingest FOLDER")
    return chosen


def ask_password(account: "MailAccount") -> str | None:
    """Ask for the password of a mail account, which is not shown; None without a terminal."""
    from getpass import getpass

    with suppress(EOFError):
        return (sys.stdin.isatty() and getpass(f"Password of {line(str(account))}: ")) or None
    return None


def offer_keeping(account: "MailAccount", password: str) -> None:
    """Ask whether to keep a password in the system's keyring, or say how to have one."""
    from engine.ingest.imap import keep_password

    question = "keep the password in the system's keyring?"
    try:
        keep_password(account, password, lambda: agreed(question, yes=False, default=True, step="pkb ingest"))
    except PkbError as error:
        output.say(f"pkb: {error.message}" + (f"; try: {error.next_step}" if error.next_step else ""))


def _show_fetched(fetched: "list[Fetched]") -> None:
    for one in fetched:
        others = {"gone": one.gone, "too large": one.too_large, "not sent by the server": one.missing,
                  "left out as deleted, junk or draft": one.marked}  # fmt: skip
        parts = [f"{count(one.new, 'message')} fetched", *(f"{n:,} {what}" for what, n in others.items() if n)]
        print(line(f"{one.account}: {', '.join(parts)}; read {_names(one.folders)}"))
        if one.left_out:
            step = f"pkb ingest '{one.account}/{one.left_out[0]}'"
            more = "deleted mail, spam and drafts: pkb config set ingest.leave_out ''"
            print(line(f"left out {_names(one.left_out)}; to read one: {step} ({more})"))


def _names(folders: list[str]) -> str:
    return ", ".join(folders[:_LISTED]) + (f" and {len(folders) - _LISTED:,} more" if len(folders) > _LISTED else "")


def _embed(pkb: Pkb, when: When, *, quiet: bool) -> int:
    """Embed what has no vector yet, or leave it; returns how many chunks are left without.

    A person at a terminal does not wait for many: they are embedded in the background.
    """
    missing = missing_vectors(pkb.session)
    if not missing or when == "later":
        return missing
    if when == "auto" and not quiet and missing > _MANY and sys.stderr.isatty():
        when = "background"
    try:
        _ = pkb.session.embedder
    except NoModel as error:
        from cli.model import offer_embedder

        if not offer_embedder(pkb.session, error, quiet=quiet):
            return missing
    if when == "background":
        # -P: a folder named engine in the working directory must not shadow ours. It reads no other folder or account.
        words = [sys.executable, "-P", "-c", "from cli.ingest import work_behind; work_behind()"]
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         start_new_session=True)  # fmt: skip
        output.say("embeddings and idle work follow in the background; you can ask now")
        return missing
    with bars(quiet=quiet) as tick:
        tick("embed", 0, None)
        for done, missing in pkb.embed():
            tick("embed", done, done + missing)
    return missing


def work_behind() -> None:
    """Embed what has no vector; a little later, run idle jobs if the machine is idle."""
    os.nice(10)
    with Pkb() as pkb:
        list(pkb.embed())
    time.sleep(_REST_S)
    with suppress(PkbError), Pkb() as pkb:
        pkb.idle(force=False)


def _row(summary: "Summary", chunks: int, left: int, seconds: float) -> dict[str, Any]:
    counters = ("read", "kept", "duplicates", "removed", "refused", "forgotten", "attachments")
    return {
        "files": {name: getattr(summary, name) for name in ("files", "new", "changed", "gone")},
        "documents": {name: getattr(summary, name) for name in counters},
        "chunks": chunks,
        "without_vector": left,
        "skipped": [
            {"path": p.path, "item": p.item, "reason": p.reason, "new": new}
            for new, found in ((True, summary.problems), (False, summary.known_problems))
            for p in found
        ],
        "noted": noted(summary.noted),
        "seconds": round(seconds, 3),
    }


def _show(summary: "Summary", chunks: int) -> None:
    from engine.ingest.types import LEFT_OUT

    changes = {"new": summary.new, "changed": summary.changed, "gone": summary.gone}
    files = ", ".join(f"{number:,} {name}" for name, number in changes.items() if number) or "nothing new"
    print(f"{count(summary.files, 'file')}: {files}")
    documents = [f"{count(summary.kept, 'document')} added"]
    documents += [count(summary.duplicates, "duplicate")] if summary.duplicates else []
    documents += [f"{summary.removed:,} removed"] if summary.removed else []
    documents += [f"text of {count(summary.attachments, 'attached file')} read"] if summary.attachments else []
    print(f"{', '.join(documents)}; {count(chunks, 'chunk')} indexed")
    if summary.forgotten:
        print(f"kept out {count(summary.forgotten, 'forgotten document')}")
    for problem in summary.problems[:_LISTED]:
        item = f" item {problem.item + 1}" if problem.item else ""
        print(f"skipped {line(problem.path)}{item}: {problem.reason}")
    if len(summary.problems) > _LISTED:
        print(f"skipped {len(summary.problems) - _LISTED:,} more; list them with: pkb list --problems")
    if summary.known_problems:
        print(f"skipped again: {len(summary.known_problems):,}; list them with: pkb list --problems")
    kinds = noted(summary.noted)
    for one in kinds:
        if one["kind"] not in LEFT_OUT:
            print(line(f"read with doubt: {one['meaning']}: {one['count']:,}, such as {one['items'][0]['path']}"))
    if left := ", ".join(f"{one['kind']} {one['count']:,}" for one in kinds if one["kind"] in LEFT_OUT):
        print(f"left out: {left}; to index them: pkb config set ingest.leave_out '', then pkb ingest")


_CHANGES, _EFFECTS = ("new", "changed", "gone"), ("kept", "duplicates", "removed")
_VALUES = ("how", "files", "documents", "skipped", "embedded", "without_vector", "seconds", "message")  # of events
_HOW = {"events": "watching", "polling": "polling", "missing": "missing, documents kept:"}


class WatchPrinter:
    """Prints events, with each path as `shown` names it; what would only be said again is not."""

    def __init__(self, shown: Callable[[str], str] = str, *, as_json: bool) -> None:
        self._shown, self.as_json = shown, as_json
        self._refused: dict[str, int] = {}
        self._put_off: set[str] = set()

    def followed(self, one: "Followed") -> None:
        """Say how a root is followed from now on, or that it is not there."""
        why = f" ({one.why})" if one.why else ""
        self.tell("followed", one.root, how=one.how, message=one.why or None, said=f"{_HOW[one.how]} {one.root}{why}")

    def read(self, path: str, summary: "Summary", left: int | None, seconds: float, *, always: bool) -> None:
        """Say what was read in a folder; nothing if nothing had changed, unless `always`."""
        self._put_off.clear()
        numbers = {name: getattr(summary, name) for name in (*_CHANGES, *_EFFECTS)}
        news = summary.problems or summary.refused != self._refused.get(path, 0)
        self._refused[path] = summary.refused
        if any(numbers.values()) or news or always:
            about: dict[str, Any] = {"without_vector": left, "seconds": round(seconds, 3)}
            files = {name: getattr(summary, name) for name in ("files", *_CHANGES, "waiting")}
            documents = {name: getattr(summary, name) for name in ("read", *_EFFECTS, "refused")}
            skipped = [{"path": p.path, "item": p.item, "reason": p.reason} for p in summary.problems]
            about |= {"files": files, "documents": documents, "skipped": skipped}
            parts = [f"{number:,} {'added' if name == 'kept' else name}" for name, number in numbers.items() if number]
            parts += [f"{count(summary.waiting, 'file')} still being written"] if summary.waiting else []
            parts += [f"{count(len(summary.problems), 'file')} skipped"] if summary.problems else []
            kept = f"{summary.refused:,} documents disappeared at once and were kept"
            parts += [f"{kept} (remove them with: pkb ingest --prune)"] if summary.refused else []
            self.tell("read", path, said=f"{path}: {', '.join(parts) or 'nothing new'}", **about)

    def put_off(self, path: str, why: str) -> None:
        """Say once that reading waits."""
        if path not in self._put_off:
            self._put_off.add(path)
            self.tell("waiting", path, message=why, said=f"{path} postponed: {why}")

    def progress(self) -> AbstractContextManager[Tick]:
        """Return a context that shows progress bars on a terminal."""
        return bars(quiet=self.as_json, stay=False)

    def tell(self, event: str, path: str | None, *, said: str, **values: Any) -> None:
        """Say what happened, or print it with `values` of _VALUES."""
        now, shown = datetime.now().astimezone(), path and self._shown(path)
        if self.as_json:
            row = {"event": event, "at": now.isoformat(timespec="seconds"), "path": shown}
            output.data(row | dict.fromkeys(_VALUES) | values)
        else:
            print(f"{now:%H:%M:%S} {line(said.replace(path or '', shown or '', 1))}", flush=True)


def _watch(paths: Sequence[Path], quiet: str | None, poll: str | None, *, as_json: bool, **how: Any) -> NoReturn:
    from cli.app import handle_signals
    from cli.idle import words as idle_command
    from engine.ingest.follow import Intervals
    from engine.ingest.imap import kept_password, shown_path

    # The library would print lost events, which the next scan finds.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())
    handle_signals()
    given, example = {"quiet": quiet, "poll": poll}, "pkb ingest --watch --quiet 5s"
    seconds = {name: duration(f"--{name}", text, example) for name, text in given.items() if text is not None}
    intervals = Intervals(**seconds | ({"poll": max(1.0, seconds["poll"])} if "poll" in seconds else {}))
    with open_pkb() as pkb:
        passwords = {account: kept_password(account) or ask_password(account) for account in pkb.accounts(paths)}
        printer = WatchPrinter(partial(shown_path, pkb.session.home.mail), as_json=as_json)
        polling = poll is not None
        pkb.watch(paths, printer, intervals=intervals, polling=polling, passwords=passwords, idle=idle_command(), **how)
