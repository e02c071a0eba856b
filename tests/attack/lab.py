"""A home of its own with a few mails, in this process, for attacks that read and ask."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from engine.app import Pkb
from engine.types import Answer

NOW = datetime(2024, 6, 19, 8, 0, tzinfo=UTC)
ANN, BEN, EVIL = "Ann Whitlock <ann@choir.example>", "Ben Ode <ben@choir.example>", "eve@evil.example"


def mail(
    body: str, *more: str, sender: str = ANN, day: str = "2024-06-05T10:00+00:00", title: str = "Rent", to: str = BEN
) -> bytes:
    """Return a mail; `more` are header lines in front of the others."""
    date = format_datetime(datetime.fromisoformat(day))
    kind = [] if any("content-type" in line.lower() for line in more) else ["Content-Type: text/plain; charset=utf-8"]
    own = [f"From: {sender}", f"To: {to}", f"Subject: {title}", f"Date: {date}"]
    fields = [one for one in own if not any(line.startswith(one.split(":")[0] + ":") for line in more)]
    return "\n".join([*more, *fields, *kind, "", body, ""]).encode("utf-8", "surrogateescape")


class Lab:
    """A folder of mail, and the pkb that reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mail = folder, folder / "mail"
        self.mail.mkdir(parents=True)
        places = {"PKB_HOME": "home", "PKB_CACHE": "cache", "PKB_CONFIG": "config.toml"}
        self.environ = {name: f"{folder}/{place}" for name, place in places.items()} | {"PKB_DAEMON": "off"}
        self.at(NOW)

    def at(self, now: datetime) -> None:
        """Have it be another time."""
        self.environ["PKB_NOW"] = now.strftime("%Y-%m-%dT%H:%M")

    def later(self, **more: float) -> None:
        """Let time go by."""
        self.at(datetime.fromisoformat(self.environ["PKB_NOW"]) + timedelta(**more))

    @contextmanager
    def open(self) -> Iterator[Pkb]:
        """Open the home."""
        with Pkb(environ={**os.environ, **self.environ}) as pkb:
            yield pkb

    def put(self, name: str, raw: bytes) -> Path:
        """Write a file among the mail."""
        path = self.mail / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        return path

    def read(self, files: Mapping[str, bytes] | None = None) -> list[str]:
        """Write files and ingest the folder; return the problems."""
        for name, raw in (files or {}).items():
            self.put(name, raw)
        with self.open() as pkb:
            summary = pkb.ingest([self.mail], embed=False)
        return [problem.reason for problem in summary.problems]

    def ask(self, question: str, **options: Any) -> Answer:
        """Ask, in a session of its own."""
        with self.open() as pkb:
            return pkb.ask(question, **options)

    def both(self, question: str, **options: Any) -> tuple[Any, Any]:
        """Return an answer as the cache allows it, and one that was made past the cache."""
        return told(self.ask(question, **options)), told(self.ask(question, **options, cache="off"))

    def show(self, name: str) -> list[dict[str, Any]]:
        """Return the documents of a file."""
        with self.open() as pkb:
            return pkb.show(self.mail / name)


def told(answer: Answer) -> tuple[Any, ...]:
    """Return what an answer tells: its text, and the places and passages that it rests on."""
    sources = [(one.path, one.quote, one.lines, one.date, one.sender, tuple(one.warnings)) for one in answer.sources]
    return answer.text, sources
