"""What a model with a role adapter is asked besides questions: about chunks, and whether an answer stands.

Chunks are read as in the prompt of an answer, so that all roles load each other's KV tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Literal

from engine.llm.blocks import in_blocks
from engine.llm.prefill import PromptReader
from engine.llm.prompt import Ids, Prompt, Segments, chunk_ids, chunk_segment, system_ids, system_segment
from engine.models.types import LanguageModel
from prompts import prompt
from store.types import Chunk


def request_segments(reader: PromptReader, chunks: Sequence[Chunk], request: str) -> Segments:
    """Return the prompt of a request about chunks."""
    model = reader.model
    last: Ids = (*model.tokens(request), *model.frame.closing)
    texts = tuple(chunk_segment(number, chunk) for number, chunk in enumerate(chunks, 1))
    documents = tuple(chunk.document for chunk in chunks)
    written = Prompt(system_segment(roles=True), texts, request, tuple(range(len(chunks))), documents)
    ids = (system_ids(model), *(chunk_ids(model, number, chunk) for number, chunk in enumerate(chunks, 1)), last)
    segments = Segments(written, ids, 0)
    return in_blocks(model, segments) if reader.ropes else segments


def check_ids(model: LanguageModel, question: str, answer: str) -> Ids:
    """Return the last segment that asks whether the chunks support an answer."""
    said = prompt("check").format(question=" ".join(question.split()), answer=" ".join(answer.split()))
    return (*model.tokens(said), *model.frame.closing)


VERDICTS = ("yes", "no")
LEAST_YES = 0.5  # probability of a yes that confirms another question's answer
_EDGE = 1e-3  # probabilities nearer to 0 or 1 count as this near


@dataclass(frozen=True, slots=True)
class Claims:
    """What speaks for the answer that the model wrote and for the one that is quoted.

    `own_yes` is the probability with which the model finds its own answer supported, None if it has none. `support` is
    the quote writer's probability that the evidence holds an answer. `quoted_words` is 0 if nothing was quoted.
    `is_open` is whether the question asks for something else than a date, a place, a person, a number or a yes.
    """

    own_yes: float | None
    support: float
    agree: bool  # one answer holds the other
    quoted_words: int  # a name, a date or a number is short, a sentence long
    is_open: bool

    def evidence_features(self) -> tuple[float, ...]:
        """Return what the log odds that the evidence holds an answer are a weighted sum of."""
        own = 0.0 if self.own_yes is None else log_odds(self.own_yes)
        return (1.0, log_odds(self.support), float(self.own_yes is not None), own)

    def own_features(self) -> tuple[float, ...]:
        """Return what the log odds that the model's answer is the better one are a weighted sum of.

        It is if it picks the answer out of a long quote. If the two disagree, the quote is right more often, but where
        the quote writer knows no form of answer to look for.
        """
        words = log1p(self.quoted_words)
        return (1.0, words if self.agree else 0.0, words if self.is_open and not self.agree else 0.0)


Side = Literal["own", "quoted"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which answer is given, None for neither; how likely the evidence holds one, and how likely it must at least."""

    side: Side | None
    likely: float
    least: float


Choose = Callable[[Claims], Choice]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the features: that the evidence holds an answer, and that the model's is better than the quoted one.

    `least` is the probability of the first under which a question is declined.
    """

    holds: tuple[float, ...]
    own: tuple[float, ...]
    least: float

    def choose(self, claims: Claims) -> Choice:
        """Return which answer to give, if any."""
        if claims.own_yes is None and not claims.quoted_words:
            return Choice(None, 0.0, self.least)
        likely = probability(self.holds, claims.evidence_features())
        if likely < self.least:
            return Choice(None, likely, self.least)
        is_better = not claims.quoted_words or probability(self.own, claims.own_features()) >= 0.5
        return Choice("own" if claims.own_yes is not None and is_better else "quoted", likely, self.least)


def confirms(yes: float, support: float) -> bool:
    """Return whether a model's yes and the quote writer's support confirm the answer of another question."""
    claims = Claims(yes, support, agree=False, quoted_words=0, is_open=False)
    return yes >= LEAST_YES and WEIGHTS.choose(claims).likely >= WEIGHTS.least


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    """Return the probability that weighted features make."""
    return 1 / (1 + exp(-sum(weight * value for weight, value in zip(weights, features, strict=True))))


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, cut off at both ends."""
    kept = min(1 - _EDGE, max(_EDGE, probability))
    return log(kept / (1 - kept))


# Fitted by tests/bench/reading.py on 790 questions of four sets; docs/log/models.md has its figures.
WEIGHTS = Weights(holds=(0.783, 1.041, -0.351, 0.219), own=(-1.27, 0.814, 0.609), least=0.708)
