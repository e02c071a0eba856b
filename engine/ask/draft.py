"""What a model is likely to say: what it has read, and above all what the quote writer would answer from it.

A model checks a guess in less time than it writes; so quotes, which take it milliseconds, are its drafts. What is wrong
in them changes no word of the answer.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain

from engine.ask.evidence import Evidence
from engine.ask.question import Question
from engine.ask.quote import Quote, QuoteSettings, quote
from engine.ask.segments import Segments
from engine.ask.trace import Trace
from engine.ask.write import quotable
from engine.models.drafts import Drafts
from engine.models.protocols import LanguageModel


def draft(
    model: LanguageModel, question: Question, evidence: Evidence, segments: Segments, trace: Trace, most: int
) -> Drafts:
    """Give guesses of at most so many tokens at a time; none where that is 0."""
    if not most:
        return Drafts((), 0)
    with trace.step("draft") as step:
        said = quote(question, quotable(evidence), QuoteSettings(least=-math.inf))
        lead = "" if model.frame.closing else " "  # a template's answer begins its line
        likely = [model.tokens(lead + one) for one in _answers(said, segments.prompt.sources)]
        step.note = "a quote" if likely else "no quote"
        return Drafts([list(chain(*segments.ids[1:])), *likely], most)


def _answers(said: Quote, sources: Sequence[int]) -> Iterator[str]:
    """Give a quote as prompts want an answer, with its chunk's number: the sentence, the answer, what was asked for."""
    if said.answer is None or said.source is None or said.source not in sources:
        return
    start, stop = said.highlight or (0, None)
    for one in dict.fromkeys((said.quotes[said.source], said.answer, said.answer[start:stop])):
        yield f"{one} [{sources.index(said.source) + 1}]"
