"""The stored form of the KV cache: what `pkb doctor` says about it, and that answers do not depend on it."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Pkb
from tests.demo import NANO
from tests.effort import slow_only
from tests.engine.models.shapes import OTHERS, SMALL, make

QUESTION = "Who has the spare key to the workshop?"


def asked(pkb: Pkb, *words: str) -> dict[str, Any]:
    return pkb("ask", QUESTION, "--json", "-k", "2", *words).row


def kept(pkb: Pkb) -> dict[str, Any]:
    checks: list[dict[str, Any]] = pkb("doctor", "--json").row["checks"]
    (found,) = (check for check in checks if check["name"] == "kv")
    return found


@pytest.mark.slow
def test_eight_bits_have_their_own_answers_cached_or_not(pkb: Pkb) -> None:
    pkb("config", "set", "model.name", str(NANO))
    assert asked(pkb)["tier"] == "full"
    assert pkb("config", "set", "kv.bits", "8").out == "kv.bits = 8\n"
    cold = asked(pkb)
    assert (cold["tier"], cold["tokens"]["reused"]) == ("full", 0)  # neither the answer nor the tensors of before
    loaded, without = asked(pkb, "--cache=refresh"), asked(pkb, "--cache=off")
    assert loaded["tokens"]["reused"] > 0
    assert without["tokens"]["reused"] == 0
    assert loaded["answer"] == cold["answer"] == without["answer"]
    assert kept(pkb) == {
        "name": "kv", "state": "ok", "next": None,
        "found": f"{NANO}: KV cache stored per message, in 8 bits",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["gemma3", *slow_only("mamba")])
@pytest.mark.slow
def test_the_kv_cache_of_windowed_and_recurrent_models_is_reused(name: str, pkb: Pkb, tmp_path: Path) -> None:
    folder = make(tmp_path / name, OTHERS[name] | {"max_position_embeddings": 4096})
    pkb("config", "set", "model.name", str(folder))
    pkb("config", "set", "model.max_tokens", "4")
    cold, again = asked(pkb, "--cache=refresh"), asked(pkb, "--cache=refresh")
    assert (cold["tokens"]["reused"], again["tier"]) == (0, "prefix")
    assert again["tokens"]["reused"] > again["tokens"]["prompt"] / 2
    assert kept(pkb)["state"] == "ok"


def test_doctor_says_why_nothing_is_cached(pkb: Pkb, tmp_path: Path) -> None:
    pkb("config", "set", "model.name", str(NANO))
    pkb("config", "set", "kv.reuse", "off")
    assert (kept(pkb)["state"], kept(pkb)["next"]) == ("note", "pkb config set kv.reuse prefix")
    pkb("config", "set", "kv.reuse", "prefix")
    pkb("config", "set", "model.name", str(tmp_path / "gone"))
    assert kept(pkb)["state"] == "bad"
    odd = make(tmp_path / "odd", SMALL | {"model_type": "llama"})
    (odd / "config.json").write_text('{"model_type": "nobody_knows"}', "utf-8")
    pkb("config", "set", "model.name", str(odd))
    assert (kept(pkb)["state"], kept(pkb)["next"]) == ("note", "pkb model list")
