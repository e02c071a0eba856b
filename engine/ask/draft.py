"""What a model is likely to say: what it has read, and above all what the quote writer would answer from it.

A model checks a guess in less time than it writes; so quotes, which take it milliseconds, are its drafts.
"""

import math
from collections.abc import Iterator
from itertools import chain

from engine.ask.evidence import Evidence
from engine.ask.question import Question
from engine.ask.quote import Quote, QuoteSettings, quote
from engine.ask.segments import Segments
from engine.ask.write import quotable
from engine.models.protocols import LanguageModel


def likely(model: LanguageModel, question: Question, evidence: Evidence, segments: Segments) -> list[list[int]]:
    """Give texts that an answer may repeat, as token ids, the likeliest last."""
    said = quote(question, quotable(evidence), QuoteSettings(least=-math.inf))
    lead = "" if model.frame.closing else " "  # a template's answer begins its line
    answers = [model.tokens(lead + one) for one in _answers(said, segments)]
    return [list(chain(*segments.ids[1:])), *answers]


def _answers(said: Quote, segments: Segments) -> Iterator[str]:
    """Give a quote as prompts want an answer, with its chunk's number: the sentence, the answer, what was asked for."""
    if said.answer is None or said.source is None:
        return
    shown, sentence = segments.prompt, said.quotes[said.source]
    numbers = [number for number, source in enumerate(shown.sources, 1) if source == said.source]
    number = next((number for number in numbers if sentence in shown.chunks[number - 1]), None)
    start, stop = said.highlight or (0, None)
    for one in dict.fromkeys((sentence, said.answer, said.answer[start:stop])):
        if one and number:
            yield f"{one} [{number}]"
