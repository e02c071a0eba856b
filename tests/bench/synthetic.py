"""A corpus generated from a seed: mail (RFC 822), minutes (`Speaker: text`), and a stream of questions about them.

Its sentences are in tests/data/synthetic.toml. It shows mechanisms, not people: sentences are few and plain, and the
shares below are chosen, not observed. As many questions are rephrased as have a near twin (the same words about another
thing, with another answer), so a cache without checks is wrong as often as right. A mail states one fact; a meeting
states one of each kind.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.corpus import Query, User, folders

SENTENCES = Path(__file__).resolve().parents[1] / "data" / "synthetic.toml"
TOLD = 3  # things of a kind that documents tell of: two in mail, one in a meeting; the others are told nowhere
_BEGAN = datetime(2024, 1, 8, 7, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fact: its topic, its sentence, three ways to ask for it, its subjects and its answers."""

    circle: str
    topic: str
    told: str
    asked: tuple[str, ...]
    things: tuple[str, ...]
    answers: tuple[str, ...]


TEXTS: dict[str, Any] = tomllib.loads(SENTENCES.read_text("utf-8"))
KINDS = tuple(Kind(**one | {key: tuple(one[key]) for key in ("asked", "things", "answers")}) for one in TEXTS["kinds"])


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that one document tells."""

    kind: Kind
    thing: str
    answer: str
    document: str

    @property
    def sentence(self) -> str:
        """Return the words in which it is told."""
        return self.kind.told.format(it=self.thing, answer=self.answer)


@dataclass(frozen=True, slots=True)
class World:
    """The texts of the documents by their paths, and what they tell."""

    documents: dict[str, str]
    facts: tuple[Fact, ...]


def world(seed: int) -> World:
    """Make all documents of one user; equal seeds give equal ones."""
    random = Random(f"papers {seed}")
    me, *others = random.sample(TEXTS["people"], len(TEXTS["people"]))
    circles = {
        circle: f"docs/{_meeting_day(number)} {name}.txt"
        for number, (circle, name) in enumerate(TEXTS["meetings"].items())
    }
    drawn = [one for kind in KINDS for one in _drawn(random, kind, circles[kind.circle])]
    mailed = [one for one in drawn if not one.document]
    random.shuffle(mailed)
    facts, documents = [one for one in drawn if one.document], dict[str, str]()
    for circle, path in circles.items():
        documents[path] = _minutes(
            random, [one for one in facts if one.kind.circle == circle], random.sample(others, 4)
        )
    for number, one in enumerate(mailed, 1):
        fact = Fact(one.kind, one.thing, one.answer, f"mail/{number:03}.eml")
        documents[fact.document] = _mail(random, fact, me, random.choice(others), seed, number)
        facts.append(fact)
    return World(documents, tuple(facts))


def _drawn(random: Random, kind: Kind, meeting: str) -> list[Fact]:
    things, answers = random.sample(kind.things, TOLD), random.sample(kind.answers, TOLD)
    places = (meeting, *[""] * (TOLD - 1))
    return [Fact(kind, *each) for each in zip(things, answers, places, strict=True)]


def _meeting_day(number: int) -> str:
    return f"{_BEGAN + timedelta(days=19 * number + 5):%Y-%m-%d}"


def _minutes(random: Random, facts: list[Fact], people: list[str]) -> str:
    said = list[str]()
    for fact in random.sample(facts, len(facts)):
        said += [*random.sample(TEXTS["said"], 4), fact.sentence]
    said.append("Thank you all, until next time.")
    return "".join(f"{people[number % len(people)]}: {text}\n" for number, text in enumerate(said))


def _mail(random: Random, fact: Fact, me: str, sender: str, seed: int, number: int) -> str:
    written = _BEGAN + timedelta(days=2 * number, minutes=random.randrange(720))
    before, after = random.randint(2, 6), random.randint(2, 6)
    around = random.sample(TEXTS["talk"], before + after)
    body = (f"Dear {me.split()[0]},", "", " ".join((*around[:before], fact.sentence)), "", " ".join(around[before:]))
    head = (
        *(f"From: {_address(sender)}", f"To: {_address(me)}", f"Subject: {fact.kind.topic}"),
        *(f"Date: {format_datetime(written)}", f"Message-ID: <{seed}.{number}@synthetic.example.org>"),
        *("MIME-Version: 1.0", "Content-Type: text/plain; charset=us-ascii"),
    )
    return "\r\n".join((*head, "", *body, "", f"All the best, {sender.split()[0]}", ""))


def _address(name: str) -> str:
    return f"{name} <{name.lower().replace(' ', '.')}@example.org>"


SEEDS = (1, 2, 3)  # a user each
QUESTIONS = 70  # of a user: what some weeks of use may come to; new topics are as many as there are kinds of facts
SHARES = {
    "new": 0.4,  # a kind of thing that was not asked about: most questions are about something else
    "rephrased": 0.2,  # the same thing in other words
    "twin": 0.2,  # the same words about another thing: as many as rephrased ones
    "repeated": 0.1,  # the same words again: fewer, for nobody remembers how they put it
    "unanswerable": 0.1,  # half about things that documents name nowhere, half twins of what was asked
}


def users(scratch: Path, seeds: tuple[int, ...] = SEEDS) -> list[User]:
    """Make users, their documents as files below `scratch`; equal seeds give equal bytes and questions."""
    found = list[User]()
    for seed in seeds:
        made, folder = world(seed), scratch / f"seed-{seed}"
        for path, text in made.documents.items():
            _write(folder / path, text.encode())
        found.append(User("synthetic", folder.name, folders(folder), stream(made, seed)))
    return found


def _write(path: Path, data: bytes) -> None:
    """Write a file unless it is there as it should be: ingest looks at its time."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def stream(made: World, seed: int, questions: int = QUESTIONS) -> tuple[Query, ...]:
    """Return the questions about a world, in the stated shares, in an order that is drawn."""
    return tuple(query for _, query in Asker(made, Random(f"stream {seed}")).stream(questions))


class Asker:
    """One person: what was asked so far decides what can be asked again; any of it, however long ago, alike."""

    def __init__(self, made: World, random: Random) -> None:
        self._facts, self._random = made.facts, random
        self._asked = list[tuple[Fact, int]]()  # with the number of the phrasing
        self._absent, self._queries = random.sample(TEXTS["absent"], len(TEXTS["absent"])), list[Query]()
        self._lost = 0  # questions without an answer so far

    def stream(self, questions: int) -> list[tuple[str, Query]]:
        """Draw so many questions, each with the share that it counts for; what cannot be drawn yet waits."""
        waiting = [label for label, share in SHARES.items() for _ in range(round(share * questions))]
        self._random.shuffle(waiting)
        found = list[tuple[str, Query]]()
        while waiting:
            label, query = self._next(dict.fromkeys(waiting))
            waiting.remove(label)
            self._queries.append(query)
            found.append((label, query))
        return found

    def _next(self, labels: dict[str, None]) -> tuple[str, Query]:
        draws: dict[str, Callable[[], Query | None]] = {
            **{"new": self._new, "rephrased": self._rephrased, "twin": self._twin},
            **{"repeated": self._repeated, "unanswerable": self._unanswerable},
        }
        for label in labels:
            if (query := draws[label]()) is not None:
                return label, query
        raise AssertionError(f"no question left to ask for {', '.join(labels)}")

    def _new(self) -> Query | None:
        known = {fact.kind.topic for fact, _ in self._asked}
        return self._ask([(fact, way) for fact in self._facts if fact.kind.topic not in known for way in range(3)])

    def _rephrased(self) -> Query | None:
        return self._ask([(fact, way) for fact in self._told() for way in range(3) if (fact, way) not in self._asked])

    def _twin(self) -> Query | None:
        told, ways = self._told(), {(fact.kind.topic, way) for fact, way in self._asked}
        fresh = [fact for fact in self._facts if fact not in told]
        return self._ask([(fact, way) for fact in fresh for way in range(3) if (fact.kind.topic, way) in ways])

    def _repeated(self) -> Query | None:
        return self._random.choice(self._queries) if self._queries else None

    def _unanswerable(self) -> Query | None:
        if self._lost % 2 == 0 and self._absent:
            self._lost += 1
            return Query(self._absent.pop(), "", frozenset())
        told = {(fact.kind.topic, fact.thing) for fact in self._facts}
        texts = [
            fact.kind.asked[way].format(it=thing)
            for fact, way in self._asked
            for thing in fact.kind.things
            if (fact.kind.topic, thing) not in told
        ]
        fresh = [text for text in dict.fromkeys(texts) if text not in {query.text for query in self._queries}]
        self._lost += bool(fresh)
        return Query(self._random.choice(fresh), "", frozenset()) if fresh else None

    def _told(self) -> list[Fact]:
        return list(dict.fromkeys(fact for fact, _ in self._asked))

    def _ask(self, choice: list[tuple[Fact, int]]) -> Query | None:
        if not choice:
            return None
        fact, way = self._random.choice(choice)
        self._asked.append((fact, way))
        return Query(fact.kind.asked[way].format(it=fact.thing), fact.answer, frozenset((fact.document,)))
