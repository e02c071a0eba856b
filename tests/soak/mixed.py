"""Mixed commands by several processes at once on one home, killed at random or left alone, and what always holds.

A mailbox changes all the while. A command acknowledges by its exit code: mail that was there when an `ingest` began
which ended is indexed from then on, and a question that was answered is in the history.

    python -m tests.soak.mixed FOLDER --kills 1000
    python -m tests.soak.mixed FOLDER --minutes 10 --processes 8
"""

import argparse
import json
import random
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests import forked
from tests.demo import environment
from tests.forked import Ended, Running

_PLACES = ("boat house", "old library", "town hall", "harbour office", "north barn", "chapel", "tool shed", "cellar")
_THINGS = ("tent", "piano", "ladder", "kettle", "banner", "trailer", "projector", "drum", "sewing machine", "canoe")
_MAILS = 40  # at most, so that removing one is never so much that `ingest` refuses
_DOOMED = 0.75  # of the commands that may be killed
_LONGEST_S = {
    "ingest": 2.5,
    "idle": 2.5,
    "ask": 1.2,
    "ask again": 0.8,
    "ask anew": 1.2,
    "wrong": 0.3,
    "check": 1.0,
    "forget": 2.0,
}
_SERVED = "served"  # the first word of the names of commands that the resident process runs
_LOCKED = 11
_ENDED = (0, 3, 4, _LOCKED)  # exit codes of what went as it should: skipped files, no answer, another process writes
_NOTHING_THERE = (("wrong", 1), ("forget", 2))  # nothing was asked, or the mail is not indexed yet
_BROKEN = ("bug", "damaged", "Traceback", "failing")  # words of an error that nobody expects
Words = tuple[str, ...]


class Mailbox:
    """Mails, each of one sentence that may change; a number stands for one fact for ever."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.places, self._chance = folder, dict[int, str](), chance
        self.changed = dict[int, float]()  # when each was last changed or removed
        self._number = 0
        folder.mkdir(parents=True, exist_ok=True)

    def change(self) -> None:
        """Deliver a mail, change one, or remove one."""
        kind = self._chance.choice(("new", "new", "changed", "removed"))
        if kind == "new" or len(self.places) < _MAILS // 2:
            self._number += 1
            self._put(self._number)
        elif kind == "changed":
            self._put(self._chance.choice(sorted(self.places)))
        if kind == "removed" or len(self.places) > _MAILS:
            number = self._chance.choice(sorted(self.places))
            self.path(number).unlink()
            del self.places[number]
            self.changed[number] = time.monotonic()

    def forget(self) -> str:
        """Return the file of a mail that nobody asks about any more; it stays, and must not be indexed again."""
        while len(self.places) < _MAILS // 2:
            self.change()
        number = self._chance.choice(sorted(self.places))
        del self.places[number]
        return str(self.path(number))

    def question(self) -> str:
        """Return a question about one of the mails, or about one that is gone."""
        number = self._chance.randrange(max(1, self._number - 2 * _MAILS), self._number + 1)
        return self._chance.choice(("Where is the {} kept?", "Where do they keep the {}?")).format(_thing(number))

    def path(self, number: int) -> Path:
        """Return the file of a mail."""
        return self.folder / f"{number}.eml"

    def _put(self, number: int) -> None:
        place, part = self._chance.choice(_PLACES), self.folder / f".{number}"
        text = (
            f"From: Ann Lee <ann@example.org>\nSubject: The {_thing(number)}\nMessage-ID: <{number}@mixed>\n"
            f"Date: {number % 28 + 1} May 2024 10:00:00 +0000\n\nThe {_thing(number)} is kept in the {place}.\n"
        )
        part.write_text(text, "utf-8")
        part.replace(self.path(number))
        self.places[number] = place
        self.changed[number] = time.monotonic()


def _thing(number: int) -> str:
    return f"{_THINGS[number % len(_THINGS)]} {number}"


@dataclass(slots=True)
class Seen:
    """What a run saw: commands that ended and that were killed, exit codes, tiers, and what was wrong. Mutable."""

    ended: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    tiers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    looks: int = 0


@dataclass(slots=True)
class Mixed:
    """One home under mixed commands, which are killed at random if `kills`."""

    folder: Path
    chance: random.Random
    kills: bool
    seen: Seen = field(default_factory=Seen)
    box: Mailbox = field(init=False)
    _asked: Counter[str] = field(default_factory=Counter)  # questions that were answered
    _forgotten: set[str] = field(default_factory=set)  # files
    _forgetting: bool = False  # a `forget` was killed, and no command has finished its work for certain
    _indexed: float = 0.0  # the start of the latest ingest that ended well

    def __post_init__(self) -> None:
        self.box = Mailbox(self.folder / "mail", self.chance)
        for _ in range(_MAILS // 2):
            self.box.change()
        self.run("ingest")

    def commands(self) -> dict[str, Callable[[], Words]]:
        """Return what is run, by name: a line for each command."""
        return {
            "ingest": lambda: self._changed("ingest", str(self.box.folder), "--vectors", "now"),
            "ask": lambda: ("ask", self.box.question()),
            "ask again": lambda: ("ask", self._asked_before()),
            "ask anew": lambda: ("ask", self._asked_before(), "--cache=refresh"),
            "served ask": lambda: ("ask", self.box.question(), "--cache=refresh"),
            "wrong": lambda: ("wrong",),
            "idle": lambda: ("idle", "--force", "--budget", "20s"),
            "search": lambda: ("search", self.box.question()),
            "check": lambda: ("doctor", "--data"),
            "stats": lambda: ("stats",),
            "forget": lambda: ("forget", self.box.forget(), "--yes"),
        }

    def work(self, processes: int, until: Callable[[], bool]) -> None:
        """Run commands in so many processes at a time until something is so, or something is wrong."""
        running = list[tuple[str, Words, float, Running]]()
        names = sorted(_LONGEST_S) if self.kills else sorted(self.commands())
        while running or not (until() or self.seen.wrong):
            while len(running) < processes and not (until() or self.seen.wrong):
                name = self.chance.choice(names)
                running.append(self._start(name, self.commands()[name](), kill=self.kills))
            time.sleep(0.005)
            for one in list(running):
                if (ended := one[-1].poll()) is not None:
                    running.remove(one)
                    self._note(*one[:3], ended)

    def run(self, name: str, words: Words | None = None) -> dict[str, Any]:
        """Run a command to its end; returns what it printed."""
        name, words, began, running = self._start(name, words or self.commands()[name](), kill=False)
        return self._note(name, words, began, running.wait())

    def _start(self, name: str, words: Words, *, kill: bool) -> tuple[str, Words, float, Running]:
        doomed = kill and self.chance.random() < _DOOMED
        seconds = self.chance.uniform(0.0, _LONGEST_S[name]) if doomed else None
        own = {"PKB_DAEMON": "auto" if name.startswith(_SERVED) else "off"}
        running = forked.start((*words, "--json"), environment(self.folder) | own, seconds)
        return name, words, time.monotonic(), running

    def _note(self, name: str, words: Words, began: float, ended: Ended) -> dict[str, Any]:
        """Hold what a command said against what may be; returns the first row that it printed."""
        if name == "forget":
            self._note_forgetting(words[1], ended.code)
        if ended.code == -signal.SIGKILL:
            self.seen.killed[name] += 1
            return {}
        self.seen.ended[name] += 1
        self.seen.codes[f"{name}: {ended.code}"] += 1
        usual = ended.code in _ENDED or (name, ended.code) in _NOTHING_THERE
        usual = usual or (name == "check" and self._forgetting)  # which says that a `forget` was interrupted
        if not usual or any(word in ended.err for word in _BROKEN):
            self.seen.wrong.append(f"{' '.join(words)}: {ended.code} {ended.err[-900:]} {ended.out[-500:]}")
        row: dict[str, Any] = json.loads(ended.out.splitlines()[0]) if ended.out and usual else {}
        if name == "ingest" and ended.code in (0, 3):
            self._indexed = max(self._indexed, began)
        if words[0] == "ask" and row.get("tier"):
            self._asked[words[1]] += "--cache=off" not in words and not self._forgetting
            self.seen.tiers[row["tier"]] += 1
        return row

    def _note_forgetting(self, path: str, code: int) -> None:
        """Expect no question any more: those that retrieved the message are forgotten, too, maybe by a later run."""
        self._asked.clear()
        self._forgetting |= code == -signal.SIGKILL
        if code == 0:
            self._forgotten.add(path)

    def _changed(self, *words: str) -> Words:
        self.box.change()
        return words

    def _asked_before(self) -> str:
        return self.chance.choice(sorted(self._asked)) if self._asked else self.box.question()

    def acknowledged(self) -> list[str]:
        """Return what was acknowledged and is not there, nobody having repaired anything; call it between commands."""
        self.seen.looks += 1
        with closing(sqlite3.connect(self.folder / "home" / "ledger.db")) as rows:
            places = {bytes(path) for (path,) in rows.execute("SELECT path FROM places")}
            asked = Counter(dict(rows.execute("SELECT question, count(*) FROM history GROUP BY 1")))
            integrity = rows.execute("PRAGMA integrity_check").fetchall()
        lost = [
            f"mail {number}"
            for number in self.box.places
            if self.box.changed[number] < self._indexed and str(self.box.path(number)).encode() not in places
        ]
        lost += [f"forgotten {path}" for path in self._forgotten if path.encode() in places]
        lost += [f"question {text}: {count - asked[text]}" for text, count in (self._asked - asked).items()]
        return lost + [f"ledger: {row}" for row in integrity if row != ("ok",)]

    def settle(self) -> list[str]:
        """Ingest undisturbed, and return what is wrong then: nothing needs a repair, and every answer is of today."""
        found = self.acknowledged()
        self.run("ingest")
        self._forgetting = False
        if not (row := self.run("check", ("doctor", "--data", "--read-data"))).get("sound"):
            found.append(f"check: {row}")
        for number in self.chance.sample(sorted(self.box.places), 4):
            question = f"Where is the {_thing(number)} kept?"
            kept, anew = (self.run("ask", ("ask", question, *flag)) for flag in ((), ("--cache=off",)))
            if kept.get("answer") != anew.get("answer") or self.box.places[number] not in str(anew.get("answer")):
                found.append(
                    f"{question} {kept.get('answer')!r}, anew {anew.get('answer')!r}: {self.box.places[number]}"
                )
        leftovers = [str(path) for path in (self.folder / "home").rglob("*.part")]
        return [*found, *self.acknowledged(), *leftovers, *self.seen.wrong]


def main() -> int:
    """Run until there were enough kills, or for some minutes; print what was seen, return 1 if anything was wrong."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--kills", type=int, default=0)
    options.add_argument("--minutes", type=float, default=0.0)
    options.add_argument("--processes", type=int, default=4)
    options.add_argument("--seed", type=int, default=2026)
    options.add_argument("--each", type=int, default=50, help="kills, or seconds, between two thorough looks")
    given = options.parse_args()
    forked.prepare()
    given.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    mixed = Mixed(given.folder, random.Random(given.seed), given.kills > 0)

    def done() -> float:
        return mixed.seen.killed.total() if given.kills else time.monotonic() - began

    def reached(goal: float) -> bool:
        return done() >= goal

    enough, wrong = given.kills or given.minutes * 60, list[str]()
    try:
        while done() < enough and not wrong:
            goal = min(done() + given.each, enough)
            mixed.work(given.processes, partial(reached, goal))
            wrong = mixed.settle()
            killed, ended = mixed.seen.killed.total(), mixed.seen.ended.total()
            print(f"{killed} killed, {ended} ended, {time.monotonic() - began:.0f} s", flush=True)
    finally:
        with suppress(ValueError):
            mixed.run("serve", ("serve", "--stop"))
    seen = mixed.seen
    print(f"killed: {dict(seen.killed)}\nended: {dict(seen.codes)}\nanswered: {dict(seen.tiers)}\nlooks: {seen.looks}")
    print(*(f"wrong: {one}" for one in wrong), sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
