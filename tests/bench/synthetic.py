"""A corpus made in code from a seed: mail and meetings, and a stream of questions as one person may ask them.

It shows mechanisms, not people: sentences are few and plain, and the shares below are stated, not observed. Nothing in
it was chosen by what a cache makes of it: as many questions are rephrased as have a near twin (the same words about
another thing, with another answer), so that whoever lends answers blindly is wrong as often as right.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.bench.corpus import Query, User, settled
from tests.bench.synthetic_kinds_more import ABSENT
from tests.bench.synthetic_papers import Fact, World, world

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
            settled(folder / path, text)
        found.append(User("synthetic", folder.name, (folder / "docs", folder / "mail"), stream(made, seed)))
    return found


def stream(made: World, seed: int, questions: int = QUESTIONS) -> tuple[Query, ...]:
    """Give the questions about a world, in the stated shares, in an order that is drawn."""
    return tuple(query for _, query in Asker(made, Random(f"stream {seed}")).stream(questions))


class Asker:
    """One person: what was asked so far decides what can be asked again; any of it, however long ago, alike."""

    def __init__(self, made: World, random: Random) -> None:
        self._facts, self._random = made.facts, random
        self._asked = list[tuple[Fact, int]]()  # with the number of the phrasing
        self._absent, self._queries = random.sample(ABSENT, len(ABSENT)), list[Query]()
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
