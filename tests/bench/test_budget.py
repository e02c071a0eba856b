"""The budget of costs: its limits, its messages, and one small run."""

from pathlib import Path

import pytest

from tests.bench.budget import Row, broken, line, lowered, measured, write


def test_limits_only_go_down() -> None:
    rows = [Row("help", 3.0, 2.0, "bare import", "s"), Row("disk", 2.0, 1.0, "FTS5", "MB")]
    assert lowered({"help": 1.6, "disk": 9.0}, rows) == {"help": 1.6, "disk": 2.2}
    assert lowered({}, rows) == {"help": 1.65, "disk": 2.2}


def test_a_broken_limit_is_named() -> None:
    rows = [Row("help", 3.0, 2.0, "bare import", "s"), Row("disk", 2.0, 1.0, "FTS5", "MB")]
    assert broken({"help": 1.4, "disk": 2.0}, rows) == ["help"]
    assert line(rows[0], 1.4) == "| help | 3.00 s | bare import | 2.00 | 1.50 | 1.40 (broken) |"
    assert line(rows[1], None).endswith("| 2.00 | - |")


def test_the_same_messages_are_written_each_time(tmp_path: Path) -> None:
    write(tmp_path / "one", 0, 5)
    write(tmp_path / "two", 2, 5)
    texts = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert (len(texts[0]), texts[1].items() < texts[0].items()) == (5, True)


@pytest.mark.slow
def test_every_cost_is_measured(tmp_path: Path) -> None:
    rows = list(measured(tmp_path, 40, 1))
    names = [row.name for row in rows]
    assert names[:4] == ["ingest", "memory of ingest", "disk", "disk a byte of mail"]
    assert names[4:] == ["help", "exact hit", "search", "search, warm", "add 10", "delete 10", "forget 1"]
    assert all(row.cost > 0 and row.other > 0 for row in rows)
