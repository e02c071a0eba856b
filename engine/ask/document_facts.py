"""What the header of a document answers of a question that is asked within it.

Who was there, who sent it, to whom, its subject and its day stand in the header of a document. Asked within the
document, no search is needed: the header is the answer, whatever writes other answers.
"""

from collections.abc import Sequence
from dataclasses import replace

from engine.retrieval.evidence import placed
from engine.text.dates import spell_date
from engine.text.question import Question
from engine.text.whole_document import Aspect, whole_document_question
from engine.types import Answer, Evidence, GeneratedAnswer, Passage, Trace
from store.catalog import Catalog
from store.hits import Hit
from store.search import Reader
from store.types import Scope

FACTS: frozenset[Aspect] = frozenset(("people", "sender", "recipients", "subject", "date"))


def find_fact(bank: Reader, catalog: Catalog, question: Question, document: str, trace: Trace) -> Evidence | None:
    """Return the evidence of what the header of a document answers; None if it does not."""
    asked = whole_document_question(question.text)
    if asked is None or asked.aspect not in FACTS:
        return None
    with trace.step("retrieve") as step:
        hits = sorted(bank.chunks_of([document], Scope()), key=lambda hit: hit.chunk.position)[:1]
        fact = _fact(asked.aspect, hits[0]) if hits else ""
        passage = placed(catalog, Passage((replace(hits[0], score=1.0),))) if fact else None
        step.note = "the header answers" if passage else "the header does not tell"
    return Evidence((passage,), (hits[0].chunk.id,), 1.0, fact=fact) if passage else None


def _fact(aspect: Aspect, hit: Hit) -> str:
    """Return what the header of a chunk's document says; empty if it says nothing."""
    if aspect == "date":
        return spell_date(hit.date.date(), weekday=True) if hit.date else ""
    if aspect == "subject":
        return " ".join(hit.title.split())
    if aspect == "sender":
        return "" if hit.is_meeting else hit.sender
    return _listed(hit.recipients) if hit.is_meeting == (aspect == "people") else ""


def _listed(people: Sequence[str]) -> str:
    sign = "; " if any("," in person for person in people) else ", "
    return sign.join(" ".join(person.split()) for person in people)


def answer_fact(question: Question, evidence: Evidence, trace: Trace, model: str | None) -> GeneratedAnswer:
    """Return what a header says as an answer; `model` is the one that writes other answers, if any."""
    ms, fact = trace.ms(), evidence.fact
    reply = Answer(
        question=question.text,
        text=fact,
        tier="full",
        writer="quote",
        model=model,
        sources=evidence.sources([""]),
        ms=ms | {"first_token": ms["total"]},
        highlight=(0, len(fact)),
    )
    return GeneratedAnswer(reply)
