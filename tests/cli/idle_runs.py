"""Idle runs that are killed, for tests: mail keeps coming to `pkb ingest --watch`, and `pkb idle` dies at random."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store.database import open_ledger
from store.jobs import JobRow, Jobs
from tests.demo import environment

_THINGS = ("tent", "piano", "ladder", "kettle", "banner", "trailer", "projector", "drum", "sewing machine", "canoe")
_PEOPLE = ("Ann Lee", "Bob Roy", "Ida Quist", "Mira Patel", "Tom Weir")
_PLACES = ("boat house", "old library", "town hall", "harbour office")


@dataclass(frozen=True, slots=True)
class Made:
    """What idle runs have made: keys of answers and of KV cache nodes."""

    answers: frozenset[bytes]
    nodes: frozenset[bytes]

    def lacks(self, before: "Made") -> bool:
        """Return whether anything is missing since."""
        return not (self.answers >= before.answers and self.nodes >= before.nodes)


@dataclass(slots=True)
class Killed:
    """A home whose idle runs are killed; counts the job that each kill hit, and how many jobs were begun again."""

    folder: Path
    chance: random.Random
    at: Counter[str] = field(default_factory=Counter)
    again: int = 0
    _number: int = 0

    @property
    def mail(self) -> Path:
        """Return the folder that mail is delivered to."""
        return self.folder / "inbox"

    def deliver(self, count: int = 1) -> None:
        """Deliver mail, as to a Maildir."""
        for name in ("tmp", "new", "cur"):
            (self.mail / name).mkdir(parents=True, exist_ok=True)
        for _ in range(count):
            self._number += 1
            path = self.mail / "tmp" / f"{self._number}.host"
            path.write_text(self._text(self._number), "utf-8")
            path.rename(self.mail / "new" / path.name)

    def question(self) -> str:
        """Return a question that one of the mails answers."""
        number = self.chance.randrange(1, self._number + 1)
        return f"Who brings the {_thing(number)}?"

    def queue(self) -> None:
        """Queue a predicted question."""
        question = f"On which day in June is it that the {_thing(self.chance.randrange(1, self._number + 1))} comes?"
        with closing(open_ledger(self.folder / "home" / "ledger.db")) as ledger:
            Jobs(ledger).offer([JobRow("populate", question, 1.0, 1.0, 0.0, "history/model")])

    def run(self, *words: str) -> dict[str, Any]:
        """Run a command to its end; returns the object that it prints."""
        command = [sys.executable, "-m", "cli.app", *words, "--json"]
        done = subprocess.run(command, env=environment(self.folder), capture_output=True, text=True, check=False)
        assert done.returncode in (0, 4), done.stderr
        row: dict[str, Any] = json.loads(done.stdout)
        return row

    def use(self, model: Path) -> None:
        """Have a language model answer."""
        command = [sys.executable, "-m", "cli.app", "config", "set", "model.name", str(model)]
        subprocess.run(command, env=environment(self.folder), check=True)

    def settle(self) -> float:
        """Let an idle run end by itself: no job is left then, the home is sound, and a predicted question is a hit.

        Return the seconds that it took.
        """
        self.queue()
        row = self.run("idle", "--force")
        assert {unit["state"] for unit in row["units"]} <= {"done", "cached"}
        assert self._rows("SELECT * FROM jobs") == []
        assert self.run("doctor", "--data", "--read-data")["sound"]
        predicted = self._rows("SELECT question FROM answers WHERE origin = 'predicted' AND state = 'answered'")
        assert self.run("ask", self.chance.choice(sorted(predicted))[0])["tier"] == "exact"
        return float(row["seconds"])

    def kill(self, longest_s: float) -> bool:
        """Start an idle run and kill it; True where it still ran. Nothing is lost, and at most one job is begun."""
        before, began = self.made(), dict(self._rows("SELECT kind || subject, attempts FROM jobs"))
        command = [sys.executable, "-m", "cli.app", "idle", "--force"]
        process = subprocess.Popen(command, env=environment(self.folder), stdout=subprocess.DEVNULL)
        try:
            process.wait(self.chance.uniform(0.2, longest_s))
        except subprocess.TimeoutExpired:
            process.kill()
        died = process.wait() == -signal.SIGKILL
        tried = self._rows("SELECT kind, kind || subject, attempts FROM jobs")
        begun = [(kind, subject) for kind, subject, attempts in tried if attempts > began.get(subject, 0)]
        assert len(begun) <= 1
        assert not self.made().lacks(before)
        if died:
            self.at[begun[0][0] if begun else "between"] += 1
            self.again += any(began.get(subject, 0) for _, subject in begun)
        return died

    def made(self) -> Made:
        """Look at what there is."""
        answers = self._rows("SELECT key FROM answers WHERE state != 'pending'")
        nodes = self._rows("SELECT key FROM kv_nodes")
        return Made(frozenset(key for (key,) in answers), frozenset(key for (key,) in nodes))

    def _rows(self, sql: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "home" / "ledger.db")) as ledger:
            return ledger.execute(sql).fetchall()

    def _text(self, number: int) -> str:
        who, place = self.chance.choice(_PEOPLE), self.chance.choice(_PLACES)
        name, day = who.lower().replace(" ", "."), number % 28 + 1
        head = f"From: {who} <{name}@example.org>\nSubject: The {_thing(number)}\nMessage-ID: <{number}@killed>\n"
        text = f"I will bring the {_thing(number)} to the {place} on {day} June. The meeting is at {number % 9 + 1} pm."
        return f"{head}Date: Mon, {day} May 2024 10:00:00 +0000\n\n{text}\n"


def _thing(number: int) -> str:
    return f"{_THINGS[number % len(_THINGS)]} {number}"
