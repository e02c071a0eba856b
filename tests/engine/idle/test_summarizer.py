"""New chunks are summarized, a batch at a time, and each summary is tied to its chunks."""

from collections.abc import Sequence

import pytest

from engine.idle.summarize import Summarizer
from engine.idle.types import OutOfTime
from store.jobs import Abstract
from store.types import Hit
from tests.engine.idle.kit import DAY, hit

HITS = [hit("We rehearse the summer concert on Friday at seven.", name, at) for name in "ab" for at in range(5)]


@pytest.fixture
def kept() -> list[Abstract]:
    """Return the abstracts that were kept."""
    return []


def summarizer(kept: list[Abstract], hits: Sequence[Hit] = HITS, text: str = "A rehearsal.") -> Summarizer:
    def chunks(ids: Sequence[str]) -> list[Hit]:
        return [one for one in hits if one.chunk.id in ids]

    def keep(made: Sequence[Abstract]) -> int:
        kept.extend(made)
        return len(made)

    return Summarizer(chunks, lambda batch: text, keep, "w", 9.0)


WANTED = [one.chunk.id for one in HITS]


def test_each_batch_is_summarized_and_tied_to_its_chunks(kept: list[Abstract]) -> None:
    here = summarizer(kept)
    for job in here.plan(WANTED):
        assert here.run(job).state == "done"
    assert sorted(name for one in kept for name in one.chunks) == sorted(WANTED)
    assert {(one.text, one.date, one.made, one.writer) for one in kept} == {("A rehearsal.", DAY, 9.0, "w")}


def test_chunks_removed_since_are_left_out(kept: list[Abstract]) -> None:
    hits = list(HITS)
    here = summarizer(kept, hits)
    jobs = here.plan(WANTED)
    hits.remove(HITS[0])
    assert {here.run(job).state for job in jobs} == {"done"}
    assert {name for one in kept for name in one.chunks} == set(WANTED[1:])
    hits.clear()
    assert {here.run(job).state for job in jobs} == {"cached"}


def test_where_the_writer_returns_nothing_the_chunks_are_quoted(kept: list[Abstract]) -> None:
    here = summarizer(kept, text="")
    here.run(here.plan(WANTED[:1])[0])
    assert "rehearse the summer concert on Friday" in kept[0].text


def test_a_batch_that_ran_out_of_time_is_not_summarized(kept: list[Abstract]) -> None:
    def too_late(batch: Sequence[Hit]) -> str:
        raise OutOfTime

    here = summarizer(kept)
    here.summarize = too_late
    jobs = here.plan(WANTED)
    with pytest.raises(OutOfTime):
        here.run(jobs[0])
    assert kept == []
