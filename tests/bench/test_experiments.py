"""Plans contain what the papers vary; missing jobs are listed with a reason."""

import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import experiments
from tests.bench.harness import together, unit_file
from tests.bench.plan import QUICK, SCOPES, WHOLE
from tests.bench.policies import POLICIES

HOUR, FIVE_MINUTES = 3600, 300


def options(tmp_path: Path, **changes: object) -> Namespace:
    """Return a command line without data."""
    found = {"scope": "whole", "out": tmp_path, "data": tmp_path / "none", "only": [], "minutes": experiments.NEVER}
    found |= {"questions": sys.maxsize, "gptcache": "python", "until": experiments.NEVER}
    return Namespace(**(found | changes))


def test_no_unit_stands_in_two_experiments() -> None:
    for scope in SCOPES.values():
        units = [(c, policy.name, one.writer) for one in scope for c in one.corpora for policy in one.policies]
        assert len(units) == len(set(units))


def test_the_whole_has_every_policy_at_a_real_shape_and_every_part_threshold_stride_and_budget() -> None:
    names = {policy.name for one in WHOLE for policy in one.policies}
    assert {policy.name for one in WHOLE if one.writer == "135M" for policy in one.policies} >= set(POLICIES)
    assert names >= {f"pkb-no-{part}{end}" for part in ("bank", "kv", "prediction") for end in ("", "-tau80")}
    assert names >= {f"{name}-tau{tau}" for name in ("pkb", "percache") for tau in range(60, 100, 5)}
    assert names >= {f"pkb-stride{number}" for number in range(1, 6)}
    assert names >= {"pkb-kv25MB", "pkb-kv100MB", "pkb-blocks"}
    assert {one.writer for one in WHOLE} == {"quote", "nano", "135M", "0.5B"}


def test_what_is_compared_at_a_real_shape_reads_two_chunks() -> None:
    real = [policy for one in WHOLE if one.writer in ("135M", "0.5B") for policy in one.policies]
    assert {policy.settings["ask.k"] for policy in real} == {2}


def test_by_the_estimate_the_whole_takes_less_than_an_hour_of_two_cores_and_the_short_form_less_than_five_minutes(
    tmp_path: Path,
) -> None:
    rest = sum(job.seconds for job in experiments.others(options(tmp_path, data=tmp_path)))
    whole = sum(one.seconds(corpus) for one in WHOLE for corpus in one.corpora)
    assert (whole + rest) / 2 < HOUR
    assert sum(one.seconds(corpus) for one in QUICK for corpus in one.corpora) / 2 < FIVE_MINUTES


def test_corpora_whose_documents_are_not_there_are_named_and_the_others_wait(tmp_path: Path) -> None:
    waiting, absent = experiments.jobs(options(tmp_path))
    assert {job.name for job in waiting} >= {"time synthetic", "nano synthetic", "peers", "operations", "shares"}
    assert "public locomo" not in {job.name for job in waiting}
    assert absent["public locomo"] == absent["words paraphrase"] == "its documents are not here"


def test_only_what_was_named_waits_and_nothing_that_is_done(tmp_path: Path) -> None:
    found = options(tmp_path, only=["strides", "peers"])
    assert [job.name for job in experiments.jobs(found)[0]] == ["strides synthetic", "peers"]
    strides = next(one for one in WHOLE if one.name == "strides")
    for (works,) in [list(experiments.groups(strides, "synthetic", found))]:
        for one in works:
            unit_file(one, tmp_path).parent.mkdir(exist_ok=True)
            unit_file(one, tmp_path).touch()
    assert [job.name for job in experiments.jobs(found)[0]] == ["peers"]


@pytest.mark.slow
def test_policies_take_turns_and_stop_together_when_it_is_late(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strides = next(one for one in WHOLE if one.name == "strides")
    two = replace(strides, policies=[POLICIES["naive"], POLICIES["meancache"]], questions=5)
    (works,) = experiments.groups(two, "synthetic", options(tmp_path))
    asked = list[int]()

    def late() -> bool:
        asked.append(1)
        return len(asked) > 3

    together(works, tmp_path, late)
    turns = [line.split(".")[2] for line in capsys.readouterr().err.splitlines()]
    assert turns == ["meancache", "naive", "naive", "meancache", "meancache", "naive"]
    assert [len(unit_file(one, tmp_path).read_text("utf-8").splitlines()) for one in works] == [3, 3]
    said = experiments.shortened(options(tmp_path), [two], {"strides synthetic"})
    assert said == {"strides synthetic": "time was up: 3 of 5 questions"}
    together(works, tmp_path, lambda: False)
    assert [len(unit_file(one, tmp_path).read_text("utf-8").splitlines()) for one in works] == [3, 3]


@pytest.mark.slow
def test_where_it_is_late_from_the_beginning_there_is_no_unit(tmp_path: Path) -> None:
    strides = next(one for one in WHOLE if one.name == "strides")
    one, found = replace(strides, policies=[POLICIES["naive"]], questions=5), options(tmp_path)
    (works,) = experiments.groups(one, "synthetic", found)
    together(works, tmp_path, lambda: True)
    assert list((tmp_path / "lines").iterdir()) == []
    assert experiments.shortened(found, [one], ()) == {}
    said = experiments.shortened(found, [one], {"strides synthetic"})
    assert said == {"strides synthetic": "time was up: 0 of 5 questions"}
