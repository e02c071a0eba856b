"""`pkb watch`: follows folders until a signal comes, and brings what was read from them up to date."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from cli import output
from cli.output import Tick, bars, duration, open_pkb
from engine.text.terminal import count, line

if TYPE_CHECKING:
    from engine.ingest.follow import Followed, Intervals
    from engine.ingest.pipeline import Summary
    from store.errors import NoModel


_CHANGES = {"new": "new", "changed": "changed", "gone": "gone"}
_EFFECTS = {"kept": "added", "duplicates": "duplicates", "removed": "removed"}
_HOW = {"events": "watching", "polling": "polling", "missing": "missing, documents kept:"}


class WatchPrinter:
    """Prints events; what would only be said again is not."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._refused: dict[str, int] = {}
        self._put_off: set[str] = set()

    def followed(self, one: "Followed") -> None:
        """Say how a root is followed from now on, or that it is not there."""
        why = f" ({one.why})" if one.why else ""
        self._tell("followed", one.root, how=one.how, message=one.why or None, said=f"{_HOW[one.how]} {one.root}{why}")

    def read(self, path: str, summary: "Summary", left: int | None, seconds: float, *, always: bool) -> None:
        """Say what was read in a folder; nothing where nothing had changed, unless `always`."""
        self._put_off.clear()
        numbers = {name: getattr(summary, name) for name in (*_CHANGES, *_EFFECTS)}
        news = summary.problems or summary.refused != self._refused.get(path, 0)
        self._refused[path] = summary.refused
        if any(numbers.values()) or news or always:
            self._tell("read", path, said=_said(path, summary), summary=summary, left=left, seconds=round(seconds, 3))

    def embedded(self, done: int, left: int) -> None:
        """Say how many chunks were embedded."""
        more = f", {left:,} left" if left else ""
        self._tell("embedded", None, embedded=done, left=left, said=f"{count(done, 'chunk')} embedded{more}")

    def put_off(self, path: str, why: str) -> None:
        """Say once that reading waits."""
        if path not in self._put_off:
            self._put_off.add(path)
            self._tell("waiting", path, message=why, said=f"{path} postponed: {why}")

    def without_model(self, error: "NoModel") -> None:
        """Say that nothing is embedded."""
        said = f"{error.message}; keyword search only; try: {error.next_step}"
        self._tell("unembedded", None, message=error.message, said=said)

    def queued(self) -> None:
        """Report that jobs are queued for `pkb idle`."""
        self._tell("queued", None, said="jobs queued for pkb idle")

    def progress(self) -> AbstractContextManager[Tick]:
        """Return a context that shows bars on a terminal."""
        return bars(quiet=self.as_json, stay=False)

    def _tell(
        self,
        event: str,
        path: str | None,
        *,
        said: str,
        how: str | None = None,
        summary: "Summary | None" = None,
        embedded: int | None = None,
        left: int | None = None,
        seconds: float | None = None,
        message: str | None = None,
    ) -> None:
        now = datetime.now().astimezone()
        if not self.as_json:
            print(f"{now:%H:%M:%S} {line(said)}", flush=True)
            return
        row = {
            "schema": output.SCHEMA,
            "event": event,
            "at": now.isoformat(timespec="seconds"),
            "path": path,
            "how": how,
        }
        row |= _counts(summary) | {"embedded": embedded, "without_vector": left}
        output.data(row | {"seconds": seconds, "message": message})


def _counts(summary: "Summary | None") -> dict[str, Any]:
    if summary is None:
        return dict.fromkeys(("files", "documents", "skipped"))
    files = {name: getattr(summary, name) for name in ("files", *_CHANGES, "waiting")}
    documents = {name: getattr(summary, name) for name in ("read", *_EFFECTS, "refused")}
    skipped = [{"path": p.path, "item": p.item, "reason": p.reason} for p in summary.problems]
    return {"files": files, "documents": documents, "skipped": skipped}


def _said(path: str, summary: "Summary") -> str:
    numbers = [(getattr(summary, name), word) for name, word in (_CHANGES | _EFFECTS).items()]
    parts = [f"{number:,} {word}" for number, word in numbers if number]
    parts += [f"{count(summary.waiting, 'file')} still being written"] if summary.waiting else []
    parts += [f"{count(len(summary.problems), 'file')} skipped"] if summary.problems else []
    if summary.refused:
        parts.append(
            f"{summary.refused:,} documents disappeared at once and were kept (remove them with: pkb ingest --prune)"
        )
    return f"{path}: {', '.join(parts) or 'nothing new'}"


def watch(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Folders or files; none for all indexed before.")
    ] = None,
    quiet: Annotated[
        str, typer.Option("--quiet", metavar="TIME", help="Index after this long without changes.")
    ] = "5s",
    rescan: Annotated[str, typer.Option("--rescan", metavar="TIME", help="Rescan everything this often.")] = "1h",
    poll: Annotated[
        str | None, typer.Option("--poll", metavar="TIME", help="Poll this often instead of using file events.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON event per line.")] = False,
) -> None:
    """Watch folders, and index changes as they happen.

    Example: pkb watch ~/Mail
    """
    from engine.ingest.follow import Intervals

    usual, example = Intervals(), "pkb watch --quiet 5s"
    looks = usual.poll if poll is None else max(1.0, duration("--poll", poll, example))
    intervals = Intervals(duration("--quiet", quiet, example), rescan=duration("--rescan", rescan, example), poll=looks)
    start(paths or [], None, None, intervals=intervals, polling=poll is not None, as_json=as_json)


def start(
    paths: Sequence[Path],
    kind: str | None,
    collection: str | None,
    *,
    intervals: "Intervals | None" = None,
    polling: bool = False,
    embeds: bool = True,
    as_json: bool = False,
) -> NoReturn:
    """Watch folders until a signal comes."""
    import logging

    from cli.app import handle_signals

    # The library would tell the terminal of lost events, which the next look makes up for.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())
    handle_signals()
    with open_pkb() as pkb:
        pkb.watch(paths, WatchPrinter(as_json=as_json), kind=kind, collection=collection, intervals=intervals,
                  polling=polling, embed=embeds)  # fmt: skip
