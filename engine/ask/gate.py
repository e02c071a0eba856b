"""Whether a source bears what a language model wrote, as the reader finds; a quote stands in for what none bears.

No number that a model cites is believed: the reader finds the source, also for a model that wrote nothing else.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.ask.candidates import Candidate, candidates, is_beyond, read_sources, wanted
from engine.ask.extract import quoted_answer
from engine.llm.generate import ParsedAnswer
from engine.text.dates import spell_date
from engine.text.question import Question, synthesis
from engine.text.relative_dates import resolve, time_constraint
from engine.text.spans import find
from engine.text.words import FUNCTION_WORDS, content_words, terms
from engine.types import Answer, Evidence, Trace, resting
from store.types import replace

if TYPE_CHECKING:
    from engine.models.reader import SpanReader

# Fitted on answers of two models to judged questions; docs/log/answers.md has the figures.
_HELD = 0.6  # of the words that tell an answer, so many stand in the sentence that bears it
_BEHIND = 10.0  # log odds by which the reader may find another sentence likelier
_SAME = 12.0  # of these, what a sentence with all words of an answer counts more than one with none


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges what a model writes on one question, whose sentences were `found`; a quote needs a support of `least`."""

    question: Question
    evidence: Evidence
    found: tuple[Candidate, ...]
    least: float
    reader: "SpanReader"

    def __call__(self, said: ParsedAnswer) -> Answer:
        """Return the model's answer if a source bears it, else what is quoted."""
        if said.answer and (one := self._bearing(said.answer)):
            quotes = [one.text if at == one.read else "" for at in range(len(self.evidence.passages))]
            place = one.highlight if one.marked else None  # who says it is marked with nothing
            sources = resting(self.evidence.sources(quotes, one.read), place)
            asked = self.question.text
            return Answer(asked, said.answer, "full", "model", None, sources, {}, lead=one.read, grade="answer")
        evidence = replace(self.evidence, scored=self.found)
        return quoted_answer(self.question, evidence, Trace(asked=False), self.least, self.reader)[0]

    def likeliest(self, most: int) -> tuple[int, ...]:
        """Return the indices of the sources with the sentences that are likeliest to answer, in order of rank."""
        reads = self.evidence.passages
        known = read_sources(self.reader, self.question, reads, self.found).found
        likely = (one.read for one in sorted(known, key=lambda one: -one.score) if not reads[one.read].is_outranked())
        return tuple(sorted([*dict.fromkeys(likely)][:most]))

    def _bearing(self, answer: str) -> Candidate | None:
        """Return the sentence that bears an answer: it has its numbers and most of its words, and may answer."""
        known = read_sources(self.reader, self.question, self.evidence.passages, self.found).found
        told = {one: _told(one) for one in known if one.mark and one.day is not False}
        said, asked = terms(answer) - FUNCTION_WORDS, terms(self.question.text)
        telling = said - asked or said
        if not told or not telling:
            return None

        def held(one: Candidate) -> float:
            return len(telling & told[one]) / len(telling)

        one = max(told, key=lambda one: one.score + _SAME * held(one))
        is_near = one.score >= max(other.score for other in told) - _BEHIND
        has_numbers = all(term in told[one] for term in said - asked if term.isdecimal())
        # What says nothing but the question has to say what the reader marks.
        is_answer = telling.isdisjoint(asked) or not said.isdisjoint(terms(one.marked))
        return one if is_near and has_numbers and is_answer and held(one) >= _HELD else None


def judge_of(question: Question, evidence: Evidence, least: float, reader: "SpanReader") -> Judge | None:
    """Return what judges answers to a question; None where words have to, as the reader knows no such questions."""
    kind = wanted(question)
    found = evidence.scored or candidates(question, evidence.passages, kind, time_constraint(question, kind))
    is_known = not synthesis(question.text) and not is_beyond(question, found)
    return Judge(question, evidence, tuple(found), least, reader) if is_known else None


def part_of_quote(question: Question, evidence: Evidence, least: float, said: ParsedAnswer) -> Answer:
    """Return what is quoted, or of that the part that a model wrote: for models too small to be believed without."""
    quoted, _ = quoted_answer(question, evidence, Trace(asked=False), least)
    own = content_words(said.answer or "")
    is_part = bool(own) and own <= content_words(quoted.text or "")
    return replace(quoted, text=said.answer, writer="model", highlight=None) if is_part else quoted


def _told(one: Candidate) -> frozenset[str]:
    """Return the words of a sentence, with those of who says it and of the days that it means."""
    told = [one.speaker or "", one.text]
    for span in find(one.text, "date") if one.written else ():
        days = resolve(" ".join(one.text[span.start : span.end].split()), one.written) if one.written else None
        told += [spell_date(days.first, weekday=True)] if days and days.first == days.last else []
    return terms(" ".join(told))
