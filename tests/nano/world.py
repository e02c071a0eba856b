"""The facts of one context: who is there, what is said in which chunk, what moves later; knows no layout."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.nano import about_changes, about_events
from tests.nano.entities import Person, person, place
from tests.nano.facts import KINDS, LASTING, SHARES, Fact, drawn, fact
from tests.nano.grammar import filled
from tests.nano.moments import appointment, moment, money
from tests.nano.pool import Pool

TIED = ("doing", "done", "request", "keeps", "role", "lives", "topic", "travel", "arrival", "charge", "lies")


@dataclass(slots=True)
class World:
    """One context in the making; mutable."""

    pool: Pool
    user: Person
    cast: list[Person]
    first_day: datetime
    mailboxes: str = ""  # how addresses are made of first and last names; empty where headers have names alone
    facts: list[tuple[int, Fact]] = field(default_factory=list)  # with the number of the chunk
    used: set[tuple[str, str]] = field(default_factory=set)

    def add(self, number: int, author: Person) -> Fact:
        """Draw one more fact for a chunk by this author."""
        rng = self.pool.rng
        before = [old for at, old in self.facts if at < number and _changes(old)]
        new = self._again(rng.choice(before)) if before and rng.random() < 0.25 else self._new(author)
        self.facts.append((number, new))
        return new

    def invite(self, number: int, author: Person) -> Fact:
        """Draw an event as a calendar tells it; one in three is an event that has been told of."""
        before = [old for at, old in self.facts if at < number and old.kind.draw == "event"]
        if before and self.pool.rng.random() < 0.35:
            values = dict(self.pool.rng.choice(before).values)
        else:
            values = drawn(self.pool, about_events.EVENT, author.full, self.first_day.date())
        when = appointment(self.pool, self.first_day.date())
        values |= {"t": when.whole, "day": when.day or "", "clock": when.clock or "", "w": author.full}
        text = filled("When: {t} (Europe/London, UTC+01:00)\nWhere: {p}\nOrganiser: {w}", values)
        new = Fact(about_events.EVENT, values, frozenset(("e", "t", "day", "clock", "p", "w")), text, author)
        self.facts.append((number, new))
        return new

    def name(self, who: Person) -> str:
        """Return a name as people would use it; a first name only where it is clear."""
        shared = sum(who.first == other.first for other in self.cast) > 1
        return who.full if shared or self.pool.rng.random() < 0.5 else who.first

    def absent(self, author: Person) -> Fact:
        """Draw a fact that is not said in this context."""
        return self._new(author)

    def _new(self, author: Person) -> Fact:
        rng = self.pool.rng
        while True:
            kind = rng.choices(KINDS, SHARES)[0]
            own = bool(kind.own) and (not kind.says or rng.random() < 0.35)
            who = author if own else rng.choice(self.cast)
            values = drawn(self.pool, kind, self.name(who), self.first_day.date(), self._heads())
            if own:
                values["w"] = author.full
            if kind.name in ("doing", "done", "request") and rng.random() < 0.2:
                values |= self._verbs(kind.name)
            values["u"] = self.user.first
            marks = {(kind.name, who.first + who.last), (values["v"], who.first)} if kind.name in TIED else set()
            if kind.name in ("decided", "shifts", "meets"):
                marks = {(kind.name, "")}
            if not marks & self.used:
                self.used |= marks
                return fact(self.pool, kind, values, who, own)

    def _verbs(self, name: str) -> dict[str, str]:
        before = [old for _, old in self.facts if old.kind.name == name]
        return {form: before[-1].values[form] for form in ("v", "vs", "ved", "ving")} if before else {}

    def _heads(self) -> dict[str, str]:
        """Share a head with what is there already, so that things must be told apart."""
        heads = dict[str, str]()
        for _, old in self.facts:
            if self.pool.rng.random() < 0.25 and "e" in old.said and len(old.values["e"].split()) == 2:
                heads["event"] = old.values["e"].split()[-1]
            if self.pool.rng.random() < 0.15 and old.said & {"x", "c"} and " and " not in old.values["c"]:
                heads["thing"] = old.values["c"].split()[-1]
        return heads

    def _again(self, old: Fact) -> Fact:
        """Return that something has changed."""
        values = dict(old.values)
        if old.kind.draw == "price":
            values |= {"m0": values["m"], "m": money(self.pool)}
            return fact(
                self.pool, about_changes.TICKET if "e" in old.said else about_changes.DEARER, values, old.person
            )
        if old.kind.draw == "coming":
            values |= {"t0": values["t"], "t": moment(self.pool, self.first_day.date()).whole}
            return fact(self.pool, about_changes.LATE, values, old.person)
        return self._moved(old)

    def _moved(self, old: Fact) -> Fact:
        """Return more about an event, the same again, or that it has moved."""
        rng, values = self.pool.rng, dict(old.values)
        kind = rng.choice((about_events.EVENT, about_events.MOVED, about_events.MOVED, about_events.ELSEWHERE))
        if kind is about_events.MOVED:
            new = moment(self.pool, self.first_day.date())
            for part in ("day", "clock"):
                values.pop(part, None)
            values |= {"t0": old.values["t"], "t": new.whole}
            values |= {name: part for name, part in (("day", new.day), ("clock", new.clock)) if part}
        if kind is about_events.ELSEWHERE or (kind is about_events.MOVED and rng.random() < 0.5):
            where = place(self.pool)
            within = "at" if where[0].isdigit() else "in"
            values |= {"p0": old.values["p"], "in_p0": old.values["in_p"], "p": where, "in_p": f"{within} {where}"}
        return fact(self.pool, kind, values, old.person)


def _changes(old: Fact) -> bool:
    """Return whether a later message may change it; what one person asks for a thing need not be what others ask."""
    return old.kind.draw in LASTING and old.kind.name != "charge"


def world(pool: Pool) -> World:
    """Begin a context: its user, its people, its first day."""
    rng = pool.rng
    user = person(pool)
    cast = [person(pool) for _ in range(rng.randint(2, 5))]
    if rng.random() < 0.35:
        cast.append(person(pool, twin=rng.choice(cast)))
    first = datetime(2021, 1, 1) + timedelta(days=rng.randrange(2200), minutes=5 * rng.randint(84, 264))
    local = rng.choice(("{first}", "{first}", "{first}.{last}", "{first}_{last}", "{last}"))
    mailboxes = f"{local}@{pool.word()}.{rng.choice(('example', 'org', 'com', 'net'))}" if rng.random() < 0.6 else ""
    return World(pool, user, cast, first, mailboxes=mailboxes)
