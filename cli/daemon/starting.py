"""Starts the resident process of a home, and ends it. It is a process of its own, which nobody waits for."""

import os
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cli.daemon.link import Lost, connect, lock_of
from store.locks import Lease

if TYPE_CHECKING:
    from cli.session import Session
    from store.home import Home

TRIES = 3  # of a process that is gone again before it can be reached: more of them would be gone too
LOCK = 3  # the descriptor by which a process hands the lock to the one that it starts
_ROOT = Path(__file__).parents[2]
_NAP_S = 0.02


def start(opened: "Session") -> bool:
    """Start the process, where none is; it is handed the lock, so that no second one can be started meanwhile."""
    lease = Lease(lock_of(opened.home))
    if not lease.take():
        return False
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(LOCK)]
    given = [(os.POSIX_SPAWN_DUP2, lease.hand_on(), LOCK)]
    words = [sys.executable, "-P", "-m", "cli.app", "serve", "--lock", str(LOCK)]
    # The lock first: its descriptor may be one of the three that are opened anew, where those were closed.
    os.posix_spawn(sys.executable, words, _environment(opened), file_actions=[*given, *null])
    lease.free()
    return True


def stop(home: "Home", patience_s: float) -> bool:
    """Have the process end, once it has answered what it was asked; tells whether it has."""
    if link := connect(home):
        with suppress(Lost), closing(link):
            link.send("stop", {})
    lease, until = Lease(lock_of(home)), time.monotonic() + patience_s
    while lease.is_taken():
        if time.monotonic() > until:
            return False
        time.sleep(_NAP_S)
    return True


def let_go(home: "Home") -> None:
    """Have the process close what it has open of the home, so that it may be rewritten; it opens it again when asked.

    What it had read may still be in its memory: before something is forgotten, it is to be stopped.
    """
    if link := connect(home):
        with suppress(Lost), closing(link):
            link.send("release", {})
            next(link.answers())


def _environment(opened: "Session") -> dict[str, str]:
    """Give the environment of the process: of this home wherever it runs, of no single question."""
    home, environ = opened.home, dict(opened.environ)
    environ |= {"PKB_HOME": str(home.data), "PKB_CACHE": str(home.cache), "PKB_CONFIG": str(home.config)}
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environ.get("PYTHONPATH"))))
    if "PKB_THREADS" not in environ:  # then it was this process that set it, for its own numpy
        environ.pop("OPENBLAS_NUM_THREADS", None)
    environ.pop("PKB_NOW", None)
    return environ
