"""Follows root folders for changes: by file system events where the system reports them, else by polling.

Roots may vanish and come back. Knows no store and no format, and reads no file.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path, PurePath
from typing import Literal

from msgspec import Struct
from watchdog import events
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.polling import PollingObserver

from engine.ingest.scan import ignorable, is_skipped_folder
from store.home import NETWORK, file_system


class Intervals(Struct, frozen=True):
    """Watch intervals in seconds."""

    quiet: float = 5.0  # without a change in a root, before it is ingested
    max_wait: float = 60.0  # of steady change, before it is ingested
    rescan: float = 3600.0  # between full scans, which catch changes without events
    poll: float = 30.0  # between scans where there are no events at all
    check: float = 5.0  # between checks whether roots are there
    rest: float = 120.0  # without a change, before idle jobs run
    again: float = 3600.0  # between two runs of idle jobs
    busy: float = 60.0  # before they are tried again on a busy machine


class _Root(Struct):
    """When a root is scanned in any case, and the first and last change since it was due."""

    rescan: float
    first: float = inf
    last: float = inf


class Debouncer:
    """Decides when changed roots are due: after a quiet period or a maximum wait. Thread-safe."""

    def __init__(self, intervals: Intervals, clock: Callable[[], float] = time.monotonic) -> None:
        self._intervals, self._clock = intervals, clock
        self._roots: dict[str, _Root] = {}
        self._changed = threading.Condition()

    def begin(self, root: str) -> None:
        """Follow a root, which is due at once as a whole."""
        with self._changed:
            now = self._clock()
            last = now - self._intervals.quiet
            self._roots[root] = _Root(now + self._intervals.rescan, last, last)
            self._changed.notify()

    def drop(self, root: str) -> None:
        """Stop following a root."""
        with self._changed:
            self._roots.pop(root, None)

    def touch(self, root: str) -> None:
        """Record a change in a root."""
        with self._changed:
            if known := self._roots.get(root):
                known.last = self._clock()
                if known.first == inf:
                    known.first = known.last
                    self._changed.notify()

    def due(self) -> dict[str, bool]:
        """Return the roots that are due, each with whether files that are still being written are, too; reset them."""
        with self._changed:
            now = self._clock()
            found = {root: one.rescan <= now for root, one in self._roots.items() if self._due_at(one) <= now}
            for root, every in found.items():
                self._roots[root] = _Root(now + self._intervals.rescan if every else self._roots[root].rescan)
        return found

    def next_due(self) -> float:
        """Return when the next root is due if no more files change; infinity if none is followed."""
        with self._changed:
            return min(map(self._due_at, self._roots.values()), default=inf)

    def wait(self) -> None:
        """Wait until something is due, for one check interval at most."""
        with self._changed:
            ends = self._clock() + self._intervals.check
            while (left := min(ends, self.next_due()) - self._clock()) > 0:
                self._changed.wait(left)

    def _due_at(self, known: _Root) -> float:
        return min(known.last + self._intervals.quiet, known.first + self._intervals.max_wait, known.rescan)


_EVENTS: list[type[events.FileSystemEvent]] = [  # reading a file is not a change
    *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileMovedEvent, events.FileDeletedEvent),
    *(events.FileClosedEvent, events.DirCreatedEvent, events.DirMovedEvent, events.DirDeletedEvent),
]
_LIMITS = {errno.ENOSPC: "max_user_watches", errno.EMFILE: "max_user_instances"}


@dataclass(frozen=True, eq=False)
class _EventHandler(events.FileSystemEventHandler):
    """Receives events and skips files that are never ingested; `name` is the file's name if the root is a file."""

    root: str
    real: str
    name: str | None
    on_change: Callable[[str], None]  # is told the root
    aside: Sequence[str]  # folders in which the watching process writes itself

    def dispatch(self, event: events.FileSystemEvent) -> None:
        """Report that something has changed."""
        for path in (PurePath(os.fsdecode(one)) for one in (event.src_path, event.dest_path) if one):
            below = path.parts[len(PurePath(self.real).parts) :]
            is_aside = any(map(path.is_relative_to, self.aside)) or any(map(is_skipped_folder, below))
            is_read = not is_aside and (event.is_directory or not ignorable(path))
            if path.name == self.name or (self.name is None and is_read):
                self.on_change(self.root)


# File systems of another machine or of a virtual machine's host, whose changes cause no events here.
_NO_EVENTS = NETWORK | {
    *("9p", "vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "virtiofs", "prl_fs", "davfs", "fuse.davfs", "fuse.s3fs", "lustre"),
    *("fuse.gvfsd-fuse", "fuse.osxfs", "fuse.grpcfuse", "fakeowner", "afs", "glusterfs", "fuse.glusterfs"),
}
How = Literal["events", "polling", "missing"]


class Followed(Struct, frozen=True):
    """How a root is followed from now on, and why not by events."""

    root: str
    how: How
    why: str = ""


class _WatchedFolder(Struct, frozen=True):
    """The folder watched for a root, its identity (None if missing), the device it was last on, and by whom."""

    place: str
    identity: tuple[int, int] | None = None  # device and inode
    device: int | None = None
    watch: tuple[BaseObserver, ObservedWatch] | None = None


class Follow(Debouncer):
    """Follows roots until the context is left; changes in the folders `aside` are ignored. Thread-safe."""

    def __init__(self, intervals: Intervals, *, polling: bool = False, aside: Sequence[str] = ()) -> None:
        super().__init__(intervals)
        self._polling, self._aside = polling, [os.path.realpath(folder) for folder in aside]
        self._folders: dict[str, _WatchedFolder] = {}
        self._observers: dict[How, BaseObserver] = {}

    def __enter__(self) -> "Follow":
        return self

    def __exit__(self, *_: object) -> None:
        for observer in self._observers.values():
            observer.stop()
            observer.join()

    def add(self, root: str) -> Followed:
        """Follow a root; if it exists it is due at once."""
        return self._watch(root, _WatchedFolder(root))

    def check_roots(self) -> list[Followed]:
        """Check whether the roots still exist and are watched; returns those followed differently from now on."""
        changed = list[Followed]()
        for root, watched in [*self._folders.items()]:
            # A watch ends with its folder, even if a new one has taken its path.
            observer, watch = watched.watch or (None, None)
            is_alive = observer is not None and any(one.is_alive() for one in observer.emitters if one.watch == watch)
            found = _identity(watched.place if watched.identity else _place(root), watched.device)
            if found != watched.identity or (found and not is_alive):
                changed.append(self._watch(root, watched))
        return changed

    def _watch(self, root: str, before: _WatchedFolder) -> Followed:
        if before.watch:
            with suppress(KeyError):
                before.watch[0].unschedule(before.watch[1])
        place, watch = _place(root), None
        identity = _identity(place, before.device)
        kind = file_system(Path(place)) if identity else ""
        why = "requested" if self._polling else f"{kind} does not report changes" if kind in _NO_EVENTS else ""
        try:
            if identity:
                watch = self._scheduled(root, place, "polling" if why else "events")
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):  # gone since
                identity = None
            elif limit := _LIMITS.get(error.errno or 0):
                why = f"no file watches left; raise the limit: sudo sysctl fs.inotify.{limit}=1048576"
                watch = self._scheduled(root, place, "polling")
            else:
                raise
        self._folders[root] = _WatchedFolder(place, identity, identity[0] if identity else before.device, watch)
        if identity is None:
            self.drop(root)
            return Followed(root, "missing")
        self.begin(root)
        return Followed(root, "polling" if why else "events", why)

    def _scheduled(self, root: str, place: str, how: How) -> tuple[BaseObserver, ObservedWatch]:
        real, name = os.path.realpath(place), None if place == root else PurePath(root).name
        if how not in self._observers:
            self._observers[how] = Observer() if how == "events" else PollingObserver(timeout=self._intervals.poll)
            self._observers[how].start()
        observer = self._observers[how]
        handler = _EventHandler(root, real, name, self.touch, self._aside)
        return observer, observer.schedule(handler, real, recursive=name is None, event_filter=_EVENTS)


def _place(root: str) -> str:
    """Return the folder to watch: for a file its parent, since editors replace the file itself."""
    return str(Path(root).parent) if Path(root).is_file() else root


def _identity(place: str, device: int | None) -> tuple[int, int] | None:
    """Return the identity of a folder; None if it is missing or the mount point of an unmounted disk."""
    with suppress(OSError):
        status = Path(place).stat()
        if device in (None, status.st_dev) or any(Path(place).iterdir()):
            return status.st_dev, status.st_ino
    return None
