"""A lock file of which one holder has the lock, let go of by the system however that process ends.

Two objects are two holders, in one process too. Knows nothing of what is leased.
"""

import fcntl
import os
import time
from pathlib import Path

_TRIES, _NAP_S = 500, 0.002  # until those are done who only look whether it is taken


class Lease:
    """The right to something that a home has once; no holder is waited for."""

    def __init__(self, path: Path, descriptor: int = -1) -> None:
        """`descriptor` is that of a holder who hands it on, such as a process to its child."""
        self._path, self._descriptor = path, descriptor

    @property
    def held(self) -> bool:
        """Tell whether this object holds it."""
        return self._descriptor >= 0

    def take(self) -> bool:
        """Take it, where nobody else has it; tells whether it is held now."""
        if not self.held:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self._path, flags, 0o600)
            if not _held(descriptor):
                os.close(descriptor)
                return False
            self._descriptor = descriptor
        return True

    def hand_on(self) -> int:
        """Give the descriptor for a child to inherit; it is held as long as either of the two has it open."""
        os.set_inheritable(self._descriptor, True)
        return self._descriptor

    def free(self) -> None:
        """Let go of it."""
        if self.held:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.free()

    def is_taken(self) -> bool:
        """Tell whether anybody has it."""
        if self.held:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)  # shared: two may ask at once
        finally:
            os.close(descriptor)

    @property
    def lost(self) -> bool:
        """Tell whether its file was removed, or another one stands in its place: others would not see it held."""
        try:
            found, own = self._path.stat(), os.fstat(self._descriptor)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino)


def _held(descriptor: int) -> bool:
    """Lock a file for one holder; tells whether it is."""
    for _ in range(_TRIES):
        if _locked(descriptor, fcntl.LOCK_EX):
            return True
        if not _locked(descriptor, fcntl.LOCK_SH):
            return False  # it has a holder, and not only somebody who looks
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_NAP_S)
    return False


def _locked(descriptor: int, kind: int) -> bool:
    """Lock a file in a way; tells whether that could be."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
