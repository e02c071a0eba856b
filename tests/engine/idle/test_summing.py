"""Chunks that nothing sums up are, a batch at a time, each abstract tied to its chunks."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.idle.summarize import SummaryBank, plan_summaries
from engine.idle.types import OutOfTime
from store.hits import Hit
from store.summaries import Abstract
from tests.engine.idle.kit import DAY, hit

HITS = [hit("We rehearse the summer concert on Friday at seven.", name, at) for name in "ab" for at in range(5)]


@pytest.fixture
def kept() -> list[Abstract]:
    """Return the abstracts that were kept."""
    return []


def bank(kept: list[Abstract], hits: Sequence[Hit] = HITS, text: str = "A rehearsal.") -> SummaryBank:
    def chunks(ids: Sequence[str]) -> list[Hit]:
        return [one for one in hits if one.chunk.id in ids]

    def keep(made: Sequence[Abstract]) -> int:
        kept.extend(made)
        return len(made)

    return SummaryBank(chunks, lambda batch: text, keep, "w", 9.0)


WANTED = [one.chunk.id for one in HITS]


def test_each_batch_is_summed_up_and_tied_to_its_chunks(kept: list[Abstract]) -> None:
    for unit in plan_summaries(bank(kept), WANTED):
        assert unit.do().state == "done"
    assert sorted(name for one in kept for name in one.chunks) == sorted(WANTED)
    assert {(one.text, one.date, one.made, one.writer) for one in kept} == {("A rehearsal.", DAY, 9.0, "w")}


def test_chunks_that_went_since_are_left_out(kept: list[Abstract]) -> None:
    hits = list(HITS)
    units = plan_summaries(bank(kept, hits), WANTED)
    hits.remove(HITS[0])
    assert {unit.do().state for unit in units} == {"done"}
    assert {name for one in kept for name in one.chunks} == set(WANTED[1:])
    hits.clear()
    assert {unit.do().state for unit in units} == {"there"}


def test_where_the_writer_has_nothing_to_say_the_chunks_own_sentences_do(kept: list[Abstract]) -> None:
    plan_summaries(bank(kept, text=""), WANTED[:1])[0].do()
    assert "rehearse the summer concert on Friday" in kept[0].text


def test_a_batch_that_there_was_no_time_for_waits(kept: list[Abstract]) -> None:
    def late(batch: Sequence[Hit]) -> str:
        raise OutOfTime

    with pytest.raises(OutOfTime):
        plan_summaries(replace(bank(kept), sum_up=late), WANTED)[0].do()
    assert kept == []
