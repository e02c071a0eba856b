"""Plans contain what the papers vary; jobs run side by side, and missing ones are listed with a reason."""

import sys
from argparse import Namespace
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import time

import psutil
import pytest

from tests.bench import experiments, jobs
from tests.bench.harness import replay, unit_file
from tests.bench.jobs import Job
from tests.bench.plan import QUICK, TRACED, TRACINGS, WHOLE
from tests.bench.policies import POLICIES
from tests.bench.traces import share

NEVER, HOUR, FIVE_MINUTES = experiments.NEVER, 3600, 300


def options(tmp_path: Path, **changes: object) -> Namespace:
    """Return a command line without data."""
    found = {"scope": "whole", "out": tmp_path, "data": tmp_path / "none", "only": [], "minutes": NEVER}
    return Namespace(**(found | {"questions": sys.maxsize, "gptcache": "python", "until": NEVER} | changes))


def test_every_policy_is_traced_with_two_and_five_sources_and_pkb_without_each_part() -> None:
    assert set(TRACED) >= {f"{name}-{top}" for name in (*POLICIES, "pkb-blocks") for top in (2, 5)}
    assert set(TRACED) >= {f"pkb-no-{part}-5" for part in ("bank", "kv", "prediction")}
    assert {(name.rpartition("-")[2], policy.settings["ask.k"]) for name, policy in TRACED.items()} == {
        ("2", 2),
        ("5", 5),
    }


def test_the_whole_has_every_part_threshold_and_stride() -> None:
    names = {policy.name for one in WHOLE for policy in one.policies}
    assert names >= {f"pkb-no-{part}{end}" for part in ("bank", "kv", "prediction") for end in ("", "-tau80")}
    assert names >= {f"{name}-tau{tau}" for name in ("pkb", "percache") for tau in range(60, 100, 5)}
    assert names >= {f"pkb-stride{number}" for number in range(1, 6)}


def test_the_estimates_are_less_than_an_hour_of_two_cores_and_five_minutes(tmp_path: Path) -> None:
    rest = sum(job.seconds for job in experiments.others(options(tmp_path, data=tmp_path)))
    users = {"locomo": 6, "qmsum": 18, "enron-annotated": 1, "clinton-foia": 1, "paraphrase": 1}
    few = {"enron-annotated": 97, "clinton-foia": 253}  # which have no more questions
    for scope, limit in (("whole", HOUR), ("quick", FIVE_MINUTES)):
        tracing = TRACINGS[scope]
        counted = sum(
            tracing.seconds(few.get(one, tracing.questions) // users.get(one, 1)) * users.get(one, 1)
            for one in tracing.corpora
        )
        priced = sum(experiments.ROUND[shape] * rounds for shape, rounds in tracing.rounds.items())
        asked = sum(one.seconds(corpus) for one in {"whole": WHOLE, "quick": QUICK}[scope] for corpus in one.corpora)
        assert (asked + counted + priced + (rest if scope == "whole" else 0)) / 2 < limit


@pytest.mark.parametrize(
    ("asked", "most", "part"), [([97], 480, 97), ([1464], 480, 480), ([172, 97, 181], 240, 80), ([20, 200], 100, 80)]
)
def test_questions_are_shared_out_among_users(asked: list[int], most: int, part: int) -> None:
    assert share(asked, most) == part


def test_jobs_without_documents_are_missing_and_finished_ones_are_not_repeated(tmp_path: Path) -> None:
    found, missing = experiments.waiting(options(tmp_path))
    assert {job.name for job in found} >= {"curves 135M", "nano synthetic", "kv_reuse", "operations"}
    assert missing["words locomo"] == missing["words paraphrase"] == "its documents are not here"
    some = options(tmp_path, only=["strides", "kv_reuse"])
    assert [job.name for job in experiments.waiting(some)[0]] == ["strides synthetic", "kv_reuse"]
    strides = next(one for one in WHOLE if one.name == "strides")
    for unit in (unit for units in experiments.groups(strides, "synthetic", some) for unit in units):
        unit_file(unit, tmp_path).parent.mkdir(exist_ok=True)
        unit_file(unit, tmp_path).touch()
    assert [job.name for job in experiments.waiting(some)[0]] == ["kv_reuse"]


@pytest.mark.slow
def test_policies_take_turns_and_stop_together_at_the_deadline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    strides = next(one for one in WHOLE if one.name == "strides")
    two = replace(strides, policies=[POLICIES["naive"], POLICIES["meancache"]], questions=5)
    monkeypatch.setattr(experiments, "SCOPES", {"whole": [two]})
    (units,) = experiments.groups(two, "synthetic", options(tmp_path))
    replay(units, tmp_path, lambda: True)
    assert list((tmp_path / "lines").iterdir()) == []
    rounds = iter([False, False, False, True])
    replay(units, tmp_path, lambda: next(rounds))
    turns = [line.split(".")[2] for line in capsys.readouterr().err.splitlines()]
    assert turns == ["meancache", "naive", "naive", "meancache", "meancache", "naive"]
    said = experiments.shortened(options(tmp_path), {"strides synthetic"})
    assert said == {"strides synthetic": "time was up: 3 of 5 questions"}
    replay(units, tmp_path)
    assert [len(unit_file(one, tmp_path).read_text("utf-8").splitlines()) for one in units] == [3, 3]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put two modules beside the measurements: one writes its arguments, or fails; one sleeps."""
    folder = tmp_path / "tests" / "bench"
    folder.mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "said": "import os, sys\nthreads = os.environ['OMP_NUM_THREADS']\n"
        "open(sys.argv[1], 'w').write(' '.join([*sys.argv[2:], threads]))\nsys.exit('bad' in sys.argv)\n",
        "nap": "import time\ntime.sleep(60)\n",
    }.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    (tmp_path / "tests" / "__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_failed_jobs_are_told_from_others_and_a_limited_one_gets_its_share_of_the_time(modules: Path) -> None:
    words = {"good": ["said", "a"], "bad": ["said", "b", "bad"]}
    each = [Job(name, one, 1.0, limited=name == "good") for name, one in words.items()]
    end = time() + 1000
    assert {one.job.name: one.failed for one in jobs.run(each, [None], end)} == {"good": False, "bad": True}
    limit, at, threads = (modules / "a").read_text("utf-8").split()
    assert (limit, threads) == ("--until", "1")
    assert end - 501 < float(at) < end - 450
    assert list(jobs.run(each, [None], time())) == []


def test_jobs_that_nobody_waits_for_any_more_are_ended(modules: Path) -> None:
    each = [Job("nap", ["nap"], 9.0), Job("quick", ["said", "a"], 1.0)]
    with closing(jobs.run(each, [None, None], NEVER)) as found:
        assert next(found).job.name == "quick"
    assert not [one for one in psutil.Process().children() if "tests.bench.nap" in one.cmdline()]


def test_the_longest_job_is_first_but_of_limited_ones_the_shortest() -> None:
    sizes = (("a", 1.0), ("b", 9.0), ("c", 5.0), ("d", 3.0))
    each = [Job(name, [], seconds, limited=name in "bd") for name, seconds in sizes]
    assert [job.name for job in jobs.ordered(each, limited=False)] == ["b", "c", "d", "a"]
    assert [job.name for job in jobs.ordered(each, limited=True)] == ["c", "a", "d", "b"]
    assert 1 <= len(jobs.cores()) <= jobs.WORKERS
