"""Baselines are settings of the engine, and each lacks the parts its name says."""

from typing import get_args

import pytest
from msgspec.structs import asdict

from engine.llm.prompt import in_document_order
from engine.settings import Settings, keys, put
from store.jobs import Kind
from tests.bench.home import experiment, of_file
from tests.bench.policies import POLICIES, Policy, by_relevance


def settled(policy: Policy) -> dict[str, object]:
    """Return all settings under a policy, those of the engine where it says nothing."""
    settings = Settings(experiment=experiment(policy.settings))
    for key, value in of_file(policy.settings).items():
        settings = put(settings, key, value)
    return everything(settings)


def everything(settings: Settings) -> dict[str, object]:
    """Return the keys of a config file and the fields of the experiment."""
    return keys(settings) | {f"experiment.{key}": value for key, value in asdict(settings.experiment).items()}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
def test_every_setting_is_one_of_the_engine_and_reaches_it(policy: Policy) -> None:
    found = settled(policy)
    assert {key: found[key] for key in policy.settings} == dict(policy.settings)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
def test_a_policy_has_idle_runs_if_it_predicts_questions(policy: Policy) -> None:
    assert bool(policy.idle) == bool(policy.predict)
    assert set(policy.idle) <= set(get_args(Kind))


@pytest.mark.parametrize(
    ("name", "bank", "reuse"),
    [
        ("naive", False, "off"),
        ("ragcache", False, "prefix"),
        ("meancache", True, "off"),
        ("sleeptime", True, "off"),
        ("ragcache-meancache", True, "prefix"),
        ("ragcache-sleeptime", True, "prefix"),
        ("percache", True, "prefix"),
        ("pkb", True, "prefix"),
    ],
)
def test_each_has_the_caches_that_its_name_says(name: str, bank: bool, reuse: str) -> None:
    policy = POLICIES[name]
    assert policy.bank is bank
    assert settled(policy)["kv.reuse"] == reuse
    assert settled(policy)["experiment.semantic"] is bank


@pytest.mark.parametrize("name", ["meancache", "sleeptime", "ragcache-meancache", "ragcache-sleeptime", "percache"])
def test_the_baselines_with_a_bank_go_by_cosine_alone_at_the_papers_threshold(name: str) -> None:
    found = settled(POLICIES[name])
    assert found["bank.tau"] == 0.85
    assert {found[f"experiment.{part}"] for part in ("guard", "verify")} == {False}


def test_percache_has_the_settings_of_the_paper() -> None:
    found = settled(POLICIES["percache"])
    wanted = {"ask.k": 2, "experiment.score": "lfu", "experiment.stride": 5, "kv.bits": 0}
    assert {key: found[key] for key in wanted} == wanted
    assert POLICIES["percache"].order is by_relevance
    assert [name for name, policy in POLICIES.items() if policy.fixed_tau] == ["percache"]


def test_pkb_is_measured_as_it_is_installed() -> None:
    assert settled(POLICIES["pkb"]) == everything(Settings())
    assert POLICIES["pkb"].order is in_document_order
