"""What the header of a document answers of a question that is asked within it.

Who was there, who sent it, to whom, its subject and its day stand in the header of a document. Asked within the
document, no search is needed: the header is the answer, whatever writes other answers.
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
    """Return the evidence of what the header of a document answers; None if it does not."""
    asked = whole_document_question(question.text)
    if asked is None or asked.aspect not in FACTS:
        return None
    with trace.step("retrieve") as step:
        hits = sorted(bank.chunks_of([document], Scope()), key=lambda hit: hit.chunk.position)[:1]
        fact = _fact(asked.aspect, hits[0], lambda: bank.documents([document])[document]["text"]) if hits else ""
        passage = placed(catalog, Passage((replace(hits[0], score=1.0),))) if fact else None
        step.note = "the header answers" if passage else "the header does not tell"
    return Evidence((passage,), (hits[0].chunk.id,), 1.0, fact=fact) if passage else None


def _fact(aspect: Aspect, hit: Hit, text: Callable[[], str]) -> str:
    """Return what the header of a chunk's document says, given its text; empty if it says nothing."""
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
    """Return whom a transcript lists as present, and who else speaks; without a list, those who speak."""
    listed = listed_attendees(text)
    known = set(plain_words(" ".join(listed)))
    others = [one for one in speakers if not known.issuperset(plain_words(one))]
    return _listed([*listed, *others]) if listed else f"{_listed(speakers)}{SPOKE}" if speakers else ""


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
        highlight=(0, len(fact.removesuffix(SPOKE))),
    )
    return GeneratedAnswer(reply)
