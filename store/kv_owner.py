"""Who is still alive: a process that has something half done holds a lock on a file that bears its name.

The system lets go of the lock however the process ends, so no process id that was given out again can be mistaken for
it. Knows nothing of what is half done.
"""

import fcntl
import os
from pathlib import Path
from secrets import token_hex

_SUFFIX = ".owner"


class Owner:
    """One holder of things half done."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._name, self._descriptor = folder, "", -1

    @property
    def name(self) -> str:
        """Give the name, process id and a token, held from now on; another one where somebody removed its file."""
        while not (self._name and _path(self._folder, self._name).exists()):  # as a sweep does before it is locked
            self.close()
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{os.getpid()}-{token_hex(8)}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor, self._name = os.open(_path(self._folder, name), flags, 0o600), name
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        return self._name

    def close(self) -> None:
        """Let go of the name; whatever is still half done in it is for others to finish."""
        if self._name:
            _path(self._folder, self._name).unlink(missing_ok=True)
            os.close(self._descriptor)
            self._name = ""


def is_alive(folder: Path, name: str) -> bool:
    """Tell whether the holder of a name still runs."""
    path = _path(folder, name)
    return path.exists() and not _free(path, fcntl.LOCK_SH, remove=False)  # shared: two may ask at once


def sweep(folder: Path) -> None:
    """Remove the files of holders that have ended."""
    for path in folder.glob(f"*{_SUFFIX}"):
        _free(path, fcntl.LOCK_EX, remove=True)  # removed under the lock, or it could go from under a new holder


def _free(path: Path, kind: int, *, remove: bool) -> bool:
    """Tell whether nobody holds a file's lock, and remove the file then, if told to."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        if remove:
            path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _path(folder: Path, name: str) -> Path:
    return folder / (name + _SUFFIX)
