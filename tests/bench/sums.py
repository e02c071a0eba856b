"""Aggregates of result lines: latency, hits, false hits, answer quality, operations, bytes.

Policies are compared over the questions that all of them were asked (`matched`), of one writer at a time.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, median, quantiles
from typing import TypeVar

from tests.bench import metrics
from tests.bench.metrics import terms
from tests.bench.records import Line

BASELINES = ("naive", "ragcache", "meancache", "sleeptime", "ragcache-meancache", "ragcache-sleeptime")
RIVALS = (*BASELINES, "percache")
MAIN = (*RIVALS, "ragcache-meancache-drafts", "pkb", "pkb-blocks")
Record = TypeVar("Record")
Groups = Mapping[str, Sequence[Line]]  # by policy


@dataclass(frozen=True, slots=True)
class Sum:
    """The aggregate of a policy's lines; what could not be measured is None."""

    n: int
    users: int
    mean_ms: float
    median_ms: float
    low_ms: float  # quartiles
    high_ms: float
    tiers: Mapping[str, int]
    known: int  # hits of which it is known whether they are right
    false: int
    chunks: int  # in prompts
    found: int  # of these, in the KV cache
    prompt: int  # tokens
    reused: int
    generated: int
    guessed: int  # of these, several in one step
    rouge: float | None
    flops: float  # of a question, without idle runs
    idle_flops: float  # of a question
    idle_s: float  # in all
    written: int  # bytes in all
    stored: float  # bytes of a user at the end, mean

    @property
    def hits(self) -> int:
        """Count the answers from the answer cache."""
        return self.tiers["exact"] + self.tiers["semantic"]

    @property
    def unknown(self) -> int:
        """Count the hits of which it is not known whether they are right."""
        return self.hits - self.known


def summed(lines: Sequence[Line]) -> Sum:
    """Add up at least one line."""
    times = [line.ms["total"] for line in lines]
    low, high = quartiles(times)
    last = {(line.corpus, line.user): line for line in lines}
    idle = [line.idle for line in lines if line.idle]
    tokens = [line.tokens for line in lines if line.tokens]
    cached = [line.cached for line in lines if line.cached]
    return Sum(
        n=len(lines),
        users=len(last),
        mean_ms=fmean(times),
        median_ms=median(times),
        low_ms=low,
        high_ms=high,
        tiers=Counter(line.tier for line in lines),
        known=sum(line.right is not None for line in lines),
        false=sum(line.right is False for line in lines),
        chunks=sum(one.chunks for one in cached),
        found=sum(one.found for one in cached),
        prompt=sum(one.prompt for one in tokens),
        reused=sum(one.reused for one in tokens),
        generated=sum(one.generated for one in tokens),
        guessed=sum(one.guessed for one in tokens),
        rouge=scored(lines, rouge_l),
        flops=fmean(line.flops for line in lines),
        idle_flops=sum(one.flops for one in idle) / len(lines),
        idle_s=sum(one.seconds for one in idle),
        written=sum(line.written for line in lines),
        stored=fmean(line.bank_bytes + line.kv_bytes for line in last.values()),
    )


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and the upper quartile of at least one value."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, method="inclusive")
    return low, high


def scored(lines: Iterable[Line], score: Callable[[str, str], float]) -> float | None:
    """Return the mean score of the answers where there is a gold; a declined question scores 0."""
    found = [score(line.answer or "", line.gold) for line in lines if terms(line.gold)]
    return fmean(found) if found else None


@lru_cache(1 << 16)
def rouge_l(answer: str, gold: str) -> float:
    """Return ROUGE-L of an answer's words."""
    return metrics.rouge_l(terms(answer), terms(gold))


def share(part: float, whole: float) -> float | None:
    """Return a part of a whole; None of nothing."""
    return part / whole if whole else None


def by(lines: Iterable[Record], key: Callable[[Record], str]) -> dict[str, list[Record]]:
    """Sort records into groups, by name."""
    found = defaultdict[str, list[Record]](list)
    for line in lines:
        found[key(line)].append(line)
    return dict(sorted(found.items()))


def of_policies(lines: Iterable[Line], names: Sequence[str]) -> dict[str, list[Line]]:
    """Return the lines of those policies that there are, in the order of the names."""
    found = by(lines, lambda line: line.policy)
    return {name: found[name] for name in names if name in found}


def matched(groups: Groups) -> dict[str, list[Line]]:
    """Keep the questions that every policy was asked, at the same place of the same user's stream."""
    keys = [{_place(line) for line in lines} for lines in groups.values()]
    common = set.intersection(*keys) if keys else set()
    return {name: [line for line in lines if _place(line) in common] for name, lines in groups.items()}


def best(sums: Mapping[str, Sum]) -> str | None:
    """Name the baseline with the lowest mean latency."""
    return min((name for name in BASELINES if name in sums), key=lambda name: sums[name].mean_ms, default=None)


def _place(line: Line) -> tuple[str, str, int, str]:
    return line.corpus, line.user, line.number, line.question
