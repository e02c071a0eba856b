"""Facts: a kind with drawn values, said in one sentence; knows nothing of the message it will stand in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from tests.nano import (
    about_changes,
    about_deeds,
    about_events,
    about_hours,
    about_money,
    about_people,
    about_things,
    about_times,
    names,
    verbs,
)
from tests.nano.entities import Person, event, item, place, spot
from tests.nano.grammar import chosen, filled, slots
from tests.nano.kind import Kind
from tests.nano.moments import a_day, count, hours, moment, money, weekdays
from tests.nano.pool import Pool

KINDS = (
    *(about_events.EVENT, about_times.DEADLINE, about_times.READY, about_times.TRAVEL, about_times.ARRIVAL),
    *(about_hours.SHIFTS, about_hours.OPEN, about_changes.MEETS),
    *(about_deeds.DOING, about_deeds.DONE, about_deeds.REQUEST),
    *(about_people.KEEPS, about_people.ROLE, about_people.LIVES, about_people.TOPIC),
    *(about_money.COST, about_money.CHARGE, about_money.MONEY, about_things.COUNT, about_things.LASTS),
    *(about_things.ATTRIBUTE, about_things.LIES, about_things.ENTER, about_things.DECIDED),
)
SHARES = tuple(kind.share for kind in KINDS)
LASTING = frozenset(("event", "price", "coming"))  # what more than one message may tell of: the latest holds
VERB = frozenset(("v", "vs", "ved", "ving"))


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence and what it says: `said` names the values that stand in it, and those that follow from them."""

    kind: Kind
    values: Mapping[str, str]
    said: frozenset[str]
    sentence: str
    person: Person

    @property
    def about(self) -> str:
        """Name what the fact is about, so that facts about the same can be told from others."""
        if "e" in self.said:
            return self.values["e"]
        return self.values["c"] if self.said & {"x", "c"} else self.values.get("k", "")


def drawn(pool: Pool, kind: Kind, name: str, about: date, like: Mapping[str, str] | None = None) -> dict[str, str]:
    """Draw values for each slot of a kind; `like` has heads to share with something else in the context."""
    like = like or {}
    values = {"w": name, "g": pool.listed(names.GROUPS), "city": pool.listed(names.CITIES)}
    if kind.draw in ("event", "price", "takings", "number", "span", "attribute", "trip"):
        values["e"] = event(pool, like.get("event"))
    thing = item(pool, like.get("thing"))
    values |= {"x": thing.whole, "c": thing.core}
    values |= _where(pool) | _when(pool, about) | _numbers(pool) | _verbs(pool, kind)
    if kind.draw == "hours":
        days = {"days": weekdays(pool), "days0": weekdays(pool), "hours": hours(pool)}
        values |= days | {"open": f"the {pool.fresh(names.PLACES)}"}
    if kind.draw == "meets":
        values |= {"since": a_day(pool, about), "p0": place(pool)}
    if kind.draw == "lying":
        values["p"] = values["lying"]
    if kind.draw in ("role", "trip"):
        values["r"] = pool.fresh(names.ROLES)
    if kind.draw == "attribute":
        values |= {"a": pool.listed(names.ATTRIBUTES) if pool.rng.random() < 0.85 else pool.word(), "q": _quality(pool)}
    return values


def fact(pool: Pool, kind: Kind, values: Mapping[str, str], who: Person, own: bool = False) -> Fact:
    """Return a fact in one of its ways, the author's own or anyone's."""
    text = chosen(pool.rng, pool.rng.choice(kind.own if own else kind.says))
    said = slots(text)
    implied = {"p"} if said & {"loc", "in_p"} else set()
    implied |= {part for part in ("day", "clock") if "t" in said and part in values}
    implied |= VERB if said & VERB else set()
    implied |= {"w"} if own else set()
    sentence = filled(text, values).replace(" on next ", " next ").replace("..", ".")
    return Fact(kind, values, said | implied, sentence, who)


def _where(pool: Pool) -> dict[str, str]:
    where, lying = place(pool), spot(pool)
    within = "at" if where[0].isdigit() or pool.rng.random() < 0.3 else "in"
    loc = lying if lying.split()[0] in ("behind", "under", "next", "on", "beside", "above") else f"in {lying}"
    return {"p": where, "in_p": f"{within} {where}", "loc": loc, "lying": lying}


def _when(pool: Pool, about: date) -> dict[str, str]:
    when = moment(pool, about)
    parts = {"day": when.day, "clock": when.clock}
    return {"t": when.whole} | {name: part for name, part in parts.items() if part}


def _numbers(pool: Pool) -> dict[str, str]:
    unit = pool.rng.choice(("minutes", "hours", "days", "weeks", "months", "years"))
    counted = pool.fresh(names.COUNTED)
    counted += "" if counted in names.COUNTED or counted.endswith("s") else "s"
    return {"n": count(pool), "m": money(pool), "k": counted, "l": f"{count(pool)} {unit}"}


def _verbs(pool: Pool, kind: Kind) -> dict[str, str]:
    draw = {"trip": verbs.trip, "talk": verbs.talk, "task": verbs.task, "meets": verbs.gathering}.get(
        kind.draw, verbs.deed
    )
    return draw(pool).values()


def _quality(pool: Pool) -> str:
    rng, form = pool.rng, pool.rng.random()
    if form < 0.3:
        return pool.word()
    if form < 0.55:
        return f"{pool.word().capitalize()} {pool.word().capitalize()}"
    digits = "".join(rng.choices("24680" if pool.unseen else "0123456789", k=rng.randint(2, 6)))
    if form < 0.75:
        return digits
    if form < 0.88:
        return rng.choice(("{l}{d}", "{d}{l}", "{l}-{d}")).format(l=pool.word()[:2].upper(), d=digits)
    return f"{pool.fresh(names.ADJECTIVES)} {pool.fresh(names.THINGS)}"
