"""What may be asked next, where there is no language model: from chunks by templates, and by the user's own forms.

A function of the chunks that there are and of the questions so far alone. Knows neither what will be asked nor what
was predicted before.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from engine.ask.question import Asked, understand
from engine.idle.deeds import Deed, Event, deeds, events, matters
from engine.idle.forms import fillers, forms, may_answer, names_of
from engine.idle.people import LONGEST, named, shown_name
from engine.idle.predict import Prediction
from store.hits import Hit

TEMPLATES = ("abstracts/when-is", "abstracts/where-is", "abstracts/when-did", "abstracts/what-did", "abstracts/who-is",
             "abstracts/said", "abstracts/about", "history/form", "history/where-too")  # fmt: skip
_ANY_DAY = datetime(2000, 1, 1, tzinfo=UTC)  # the wording alone is read
_KINDS: Mapping[str, Asked] = {"when-is": "date", "when-did": "date", "where-is": "place", "who-is": "person"}
_REPLY = re.compile(r"^(?:(?:re|aw|fwd?|wg|antw?) ?:\s*)+", re.IGNORECASE)
_FORMS = 20  # that are filled in
_UNSURE = 0.5  # that it is asked, where no day is told or what was done says little
_NEWEST = 0.3  # that the newest chunk promises more than the last one


def from_chunks(hits: Sequence[Hit], past: Sequence[str]) -> list[Prediction]:
    """Ask what templates can ask of chunks, newest first, in the measure in which such things were asked before."""
    shares, found = _shares(past), list[Prediction]()
    for place, hit in enumerate(hits):
        newness = 1 - _NEWEST * place / len(hits)
        for template, question, sure in _questions(hit):
            promise = newness * sure * shares.get(_KINDS.get(template, "other"), 0.0)
            found.append(Prediction(question, "abstracts", template, promise))
    return _distinct(found)


def from_forms(hits: Sequence[Hit], past: Sequence[str]) -> list[Prediction]:
    """Ask of chunks, newest first, what the user asked before of something else."""
    names, found = names_of(past), list[Prediction]()
    learnt = forms(past)[:_FORMS]
    for place, hit in enumerate(hits):
        held = {slot: fillers(hit, slot, names) for slot in dict.fromkeys(form.slot for form in learnt)}
        for form in learnt:
            promise = form.share * (1 - _NEWEST * place / len(hits))
            for rank, filler in enumerate(held[form.slot]):
                if may_answer(form, filler, hit):
                    found.append(Prediction(form.filled(filler), "history", "form", promise / (1 + rank / 10)))
    return _distinct([*found, *_where_too(past)])


def _questions(hit: Hit) -> Iterator[tuple[str, str, float]]:
    for event in events(hit):
        yield from _of_event(event)
    for deed in deeds(hit):
        yield from _of_deed(deed)
    for who, matter in matters(hit):
        yield "said", f"What did {who} say about the {matter}?", _UNSURE
    for name in named(hit):
        yield "who-is", f"Who is {name}?", 1.0
    sender = "" if "\n" in hit.sender else shown_name(hit.sender)
    title = _REPLY.sub("", " ".join(hit.title.split())).rstrip(".?! ")
    if sender and hit.chunk.position == 0 and 2 < len(title) <= 2 * LONGEST:
        yield "about", f"What did {sender} write about {title}?", 1.0


def _of_event(event: Event) -> Iterator[tuple[str, str, float]]:
    if event.dated:
        yield "when-is", f"When is the {event.name}?", 1.0
    if event.placed:
        yield "where-is", f"Where is the {event.name}?", 1.0


def _of_deed(deed: Deed) -> Iterator[tuple[str, str, float]]:
    helping = "will" if deed.ahead else "did"
    yield "when-did", f"When {helping} {deed.who} {deed.verb} {deed.rest}?", 1.0 if deed.dated else _UNSURE
    if deed.of_thing:
        yield "what-did", f"What {helping} {deed.who} {deed.verb}?", _UNSURE


def _where_too(past: Sequence[str]) -> Iterator[Prediction]:
    """Ask where something is of which it was asked when it is, and the other way round."""
    turned = {"when is ": "Where is ", "when was ": "Where was ", "where is ": "When is ", "where was ": "When was "}
    for question in reversed(past):
        for opening, other in turned.items():
            if question.casefold().startswith(opening):
                yield Prediction(other + question[len(opening) :], "history", "where-too", 0.2)


def _shares(past: Sequence[str]) -> dict[Asked, float]:
    """Give how much of the questions so far asked for each kind of thing; before the first one, the same for all."""
    kinds = Counter[Asked](understand(one, _ANY_DAY).asked for one in past)
    asked: tuple[Asked, ...] = ("date", "place", "person", "other")
    return {kind: (kinds[kind] + 1) / (len(past) + len(asked)) for kind in asked}


def _distinct(found: Sequence[Prediction]) -> list[Prediction]:
    """Leave of the same question the one that promises most, best first."""
    best = dict[str, Prediction]()
    for one in sorted(found, key=lambda each: -each.promise):
        best.setdefault(one.question.casefold(), one)
    return list(best.values())
