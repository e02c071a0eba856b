"""Lines are read as written; a torn or corrupt line is an error that names its file and line."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import lines_kit as kit
from tests.bench.reading import Unreadable, read, read_unit, unfinished

UNIT = kit.unit("percache", "ann", "0.5B")
NAME = "invented.ann.percache.0.5B.jsonl"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


def refused(rows: list[bytes]) -> str:
    """Return what is said of a unit that has these lines."""
    with TemporaryDirectory() as folder:
        file = Path(folder, NAME)
        file.write_bytes(b"".join(rows))
        with pytest.raises(Unreadable) as caught:
            read_unit(file)
    return str(caught.value)


def told(file: Path) -> str:
    """Return what is said of a unit; nothing where all of it is read."""
    try:
        found = read_unit(file)
    except Unreadable as error:
        return str(error)
    assert len(found) == len(UNIT)
    return ""


def encoded() -> list[bytes]:
    return [json.dumps(one).encode() + b"\n" for one in UNIT]


def test_a_writer_with_a_dot_and_all_values_are_read(tmp_path: Path) -> None:
    found = read_unit(kit.write(tmp_path, UNIT))
    assert [(one.writer, one.number, one.tier) for one in found] == [
        ("0.5B", 1, "full"),
        ("0.5B", 2, "prefix"),
        ("0.5B", 3, "prefix"),
        ("0.5B", 4, "semantic"),
    ]
    assert found[1].ms == {"embed": 10.0, "prefill": 700.0, "total": 1400.0}
    assert (found[1].chunks, found[1].found, found[3].chunks, found[3].right) == (4, 1, None, True)
    assert found[2].runner is not None
    assert (found[2].runner.seconds, found[2].runner.predicted_counts, found[0].runner) == (1.5, 5, None)


@given(st.data())
def test_a_torn_last_line_names_its_file_and_number(data: st.DataObject) -> None:
    rows = encoded()
    whole = data.draw(st.integers(0, len(rows) - 1))
    torn = rows[whole][: data.draw(st.integers(1, len(rows[whole]) - 1))]
    assert refused([*rows[:whole], torn]) == f"{NAME}, line {whole + 1}: torn"


@given(st.integers(0, len(UNIT) - 1), st.binary(max_size=30).filter(lambda some: b"\n" not in some))
def test_a_line_of_garbage_names_its_file_and_number(place: int, garbage: bytes) -> None:
    rows = encoded()
    rows[place] = garbage + b"\n"
    assert refused(rows).startswith(f"{NAME}, line {place + 1}: ")


@given(st.integers(0, len(UNIT) - 1), st.sampled_from(sorted(UNIT[0])), JSON)
def test_any_value_of_any_key_is_read_or_named(place: int, key: str, value: object) -> None:
    rows = [dict(one) for one in UNIT]
    rows[place][key] = value
    with TemporaryDirectory() as folder:
        file = Path(folder, NAME)
        file.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
        said = told(file)
    assert re.match(rf"$|{re.escape(NAME)}, line ({place + 1}|{place + 2})(:|, {key}:)", said), said


@pytest.mark.parametrize("key", sorted(UNIT[0]))
def test_a_missing_key_is_named(key: str) -> None:
    rows = [{name: value for name, value in UNIT[0].items() if name != key}]
    assert refused([json.dumps(one).encode() + b"\n" for one in rows]) == (
        f"{NAME}, line 1: {key} is missing or is not what it should be"
    )


def test_a_number_that_is_none_is_no_json() -> None:
    text = json.dumps(UNIT[0] | {"flops": float("nan")}).encode() + b"\n"
    assert refused([text]) == f"{NAME}, line 1: no JSON"


def test_an_empty_file_and_a_gap_and_another_unit_are_refused(tmp_path: Path) -> None:
    assert refused([]) == f"{NAME}, line 1: missing"
    assert refused([encoded()[0], encoded()[2]]) == f"{NAME}, line 2: its number does not follow the one before"
    other = json.dumps(UNIT[0] | {"user": "bo"}).encode() + b"\n"
    assert refused([other]) == f"{NAME}, line 1: of another unit than the file's name says"


def test_units_come_in_the_order_of_their_names_and_unfinished_ones_are_only_counted(tmp_path: Path) -> None:
    kit.write(tmp_path, kit.unit("pkb", "ann", "135M"))
    kit.write(tmp_path, kit.unit("naive", "ann", "135M"))
    (tmp_path / "invented.bo.pkb.135M.part").write_text('{"torn', "utf-8")
    assert [one.policy for one in read(tmp_path)] == ["naive"] * 4 + ["pkb"] * 4
    assert unfinished(tmp_path) == 1
