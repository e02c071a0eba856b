"""A question and its evidence become token ids, segment by segment, of as many chunks as the model's context holds.

Knows the model's tokenizer and the frame of its template; computes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from engine.ask.evidence import Evidence
from engine.ask.prompt import Prompt, Shown, answer_prompt, chunk_segment
from engine.models.protocols import LanguageModel
from store.errors import PkbError

_ANSWER_SHARE = 4  # of the context, one in so many tokens is kept for the answer if the answer may be that long
_ANY_NUMBER = 99  # takes as many tokens as any that a chunk will have


@dataclass(frozen=True, slots=True)
class Segments:
    """A prompt as token ids: system, chunks, question; and how many chunks there was no room for."""

    prompt: Prompt
    ids: tuple[tuple[int, ...], ...]
    left_out: int

    @property
    def wanted(self) -> int:
        """Give the number of chunks that were retrieved."""
        return len(self.prompt.chunks) + self.left_out

    @property
    def count(self) -> int:
        """Give the number of tokens."""
        return sum(len(ids) for ids in self.ids)


def fit(model: LanguageModel, question: str, now: datetime, evidence: Evidence, most: int) -> Segments:
    """Make a prompt that leaves room for an answer, of the best chunks that fit; PkbError where not one does."""
    room = model.context - min(most, model.context // _ANSWER_SHARE)
    shown = [Shown(chunk, rank, read.date) for rank, read in enumerate(evidence.reads) for chunk in read.chunks]
    left = room - sum(len(ids) for ids in _ids(model, answer_prompt(question, now, ())))
    fitting: list[Shown] = []
    for one in shown:
        size = len(model.tokens(chunk_segment(_ANY_NUMBER, one.chunk)))
        if size <= left:
            fitting.append(one)
            left -= size
    if not fitting:
        raise PkbError(f"{model.name} holds {model.context} tokens, too few to ask with one source", "pkb model list")
    prompt = answer_prompt(question, now, fitting)
    return Segments(prompt, tuple(_ids(model, prompt)), len(shown) - len(fitting))


def _ids(model: LanguageModel, prompt: Prompt) -> Iterator[tuple[int, ...]]:
    frame = model.frame
    yield (*frame.opening, *model.tokens(prompt.system), *frame.turning)
    for chunk in prompt.chunks:
        yield tuple(model.tokens(chunk))
    yield (*model.tokens(prompt.question), *frame.closing)
