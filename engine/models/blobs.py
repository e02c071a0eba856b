"""The hub's cache on disk: a model's files under their digests, whole, in part or wrong, and linked into a snapshot.

Knows no network; the layout is the hub library's, so that other programs find what was fetched.
"""

import fcntl
import io
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.models.place import Local
from engine.models.plan import File, Plan, wrong
from store.errors import Locked


class Growing(io.FileIO):
    """A file that one process appends to; it tells how long it is by now, `before` included."""

    def __init__(self, path: Path, before: int, tick: Callable[[int], None]) -> None:
        super().__init__(path, "ab")
        self._before, self._tick = before, tick
        try:
            fcntl.flock(self, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise Locked("another pkb is downloading this model", "try again when it is done") from None

    def write(self, data: Any, /) -> int:
        """Write all of it: a disk that fills up takes a part first, and refuses the next."""
        whole = rest = memoryview(data)
        while rest:
            rest = rest[super().write(rest) :]
        self._tick(self._before + self.tell())
        return len(whole)


class Shelf:
    """One repository's folder in the hub's cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def held(self, plan: Plan, file: File) -> int:
        """Count the bytes of a file that are here, whole or in part."""
        copy = self.copy(plan, file) or self.partial(file)
        return min(copy.stat().st_size, file.size) if copy.is_file() else 0

    def copy(self, plan: Plan, file: File) -> Path | None:
        """Give where a file lies whole, None where it does not; on a disk without links it is in the snapshot alone."""
        places = (self._snapshot(plan) / file.name, self._blob(file))
        return next((path for path in places if path.is_file()), None)

    def partial(self, file: File) -> Path:
        """Give where a file grows, in a folder that is there."""
        return self._blob(file).with_name(f"{file.digest}.incomplete")

    def make(self) -> None:
        """Make the folder in which files grow."""
        (self._folder / "blobs").mkdir(parents=True, exist_ok=True)

    def keep(self, file: File) -> None:
        """Take a file that has grown for whole."""
        self.partial(file).replace(self._blob(file))

    def publish(self, plan: Plan) -> Local:
        """Let a model be found whose files are all here and verified."""
        snapshot = self._snapshot(plan)
        snapshot.mkdir(parents=True, exist_ok=True)
        for file in plan.files:
            _link(self._blob(file), snapshot / file.name)
        if plan.revision != plan.commit:  # a branch or a tag: other programs ask where it points
            reference = self._folder / "refs" / (plan.revision or "main")
            reference.parent.mkdir(parents=True, exist_ok=True)
            reference.write_text(plan.commit)
        return Local(plan.name, snapshot, plan.commit)

    def remove(self) -> int:
        """Delete all revisions; gives the bytes that they took."""
        taken = sum(
            path.lstat().st_size for path in self._folder.rglob("*") if path.is_file() and not path.is_symlink()
        )
        shutil.rmtree(self._folder)
        shutil.rmtree(self._folder.parent / ".locks" / self._folder.name, ignore_errors=True)
        return taken

    def _snapshot(self, plan: Plan) -> Path:
        return self._folder / "snapshots" / plan.commit

    def _blob(self, file: File) -> Path:
        return self._folder / "blobs" / file.digest


def verify(path: Path, file: File, name: str) -> None:
    """Raise PkbError where a file is not the one that was announced, and remove it with what it is a link to."""
    with path.open("rb") as stream:
        right = file.is_in(stream)
    if not right:
        for place in {path, path.resolve()}:
            place.unlink(missing_ok=True)
        raise wrong(file.name, name)


def _link(blob: Path, pointer: Path) -> None:
    if pointer.is_file():
        return
    pointer.unlink(missing_ok=True)  # a link to what is gone
    try:
        with suppress(FileExistsError):  # another program was quicker
            pointer.symlink_to(Path("..", "..", "blobs", blob.name))
    except OSError:  # a disk without links
        shutil.copyfile(blob, pointer)
