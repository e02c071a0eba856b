"""A home with its resident process, for tests: started by asking, looked at through its socket, ended in any case."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.serve.process import ServerLink, connect, identity, lock_of, request
from engine.session import Session
from engine.types import AskOptions
from store.home import Home, locate
from store.locks import Lease
from tests.effort import PATIENCE_S

TICKET = "How much is a ticket for the summer concert?"


def wait(there: Callable[[], object]) -> None:
    """Wait until something is so; it fails where it never is."""
    until = time.monotonic() + PATIENCE_S
    while not there():
        assert time.monotonic() < until, "nothing happened for too long"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Served:
    """A home whose resident process is wanted."""

    environ: dict[str, str]

    @property
    def home(self) -> Home:
        """Return its places."""
        return locate(self.environ)

    def run(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        """Run a command in a process of its own."""
        return subprocess.run(self.command(*words), env=self.environ, capture_output=True, check=False)

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Begin to run a command in a process of its own."""
        return subprocess.Popen(self.command(*words), env=self.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def command(self, *words: str) -> list[str]:
        """Return the words that run a command."""
        return [sys.executable, "-m", "cli.app", *words]

    @property
    def is_there(self) -> bool:
        """Return whether its resident process lives."""
        return Lease(lock_of(self.home)).is_taken()

    def link(self) -> ServerLink:
        """Connect to the resident process, which must be there or about to be."""
        until = time.monotonic() + PATIENCE_S
        while (link := connect(self.home)) is None:
            assert time.monotonic() < until, "the background server is not running"
            time.sleep(0.02)
        return link

    def status(self) -> dict[str, Any]:
        """Ask it how it is."""
        with closing(self.link()) as link:
            link.send("status", {})
            return next(link.answers())

    @property
    def pid(self) -> int:
        """Return the process."""
        return int(self.status()["pid"])

    def session(self) -> Session:
        """Open the home in this process."""
        return Session(self.environ)

    def ask(self, link: ServerLink, text: str, options: AskOptions | None = None, *, streams: bool = False) -> None:
        """Ask through a connection, and wait for nothing."""
        link.send("ask", {"request": request(self.session(), text, options or AskOptions(), streams=streams)})

    @property
    def identity(self) -> str:
        """Return what its resident process must agree with."""
        return identity(self.home, self.environ)

    def end(self) -> None:
        """Have the resident process end, whatever state it is in."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_there:
                return
            link = connect(self.home)
            if link is None:  # about to come up, to end, or dead
                _soon(lambda: not self.is_there or connect(self.home) is not None)
                link = connect(self.home)
            if link is not None:
                with closing(link), suppress(ProcessLookupError):
                    os.kill(link.pid, number)
            _soon(lambda: not self.is_there)
        assert not self.is_there


def _soon(there: Callable[[], object]) -> None:
    until = time.monotonic() + 10
    while not there() and time.monotonic() < until:
        time.sleep(0.02)


@contextmanager
def served(folder: Path, environ: dict[str, str]) -> Iterator[Served]:
    """Have a home's resident process wanted, and ended."""
    own = Served({**environ, "PKB_DAEMON": "auto"})
    try:
        yield own
    finally:
        if folder.exists():
            own.end()


def ask_through_kills(home: Served, kills: int, chance: random.Random) -> Counter[str]:
    """Kill the resident process at random moments while it is asked, and find every question answered as ever.

    Gives how often it was killed by what the question was doing then.
    """
    command = ("ask", TICKET, "--cache=off", "--json")
    expected, moments = _shown(home.run(*command, "--no-daemon").stdout), Counter[str]()
    _make_ready(home)
    begun = time.monotonic()
    home.run(*command)
    seconds = time.monotonic() - begun  # that a question takes which nobody disturbs
    while moments.total() < kills:
        _make_ready(home)
        asking = home.start(*command)
        time.sleep(chance.random() * seconds)
        moments[_kill(home)] += 1
        out, err = asking.communicate()
        assert (asking.returncode, err) == (0, b"")
        assert _shown(out) == expected
    assert json.loads(home.run("doctor", "--data", "--read-data", "--json").stdout)["sound"]
    return moments


def _make_ready(home: Served) -> None:
    """Have the resident process up, with its model."""
    assert home.run("serve").returncode == 0
    wait(lambda: home.status()["model"])


def _shown(printed: bytes) -> Any:
    row = json.loads(printed)
    return {name: row[name] for name in ("answer", "sources", "model", "writer")}


def _kill(home: Served) -> str:
    """Kill the resident process; says what it was doing."""
    with closing(home.link()) as link:
        link.send("status", {})
        doing = "answering" if next(link.answers())["jobs"] else "waiting"
        os.kill(link.pid, signal.SIGKILL)
    return doing
