"""The table of operations contains every operation and every item."""

import pytest

from tests.bench.operations import Row, line, measured
from tests.demo import DATA, QUESTIONS

NUMBERS = 127 * 6 * 2 * 4 * 32  # of nano's keys and values: tokens of a chunk at least, layers, both, heads, width


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Measure with nano, shortly."""
    scratch = tmp_path_factory.mktemp("operations")
    return {
        row.operation: row for row in measured("nano", [DATA / "transcripts"], QUESTIONS[:4], scratch, 2, sizes=(5, 20))
    }


@pytest.mark.slow
def test_every_operation_has_a_time_between_its_quartiles(rows: dict[str, Row]) -> None:
    timed = [row for row in rows.values() if row.bytes is None]
    assert len(timed) == 14
    for row in timed:
        assert row.median_ms is not None
        assert row.low_ms is not None
        assert row.high_ms is not None
        assert 0 < row.low_ms <= row.median_ms <= row.high_ms


@pytest.mark.slow
def test_a_bank_is_looked_into_at_each_size(rows: dict[str, Row]) -> None:
    assert [name for name in rows if "nearest" in name] == [f"look in the bank, nearest of {n}" for n in (5, 20)]


@pytest.mark.slow
def test_every_item_has_a_weight(rows: dict[str, Row]) -> None:
    weights = [row.bytes for row in rows.values() if row.median_ms is None]
    assert len(weights) == 7
    assert all(weight is not None and weight > 0 for weight in weights)


@pytest.mark.slow
def test_the_tensors_of_a_chunk_weigh_what_their_numbers_do(rows: dict[str, Row]) -> None:
    kept, with_queries = (rows[f"a chunk's tensors, {which}"].bytes for which in ("K and V", "Q, K and V"))
    assert kept is not None
    assert 4 * NUMBERS <= kept <= 4 * NUMBERS * 1.1
    assert with_queries == round(kept * 1.5)  # nano has as many heads of one kind as of another


def test_a_line_tells_a_time_or_a_weight() -> None:
    assert "1.500" in line(Row("one", 1.5, 1.0, 2.0))
    assert "12,345" in line(Row("other", bytes=12345))
