"""PerCache's baselines, PerCache as published, and pkb's defaults, as settings of one engine.

They share ingest, the look-up of paraphrases before retrieval, prompts, the model and questions predicted by forms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.llm.prompt import PromptChunk, in_document_order
from store.jobs import Kind

STRIDE = 5  # questions predicted at a time (PerCache 5)
TAU = 0.85  # of PerCache and of MeanCache (PerCache 5)
NO_DRAFTS: dict[str, Any] = {"experiment.drafts": 0}  # every token of an answer takes a step, as in these papers
NO_BANK: dict[str, Any] = NO_DRAFTS | {"experiment.semantic": False}
COSINE_ALONE: dict[str, Any] = NO_DRAFTS | {
    "bank.tau": TAU,
    "experiment.guard": False,
    "experiment.verify": False,
}
NO_KV: dict[str, Any] = {"kv.reuse": "off"}
TREE: dict[str, Any] = {"kv.reuse": "prefix", "experiment.score": "value"}
PERCACHE: dict[str, Any] = {
    "ask.k": 2,
    "kv.reuse": "prefix",
    "experiment.score": "lfu",
    "experiment.stride": STRIDE,
    "experiment.max_error": 1.0,  # no threshold is learnt
}


Order = Callable[[Sequence[PromptChunk]], list[PromptChunk]]  # of chunks that come best first


def by_relevance(shown: Sequence[PromptChunk]) -> list[PromptChunk]:
    """Sort by source, best first; the chunks of one source by their position in the document."""
    return sorted(shown, key=lambda one: (one.source, one.chunk.position))


@dataclass(frozen=True, slots=True)
class Policy:
    """Caches and idle work; `about` says where that departs from the publication."""

    name: str  # safe in a file name
    title: str  # in reports
    settings: Mapping[str, Any] = field(default_factory=dict)  # pkb's, by key, and fields of `Experiment`
    bank: bool = True  # answers are stored and looked up
    predict: int = 0  # questions, before the first question and after each; 0: no idle runs
    fills: bool = False  # where forms give fewer questions, others are predicted from passages, as a model writes them
    idle: tuple[Kind, ...] = ()  # kinds of jobs of the idle runs
    fixed_tau: bool = False  # one threshold for all answers
    stores_own: bool = True  # answers to the user's own questions are stored, not those to predicted ones alone
    order: Order = by_relevance  # of the passages in a prompt
    about: str = ""


_ALL = (
    Policy(
        "naive",
        "Naive",
        NO_BANK | NO_KV,
        bank=False,
        about="retrieves, prefills the whole prompt and generates, for every question",
    ),
    Policy(
        "ragcache",
        "RAGCache",
        NO_BANK | TREE,
        bank=False,
        about="a tree of KV prefixes on disk in order of relevance (arXiv 2404.12457); evicts by seconds saved,"
        " frequency and size with decay; nothing is prefilled speculatively",
    ),
    Policy(
        "meancache",
        "MeanCache",
        COSINE_ALONE | NO_KV,
        about="the answer of a similar question, by cosine alone (arXiv 2403.02694), at PerCache's threshold, by"
        " pkb's embedding model and behind its exact tier",
    ),
    Policy(
        "sleeptime",
        "Sleep-time Compute",
        COSINE_ALONE | NO_KV,
        predict=STRIDE,
        fills=True,
        idle=("populate",),
        stores_own=False,
        about="predicted questions are answered in idle runs, and their answers are served by cosine (arXiv 2504.13171,"
        " as PerCache sets it up); answers to the user's own questions are not cached",
    ),
    Policy(
        "ragcache-meancache",
        "RAGCache + MeanCache",
        COSINE_ALONE | TREE,
        about="both caches; the answer cache is tried first",
    ),
    Policy(
        "ragcache-sleeptime",
        "RAGCache + Sleep-time",
        COSINE_ALONE | TREE,
        predict=STRIDE,
        fills=True,
        idle=("populate",),
        stores_own=False,
        about="both; the KV of predicted questions stays in the tree",
    ),
    Policy(
        "percache",
        "PerCache as published",
        COSINE_ALONE | PERCACHE,
        predict=STRIDE,
        fills=True,
        idle=("refresh", "verify", "populate", "restore"),
        fixed_tau=True,
        about="two chunks in order of relevance, LFU, cosine alone, a fixed threshold; predictions from the forms of"
        " earlier questions; unlike the publication it skips the whole prefix, in its favour",
    ),
    Policy(
        "pkb",
        "pkb",
        {},
        predict=STRIDE,
        idle=("refresh", "verify", "populate", "prefetch", "restore", "maintenance"),
        order=in_document_order,
        about="as installed; it alone drafts tokens of an answer",
    ),
)
POLICIES: Mapping[str, Policy] = {one.name: one for one in _ALL}
