"""An ask and an ingest in interleavings of their steps: afterwards no answer stands that would not be made now.

Each is paused where another process could see what it did: around means and transactions, behind each write to a table.
A part of all interleavings, drawn for each kind of change, is tried by `make test`, and every one by `make test-slow`.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from random import Random

import pytest

from engine.session import Session
from engine.types import AskOptions, AskResult
from tests.engine.ask.pausing import Hook, Paused, PausingBackend, slow, stepping
from tests.engine.ask.small_home import SmallHome, anew, apart, ask, asker, ingest
from tests.store.kit import Fuse, Killed

QUESTION = "Which colour has the tandem of the harbour museum?"
LIKE = "Which colour does the tandem of the harbour museum have?"
_GATHERED, _WRITTEN = 5, 6  # steps of an ask that looks again
_FEWEST = 12  # pairings in which each outcome occurs


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to the mail while it is asked about; `late` has only the vectors come then."""

    before: Mapping[str, str]
    after: Mapping[str, str | None]
    moves: bool = False
    late: bool = False

    @property
    def collection(self) -> str | None:
        """Return the collection to ask in, where that is what changes."""
        return "mail" if self.moves else None

    def prepare(self, home: SmallHome) -> None:
        """Bring about what there is before."""
        self.undo(home)
        ingest(home.open(), home.mail, vectors=not self.late)

    def happen(self, home: SmallHome, session: Session) -> None:
        """Change the mail and ingest it."""
        for name, text in self.after.items():
            home.put(name, text, 10)
        ingest(session, home.mail, "elsewhere" if self.moves else "mail")

    def undo(self, home: SmallHome) -> None:
        """Have the mail as it was before."""
        for name, text in (dict.fromkeys(self.after) | dict(self.before)).items():
            home.put(name, text)


GREEN, BLUE = "The tandem of the harbour museum is green.", "The tandem of the harbour museum is blue."
JAM = "Plum jam wants two kilos of sugar."
CHANGES = {
    "added": Change({"a": GREEN, "b": JAM}, {"c": BLUE}),
    "changed": Change({"a": GREEN, "b": JAM}, {"a": BLUE}),
    "removed": Change({"a": GREEN, "c": BLUE}, {"c": None}),
    "moved": Change({"a": GREEN, "b": JAM}, {}, moves=True),
    "vectors": Change({"a": GREEN, "b": JAM, "c": BLUE}, {}, late=True),
}


def seen(answered: AskResult) -> tuple[str | None, frozenset[str]]:
    """Return what must be the same of two answers to one question: the words, and the files that were read."""
    reply = answered.reply
    return reply.text, frozenset(Path(source.path).name for source in reply.sources)


@dataclass(frozen=True, slots=True)
class Way:
    """What was kept before, what is asked while the mail changes, the tier of some, and how many are tried."""

    kept: str | None
    text: str
    tier: str
    share: float


WAYS = {
    "new": Way(None, QUESTION, "full", 0.06),
    "again": Way(QUESTION, QUESTION, "exact", 0.1),
    "alike": Way(QUESTION, LIKE, "semantic", 0.05),
}


@dataclass(frozen=True, slots=True)
class Pairing:
    """One ask: begun when the ingest is at a step, held up at one of its own, let go on at another of the ingest."""

    begun: int
    held: int
    gone_on: int
    options: AskOptions


SLOW = [("removed", "again"), *((name, "new") for name in CHANGES if name not in ("added", "removed"))]


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *(("added", "new"), ("changed", "again"), ("removed", "new"), ("added", "alike")),
        *(pytest.param(*pair, marks=pytest.mark.slow) for pair in SLOW),
    ],
)
def test_no_pause_in_ask_or_ingest_lets_a_stale_answer_stand(tmp_path: Path, name: str, way: str) -> None:
    hold(tmp_path, name, WAYS[way])


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_pause_at_all_lets_a_stale_answer_stand(tmp_path: Path, name: str, way: Way) -> None:
    hold(tmp_path, name, replace(way, share=1.0))


def hold(tmp_path: Path, name: str, way: Way) -> None:
    """Let asks and an ingest interleave, and hold every answer that was kept against the one that is made anew."""
    change, home = CHANGES[name], SmallHome(tmp_path)
    change.prepare(home)
    plain, asking, ingesting = home.open(), slow(home), slow(home)
    every = list(pairs(*lengths(tmp_path / "rehearsal", change, way), change.collection))
    pairings = Random(name).sample(every, max(_FEWEST, round(way.share * len(every))))
    for one in pairings:
        if way.kept:
            ask(plain, way.kept, one.options)
    held, tiers = race(pairings, lambda one: run(asking, way.text, one.options), lambda: change.happen(home, ingesting))
    assert held >= len(pairings) / 5  # a hit has fewer steps than the rehearsed ask
    assert way.tier in tiers or change.late  # what has no vector is lent to nobody
    for text in {way.text, way.kept or way.text}:
        wanted = seen(anew(plain, text, pairings[0].options))
        found = {seen(ask(plain, text, one.options)) for one in pairings}
        assert found == {wanted}


def lengths(folder: Path, change: Change, way: Way) -> tuple[int, int]:
    """Count the steps of an ask and of the ingest, each by itself."""
    home = SmallHome(folder)
    change.prepare(home)
    session, steps = slow(home), list[int]()
    with stepping(lambda: steps.append(1)):
        run(session, way.text, AskOptions())
        asked = len(steps)
        change.happen(home, session)
    return asked, len(steps) - asked


def pairs(asked: int, ingested: int, collection: str | None) -> Iterator[Pairing]:
    """Pair each step of an ask with each of the ingest; where the ask is begun is drawn."""
    chance = Random(f"{asked} {ingested}")
    for number, (held, gone_on) in enumerate(product(range(1, asked + 1), range(1, ingested + 1))):
        yield Pairing(chance.randrange(gone_on), held, gone_on, apart(number, collection))


def race(pairings: Sequence[Pairing], asks: Callable[[Pairing], AskResult], ingests: Hook) -> tuple[int, Counter[str]]:
    """Let all asks run beside one ingest; returns how many were held up, and their tiers."""
    at, held, waiting, tiers = 0, 0, list[tuple[Pairing, Paused]](), Counter[str]()

    def step() -> None:
        nonlocal at, held
        for pairing, one in waiting:
            if pairing.gone_on == at:
                held += one.held
                tiers[one.finish().reply.tier] += 1
        begun = [one for one in pairings if one.begun == at]
        waiting.extend((one, Paused(pool, partial(asks, one), one.held)) for one in begun)
        at += 1

    with ThreadPoolExecutor(len(pairings)) as pool:
        step()
        with stepping(step):
            ingests()
        for _, one in waiting:
            one.finish()
    return held, tiers


def run(session: Session, text: str, options: AskOptions) -> AskResult:
    """Ask with pauses."""
    return asker(session, PausingBackend(session.backend)).ask(text, options, session.now)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_no_killed_ingest_lets_a_stale_answer_stand(tmp_path: Path, name: str) -> None:
    change, made = CHANGES[name], SmallHome(tmp_path / "made")
    change.prepare(made)
    options = apart(0, change.collection)
    ask(made.open(), QUESTION, options)
    _, steps = lengths(tmp_path / "rehearsal", change, WAYS["new"])
    for step in range(1, steps + 1):
        home = SmallHome(shutil.copytree(made.folder, tmp_path / f"killed {step}"), made.mail)
        with pytest.raises(Killed), stepping(Fuse(step).tick):
            change.happen(home, slow(home))
        assert_current(home, options)
        change.undo(home)
        ingest(home.open(), home.mail)
        assert_current(home, options)


def assert_current(home: SmallHome, options: AskOptions) -> None:
    """Ask the question as usual, and hold that against the answer that is made without the bank."""
    session = home.open()
    assert seen(ask(session, QUESTION, options)) == seen(anew(session, QUESTION, options))


def test_an_answer_that_another_process_replaced_is_not_stamped_in_place_of_the_one_that_was_looked_at(
    tmp_path: Path,
) -> None:
    home = SmallHome(tmp_path)
    home.write("a", GREEN)
    ingest(home.open(), home.mail)
    plain, slow_one, slower_one = home.open(), slow(home), slow(home)
    ask(plain, QUESTION)
    with ThreadPoolExecutor(2) as pool:
        home.write("c", BLUE, 10)
        ingest(plain, home.mail)
        writing = Paused(pool, lambda: run(slower_one, QUESTION, AskOptions()), _WRITTEN)
        home.put("c", None)
        ingest(plain, home.mail)
        looking = Paused(pool, lambda: run(slow_one, QUESTION, AskOptions()), _GATHERED)
        assert (writing.held, looking.held) == (True, True)
        writing.finish()
        looking.finish()
    assert seen(ask(plain, QUESTION)) == seen(anew(plain, QUESTION, AskOptions()))
