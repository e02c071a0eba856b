"""A question and its evidence become token ids, segment by segment, of as many chunks as the model's context holds.

Knows the model's tokenizer and the frame of its template; computes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from engine.ask.evidence import Evidence
from engine.ask.prompt import (
    Order,
    Prompt,
    Shown,
    answer_prompt,
    chunk_segment,
    in_document_order,
    question_segment,
    system_segment,
)
from engine.models.protocols import LanguageModel
from store.errors import PkbError
from store.types import Chunk

Ids = tuple[int, ...]

_ANSWER_SHARE = 4  # of the context, one in so many tokens is kept for the answer if the answer may be that long
_ANY_NUMBER = 99  # takes as many tokens as any that a chunk will have


@dataclass(frozen=True, slots=True)
class Segments:
    """A prompt as token ids: system, chunks, question; and how many chunks there was no room for."""

    prompt: Prompt
    ids: tuple[Ids, ...]
    left_out: int

    @property
    def wanted(self) -> int:
        """Give the number of chunks that were retrieved."""
        return len(self.prompt.chunks) + self.left_out

    @property
    def count(self) -> int:
        """Give the number of tokens."""
        return sum(len(ids) for ids in self.ids)


def fit(
    model: LanguageModel,
    question: str,
    now: datetime,
    evidence: Evidence,
    most: int,
    order: Order = in_document_order,
) -> Segments:
    """Make a prompt that leaves room for an answer, of the best chunks that fit; PkbError where not one does."""
    left = model.context - min(most, model.context // _ANSWER_SHARE)
    left -= len(system_ids(model)) + len(_question_ids(model, question_segment(question, now)))
    shown, fitting = candidates(evidence), list[Shown]()
    for one in shown:
        size = len(chunk_ids(model, _ANY_NUMBER, one.chunk))
        if size <= left:
            fitting.append(one)
            left -= size
    if not fitting:
        raise PkbError(f"{model.name} holds {model.context} tokens, too few to ask with one source", "pkb model list")
    prompt = answer_prompt(question, now, fitting, order)
    return Segments(prompt, tuple(_ids(model, prompt)), len(shown) - len(fitting))


def candidates(evidence: Evidence) -> list[Shown]:
    """Give the chunks that may be shown, those first that come first where there is not room for all."""
    return [Shown(chunk, rank, read.date) for rank, read in enumerate(evidence.reads) for chunk in read.chunks]


def system_ids(model: LanguageModel) -> Ids:
    """Give the first segment of every prompt."""
    return (*model.frame.opening, *model.tokens(system_segment()), *model.frame.turning)


def chunk_ids(model: LanguageModel, number: int, chunk: Chunk) -> Ids:
    """Give the segment of a chunk under a number."""
    return tuple(model.tokens(chunk_segment(number, chunk)))


def _question_ids(model: LanguageModel, question: str) -> Ids:
    return (*model.tokens(question), *model.frame.closing)


def _ids(model: LanguageModel, prompt: Prompt) -> Iterator[Ids]:
    yield system_ids(model)
    for chunk in prompt.chunks:
        yield tuple(model.tokens(chunk))
    yield _question_ids(model, prompt.question)
