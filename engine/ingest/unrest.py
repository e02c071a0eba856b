"""Which roots have changed, how deep inside, and when each is to be read: after a while of quiet, or if none comes.

Keeps one folder for each root, however many files change. Knows no disk, no clock and no watcher: changes and the time
come in as arguments.
"""

import os
from dataclasses import dataclass

_SHARE = 2000  # a look at everything may take one part in so many of the time


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things take, in seconds.

    A root is read when nothing in it has changed for `quiet`, or after `patience` of steady change. Every `rescan` all
    of it is looked at, for changes nobody told of; every `poll` where nobody tells of any, and every `beat` whether the
    roots are there. After `rest` without a change it is time for what rather waits.
    """

    quiet: float = 5.0
    patience: float = 60.0
    rescan: float = 3600.0
    poll: float = 30.0
    beat: float = 5.0
    rest: float = 120.0


@dataclass(frozen=True, slots=True)
class Due:
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


class Unrest:
    """The roots that are followed; changes with every call, and is for one thread at a time."""

    def __init__(self, pace: Pace) -> None:
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
        """Note that something in a folder of a root has changed; tells whether the root was at rest before."""
        if (known := self._roots.get(root)) is None:
            return False
        known.last = now
        if known.folder is not None:
            known.folder = os.path.commonpath((known.folder, folder))
            return False
        known.folder, known.first = folder, now
        return True

    def due(self, now: float) -> list[Due]:
        """Take what is due."""
        return [self._take(root, known, now) for root, known in self._roots.items() if self._when(known) <= now]

    def until(self) -> float | None:
        """Give when something will be due unless more changes; None where nothing is followed."""
        return min(map(self._when, self._roots.values()), default=None)

    def looked(self, root: str, now: float, seconds: float) -> None:
        """Note how long it took to look at a whole root, so that it happens the less often the longer it takes."""
        if known := self._roots.get(root):
            known.rescan = now + max(self._pace.rescan, seconds * _SHARE)

    def _when(self, known: _Root) -> float:
        if known.folder is None:
            return known.rescan
        return min(known.last + self._pace.quiet, known.first + self._pace.patience, known.rescan)

    def _take(self, root: str, known: _Root, now: float) -> Due:
        if known.rescan <= now:
            known.rescan, known.folder = now + self._pace.rescan, None
            return Due(root, root, every=True)
        folder, known.folder = known.folder or root, None
        return Due(root, folder)
