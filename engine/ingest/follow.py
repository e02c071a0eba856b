"""Roots that are followed: by events where the system tells of changes, else by looking; they may vanish and come back.

Knows no ledger and no format, and reads no file.
"""

import errno
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal

from engine.health import NETWORK, file_system
from engine.ingest.scan import reached
from engine.ingest.unrest import Due, Pace, Unrest
from engine.ingest.watch import Watches, full, limit

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
        pace: Pace,
        *,
        polling: bool = False,
        aside: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pace, self._polling, self._clock = pace, polling, clock
        self._unrest, self._roused = Unrest(pace), threading.Condition()
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
        """Look whether the roots are still those that are watched; gives those for which something has changed."""
        with self._roused:
            touched, self._touched = self._touched, set()
        changed = [self._again(root, there, touched) for root, there in self._roots.items()]
        return [one for one in changed if one]

    def wait(self) -> None:
        """Wait until something is due, a beat at most."""
        with self._roused:
            ends = self._clock() + self._pace.beat
            while (left := min(ends, self._unrest.until() or ends) - self._clock()) > 0:
                self._roused.wait(left)

    def due(self) -> list[Due]:
        """Take what is to be read now, as folders that a walk comes to."""
        with self._roused:
            due = self._unrest.due(self._clock())
        return [Due(one.root, reached(one.root, one.folder), one.every) for one in due]

    def is_due(self) -> bool:
        """Tell whether something is to be read now."""
        with self._roused:
            until = self._unrest.until()
            return until is not None and until <= self._clock()

    def touch(self, root: str, folder: str) -> None:
        """Note a change in a folder of a root."""
        with self._roused:
            self._touched.add(root)
            if self._unrest.touch(root, folder, self._clock()):
                self._roused.notify()

    def looked(self, root: str, seconds: float) -> None:
        """Note how long a look at a whole root took: the longer, the less often it is done without a cause."""
        with self._roused:
            self._unrest.looked(root, self._clock(), seconds)

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
            self._unrest.add(root, self._clock())

    def _lost(self, root: str, there: _There) -> Followed:
        self._watches.unset(root)
        self._roots[root] = replace(there, identity=None, how="missing")
        with self._roused:
            self._unrest.drop(root)
        return Followed(root, "missing")


def _place(root: str) -> str:
    """Give the folder to watch: of a file the one it lies in, since editors put another file in its place."""
    return str(Path(root).parent) if Path(root).is_file() else root


def _identity(place: str, device: int | None) -> Identity | None:
    """Tell which folder stands at a place; None for none, and for the empty one that an unmounted disk leaves there."""
    try:
        status = Path(place).stat()
        unmounted = device not in (None, status.st_dev) and not any(Path(place).iterdir())
    except OSError:
        return None
    return None if unmounted else (status.st_dev, status.st_ino)


def _said(error: OSError) -> str:
    return f"no file watches left; raise the limit: sudo sysctl {limit(error)}=1048576"
