"""Commands in forks of a process that has imported what they need: real processes, a second sooner each.

For a process of its own, with one thread: LanceDB can be forked before it was used.
"""

import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

_IMPORTED = (
    "lancedb", "cli.app", "cli.ask", "cli.ingest", "cli.idle", "cli.inspect", "cli.render", "store.tables",
    "store.mapped_index", "store.integrity", "engine.ingest.files", "engine.ingest.pipeline", "engine.ingest.chunking",
    "engine.ask.pipeline", "engine.ask.extract", "engine.ask.semantic", "engine.ask.updates", "engine.app",
    "engine.retrieval.retrieve", "engine.retrieval.evidence", "engine.idle.scheduler", "engine.idle.predict",
    "engine.idle.refresh", "engine.models.minilm", "engine.serve.client", "engine.health",
)  # fmt: skip
_POLL_S = 0.005


def prepare() -> None:
    """Import what commands need; call it once, before any fork."""
    warnings.filterwarnings("ignore", "lancedb fork support", RuntimeWarning)
    os.umask(0o077)
    for name in _IMPORTED:
        import_module(name)


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended: its exit code, below 0 the signal that killed it, and what it printed."""

    code: int
    out: str
    err: str


@dataclass(slots=True)
class Running:
    """A command in a fork; `until` is the time on the monotonic clock at which it is killed."""

    pid: int
    out: BinaryIO
    err: BinaryIO
    until: float | None

    def poll(self) -> Ended | None:
        """Kill it once its time is up; return how it ended, None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if not pid:
            if self.until is not None and time.monotonic() > self.until:
                os.kill(self.pid, 9)
            return None
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
            file.close()
        return Ended(os.waitstatus_to_exitcode(status), *texts)

    def wait(self) -> Ended:
        """Wait for its end."""
        while (ended := self.poll()) is None:
            time.sleep(_POLL_S)
        return ended


def start(
    words: Sequence[str],
    environ: Mapping[str, str],
    seconds: float | None = None,
    first: Callable[[], object] = lambda: None,
) -> Running:
    """Start a command, which calls `first`, and is killed after so many seconds if it has not ended."""
    from cli.app import run

    def work() -> int:
        first()
        return run(list(words))

    return call(work, environ, seconds)


def call(work: Callable[[], int], environ: Mapping[str, str], seconds: float | None = None) -> Running:
    """Start a function in a fork, whose exit code is what it returns."""
    out, err = _temporary(), _temporary()
    pid = os.fork()
    if not pid:
        _work(work, environ, out, err)
    return Running(pid, out, err, None if seconds is None else time.monotonic() + seconds)


def _work(work: Callable[[], int], environ: Mapping[str, str], out: BinaryIO, err: BinaryIO) -> None:
    code = 1
    try:
        for number, source in enumerate((os.open(os.devnull, os.O_RDONLY), out.fileno(), err.fileno())):
            os.dup2(source, number)
        os.environ.clear()
        os.environ.update(environ)
        code = work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # a bug: shown, and the fork must not live on as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _temporary() -> BinaryIO:
    number, name = tempfile.mkstemp()
    Path(name).unlink()
    return os.fdopen(number, "w+b")
