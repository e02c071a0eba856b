"""Comparisons with peers have one row each, and the table of the other environment is parsed as printed."""

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.bench import gptcache
from tests.bench.gptcache import Tally
from tests.bench.peers import ANEW, FILE, MEMORY, Row, by_gptcache, by_mlx_lm, by_turns, line, prompts, table


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Compare with nano, shortly."""
    return by_mlx_lm(tmp_path_factory.mktemp("peers"), "nano", 1)


@pytest.mark.slow
def test_every_peer_is_compared_where_it_has_something_kept(rows: list[Row]) -> None:
    assert [row.peer for row in rows if row.unit == "ms"] == [FILE, ANEW, MEMORY, FILE, ANEW, MEMORY, ANEW]
    assert all(row.pkb and row.peer_value for row in rows)


@pytest.mark.slow
def test_two_prompts_of_one_beginning_weigh_less_than_two_prompts(rows: list[Row]) -> None:
    one, _, two = (row for row in rows if row.unit == "bytes")
    assert one.pkb < two.pkb < 2 * one.pkb
    assert two.peer_value == 2 * one.peer_value


def test_prompts_share_what_they_are_said_to_share() -> None:
    whole, half, none = prompts()
    assert [one == other for one, other in zip(whole, half, strict=True)] == [True] * 3 + [False] * 3
    assert [one == other for one, other in zip(whole, none, strict=True)] == [True] + [False] * 5


def test_each_round_begins_with_another_way() -> None:
    order = list[str]()
    ways = {name: partial(order.append, name) for name in "abc"}
    assert set(by_turns(ways, 0)) == set(by_turns(ways, 1)) == {"a", "b", "c"}
    assert order == [*"abc", *"bca"]


def test_the_printed_table_is_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.ends.update({"right": 3, "wrong": 1, "miss": 4})
    tally.seconds += [0.002] * 8
    for label in ("pkb", "GPTCache, cosine 0.85"):
        gptcache.show(f"enron-annotated: {label}", tally)
    found = table(capsys.readouterr().out)
    assert [(row.peer, row.pkb, row.peer_value, row.unit) for row in found] == [
        ("GPTCache, cosine 0.85", 3, 3, "hits"),
        ("GPTCache, cosine 0.85", 1, 1, "hits"),
        ("GPTCache, cosine 0.85", 2, 2, "ms"),
    ]


def test_other_lines_are_no_rows() -> None:
    assert table("not measured: gptcache not installed here\n\na: b c\n") == []


def test_where_gptcache_is_not_nothing_is_compared_with_it(tmp_path: Path) -> None:
    assert by_gptcache(sys.executable, tmp_path, ("paraphrase",)) == []


def test_a_line_shows_both() -> None:
    assert line(Row("peer", "what", 1.25, 20000, "ms")).split() == ["peer", "what", "1.25", "20,000", "ms"]
