"""The page says what of the whole evaluation has no lines, and why, and has a row for each figure of the papers."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import lines_kit as kit
from tests.bench import runs
from tests.bench.extras import COMPLETE, MISSING, claims, machine, missing
from tests.bench.material import Material, gathered
from tests.bench.plan import WHOLE
from tests.bench.reading import read
from tests.bench.runs import Run
from tests.bench.test_report import rows

TIME = next(one for one in WHOLE if one.name == "time")


def whole(material: Material) -> Material:
    """Return lines to all units of the evaluation."""
    line = material.lines[0]
    return replace(
        material,
        lines=tuple(
            replace(line, corpus=corpus, policy=policy.name, writer=one.writer)
            for one in WHOLE
            for corpus in one.corpora
            for policy in one.policies
        ),
    )


@pytest.fixture
def material(tmp_path: Path) -> Material:
    """Return the material of two policies."""
    kit.write_all(tmp_path, {"pkb": 1.0, "naive": 1.0})
    return gathered(tmp_path)


def test_where_all_units_are_there_nothing_is_missing(material: Material) -> None:
    assert COMPLETE in missing(whole(material)).text


def test_a_policy_without_lines_is_named_with_its_corpus_and_the_reason(material: Material) -> None:
    full = whole(material)
    lines = tuple(one for one in full.lines if (one.writer, one.policy) != ("135M", "pkb-no-bank"))
    (row,) = rows(missing(replace(full, lines=lines)).text, "experiment")
    assert row["writer and corpus"] == "135M, synthetic"
    assert (row["without lines"], row["why"]) == ("pkb-no-bank", "it was not run")
    (row,) = rows(missing(replace(full, lines=lines, left={"time synthetic": "it failed"})).text, "experiment")
    assert row["why"] == "it failed"


def test_a_corpus_without_lines_is_one_row(material: Material) -> None:
    full = whole(material)
    lines = tuple(one for one in full.lines if (one.corpus, one.writer) != ("qmsum", "quote"))
    (row,) = rows(missing(replace(full, lines=lines)).text, "experiment")
    assert (row["experiment"], row["without lines"]) == ("words", "all 5 policies")


def test_fewer_questions_and_other_measurements_are_told_of_too(material: Material) -> None:
    left = {"nano synthetic": "time was up: 12 of 40 questions", "peers": "it failed"}
    found = rows(missing(replace(whole(material), left=left)).text, "experiment")
    assert [(row["experiment"], row["without lines"], row["why"]) for row in found] == [
        ("nano", "some of the questions", "time was up: 12 of 40 questions"),
        ("peers", "", "it failed"),
    ]


def test_the_short_form_says_that_it_is_one(material: Material) -> None:
    found = rows(missing(replace(material, scope="quick")).text, "experiment")
    assert {row["why"] for row in found} == {"not in the short form"}
    assert len(found) == sum(len(one.corpora) for one in WHOLE)


def test_every_figure_of_the_papers_has_a_row_whatever_is_there(tmp_path: Path, material: Material) -> None:
    nothing = rows(claims(gathered(tmp_path / "nowhere")).text, "what")
    assert {row["here"] for row in nothing} == {MISSING}
    assert [row["what"] for row in rows(claims(material).text, "what")] == [row["what"] for row in nothing]


def test_latency_of_the_papers_is_set_beside_that_of_the_lines(tmp_path: Path) -> None:
    kit.write_all(tmp_path)
    found = rows(claims(Material(tuple(read(tmp_path)))).text, "what")
    assert found[1]["here"].startswith("0.5B: -55.6 % to -55.6 %, mean -55.6 % (corpora: 2); 135M: -55.6 %")


def test_figures_that_others_printed_are_found_in_their_text() -> None:
    article = (
        "\n135M: 650 tokens\n  computed                 1000.0 ms (900.0 to 1100.0)\n"
        "  restored                   25.0 ms (20.0 to 30.0)\n"
        "  nothing reused, of reused (4.2 or more at 650)        5.123 (5.00 to 5.20)\n"
    )
    shares = "  128+52                128 alike,  128 lent, 0.71 of the tokens; 0.70 of the saving; nothing, a part\n"
    cases = "  saved: 5.12% of the nights' operations, 4.00% of all (the paper: 14.12 %)\n"
    found = {
        row["what"]: row["here"]
        for row in rows(claims(Material((), article=article, shares=shares, cases=cases)).text, "what")
    }
    assert found["first token with the context kept (article)"] == "5.12 times"
    assert found["saving where 128 of 180 tokens are shared"] == "70.0 %"
    assert found["loading KV, of computing it"] == "2.5 %"
    assert found["operations saved when the threshold rises (case a)"] == "5.12 % of idle work, by a small model"


def test_runs_are_told_of_with_their_lanes_and_minutes(tmp_path: Path) -> None:
    kit.write_all(tmp_path, {"pkb": 1.0})
    kit.write_rest(tmp_path)
    runs.note(tmp_path, "whole", Run("make one", 2, 120.0, 2), {"time synthetic": 100.0}, {"peers": "it failed"})
    runs.note(tmp_path, "whole", Run("make two", 2, 60.0, 1, 4500.0), {"peers": 50.0}, {})
    found = gathered(tmp_path)
    assert (found.lanes_s, dict(found.left)) == (150.0, {})
    text = machine(found).text
    assert [(row["run"], row["lanes"], row["minutes"], row["kJ"]) for row in rows(text, "run")] == [
        ("make one", "2", "2.00", "–"),
        ("make two", "2", "1.00", "4.50"),
    ]
    assert "Energy is of the processor" in text
    assert json.loads((tmp_path / runs.FILE).read_text("utf-8"))["seconds"] == {"time synthetic": 100.0, "peers": 50.0}
