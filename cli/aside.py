"""Homes to try things in: a copy of what one's own counts, or a small example. Nothing done there is kept.

What is only read is linked: tables, and what the cache holds beside tensors. The model in memory is the one session's.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cli import deeds
from cli.session import Session
from store.errors import NoModel
from store.kv_files import SUFFIX


@contextmanager
def aside(opened: Session, folder: Path) -> Iterator[Session]:
    """Give a session over a copy of a home that is there; changes go to the folder."""
    real, home = opened.home, folder / "home"
    with _session(opened, folder, {}) as own:
        home.mkdir(mode=0o700, parents=True)
        _copy_ledger(opened, home / "ledger.db")
        for place in (real.tables, real.locks):
            (home / place.name).symlink_to(place)
        if real.tensors.is_dir():  # plans look at what is there; nothing of it is loaded
            _link(real.tensors, own.home.tensors, f"*{SUFFIX}")
        yield own


@contextmanager
def example(opened: Session, folder: Path) -> Iterator[Session]:
    """Give a session over a few messages of our own, on a day after them."""
    from engine.kv.example import NOW, messages

    with _session(opened, folder, {"PKB_NOW": NOW.isoformat()}) as own:
        mail = folder / "mail"
        mail.mkdir(parents=True)
        for name, text in messages():
            (mail / name).write_text(text, "utf-8")
        own.make()
        _read(own, mail)
        yield own


@contextmanager
def _session(opened: Session, folder: Path, about: dict[str, str]) -> Iterator[Session]:
    """Give a session over a folder, with the settings and the model of another one."""
    real, cache = opened.home, folder / "cache"
    cache.mkdir(mode=0o700, parents=True)
    if real.cache.is_dir():
        _link(real.cache, cache, "*", but=real.tensors.name)
    places = {"PKB_HOME": str(folder / "home"), "PKB_CACHE": str(cache), "PKB_CONFIG": str(real.config)}
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
    from cli.ingest import read
    from store.catalogue import Root

    read(own, [Root(str(mail), "example", "mail")], [], prune=False, quiet=True)
    try:
        for _ in deeds.embed(own):
            pass
    except NoModel:
        return  # its words are searched
