"""Examples from made-up mail and meetings, as the model of the tests learns from: no value is seen twice."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from random import Random

from engine.llm.prompt import chunk_segment
from engine.text.dates import spell_date
from store.types import Chunk
from tests.adapters import tasks
from tests.adapters.tasks import Example, Task
from tests.nano.letters import Letter, mail, meeting, subject
from tests.nano.pool import Pool
from tests.nano.questions import NONE, Asked
from tests.nano.samples import FULL, HARD, LONG, MIDDLE, Sample, sample
from tests.nano.world import world

_LEVELS = (MIDDLE, HARD, LONG, FULL)
_FEW = 3  # facts that an abstract has room for
_NOUN = re.compile(r"(?<=\s)(?:(?:the|an?|my|our|your|their)\s|[A-Z]\w+ [A-Z])")
_WHAT = re.compile(r"(?:what time|how (?:many|much|long)|who|what|which|when|where)\b", re.IGNORECASE)


def example(rng: Random, others: Sequence[Chunk] = (), unseen: bool = False) -> Example:
    """Draw messages with questions about them, one in five of which nothing answers, and mix them with others."""
    drawn = sample(rng, rng.choices(_LEVELS, (1, 3, 3, 3))[0], unseen)
    own = sorted(rng.sample(range(len(drawn.chunks) + len(others)), len(drawn.chunks)))
    places = {number: place + 1 for number, place in enumerate(own, 1)}
    left = iter(others)
    shown = [drawn.chunks[own.index(at)] if at in own else next(left) for at in range(len(drawn.chunks) + len(others))]
    asked = tuple(replace(one, cites=tuple(places[number] for number in one.cites)) for one in drawn.asked)
    chunks = tuple(chunk_segment(number, chunk) for number, chunk in enumerate(shown, 1))
    return Example(chunks, tuple(_tasks(rng, replace(drawn, asked=asked))))


def _tasks(rng: Random, drawn: Sample) -> Iterator[Task]:
    told = [one for one in drawn.asked if one.cites]
    for one in drawn.asked:
        yield tasks.answer(one.text, drawn.today, "" if one.answer == NONE else one.answer, one.cites)
    for one in rng.sample(drawn.asked, min(3, len(drawn.asked))):
        others = [other.answer for other in told if other.kind == one.kind and other.answer != one.answer]
        if one.cites and (rng.random() < 0.5 or not others):
            yield tasks.check(one.text, one.answer, holds=True)
        elif others:
            yield tasks.check(one.text, rng.choice(others), holds=False)
    if len(told) > 3 and rng.random() < 0.5:
        yield tasks.predict([one.text for one in rng.sample(told, 3)])


def abstracts(rng: Random, unseen: bool = False) -> Example:
    """Draw a mail or a meeting with what is worth keeping of it: who said it, when, and the facts without the talk."""
    drawn = world(Pool(rng, unseen, invented=0.3))
    date, many = drawn.first_day + timedelta(days=rng.randint(0, 30)), rng.randint(1, _FEW)
    spoken = rng.random() < 0.4
    speakers = [rng.choice(drawn.cast) for _ in range(many)] if spoken else [rng.choice(drawn.cast)] * many
    facts = [drawn.add(1, who) for who in speakers]
    sentences, talk = [one.sentence for one in facts], rng.randint(1, 7)
    chunk = (
        meeting(drawn, speakers, date, subject(drawn).lower(), sentences, talk)
        if spoken
        else mail(drawn, Letter(speakers[0], date, subject(drawn)), sentences, talk)
    )
    day = spell_date(date)
    begins = f"On {day} " if rng.random() < 0.5 else ""
    told, last = list[str](), None
    for who, fact in zip(speakers, facts, strict=True):
        said = " ".join(fact.sentence.split())
        told.append(said if who is last else f"{who.full}: {said}")
        last = who
    summary = " ".join([f"{begins}{told[0]}", *told[1:]])
    return Example((chunk_segment(1, chunk),), (tasks.abstract(summary),))


def follow_ups(rng: Random, unseen: bool = False) -> Example:
    """Draw conversations: a question with its answer, then another about the same, of which it leaves out a part."""
    while True:
        drawn = sample(rng, LONG, unseen)
        made = [task for pair in permutations(drawn.asked, 2) if (task := _follow_up(rng, *pair))]
        if made:
            return Example((), tuple(rng.sample(made, min(8, len(made)))))


def _follow_up(rng: Random, first: Asked, then: Asked) -> Task | None:
    """Return the second question with what it shares with the first left out; None where they share nothing."""
    one, other = first.text.rstrip("?"), then.text.rstrip("?")
    shared = _shared(one, other)
    if not shared or first.text == then.text:
        return None
    full = f"{other[:1].upper()}{other[1:]}?"
    short = _short(rng, one, other, shared)
    lead = rng.choice(("", "", "", "and ", "And ", "ok, "))
    short = f"{lead}{short[:1].lower()}{short[1:]}" if lead else short
    return tasks.condense([(first.text, first.answer)], short, full)


def _shared(first: str, then: str) -> str:
    """Return the longest noun phrase or name that both questions have behind their first word; empty for none."""
    phrases = (found[0] for start in _NOUN.finditer(then) if (found := _longest(first, then[start.start() :])))
    return max(phrases, key=len, default="")


def _longest(first: str, rest: str) -> list[str]:
    """Return, in a list of one, the longest beginning of a text that stands in the first question, too."""
    pieces = rest.split()
    for end in range(len(pieces), 1, -1):
        phrase = " ".join(pieces[:end])
        if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", first):
            return [phrase]
    return []


def _short(rng: Random, first: str, then: str, shared: str) -> str:
    """Leave a phrase out of a question: a pronoun stands for it, or the question word alone is left."""
    asking, before = _WHAT.match(then), _WHAT.match(first)
    if asking and before and asking[0].lower() != before[0].lower() and first[before.end() :] == then[asking.end() :]:
        return f"{asking[0]}?"
    person = shared[0].isupper()
    owned = re.search(rf"{re.escape(shared)}['’]s\b", then)
    pronoun = rng.choice(("he", "she") if person else ("it", "it", "that"))
    if owned:
        return then.replace(owned[0], {"he": "his", "she": "her"}.get(pronoun, "its"), 1)
    if person and not re.match(rf"\w+ (?:\w+ )?{re.escape(shared)}", then):
        pronoun = {"he": "him", "she": "her"}[pronoun]
    return then.replace(shared, pronoun, 1)
