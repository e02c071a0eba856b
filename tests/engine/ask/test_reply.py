"""Replies: what the bank keeps of one, and what comes back."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.types import STAGES, Answer, Evidence, Passage, Source, freeze, relocate, thaw

SOURCE = Source("/mail/1.eml", "1@example.org", "Notes", "2024-05-03T10:00:00+00:00", (3, 4), 1.5, "at seven")
REPLY = Answer("When?", "at seven", "full", "quote", None, (SOURCE,), {"total": 12.0}, highlight=(3, 8))


def test_a_kept_reply_comes_back_as_an_exact_one() -> None:
    back = thaw(freeze(REPLY), "when", {"total": 1.0}, 60.0, stale=False)
    assert back == replace(REPLY, question="when", tier="exact", ms={"total": 1.0}, age_s=60.0)


def read(path: str, copies: int = 0) -> Passage:
    places = tuple(replace(SOURCE, path=f"{path}{number or ''}", copy=bool(number)) for number in range(copies + 1))
    return Passage((), "", (), None, 1.0, places)


@given(st.lists(st.integers(0, 2), max_size=4), st.integers(0, 3))
def test_sources_that_moved_keep_their_order_and_their_quotes(copies: list[int], lead: int) -> None:
    lead = min(lead, max(0, len(copies) - 1))
    before, after = (
        Evidence(tuple(read(f"/{folder}/{rank}.", more) for rank, more in enumerate(copies)), (), 1.0)
        for folder in ("old", "new")
    )
    quotes = [f"quote {rank}" for rank in range(len(copies))]
    kept = replace(REPLY, sources=before.sources(quotes, lead), lead=lead)
    moved = thaw(relocate(freeze(kept), after.sources), "When?", {}, 0.0, stale=False)
    assert [(one.path.replace("new", "old"), one.quote) for one in moved.sources] == [
        (one.path, one.quote) for one in kept.sources
    ]
    if copies:
        assert moved.sources[0].quote == quotes[lead]


def test_an_answer_kept_by_an_older_version_is_listed_by_rank() -> None:
    frozen = json.loads(freeze(replace(REPLY, sources=(SOURCE, replace(SOURCE, path="/mail/2.eml", quote="")))))
    del frozen["lead"]
    evidence = Evidence((read("/new/1.eml"), read("/new/2.eml")), (), 1.0)
    moved = thaw(relocate(json.dumps(frozen), evidence.sources), "When?", {}, 0.0, stale=False)
    assert [one.path for one in moved.sources] == ["/new/1.eml", "/new/2.eml"]


def test_a_decline_comes_back_as_a_decline() -> None:
    declined = replace(REPLY, answer=None, highlight=None)
    assert thaw(freeze(declined), "when", {}, 0.0, stale=False).to_json()["answered"] is False


def test_every_stage_is_there_and_null_where_it_did_not_happen() -> None:
    row = REPLY.to_json()
    assert (list(row["ms"]), row["ms"]["total"], row["ms"]["embed"]) == (list(STAGES), 12.0, None)


@given(st.text(), st.text(st.characters(codec=None)))
def test_any_text_and_any_file_name_survive(answer: str, path: str) -> None:
    reply = replace(REPLY, answer=answer, highlight=None, sources=(replace(SOURCE, path=path),))
    frozen = freeze(reply)
    frozen.encode("utf-8")
    assert json.loads(frozen)["answer"] == answer
    assert thaw(frozen, "q", {}, 0.0, stale=False).sources[0].path == path
