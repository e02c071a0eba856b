"""What a resident process keeps in memory between questions, and a session for each of them made of that.

Knows no sockets and no turns: one thread uses it.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cli.daemon.request import Request, under
from cli.session import Session
from engine.llm.resident import Models
from store.errors import NoModel
from store.history import History

if TYPE_CHECKING:
    from engine.llm.prefill import Reading
    from engine.types import Evidence
    from store.tables import Tables

_LOOKED_AT = 50  # questions: the longest of their prompts may be read from disk again
_Folders = tuple[tuple[str, int], ...]


class Desk:
    """The open home of a resident process; `breathe` is called between two steps of a model."""

    def __init__(self, environ: Mapping[str, str], breathe: Callable[[], None]) -> None:
        self._environ = environ
        self._base = Session(environ)
        self.models = Models(self._base.home.locks, breathe)
        self._tables: Tables | None = None
        self._folders: _Folders = ()
        self._tried = False  # to load the model that the settings name
        self._readies = False  # a model that is in memory, and that nobody has to wait for yet

    @contextmanager
    def session(self, asked: Request) -> Iterator[Session]:
        """Give what one question is answered with: its own settings and time, and all that is open already."""
        time.tzset()  # the machine may have travelled
        base, opened = self._base, Session(self._environ)
        opened.settings, opened.now = under(base.settings, asked.settings), asked.now
        opened.keeps_tensors, opened.models = asked.keeps_tensors, self.models
        opened.ledger, opened.tables = base.ledger, self._fresh_tables()
        if opened.settings.embed == base.settings.embed:
            with suppress(NoModel):
                opened.embedder, opened.question_vectors = base.embedder, base.question_vectors
        try:
            yield opened
        finally:
            vars(opened).clear()  # it refers to itself, and all that it read would stay until garbage is collected

    def own(self) -> Session:
        """Give what this process does by itself with: the settings and the time as they are now."""
        opened = Session(self._environ)
        opened.settings, opened.models = self._base.settings, self.models
        opened.ledger, opened.tables = self._base.ledger, self._fresh_tables()
        with suppress(NoModel):
            opened.embedder, opened.question_vectors = self._base.embedder, self._base.question_vectors
        opened.means = replace(opened.means, gather=partial(self._gather, opened.means.gather))
        return opened

    def _gather(self, gather: "Callable[..., Evidence]", *parts: Any) -> "Evidence":
        """Retrieve, after what somebody waits for: planning a night retrieves hundreds of times."""
        self.models.breathe()
        return gather(*parts)

    def warm(self) -> None:
        """Do what the next question is likely to need, but with no model."""
        from engine.ask.extract import write
        from engine.ask.question import begin, look
        from engine.types import Manner

        opened = self.own()
        ask = begin(opened.means, opened.ledger, "what", Manner(), opened.now)
        asked = look(opened.means, ask)
        write(asked.question, asked.evidence, ask.trace, opened.settings.ask.decline_below)
        _ = opened.asker, opened.rules()  # which import what they are made of

    @property
    def model(self) -> str | None:
        """Name the model that is ready to answer."""
        return None if self._readies else self.models.loaded

    @property
    def lacks_model(self) -> bool:
        """Tell whether the model that the settings name is still to be loaded."""
        return not self._tried and self.models.loaded is None and self._base.settings.model.name not in ("", "quote")

    def load(self) -> None:
        """Load the model that the settings name, as soon as no other process has one in memory."""
        if self.lacks_model and self.models.claim():
            self._tried = self._readies = True  # what fails is tried again by a question, which hears why
            try:
                opened = self.own()
                if load := opened.writer.load:
                    _first_step(load(), History(opened.ledger).most_reused(_LOOKED_AT))
            finally:
                self._readies = False

    def let_go(self) -> None:
        """Close all that is open of the home; a loaded model stays."""
        self.models.close()
        self.roll_back()
        if "ledger" in self._base.__dict__:
            self._base.ledger.close()
        self._tables, self._base = None, Session(self._environ)

    def roll_back(self) -> None:
        """End a transaction that was broken off."""
        if "ledger" in self._base.__dict__ and self._base.ledger.rows.in_transaction:
            self._base.ledger.rows.execute("ROLLBACK")

    def yield_model(self) -> bool:
        """Let another process have its model in memory, where one waits for that."""
        if not self.models.wanted:
            return False
        self.models.forget()
        self.models.free()
        self._tried = False
        return True

    def swaps(self, asked: Request) -> bool:
        """Tell whether a question needs another model than the one in memory."""
        name, revision = (asked.settings.get(f"model.{part}", "") for part in ("name", "revision"))
        own = self._base.settings.model
        return name not in ("", "quote") and (name, revision) != (own.name, own.revision)

    def is_large(self) -> bool:
        """Tell whether this process takes more memory than it may, without what it can do without."""
        from engine.models.memory import release, resident, total

        most = total() * self._base.settings.serve.memory_share
        if resident() > most:
            self.let_go()
            release()
        return resident() > most

    def _fresh_tables(self) -> "Tables":
        """Give the tables; opened again where one was made anew, for what is open would be the old one."""
        folders = tuple(sorted((one.name, one.inode()) for one in os.scandir(self._base.home.tables)))
        if self._tables is None or folders != self._folders:
            from store.tables import Tables

            self._tables, self._folders = Tables(self._base.home.tables), folders
        return self._tables


def _first_step(reading: "Reading", expected: int) -> None:
    """Have a model read and write, for what its steps are made of is compiled at the first, longer than an answer.

    Then have memory ready for as many tokens as the first question may find kept.
    """
    for name in ("engine.ask.generate", "engine.ask.draft"):
        import_module(name)
    model = reading.model
    cache, ids = model.begin(), model.tokens("When?")
    model.prefill(cache, ids)
    next(model.decode(cache, ids, 1), None)
    if reading.kept:
        reading.kept.model.expect(cache, expected)
