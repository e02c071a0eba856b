"""The job `abstract`: chunks that nothing sums up yet are summed up, a batch at a time, newest first (PerCache 4.1.2).

wanted chunks -> batches -> a sentence or two each -> kept with the chunks it rests on. Knows where chunks come from and
abstracts go as functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from engine.idle.abstracts import batches, by_quotes
from engine.idle.units import Outcome, Unit
from store.hits import Hit
from store.summaries import Abstract

MOST = 400  # chunks looked at in a night
_GUESSED_S = 1.0  # a batch


@dataclass(frozen=True, slots=True)
class Bank:
    """Where chunks come from, who sums them up, and where that goes; `keep` gives the number of those kept."""

    chunks: Callable[[Sequence[str]], list[Hit]]
    sum_up: Callable[[Sequence[Hit]], str]  # empty where it has nothing to say
    keep: Callable[[Sequence[Abstract]], int]
    writer: str
    now: float  # seconds since the epoch


def plan(bank: Bank, wanted: Sequence[str]) -> list[Unit]:
    """Give a unit for each batch of these chunks."""
    why = "not summarized yet"
    return [
        Unit("abstract", batch[0].chunk.id, batch[0].chunk.header, why, 0.0, 0.0, _GUESSED_S,
             partial(_do, bank, [hit.chunk.id for hit in batch]))
        for batch in reversed(batches(bank.chunks(wanted)))
    ]  # fmt: skip


def _do(bank: Bank, ids: Sequence[str]) -> Outcome:
    """Sum a batch up, of the chunks that are still there."""
    hits = {hit.chunk.id: hit for hit in bank.chunks(ids)}
    batch = [hits[name] for name in ids if name in hits]
    if not batch:
        return Outcome("there")
    text = bank.sum_up(batch) or by_quotes(batch)
    dates = [hit.date for hit in batch if hit.date]
    chunks = tuple(hit.chunk.id for hit in batch)
    bank.keep([Abstract(text, chunks, max(dates, default=None), bank.now, bank.writer)])
    return Outcome()
