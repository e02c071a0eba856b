"""Roots that are followed: by events where the system tells of changes, else by looking; they may vanish and come back.

Knows no ledger and no format, and reads no file.
"""

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from types import TracebackType
from typing import Literal

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.polling import PollingObserver

from engine.health import NETWORK, file_system
from engine.ingest.scan import ignorable, is_foreign, reached

_SHARE = 2000  # a look at everything may take one part in so many of the time


@dataclass(frozen=True, slots=True)
class Intervals:
    """How long things take, in seconds.

    A root is read when nothing in it has changed for `quiet`, or after `max_wait` of steady change. Every `rescan` all
    of it is looked at, for changes nobody told of; every `poll` where nobody tells of any, and every `beat` whether the
    roots are there. After `rest` without a change it is time for what rather waits.
    """

    quiet: float = 5.0
    max_wait: float = 60.0
    rescan: float = 3600.0
    poll: float = 30.0
    beat: float = 5.0
    rest: float = 120.0


@dataclass(frozen=True, slots=True)
class DueFolder:
    """What is to be read now: the deepest folder of a root in which all that has changed lies.

    With `every` it is time to look at the whole root, and to take files as they are, even those still being written.
    """

    root: str
    folder: str
    every: bool = False


@dataclass(slots=True)
class _Root:
    rescan: float
    folder: str | None = None
    first: float = 0.0
    last: float = 0.0


class Debouncer:
    """The roots that are followed; changes with every call, and is for one thread at a time."""

    def __init__(self, pace: Intervals) -> None:
        self._pace = pace
        self._roots: dict[str, _Root] = {}

    def add(self, root: str, now: float) -> None:
        """Follow a root, all of which is due at once."""
        self._roots[root] = _Root(now + self._pace.rescan)
        self.touch(root, root, now - self._pace.quiet)

    def drop(self, root: str) -> None:
        """Follow a root no more, or not until it is added again."""
        self._roots.pop(root, None)

    def touch(self, root: str, folder: str, now: float) -> bool:
        """Note that something in a folder of a root has changed; returns whether the root was at rest before."""
        if (known := self._roots.get(root)) is None:
            return False
        known.last = now
        if known.folder is not None:
            known.folder = os.path.commonpath((known.folder, folder))
            return False
        known.folder, known.first = folder, now
        return True

    def due(self, now: float) -> list[DueFolder]:
        """Take what is due."""
        return [self._take(root, known, now) for root, known in self._roots.items() if self._when(known) <= now]

    def until(self) -> float | None:
        """Return when something will be due unless more changes; None where nothing is followed."""
        return min(map(self._when, self._roots.values()), default=None)

    def looked(self, root: str, now: float, seconds: float) -> None:
        """Note how long it took to look at a whole root, so that it happens the less often the longer it takes."""
        if known := self._roots.get(root):
            known.rescan = now + max(self._pace.rescan, seconds * _SHARE)

    def _when(self, known: _Root) -> float:
        if known.folder is None:
            return known.rescan
        return min(known.last + self._pace.quiet, known.first + self._pace.max_wait, known.rescan)

    def _take(self, root: str, known: _Root, now: float) -> DueFolder:
        if known.rescan <= now:
            known.rescan, known.folder = now + self._pace.rescan, None
            return DueFolder(root, root, every=True)
        folder, known.folder = known.folder or root, None
        return DueFolder(root, folder)


How = Literal["events", "polling"]
Touch = Callable[[str, str], None]  # a root, and the folder in it, or the root itself, where something has changed

_HEARD: list[type[FileSystemEvent]] = [
    *(FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent, FileClosedEvent),
    *(DirCreatedEvent, DirMovedEvent, DirDeletedEvent),
]
_LIMITS = {errno.ENOSPC: "max_user_watches", errno.EMFILE: "max_user_instances"}


@dataclass(frozen=True, slots=True)
class _Set:
    observer: BaseObserver
    watch: ObservedWatch


class Watches:
    """The watches that are set, by root; changes are told of on other threads, until it is closed.

    What changes in the folders `aside` is nobody's business: they are where the one who listens writes.
    """

    def __init__(self, touch: Touch, poll: float, aside: Sequence[str]) -> None:
        self._touch, self._poll = touch, poll
        self._aside = [os.path.realpath(folder) for folder in aside]
        self._observers: dict[How, BaseObserver] = {}
        self._set: dict[str, _Set] = {}

    def set(self, root: str, place: str, how: How) -> None:
        """Watch a root, which is or lies in the folder `place`, in the stead of its former watch.

        OSError where it is gone, or the system lends no more watches (`limit` tells); then it has none.
        """
        self.unset(root)
        real, name = os.path.realpath(place), None if place == root else PurePath(root).name
        observer = self._observer(how)
        ear = _EventHandler(root, real, name, self._touch, self._aside)
        watch = observer.schedule(ear, real, recursive=name is None, event_filter=_HEARD)
        self._set[root] = _Set(observer, watch)
        if how == "events" and (error := full(real)):
            self.unset(root)
            raise error

    def unset(self, root: str) -> None:
        """Watch a root no more."""
        if one := self._set.pop(root, None):
            with suppress(KeyError):
                one.observer.unschedule(one.watch)

    def alive(self, root: str) -> bool:
        """Return whether a root's watch is at work: it ends with its folder, though another one may stand there now."""
        one = self._set.get(root)
        return one is not None and any(e.is_alive() for e in one.observer.emitters if e.watch == one.watch)

    def close(self) -> None:
        """End all watches."""
        for observer in self._observers.values():
            observer.stop()
            observer.join()

    def _observer(self, how: How) -> BaseObserver:
        if how not in self._observers:
            made: BaseObserver = Observer() if how == "events" else PollingObserver(timeout=self._poll)
            made.start()
            self._observers[how] = made
        return self._observers[how]


class _EventHandler(FileSystemEventHandler):
    """What an observer calls; passes over what is never read. Of a root that is a file, `name` is its name."""

    def __init__(self, root: str, real: str, name: str | None, touch: Touch, aside: Sequence[str]) -> None:
        self._root, self._real, self._name, self._touch, self._aside = root, real, name, touch, aside

    def dispatch(self, event: FileSystemEvent) -> None:
        """Note where something has changed."""
        for path in (event.src_path, event.dest_path):
            if path:
                self._hear(os.fsdecode(path), is_folder=event.is_directory)

    def _hear(self, path: str, *, is_folder: bool) -> None:
        if self._name is not None:
            if PurePath(path).name == self._name:
                self._touch(self._root, self._root)
            return
        if any(_is_in(path, folder) for folder in self._aside):
            return
        if not _is_in(path, self._real):
            self._touch(self._root, self._root)  # its name in another spelling
            return
        below = PurePath(path[len(self._real) :].strip("/"))
        if not any(map(is_foreign, below.parts)) and (is_folder or not ignorable(PurePath(path))):
            self._touch(self._root, str(PurePath(self._root, below if is_folder else below.parent)))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def full(place: str) -> OSError | None:
    """Try whether the system lends one watch more, and give its refusal: folders past the limit would be passed over.

    The library does so in silence.
    """
    if sys.platform != "linux":
        return None
    probe: BaseObserver | None = None
    try:
        probe = Observer()
        probe.start()
        probe.schedule(FileSystemEventHandler(), place, recursive=False)
    except OSError as error:
        return error if limit(error) else None
    finally:
        if probe:
            probe.stop()
            probe.join()
    return None


def limit(error: OSError) -> str | None:
    """Name the system's limit that an error speaks of, None if it speaks of something else."""
    found = _LIMITS.get(error.errno or 0)
    return found and f"fs.inotify.{found}"


# Folders of another machine, or of the host of a virtual one: what is changed there, the system here is not told.
_SILENT = NETWORK | {
    *("vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "virtiofs", "prl_fs", "davfs", "fuse.davfs", "fuse.s3fs", "lustre"),
    *("fuse.gvfsd-fuse", "fuse.osxfs", "fuse.grpcfuse", "fakeowner", "afs", "glusterfs", "fuse.glusterfs"),
}
Identity = tuple[int, int]  # device and inode


@dataclass(frozen=True, slots=True)
class Followed:
    """How a root is followed since just now, and why not by events where it is not."""

    root: str
    how: Literal["events", "polling", "missing"]
    why: str = ""


@dataclass(frozen=True, slots=True)
class _There:
    """The folder that a root's watch is set on, which one that is, None if it is not there, and the disk it was on."""

    place: str
    identity: Identity | None = None
    device: int | None = None
    how: Literal["events", "polling", "missing"] = "missing"


class Follow:
    """Follows roots until it is left; told of changes on other threads, but of none in the folders `aside`."""

    def __init__(
        self,
        pace: Intervals,
        *,
        polling: bool = False,
        aside: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pace, self._polling, self._clock = pace, polling, clock
        self._debouncer, self._roused = Debouncer(pace), threading.Condition()
        self._watches = Watches(self.touch, pace.poll, aside)
        self._roots: dict[str, _There] = {}
        self._touched: set[str] = set()

    def __enter__(self) -> "Follow":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watches.close()

    def add(self, root: str) -> Followed:
        """Follow a root, all of which is due at once if it is there."""
        self._roots[root] = _There(_place(root))
        return self._set(root)

    def beat(self) -> list[Followed]:
        """Look whether the roots are still those that are watched; returns those for which something has changed."""
        with self._roused:
            touched, self._touched = self._touched, set()
        changed = [self._again(root, there, touched) for root, there in self._roots.items()]
        return [one for one in changed if one]

    def wait(self) -> None:
        """Wait until something is due, a beat at most."""
        with self._roused:
            ends = self._clock() + self._pace.beat
            while (left := min(ends, self._debouncer.until() or ends) - self._clock()) > 0:
                self._roused.wait(left)

    def due(self) -> list[DueFolder]:
        """Take what is to be read now, as folders that a walk comes to."""
        with self._roused:
            due = self._debouncer.due(self._clock())
        return [DueFolder(one.root, reached(one.root, one.folder), one.every) for one in due]

    def is_due(self) -> bool:
        """Return whether something is to be read now."""
        with self._roused:
            until = self._debouncer.until()
            return until is not None and until <= self._clock()

    def touch(self, root: str, folder: str) -> None:
        """Note a change in a folder of a root."""
        with self._roused:
            self._touched.add(root)
            if self._debouncer.touch(root, folder, self._clock()):
                self._roused.notify()

    def looked(self, root: str, seconds: float) -> None:
        """Note how long a look at a whole root took: the longer, the less often it is done without a cause."""
        with self._roused:
            self._debouncer.looked(root, self._clock(), seconds)

    def _again(self, root: str, there: _There, touched: set[str]) -> Followed | None:
        place = there.place if there.identity else _place(root)
        found = _identity(place, there.device)
        if found != there.identity or (found and not self._watches.alive(root)):
            return self._set(root)
        # New folders in it may have taken the last watch that the system lends.
        if there.how == "events" and root in touched and (error := full(place)):
            return self._poll(root, there, _said(error))
        return None

    def _set(self, root: str) -> Followed:
        """Watch a root that is there, and give how."""
        place, device = _place(root), self._roots[root].device
        identity = _identity(place, device)
        there = _There(place, identity, identity[0] if identity else device)
        kind = file_system(Path(place)) if identity else ""
        try:
            if identity is None:
                return self._lost(root, there)
            if self._polling or kind in _SILENT:
                return self._poll(root, there, "requested" if self._polling else f"{kind} does not report changes")
            self._watches.set(root, place, "events")
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):  # gone since
                return self._lost(root, there)
            if not limit(error):
                raise
            return self._poll(root, there, _said(error))
        self._keep(root, there, "events")
        return Followed(root, "events")

    def _poll(self, root: str, there: _There, why: str) -> Followed:
        self._watches.set(root, there.place, "polling")
        self._keep(root, there, "polling")
        return Followed(root, "polling", why)

    def _keep(self, root: str, there: _There, how: Literal["events", "polling"]) -> None:
        self._roots[root] = replace(there, how=how)
        with self._roused:
            self._debouncer.add(root, self._clock())

    def _lost(self, root: str, there: _There) -> Followed:
        self._watches.unset(root)
        self._roots[root] = replace(there, identity=None, how="missing")
        with self._roused:
            self._debouncer.drop(root)
        return Followed(root, "missing")


def _place(root: str) -> str:
    """Return the folder to watch: of a file the one it lies in, since editors put another file in its place."""
    return str(Path(root).parent) if Path(root).is_file() else root


def _identity(place: str, device: int | None) -> Identity | None:
    """Return the identity of the folder at a path; None for none and for the mount point of an unmounted disk."""
    try:
        status = Path(place).stat()
        unmounted = device not in (None, status.st_dev) and not any(Path(place).iterdir())
    except OSError:
        return None
    return None if unmounted else (status.st_dev, status.st_ino)


def _said(error: OSError) -> str:
    return f"no file watches left; raise the limit: sudo sysctl {limit(error)}=1048576"
