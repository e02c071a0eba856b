"""What may be asked next by the forms of the user's own questions, filled in from chunks; needs no language model.

A function of the chunks that there are and of the questions so far alone. Knows neither what will be asked nor what
was predicted before.
"""

from collections.abc import Iterator, Sequence

from engine.idle.forms import fillers, forms, may_answer, names_of
from engine.idle.predict import Prediction
from store.hits import Hit

SOURCES = ("history/form", "history/where-too")
_FORMS = 20  # that are filled in
_NEWEST = 0.3  # that the newest chunk promises more than the last one


def from_forms(hits: Sequence[Hit], past: Sequence[str]) -> list[Prediction]:
    """Return what the user asked before of something else, asked of chunks, which come newest first."""
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


def _where_too(past: Sequence[str]) -> Iterator[Prediction]:
    """Yield where something is for each question when it is, and the other way round."""
    turned = {"when is ": "Where is ", "when was ": "Where was ", "where is ": "When is ", "where was ": "When was "}
    for question in reversed(past):
        for opening, other in turned.items():
            if question.casefold().startswith(opening):
                yield Prediction(other + question[len(opening) :], "history", "where-too", 0.2)


def _distinct(found: Sequence[Prediction]) -> list[Prediction]:
    """Return each question once, as the one that promises most, best first."""
    best = dict[str, Prediction]()
    for one in sorted(found, key=lambda each: -each.promise):
        best.setdefault(one.question.casefold(), one)
    return list(best.values())
