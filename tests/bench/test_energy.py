"""Energy counters of the processor: read where available; a counter that was reset gives no figure."""

from pathlib import Path

from tests.bench.runs import joules, taken


def counter(folder: Path, name: str, text: str) -> None:
    """Write a counter as Linux shows it."""
    (folder / name).mkdir(parents=True)
    (folder / name / "energy_uj").write_text(text, "ascii")


def test_packages_are_read_and_their_parts_are_not(tmp_path: Path) -> None:
    for name, text in (("intel-rapl:0", "2500000\n"), ("intel-rapl:1", "1000000\n"), ("intel-rapl:0:0", "9\n")):
        counter(tmp_path, name, text)
    assert joules(tmp_path) == {"intel-rapl:0": 2.5, "intel-rapl:1": 1.0}


def test_a_machine_without_counters_or_with_ones_that_say_nothing_reports_none(tmp_path: Path) -> None:
    assert joules(tmp_path) is None
    counter(tmp_path, "intel-rapl:0", "no number")
    assert joules(tmp_path) is None


def test_what_was_taken_is_the_sum_of_what_each_counter_grew_by() -> None:
    assert taken({"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 2.5}) == 3.5
    assert taken({"a": 5.0}, {"a": 1.0}) is None
    assert taken(None, {"a": 1.0}) is None
    assert taken({"a": 1.0}, {"a": 2.0, "b": 1.0}) is None
