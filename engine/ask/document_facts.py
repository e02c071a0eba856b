"""Answers from a document's header, for questions limited to that document.

The header gives attendees, sender, recipients, subject and day. No search and no model is needed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.ingest.dialogue import listed_attendees
from engine.retrieval.evidence import placed
from engine.text.dates import spell_date
from engine.text.question import Question
from engine.text.time_sensitive import plain_words
from engine.text.whole_document import Aspect, whole_document_question
from engine.types import Answer, Evidence, GeneratedAnswer, Passage, Trace
from store.catalog import Catalog
from store.hits import Hit
from store.search import Reader
from store.types import Scope

SPOKE = " (who spoke)"  # others may have been there and said nothing
FACTS: frozenset[Aspect] = frozenset(("people", "sender", "recipients", "subject", "date"))


def find_fact(bank: Reader, catalog: Catalog, question: Question, document: str, trace: Trace) -> Evidence | None:
    """Return the header's answer to a question as evidence; None if the header has no answer."""
    asked = whole_document_question(question.text)
    if asked is None or asked.aspect not in FACTS:
        return None
    with trace.step("retrieve") as step:
        hits = sorted(bank.chunks_of([document], Scope()), key=lambda hit: hit.chunk.position)[:1]
        fact = _fact(asked.aspect, hits[0], lambda: bank.documents([document])[document]["text"]) if hits else ""
        passage = placed(catalog, Passage((replace(hits[0], score=1.0),))) if fact else None
        step.note = "the header answers" if passage else "the header has no answer"
    return Evidence((passage,), (hits[0].chunk.id,), 1.0, fact=fact) if passage else None


def _fact(aspect: Aspect, hit: Hit, text: Callable[[], str]) -> str:
    """Return what the header says about an aspect; empty if nothing. `text` loads the document's text."""
    if aspect == "date":
        return spell_date(hit.date.date(), weekday=True) if hit.date else ""
    if aspect == "subject":
        return " ".join(hit.title.split())
    if aspect == "sender":
        return "" if hit.is_meeting else hit.sender
    if hit.is_meeting != (aspect == "people"):
        return ""
    return _present(text(), hit.recipients) if hit.is_meeting else _listed(hit.recipients)


def _present(text: str, speakers: Sequence[str]) -> str:
    """Return the listed attendees and anyone else who speaks; without a list, the speakers."""
    listed = listed_attendees(text.splitlines())
    known = set(plain_words(" ".join(listed)))
    others = [one for one in speakers if not known.issuperset(plain_words(one))]
    return _listed([*listed, *others]) if listed else f"{_listed(speakers)}{SPOKE}" if speakers else ""


def _listed(people: Sequence[str]) -> str:
    sign = "; " if any("," in person for person in people) else ", "
    return sign.join(" ".join(person.split()) for person in people)


def answer_fact(question: Question, evidence: Evidence, trace: Trace, model: str | None) -> GeneratedAnswer:
    """Return the header's answer; `model` names the language model in use, if any."""
    ms, fact = trace.ms(), evidence.fact
    reply = Answer(
        question=question.text,
        text=fact,
        tier="full",
        writer="quote",
        model=model,
        sources=evidence.sources([""]),
        ms=ms | {"first_token": ms["total"]},
        highlight=(0, len(fact.removesuffix(SPOKE))),
    )
    return GeneratedAnswer(reply)
