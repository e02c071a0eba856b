"""What a model with a role adapter is asked besides questions: about chunks, and whether an answer stands.

Chunks are read as in the prompt of an answer, so that all roles load each other's KV tensors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log
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
LEAST_PROBABILITY = 0.3  # of being right, under which a question is declined
_EDGE = 1e-3  # probabilities nearer to 0 or 1 count as this near


@dataclass(frozen=True, slots=True)
class Claims:
    """What speaks for the answer that the model wrote and for the one that is quoted; a yes is None if there is none.

    `support` is the probability that the evidence holds an answer, as the quote writer judges it.
    """

    own_yes: float | None
    quoted_yes: float | None
    support: float
    agree: bool  # one answer holds the other

    def own_features(self) -> tuple[float, ...]:
        """Return what the log odds of the model's answer are a weighted sum of."""
        return (1.0, log_odds(self.own_yes or 0.0), log_odds(self.support), float(self.agree))

    def quoted_features(self) -> tuple[float, ...]:
        """Return what those of the quoted answer are a weighted sum of."""
        yes = log_odds(self.quoted_yes or 0.0)
        return (1.0, yes, log_odds(self.support), float(self.agree), float(self.own_yes is None))


# Weights of the features, in log odds, as tests/bench/reading.py fits them.
_OWN = (0.0, 1.0, 0.0, 0.0)
_QUOTED = (0.0, 1.0, 0.0, 0.0, 0.0)
Side = Literal["own", "quoted"]
Choose = Callable[[Claims], tuple[Side | None, float]]


def choose_side(claims: Claims) -> tuple[Side | None, float]:
    """Return which answer to give, None for neither, and the probability that the better one is right."""
    return pick_side(claims, _OWN, _QUOTED, LEAST_PROBABILITY)


def pick_side(claims: Claims, own: Sequence[float], quoted: Sequence[float], least: float) -> tuple[Side | None, float]:
    """Choose as `choose_side` does, with weights for each answer and the least probability of one that is given."""
    chances: dict[Side, float] = {}
    if claims.own_yes is not None:
        chances["own"] = probability(own, claims.own_features())
    if claims.quoted_yes is not None:
        chances["quoted"] = probability(quoted, claims.quoted_features())
    best = max(chances, key=lambda side: chances[side], default=None)
    if best is None:
        return None, 0.0
    return (best if chances[best] >= least else None), chances[best]


def probability(weights: Sequence[float], features: Sequence[float]) -> float:
    """Return the probability that weighted features make."""
    return 1 / (1 + exp(-sum(weight * value for weight, value in zip(weights, features, strict=True))))


def log_odds(probability: float) -> float:
    """Return the log odds of a probability, cut off at both ends."""
    kept = min(1 - _EDGE, max(_EDGE, probability))
    return log(kept / (1 - kept))
