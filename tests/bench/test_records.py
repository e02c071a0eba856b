"""Records are read as they were written; a torn or corrupt line is an error that names its file and line."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import lines_kit as kit
from tests.bench.records import Runs, Unreadable, gathered, read, read_file, read_unit

UNIT = kit.unit("percache", "ann", "0.5B")
NAME = "invented.ann.percache.0.5B.jsonl"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def encoded() -> list[bytes]:
    """Return the lines of the unit."""
    return [json.dumps(asdict(one)).encode() + b"\n" for one in UNIT]


def refused(rows: list[bytes]) -> str:
    """Return the error of a unit with these lines; nothing where all of it is read."""
    with TemporaryDirectory() as folder:
        file = Path(folder, NAME)
        file.write_bytes(b"".join(rows))
        try:
            assert len(read_unit(file)) == len(rows)
        except Unreadable as error:
            return str(error)
    return ""


def test_everything_is_read_as_it_was_written(tmp_path: Path) -> None:
    kit.write_all(tmp_path, {"percache": 1.0})
    found = gathered(tmp_path)
    assert [one for one in found.lines if (one.user, one.writer) == ("ann", "0.5B")] == UNIT
    assert (found.runs, found.operations, found.comparisons) == (kit.RAN, kit.ROWS, kit.COMPARED)


def test_units_come_by_name_and_incomplete_ones_are_not_read(tmp_path: Path) -> None:
    for policy in ("pkb", "naive"):
        kit.write(tmp_path, kit.unit(policy, "ann", "135M"))
    (tmp_path / "lines" / "invented.bo.pkb.135M.part").write_text('{"torn', "utf-8")
    assert [one.policy for one in read(tmp_path / "lines")] == ["naive"] * 4 + ["pkb"] * 4


@given(st.data())
def test_a_torn_line_names_its_file_and_number(data: st.DataObject) -> None:
    rows = encoded()
    place = data.draw(st.integers(0, len(rows) - 1))
    torn = rows[place][: data.draw(st.integers(1, len(rows[place]) - 1))]
    assert refused([*rows[:place], torn]) == f"{NAME}, line {place + 1}: torn or missing"


@given(st.integers(0, len(UNIT) - 1), st.sampled_from(sorted(asdict(UNIT[0]))), JSON)
def test_any_value_of_any_key_is_read_or_named(place: int, key: str, value: object) -> None:
    rows = [asdict(one) for one in UNIT]
    rows[place][key] = value
    said = refused([json.dumps(one).encode() + b"\n" for one in rows])
    assert re.match(rf"$|{re.escape(NAME)}, line {place + 1}(:|, {key}\b)", said), said


def test_other_keys_numbers_and_units_are_refused() -> None:
    rows = [asdict(one) for one in UNIT]
    del rows[1]["flops"]
    assert refused([json.dumps(one).encode() + b"\n" for one in rows]).startswith(
        f"{NAME}, line 2: other keys than corpus"
    )
    assert refused([encoded()[0], encoded()[2]]) == f"{NAME}, line 2: not this line of this unit"
    other = json.dumps(asdict(replace(UNIT[0], user="bo"))).encode() + b"\n"
    assert refused([other]) == f"{NAME}, line 1: not this line of this unit"
    assert refused([encoded()[0].replace(b"3000000000.0", b"NaN")]) == f"{NAME}, line 1: not JSON"
    assert refused([]) == f"{NAME}, line 1: torn or missing"


def test_a_file_of_other_records_is_named(tmp_path: Path) -> None:
    assert read_file(tmp_path / "runs.json", Runs) is None
    (tmp_path / "runs.json").write_text(json.dumps(asdict(kit.RAN) | {"seconds": {"a": "b"}}), "utf-8")
    with pytest.raises(Unreadable, match=r"runs.json, seconds, a: unexpected value"):
        read_file(tmp_path / "runs.json", Runs)
