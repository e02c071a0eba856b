"""Questions about the facts of a context, with the words of the answer and the numbers of the chunks that say them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from store.types import Chunk
from tests.nano.facts import LASTING, VERB, Fact
from tests.nano.grammar import chosen, filled, slots
from tests.nano.world import World

NONE = "not found"
WROTE = (
    "Who [wrote|mailed|sent a mail|wrote to me] about [the|] {x}?",
    "From whom is the [mail|message] about [the|] {x}?",
    "Who sent [me|] the [mail|message] about [the|] {x}?",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its answer (`not found` where nothing says it), the chunks to cite and the kind of question."""

    text: str
    answer: str
    cites: tuple[int, ...]
    kind: str

    @property
    def reply(self) -> str:
        """Return what the model is to say after `Answer:`."""
        marks = "".join(f" [{number}]" for number in self.cites)
        return f" {self.answer}{marks}\n"


def questions(drawn: World, chunks: Sequence[Chunk], subjects: Sequence[tuple[str, ...]], most: int) -> list[Asked]:
    """Draw up to so many different questions; one in five has no answer in the context."""
    rng, found = drawn.pool.rng, dict[str, Asked]()
    for _ in range(4 * most):
        if len(found) == most:
            break
        if rng.random() < 0.2:
            asked = next(filter(None, (_unanswerable(drawn) for _ in range(4))), None)
        elif subjects and rng.random() < 0.06:
            title, author, number = rng.choice(subjects)
            asked = Asked(chosen(rng, rng.choice(WROTE)).replace("{x}", title), author, (int(number),), "who")
        else:
            asked = _answerable(drawn, chunks)
        if asked and asked.text not in found and (asked.cites or asked.answer == NONE):
            found[asked.text] = asked
    return list(found.values())


def _answerable(drawn: World, chunks: Sequence[Chunk]) -> Asked | None:
    rng = drawn.pool.rng
    _, fact = rng.choice(drawn.facts)
    open_slots = [slot for slot in fact.kind.asks if slot in fact.said]
    if not open_slots:
        return None
    slot = "w" if "w" in open_slots and rng.random() < 0.72 else rng.choice(open_slots)
    text = _text(drawn, fact, slot)
    same = _same(drawn, fact, slot)
    value = same[-1][1].values.get(slot) if text else None
    if value is None:
        return None
    cites = sorted({number for number, one in same if one.values.get(slot) == value})
    flat = {number: " ".join(f"{chunks[number - 1].header} {chunks[number - 1].text}".split()) for number in cites}
    if any(value not in flat[number] for number in cites):
        value = value[:1].upper() + value[1:]
    cites = [number for number in cites if value in flat[number]]
    return Asked(text, value, tuple(cites), fact.kind.word[slot])


def _same(drawn: World, fact: Fact, slot: str) -> list[tuple[int, Fact]]:
    """Return the facts about the same that say this, the latest last."""
    if fact.kind.draw not in LASTING:
        return [(number, one) for number, one in drawn.facts if one is fact]
    about = [(number, one) for number, one in drawn.facts if _like(one, fact)]
    return [
        (number, one) for number, one in about if slot in one.said or (slot in ("day", "clock") and "t" in one.said)
    ]


def _like(one: Fact, other: Fact) -> bool:
    return one.kind.draw == other.kind.draw and one.about == other.about


def _unanswerable(drawn: World) -> Asked | None:
    """Ask for what is not said of something known, or about something unknown."""
    rng = drawn.pool.rng
    if rng.random() < 0.45:
        _, fact = rng.choice(drawn.facts)
        missing = [slot for slot in fact.kind.asks if not _same_said(drawn, fact, slot)]
        if fact.kind.draw == "event":
            missing = [slot for slot in missing if slot != "t" or not _same_said(drawn, fact, "day")]
        slot = rng.choice(missing) if missing else ""
    else:
        fact = drawn.absent(rng.choice(drawn.cast))
        slot = rng.choice(list(fact.kind.asks))
    text = _text(drawn, fact, slot) if slot else ""
    return Asked(text, NONE, (), fact.kind.word[slot]) if text else None


def _same_said(drawn: World, fact: Fact, slot: str) -> bool:
    return slot in fact.said or any(slot in one.said for _, one in drawn.facts if _like(one, fact))


def _text(drawn: World, fact: Fact, slot: str) -> str:
    """Word a question that the fact's sentence has all the handles for; empty where there is none."""
    fits = list(_fitting(drawn, fact, slot))
    if not fits:
        return ""
    rng = drawn.pool.rng
    text = filled(rng.choice(fits), _handles(drawn, fact))
    if rng.random() < 0.12:
        text = text[:1].lower() + text[1:]
    return text.rstrip("?") if rng.random() < 0.06 else text


def _fitting(drawn: World, fact: Fact, slot: str) -> Iterator[str]:
    known = (
        fact.said
        | {"g", "u"}
        | ({"c"} if "x" in fact.said else set())
        | ({"s"} if fact.said & {"x", "c", "e"} else set())
    )
    for _ in range(3):
        template = drawn.pool.rng.choice(fact.kind.asks[slot])
        text = chosen(drawn.pool.rng, template)
        used = slots(text)
        if used <= known and slot not in used and not (used & VERB and not fact.said & VERB):
            yield text


def _handles(drawn: World, fact: Fact) -> dict[str, str]:
    """Return the forms in which a question names things: other names of people, an event by its last word alone."""
    rng, values = drawn.pool.rng, dict(fact.values)
    who = fact.person
    shared = sum(who.first == other.first for other in drawn.cast) > 1
    values["w"] = who.full if shared or rng.random() < 0.5 else who.first
    values["e"] = _short(drawn, values["e"]) if "e" in values and rng.random() < 0.3 else values.get("e", "")
    if "e" in values and "e" in fact.said and rng.random() < 0.05:
        values["e"] = f"{values['g']}'s {values['e']}"
    ticket = rng.choice(("ticket for the ", "ticket for the ", "place at the ")) if fact.kind.draw == "price" else ""
    values["s"] = f"{ticket}{values['e']}" if "e" in fact.said else values["c"]
    return values


def _short(drawn: World, event: str) -> str:
    """Name an event by its last word where no other has that word."""
    head = event.split()[-1]
    others = [one.values["e"] for _, one in drawn.facts if "e" in one.said and one.values["e"] != event]
    shared = any(head in other.split() for other in others) or " for " in event or " in " in event or " with " in event
    return event if shared else head
