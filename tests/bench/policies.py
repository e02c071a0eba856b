"""PerCache's baselines, PerCache as printed, and pkb's defaults: all of them settings of one engine, parts of it off.

What they share makes them comparable: ingest, retrieval (which pkb does before it looks for a like question), prompts,
the model, and what is foreseen. Knows no corpus and runs nothing; what is varied is made with `dataclasses.replace`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.idle.types import Kind
from engine.llm.prompt import Order, in_document_order
from tests.bench.orders import by_relevance

STRIDE = 5  # questions foreseen at a time (PerCache 5)
TAU = 0.85  # as PerCache sets it for itself and for MeanCache alike (PerCache 5)
UNGUESSED: dict[str, Any] = {"experiment.drafts": 0}  # every token of an answer takes a step, as in all of these papers
NO_BANK: dict[str, Any] = UNGUESSED | {"experiment.semantic": False}
COSINE_ALONE: dict[str, Any] = UNGUESSED | {
    "bank.tau": TAU,
    "experiment.guard": False,
    "experiment.evidence": False,
    "experiment.verify": False,
    "experiment.check": False,
}
NO_TENSORS: dict[str, Any] = {"kv.reuse": "off"}
TREE: dict[str, Any] = {"kv.reuse": "prefix", "experiment.score": "value"}
PRINTED: dict[str, Any] = {
    "ask.k": 2,
    "kv.reuse": "prefix",
    "experiment.score": "lfu",
    "experiment.stride": STRIDE,
    "experiment.max_error": 1.0,  # no threshold is learnt
}


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept and reused, what is done between questions, and in `about` where that departs from what it names.

    `keeps` tells whether the answers of those who asked are kept, or of what was foreseen alone.
    """

    name: str  # safe as part of a file's name
    title: str  # as reports print it
    settings: Mapping[str, Any] = field(default_factory=dict)  # pkb's, by key, and fields of `Experiment`
    bank: bool = True  # answers are kept and looked for
    foresee: int = 0  # questions, before the first one is asked and after each; 0: there are no nights
    idle_runs: tuple[Kind, ...] = ()  # kinds of idle work between questions
    printed: bool = False  # queries are kept as well, and projections alone saved: by formula
    keeps: bool = True
    order: Order = by_relevance  # of the passages in a prompt
    about: str = ""


_ALL = (
    Policy(
        "naive",
        "Naive",
        NO_BANK | NO_TENSORS,
        bank=False,
        about="retrieves, prefills the whole prompt and generates, for every question",
    ),
    Policy(
        "ragcache",
        "RAGCache",
        NO_BANK | TREE,
        bank=False,
        about="a tree of KV prefixes in order of relevance (arXiv 2404.12457); evicts by seconds saved, frequency and"
        " size, with decay for the clock of its own score (PGDSF); KV is on disk, and nothing is prefilled"
        " speculatively",
    ),
    Policy(
        "meancache",
        "MeanCache",
        COSINE_ALONE | NO_TENSORS,
        about="the answer of a similar question, by cosine alone (arXiv 2403.02694), at PerCache's threshold; pkb's"
        " embedding model in place of one trained by federated learning; pkb retrieves before the lookup, and has an"
        " exact tier before both",
    ),
    Policy(
        "sleeptime",
        "Sleep-time Compute",
        COSINE_ALONE | NO_TENSORS,
        foresee=STRIDE,
        idle_runs=("populate",),
        keeps=False,
        about="predicted questions are answered in idle runs, and their answers are served by cosine (arXiv 2504.13171,"
        " as PerCache sets it up); answers to the user's own questions are not cached, for that is another baseline",
    ),
    Policy(
        "ragcache-meancache",
        "RAGCache + MeanCache",
        COSINE_ALONE | TREE,
        about="both, the answer cache first",
    ),
    Policy(
        "ragcache-sleeptime",
        "RAGCache + Sleep-time",
        COSINE_ALONE | TREE,
        foresee=STRIDE,
        idle_runs=("populate",),
        keeps=False,
        about="both; the KV of predicted questions stays in the tree",
    ),
    Policy(
        "percache",
        "PerCache as printed",
        COSINE_ALONE | PRINTED,
        foresee=STRIDE,
        idle_runs=("owed", "populate", "convert", "refill"),
        printed=True,
        about="two chunks in order of relevance, LFU, cosine alone, a fixed threshold; its questions are predicted from"
        " the forms of earlier ones; the cost of storing Q, K and V and saving projections alone is computed beside",
    ),
    Policy(
        "pkb",
        "pkb",
        {},
        foresee=STRIDE,
        idle_runs=("refresh", "owed", "populate", "convert", "first", "blocks", "refill", "upkeep"),
        order=in_document_order,
        about="as installed, but without abstracts; predictions come from the forms of earlier questions, as for all;"
        " it alone drafts tokens of an answer, so one baseline is run with drafts too",
    ),
)
POLICIES: Mapping[str, Policy] = {one.name: one for one in _ALL}
