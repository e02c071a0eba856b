"""Made-up people, events, things, places and groups as phrases; what is drawn stays distinct within one context."""

from dataclasses import dataclass

from tests.nano import names
from tests.nano.pool import Pool, first_name, last_name


@dataclass(frozen=True, slots=True)
class Person:
    """Someone with two names."""

    first: str
    last: str

    @property
    def full(self) -> str:
        """Return both names."""
        return f"{self.first} {self.last}"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase: its determiner (may be empty) and the rest, whose last word is the head."""

    determiner: str
    core: str

    @property
    def whole(self) -> str:
        """Return determiner and core."""
        return f"{self.determiner} {self.core}".strip()


def person(pool: Pool, twin: Person | None = None) -> Person:
    """Draw a person; a twin has the same first name."""
    return Person(twin.first if twin else first_name(pool), last_name(pool))


def event(pool: Pool, head: str | None = None) -> str:
    """Draw an event without article; with a head given, another one of that kind."""
    rng, kind = pool.rng, pool.rng.random()
    noun = head or pool.fresh(names.EVENTS)
    if not head and kind < 0.35:
        return noun
    if kind < 0.8:
        return f"{pool.fresh(names.KINDS)} {noun}"
    if kind < 0.9:
        return (
            f"{pool.fresh(names.FIRST, capital=True)}'s {noun}"
            if rng.random() < 0.5
            else f"{noun} for {pool.fresh(names.FIRST, capital=True)}"
        )
    if kind < 0.95:
        return f"{noun} in {pool.fresh(names.CITIES, capital=True)}"
    return f"{noun} with the {pool.fresh(names.GROUPS)}"


def thing(pool: Pool, head: str | None = None) -> str:
    """Draw a thing without determiner."""
    noun, kind = head or pool.fresh(names.THINGS), pool.rng.random()
    if not head and kind < 0.4:
        return noun
    if kind < 0.85:
        return f"{pool.fresh(names.ADJECTIVES)} {noun}"
    return f"{noun} for the {pool.fresh(names.GROUPS)}" if kind < 0.93 else f"{pool.fresh(names.THINGS)} {noun}"


def item(pool: Pool, head: str | None = None) -> Phrase:
    """Draw a thing as someone would name it in passing; sometimes two of them."""
    rng = pool.rng
    core = thing(pool, head)
    an = "an" if core[0].lower() in "aeiou" else "a"
    determiner = rng.choice(
        ("the", "the", "the", "the", an, an, "my", "our", "some", "two", "three", "his", "her", "the other")
    )
    if rng.random() < 0.15:
        core = f"{core} and {rng.choice(('the', 'two', 'a', 'some'))} {thing(pool)}"
    return Phrase(determiner, core)


def place(pool: Pool) -> str:
    """Draw a place, with its article where it has one."""
    rng, kind = pool.rng, pool.rng.random()
    if kind < 0.4:
        return f"the {pool.fresh(names.PLACES)}"
    if kind < 0.5:
        return f"the {pool.fresh(names.KINDS)} {pool.fresh(names.PLACES)}"
    if kind < 0.62:
        return _numbered(pool)
    if kind < 0.72:
        return f"{rng.randint(1, 90)} {pool.fresh(names.LAST, capital=True)} {rng.choice(names.STREETS)}"
    if kind < 0.8:
        return f"{pool.fresh(names.LAST, capital=True)} {rng.choice(names.STREETS)}"
    if kind < 0.9:
        before = rng.choice(("", "St ", "the ", "the Old "))
        return f"{before}{pool.fresh(names.LAST, capital=True)} {rng.choice(names.HALLS)}"
    if kind < 0.95:
        of_a_person = rng.choice(("house", "flat", "place", "garden", "office", "garage"))
        return f"{pool.fresh(names.FIRST, capital=True)}'s {of_a_person}"
    return pool.fresh(names.CITIES, capital=True)


def _numbered(pool: Pool) -> str:
    rng = pool.rng
    what = rng.choice(("room", "room", "hall", "building", "studio", "unit", "gate"))
    number = rng.randint(1, 40) * (6 if pool.unseen else 5)
    return f"{what} {number}{rng.choice(('', '', '', 'a', 'B'))}"


def spot(pool: Pool) -> str:
    """Draw where a thing lies, with a preposition unless it is in or at a place."""
    if pool.rng.random() < 0.65:
        return place(pool)
    before = pool.rng.choice(("behind", "under", "next to", "on top of", "beside", "above"))
    return f"{before} the {pool.fresh(names.THINGS if pool.rng.random() < 0.5 else names.PLACES)}"
