"""Near misses and aliases: kept per question, judged once, gone with either answer."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from store.answers import Aliases, AnswerBank, NearMiss
from store.database import Ledger, open_ledger
from tests.store.test_row_checksums import ENTRY


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with closing(open_ledger(tmp_path / "ledger.db", create=True)) as opened:
        for key in (b"a", b"b", b"c"):
            AnswerBank(opened).put(key, ENTRY, 10_000)
        yield opened


def miss(matched: bytes = b"a", similarity: float = 0.9) -> NearMiss:
    return NearMiss(b"b", matched, similarity, 2.0)


def test_a_near_miss_waits_for_a_verdict_and_is_no_alias_before(ledger: Ledger) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    assert (aliases.unjudged(), aliases.find(b"b"), aliases.counts()) == ([miss()], None, (0, 0))
    assert (aliases.unjudged(b"b"), aliases.unjudged(b"a")) == ([miss()], [])
    aliases.judge(miss(), same=True, answer="Friday")
    assert aliases.unjudged() == []
    assert aliases.find(b"b") == (miss(), "Friday")
    assert (aliases.find(b"a"), aliases.counts()) == (None, (1, 1))


def test_a_pair_that_was_judged_to_differ_is_not_judged_again(ledger: Ledger) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    aliases.judge(miss(), same=False)
    aliases.add(miss(similarity=0.95))
    assert (aliases.unjudged(), aliases.find(b"b"), aliases.counts()) == ([], None, (1, 0))
    aliases.add(miss(b"c"))
    assert aliases.unjudged() == [miss(b"c")]


def test_an_alias_is_not_replaced_by_another_near_miss(ledger: Ledger) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    aliases.judge(miss(), same=True)
    aliases.add(miss(b"c"))
    assert aliases.find(b"b") == (miss(), "")
    assert aliases.unjudged() == []


@pytest.mark.parametrize(("similarity", "left"), [(0.89, 1), (0.9, 0), (0.95, 0)])
def test_aliases_end_up_to_a_similarity(ledger: Ledger, similarity: float, left: int) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    aliases.judge(miss(), same=True)
    aliases.reject(b"c", similarity)
    aliases.reject(b"a", similarity)
    assert aliases.counts() == (1, left)


def test_a_damaged_row_is_replaced(ledger: Ledger) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    ledger.rows.execute("UPDATE aliases SET crc = crc + 1")
    assert (aliases.unjudged(), aliases.counts()) == ([], (0, 0))
    aliases.add(miss())
    assert aliases.unjudged() == [miss()]


def test_a_verdict_on_a_near_miss_that_was_replaced_is_dropped(ledger: Ledger) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    aliases.add(miss(b"c"))
    aliases.judge(miss(), same=True)
    assert (aliases.find(b"b"), aliases.unjudged()) == (None, [miss(b"c")])


@pytest.mark.parametrize("gone", [b"a", b"b"])
def test_an_alias_goes_with_either_answer_and_is_not_made_of_missing_ones(ledger: Ledger, gone: bytes) -> None:
    aliases = Aliases(ledger)
    aliases.add(miss())
    aliases.judge(miss(), same=True)
    AnswerBank(ledger).drop(gone)
    aliases.add(miss())
    assert (aliases.find(b"b"), aliases.unjudged(), aliases.counts()) == (None, [], (0, 0))
