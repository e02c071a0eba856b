"""Homes to try things in: a copy of what one's own counts, or a small example. Nothing done there is kept.

What is only read is linked: tables, and what the cache holds beside tensors. The model in memory is the one session's.
Copies lie in a folder of the home itself, as private as that and outside the cache and its budget; links, which show
nothing, lie with the system's temporary files.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from cli import deeds
from cli.session import Session
from store.errors import NoModel
from store.kv_files import SUFFIX

NAME = "trying"  # of the private folder, below that of the home


@dataclass(frozen=True, slots=True)
class Room:
    """Where things are tried: a folder for copies and what is read, which nobody else may see, and one for links."""

    private: Path
    links: Path


@contextmanager
def room(opened: Session) -> Iterator[Room]:
    """Give the folders, which go afterwards; what one that was killed left goes first; Locked while another has them.

    Where no home is there is nothing private, and all of it is temporary.
    """
    import tempfile

    # Made before the model is loaded, for that moves the place of temporary files into the cache and its budget.
    with tempfile.TemporaryDirectory(prefix="pkb-trying-") as name:
        if not opened.there:
            yield Room(Path(name, "private"), Path(name))
            return
        private = opened.home.data / NAME
        with opened.locks.trying():
            rmtree(private, ignore_errors=True)
            private.mkdir(mode=0o700)
            try:
                yield Room(private, Path(name))
            finally:
                rmtree(private)


@contextmanager
def aside(opened: Session, place: Room) -> Iterator[Session]:
    """Give a session over a copy of a home that is there; changes go to the room."""
    real, folder, home = opened.home, place.links / "own", place.private / "home"
    with _session(opened, home, folder, {}) as own:
        home.mkdir(mode=0o700, parents=True)
        _copy_ledger(opened, home / "ledger.db")
        for one in (real.tables, real.locks):
            (home / one.name).symlink_to(one)
        if real.tensors.is_dir():  # plans look at what is there; nothing of it is loaded
            _link(real.tensors, own.home.tensors, f"*{SUFFIX}")
        yield own


@contextmanager
def example(opened: Session, folder: Path) -> Iterator[Session]:
    """Give a session over a few messages of our own, on a day after them."""
    from engine.kv.example import NOW, messages

    with _session(opened, folder / "home", folder, {"PKB_NOW": NOW.isoformat()}) as own:
        mail = folder / "mail"
        mail.mkdir(parents=True)
        for name, text in messages():
            (mail / name).write_text(text, "utf-8")
        own.make()
        _read(own, mail)
        yield own


@contextmanager
def _session(opened: Session, home: Path, folder: Path, about: dict[str, str]) -> Iterator[Session]:
    """Give a session over a home, its cache in a folder, with the settings and the model of another one."""
    real, cache = opened.home, folder / "cache"
    cache.mkdir(mode=0o700, parents=True)
    if real.cache.is_dir():
        _link(real.cache, cache, "*", but=real.tensors.name)
    places = {"PKB_HOME": str(home), "PKB_CACHE": str(cache), "PKB_CONFIG": str(real.config)}
    own = Session({**opened.environ, **about, **places})
    own.settings, own.models = opened.settings, opened.models
    before = os.environ.get("TMPDIR")
    try:
        yield own
    finally:
        os.environ.pop("TMPDIR", None)  # a model that was loaded has put it into the folder, which goes
        os.environ.update({"TMPDIR": before} if before else {})
        ledger = vars(own).get("ledger")
        vars(own).clear()  # it refers to itself, and nobody else may have the model while it does
        opened.models.close()  # the tensors that were opened for it are this folder's
        if ledger:
            ledger.close()


def _copy_ledger(opened: Session, path: Path) -> None:
    import sqlite3

    with closing(sqlite3.connect(path)) as copy:
        opened.ledger.rows.backup(copy)


def _link(source: Path, folder: Path, pattern: str, but: str = "") -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for entry in source.glob(pattern):
        if entry.name != but:
            (folder / entry.name).symlink_to(entry)


def _read(own: Session, mail: Path) -> None:
    """Read the messages, and embed them where there is an embedder."""
    from store.catalogue import Root

    deeds.ingest(own, [Root(str(mail), "example", "mail")], [], prune=False)
    try:
        for _ in deeds.embed(own):
            pass
    except NoModel:
        return  # its words are searched
