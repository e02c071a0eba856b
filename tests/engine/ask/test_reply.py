"""Replies: what the bank keeps of one, and what comes back."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.ask.reply import STAGES, Reply, Source, freeze, thaw

SOURCE = Source("/mail/1.eml", "1@example.org", "Notes", "2024-05-03T10:00:00+00:00", (3, 4), 1.5, "at seven")
REPLY = Reply("When?", "at seven", "full", "quote", None, (SOURCE,), {"total": 12.0}, highlight=(3, 8))


def test_a_kept_reply_comes_back_as_an_exact_one() -> None:
    back = thaw(freeze(REPLY), "when", {"total": 1.0}, 60.0, stale=False)
    assert back == replace(REPLY, question="when", tier="exact", ms={"total": 1.0}, age_s=60.0)


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
