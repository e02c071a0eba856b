"""The figures of `pkb bench`: what each tier costs here, and what idle would save.

All is tried in homes aside, over the tables and with the model of one's own. Prints only how long it will take.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli import deeds, medians, out, promised
from cli.aside import Room, aside, example
from cli.plain import count
from cli.progress import bars
from cli.session import Session
from store.errors import PkbError

if TYPE_CHECKING:
    from engine.ask.prefill import Reading
    from engine.ask.tiers import Box, Model, Tried
    from store.ledger import Ledger

_ROOM, _DAILY = 1 << 30, 1 << 40  # bytes of tensors: for as long as a question takes, and for all of them
_ASKED_AGAIN = 4  # of so many questions one is taken to be new
_LONG_S = 60.0  # from which on it is said how long it will take
_COMMANDS = 3  # processes that are started, for an exact hit each


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command line asks for; `model` is the one to try where it is not the one in use."""

    questions: int
    model: str | None
    blocks: bool
    quiet: bool


def gather(opened: Session, place: Room, wanted: Wanted) -> dict[str, Any]:
    """Try the latest questions, or those of an example; what is kept meanwhile is kept in the room."""
    began = time.perf_counter()
    with ExitStack() as held:
        own = held.enter_context(aside(opened, place)) if opened.there else None
        asked = _latest(own, wanted.questions) if own else []
        home = own if own and asked else held.enter_context(example(opened, place.links / "example"))
        open_ms = _open_ms(home, asked[0]) if asked else None  # else reading the example has opened all
        reading, model_s = _load(home)
        about = promised.gather(own)  # before anything is asked of the copy
        tried = _try(home, reading, place.private / "tried", asked or _example(wanted.questions), wanted)
        command = _commands(home, next(iter(tried)), wanted.model) if tried else []
        return {
            "schema": out.SCHEMA,
            "machine": _machine(),
            "model": reading.model.name if reading else None,
            "own": bool(asked),
            "questions": len(tried),
            **medians.row(list(tried.values()), "blocks" if home.settings.kv.reuse == "blocks" else "prefix"),
            "cold": {"command_ms": medians.spread(command), "open_ms": open_ms, "model_s": model_s},
            **about,
            "blocks": _blocks(home, place.private / "blocks", asked, wanted) if wanted.blocks else None,
            "seconds": round(time.perf_counter() - began, 3),
        }


def _machine() -> dict[str, Any]:
    from engine.models.memory import total
    from engine.models.runtime import device

    about = {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()}
    return about | {"memory": total(), "device": device()}


def _latest(own: Session, most: int) -> list[str]:
    """Give the latest questions, oldest first, each once."""
    from engine.ask.exact import normalise
    from store.past import latest

    asked = dict[str, str]()
    for question in latest(own.ledger, _ASKED_AGAIN * most):
        asked.setdefault(normalise(question), question)
    return list(asked.values())[:most][::-1]


def _example(most: int) -> list[str]:
    from engine.kv.example import questions

    return questions()[:most]


def _load(home: Session) -> "tuple[Reading | None, float | None]":
    """Load the model, if one writes, and give the seconds that it took."""
    if home.writer.load is None:
        return None, None
    begun = time.perf_counter()
    return home.writer.load(), round(time.perf_counter() - begun, 3)


def _open_ms(home: Session, question: str) -> float:
    """Give what the first question of a process waits for: tables and embedder are opened, and it is looked up."""
    from store.records import Scope

    begun = time.perf_counter()
    deeds.search(home, question, Scope(), home.settings.ask.k)
    return round((time.perf_counter() - begun) * 1000, 3)


def _try(
    home: Session, reading: "Reading | None", folder: Path, asked: Sequence[str], wanted: Wanted
) -> "dict[str, Tried]":
    """Put each question in every tier; one whose evidence does not fit the model is left out."""
    from engine.ask.tiers import try_tiers

    tried, begun = dict[str, "Tried"](), time.perf_counter()
    with _box(home, reading, folder) as box, bars(quiet=wanted.quiet) as tick:
        for number, question in enumerate(asked):
            tick("trying", number, len(asked))
            try:
                tried[question] = try_tiers(box, question)
            except PkbError:
                continue
            if len(tried) == 1:
                _warn(time.perf_counter() - begun, len(asked) - number - 1)
    return tried


def _warn(seconds: float, left: int) -> None:
    """Say how long it will take, where that is long."""
    if (more := seconds * left) > _LONG_S:
        out.say(f"pkb: about {count(round(more / 60 + 0.5), 'minute')} for {left} more; fewer: pkb bench --questions 3")


@contextmanager
def _box(home: Session, reading: "Reading | None", folder: Path) -> "Iterator[Box]":
    """Give what questions are tried with; tensors have a place of their own."""
    from engine.ask.tiers import Box
    from store.ledger import open_ledger

    parts = (home.ledger, home.means, home.room, home.rules, home.settings.ask.k, home.now)
    if reading is None:
        yield Box(*parts)
        return
    folder.mkdir(mode=0o700, parents=True)
    ledger = open_ledger(folder / "ledger.db", create=True)
    model = _model(home, reading, folder, ledger)
    yield Box(*parts, model)
    if model.kept:
        model.kept.close()
    ledger.close()


def _model(home: Session, reading: "Reading", folder: Path, ledger: "Ledger") -> "Model":
    """Have a model keep what it reads in a folder, where what it reads can be kept."""
    from cli.tensors import kept
    from engine.ask.tiers import Model
    from engine.models.runtime import threads_of
    from engine.settings import KvSettings
    from store.home import Home

    model: Any = reading.model
    if model.form.name:
        place, room = Home(folder, folder / "cache", home.home.config), KvSettings(bytes=_ROOM, daily_bytes=_DAILY)
        reading = replace(reading, kept=kept(model, "", place, ledger, room, threads_of(home.ledger)))
    settings = home.settings
    return Model(model.name, reading, _ROOM, settings.model.max_tokens, settings.experiment.drafts)


def _commands(home: Session, question: str, model: str | None) -> list[float]:
    """Give the milliseconds of exact hits, each by a process of its own."""
    program = [sys.executable, "-P", "-c", "from cli.app import main; main()"]
    flags = ["--json", "--no-daemon", *(["--model", model] if model else [])]
    environ = {**home.environ, "PKB_NOW": home.now.isoformat()}
    found = []
    for _ in range(_COMMANDS):
        begun = time.perf_counter()
        ran = subprocess.run([*program, "ask", *flags, "--", question], env=environ, capture_output=True, check=False)
        seconds = time.perf_counter() - begun
        if ran.returncode in (0, 4) and json.loads(ran.stdout)["tier"] == "exact":
            found.append(seconds * 1000)
    return found


def _blocks(home: Session, folder: Path, asked: Sequence[str], wanted: Wanted) -> dict[str, Any]:
    from cli.trials import gather

    folder.mkdir(mode=0o700, parents=True)
    return gather(home, folder, asked, quiet=wanted.quiet)
