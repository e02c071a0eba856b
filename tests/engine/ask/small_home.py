"""A home of a few mails for tests that ask: real tables, ledger, ingest and ask path, with an embedder of hashed words.

Every session of it is as good as a process of its own: it has its own connections.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from engine import operations
from engine.ask.pipeline import Asker
from engine.ask.semantic import SemanticRules
from engine.ingest.pipeline import Ingest
from engine.session import Session
from engine.text.words import words
from engine.types import AskOptions, AskResult, Backend
from store.catalog import SourceRoot
from store.database import open_ledger
from store.types import Scope, Vectors, replace
from tests.store.kit import HashEmbedder

NOW = datetime(2024, 6, 19, 8, tzinfo=UTC)
RULES = SemanticRules(tau=0.7, least=0.0)


class WordEmbedder(HashEmbedder):
    """As its parent, but of the words as they are searched: neither case, order nor marks matter."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed([" ".join(sorted(words(text))) for text in texts])


@dataclass(frozen=True, slots=True)
class SmallHome:
    """A home, and the folder of mails that it reads: one of its own, or one that is named."""

    folder: Path
    others: Path | None = None

    @property
    def mail(self) -> Path:
        """Return the folder of mails."""
        return self.others or self.folder / "mail"

    @property
    def environ(self) -> Mapping[str, str]:
        """Return the environment of its commands."""
        return {
            "PKB_HOME": f"{self.folder}/home",
            "PKB_CACHE": f"{self.folder}/cache",
            "PKB_CONFIG": f"{self.folder}/config.toml",
        }

    def write(self, name: str, text: str, day: int = 3) -> None:
        """Put a mail into the folder, or another one in its place."""
        self.mail.mkdir(parents=True, exist_ok=True)
        head = f"From: Ida Quist <ida@example.org>\nTo: mira@example.org\nSubject: News\nMessage-ID: <{name}@x>\n"
        date = f"Date: Mon, {day:02} Jun 2024 10:00:00 +0000\n"
        (self.mail / f"{name}.eml").write_text(f"{head}{date}\n{text}\n", "utf-8")

    def put(self, name: str, text: str | None, day: int = 3) -> None:
        """Put a mail into the folder; None takes out the one that may be there."""
        if text is None:
            (self.mail / f"{name}.eml").unlink(missing_ok=True)
        else:
            self.write(name, text, day)

    def open(self) -> Session:
        """Open the home."""
        session = Session(self.environ)
        session.make()
        session.ledger = open_ledger(self.folder / "home" / "ledger.db", create=True)  # waits for no disk
        session.embedder, session.reader_version = WordEmbedder(), ""
        session.now = NOW
        return session


def ingest(session: Session, mail: Path, collection: str = "mail", *, vectors: bool = True) -> Ingest:
    """Bring the home up to date with the folder."""
    run = operations.ingest_run(session, prune=True)
    with session.locks.writer():
        for _ in run.run(SourceRoot(str(mail), collection, None)):
            pass
    if vectors:
        for _ in operations.embed(session):
            pass
    return run


def asker(session: Session, backend: Backend | None = None, rules: SemanticRules | None = RULES) -> Asker:
    """Return what asks, by the session's own means or others."""
    return Asker(session.ledger, backend or session.backend, session.settings, lambda: rules)


def ask(
    session: Session, text: str, options: AskOptions | None = None, rules: SemanticRules | None = RULES
) -> AskResult:
    """Ask one question."""
    return asker(session, rules=rules).ask(text, options or AskOptions(), session.now)


def apart(number: int, collection: str | None = None) -> AskOptions:
    """Return a manner whose questions have keys of their own, though they find what all others find."""
    return AskOptions(Scope(until=NOW.date() + timedelta(days=3650 + number), collection=collection))


def anew(session: Session, text: str, options: AskOptions, now: datetime = NOW) -> AskResult:
    """Ask as --cache off does."""
    return asker(session).ask(text, replace(options, read_bank=False, write_bank=False), now)
