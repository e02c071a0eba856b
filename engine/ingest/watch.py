"""Watches on folders: what the system, or a look at intervals, tells of changes in roots. Reads no file.

The only one that knows the library that watches; knows nothing of what is done about a change.
"""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
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

from engine.ingest.detect import ignorable
from engine.ingest.scan import is_foreign

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
        ear = _Ear(root, real, name, self._touch, self._aside)
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
        """Tell whether a root's watch is at work: it ends with its folder, though another one may stand there now."""
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


class _Ear(FileSystemEventHandler):
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
