"""An answer from the cache is the one that would be made now: over growing and edited mail, and questions typed anew.

Every comparison asks one question twice, through the cache and past it, and holds text, highlight and sources together.
"""

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from engine.session import Session
from engine.types import Answer, AskOptions, json_values
from store.types import Scope, replace
from tests.demo import NANO
from tests.effort import slow_only
from tests.engine.ask.small_home import NOW, SmallHome, anew, ask, ingest

PEOPLE = ("Ann Vey", "Bill Rook", "Mark Ode", "Zoë Quist", "Will Ferrow", "O'Hara, Jean-Luc")
THINGS = ("tandem", "canoe", "bill", "Falcon report", "garden fence", "choir concert", "US office")
FACTS = (
    "{person} painted the {thing} {colour}.",
    "The {thing} costs {number} euros, says {person}.",
    "The next meeting about the {thing} is on {day} June at {hour}:30 in room {number}.",
    "The meeting about the {thing} moved to {day} June at {hour}:00.",
    "{person} is on holiday until {day} June.",
    "We talked about the {thing} and {person} will send the {colour} one tomorrow.",
)
QUESTIONS = (
    "Which colour is {person}'s {thing}?",
    "Who painted the {thing}?",
    "How much does the {thing} cost?",
    "When is the next meeting about the {thing}?",
    "Where is my next meeting?",
    "What did {person} say about the {thing}?",
    "Is {person} on holiday now?",
    "What will {person} send tomorrow?",
    "What is the {thing}?",
    "When was the meeting about the {thing}?",
)
FORMS = (
    str,
    str.lower,
    str.upper,
    str.title,
    lambda text: text.rstrip("?"),
    lambda text: f"  {text.replace(' ', '  ')}?!",
    lambda text: text.replace("'", "’").rstrip("?") + "…",
    lambda text: text[0].lower() + text[1:],
)
OPTIONS = (AskOptions(), AskOptions(k=2), AskOptions(Scope(sender="ann")))


class Archive:
    """Mail that grows and is edited, and questions about it."""

    def __init__(self, folder: Path, seed: int, model: Path | None = None) -> None:
        self.rng, self.home, self.now, self.tiers = Random(seed), SmallHome(folder), NOW, Counter[str]()
        if model:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "config.toml").write_text(f'[model]\nname = "{model}"\nmax_tokens = 12\n')
        self.session = self.home.open()
        self.questions = [self._filled(self.rng.choice(QUESTIONS)) for _ in range(14)]

    def change(self) -> None:
        """Add, edit or remove a few mails; vectors may come later."""
        for _ in range(self.rng.randint(1, 3)):
            name = f"m{self.rng.randrange(30)}"
            if self.rng.random() < 0.15:
                self.home.put(name, None)
            else:
                self._write(name)
        ingest(self.session, self.home.mail, vectors=self.rng.random() < 0.7)
        self.now += timedelta(minutes=self.rng.choice((0, 1, 90, 60 * 24)))

    def compare(self, count: int) -> list[tuple[Answer, Answer]]:
        """Ask questions in any form, through the cache and past it; return the pairs that differ."""
        pairs = []
        for _ in range(count):
            text = self.rng.choice(FORMS)(self.rng.choice(self.questions))
            options = self.rng.choices(OPTIONS, (4, 1, 1))[0]
            self.now += timedelta(minutes=self.rng.choice((*[0] * 8, 1, 45, 300)))
            pairs.append((self._ask(text, options), anew(self.fresh, text, options, self.now).reply))
        self.tiers.update(cached.tier for cached, _ in pairs)
        return [(cached, made) for cached, made in pairs if _shown(cached) != _shown(made)]

    def _ask(self, text: str, options: AskOptions) -> Answer:
        self.fresh = self._at_now()
        return ask(self.fresh, text, options, rules=None).reply

    def _at_now(self) -> Session:
        """Return a session of this moment on what is open already."""
        session = Session(self.home.environ)
        session.now, session.ledger, session.tables = self.now, self.session.ledger, self.session.tables
        session.embedder, session.models = self.session.embedder, self.session.models
        session.reader_version = ""
        return session

    def _write(self, name: str) -> None:
        texts = [self._filled(self.rng.choice(FACTS)) for _ in range(self.rng.randint(1, 3))]
        sender, address = self.rng.choice(PEOPLE), self.rng.choice(("x", "ann", "rook.b"))
        head = f'From: "{sender}" <{address}@example.org>\nTo: mira@example.org\nSubject: {self.rng.choice(THINGS)}\n'
        date = f"Date: Mon, {self.rng.randint(1, 18):02} Jun 2024 10:00:00 +0000\nMessage-ID: <{name}@x>\n"
        self.home.mail.mkdir(parents=True, exist_ok=True)
        (self.home.mail / f"{name}.eml").write_text(f"{head}{date}\n{' '.join(texts)}\n", "utf-8")

    def _filled(self, form: str) -> str:
        rng = self.rng
        who = rng.choice(PEOPLE).split()
        parts = {"person": rng.choice((who[0], " ".join(who))), "thing": rng.choice(THINGS), "day": rng.randint(10, 28)}
        parts |= {
            "colour": rng.choice(("red", "green", "blue")),
            "number": rng.randint(2, 90),
            "hour": rng.randint(9, 18),
        }
        return form.format(**parts)


def _shown(reply: Answer) -> dict[str, object]:
    """Return all of a reply that does not say how it was come by."""
    made: dict[str, object] = json_values(replace(reply, tier="full", ms={}, age_s=None, tokens=None, correction=None))
    return made


def _lead(pairs: list[tuple[Answer, Answer]]) -> list[tuple[datetime | str | None, ...]]:
    return [(cached.question, cached.text, made.text) for cached, made in pairs]


@pytest.mark.parametrize(
    "seed", [0, *slow_only(1, 2), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 21))]
)
def test_cached_and_uncached_quotes_are_equal(tmp_path: Path, seed: int) -> None:
    rounds = 27 if seed else 2  # 675 comparisons each
    archive, different = Archive(tmp_path, seed), list[tuple[Answer, Answer]]()
    for _ in range(rounds):
        archive.change()
        different += archive.compare(25)
    assert _lead(different) == []
    assert archive.tiers["exact"] > 25 * rounds / 8  # else little was compared


@pytest.mark.parametrize("rounds", [*slow_only(5), pytest.param(8, marks=pytest.mark.soak)])
def test_cached_and_uncached_generated_answers_are_equal(tmp_path: Path, rounds: int) -> None:
    archive, different = Archive(tmp_path, 99, NANO), list[tuple[Answer, Answer]]()
    for _ in range(rounds):
        archive.change()
        different += archive.compare(25)
    assert _lead(different) == []
    assert archive.tiers["exact"] > 25 * rounds / 8
