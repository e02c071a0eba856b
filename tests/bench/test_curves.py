"""Curves are fitted to medians of what was measured, and files of them can be read again."""

from pathlib import Path

import pytest

from tests.bench.corpus import Query
from tests.bench.curves import BEFORE, LOADED, MIDDLE, Check, Engine, Points, Residual, finish, fitted, line, thrice
from tests.bench.prices import KNOTS, Curves
from tests.bench.records import read_file
from tests.bench.test_prices import ROW


def measured() -> Points:
    """Return points of a machine that takes a millisecond a row, and a microsecond a row and token before."""
    found = Points()
    for kind, knots in KNOTS.items():
        for attention, slower in (("fast", 1), ("plain", 2)):
            for rows in knots:
                for before in (*BEFORE, MIDDLE):
                    ms = rows + slower * rows * before / 1000
                    found.steps[attention, kind, rows, before] += [ms, ms, 100 * ms]
    for files, tokens in LOADED:
        found.loads[files, tokens].append(2.0 * files + 0.01 * tokens)
        found.block_loads[files, tokens].append(0.5 * files + 0.02 * tokens)
        found.moves[files, tokens].append(1.0 * files + 0.03 * tokens)
    return found


def test_a_step_is_a_line_over_the_tokens_before_it_through_the_medians() -> None:
    curve = fitted(measured(), "plain")["body"]
    assert curve.ms(64, 1, 1000) == pytest.approx(64 + 128)
    assert fitted(measured(), "fast")["decode"].ms(4, 2, 1000) == pytest.approx(8 + 4)


def test_loads_are_a_file_and_a_token() -> None:
    assert line(measured().loads) == pytest.approx((2.0, 0.01))


def test_a_load_never_has_a_price_below_nothing() -> None:
    assert line({(1, 100): [10.0], (2, 200): [10.0], (3, 900): [100.0]})[0] >= 0


def test_what_was_measured_is_read_as_it_was_written(tmp_path: Path) -> None:
    engine = Engine(list, {("mail", 5, "made"): [6.0, 8.0]})
    finish("135M", measured(), [Check(ROW, 12.5)], engine, tmp_path)
    curves = read_file(tmp_path / "curves.135M.json", Curves)
    assert curves.engine == {"mail": {"5": {"made": 7.0}}}
    assert curves.load == pytest.approx((2.0, 0.01))
    assert curves.moved == pytest.approx((0.5, 0.02, 1.0, 0.03))
    assert [one.ms for one in read_file(tmp_path / "checks.135M.json", tuple[Check, ...])] == [12.5]
    apart = read_file(tmp_path / "residuals.135M.json", tuple[Residual, ...])
    assert [one.difference for one in apart] == pytest.approx([0.0] * len(apart))


def test_a_question_is_asked_as_it_is_in_other_words_and_again() -> None:
    asked = thrice([Query("Who sings?", "Ann", frozenset())])
    assert [one.text for one in asked] == ["Who sings?", "Please tell me: Who sings?", "Who sings?"]
    assert {one.answer for one in asked} == {"Ann"}
