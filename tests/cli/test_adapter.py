"""`pkb adapter`: adding, using and removing LoRA adapters, and what answers, caches and checks know of them."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from engine.models.adapters import CONFIG, WEIGHTS
from tests.cli.conftest import Pkb
from tests.cli.test_ask_model import PICNIC
from tests.cli.test_json import compare
from tests.demo import NANO
from tests.engine.models.adapter_kit import make_adapter
from tests.engine.models.shapes import KINDS, make
from tests.engine.models.test_peft_adapters import saved_by_peft

WHEN = "When is the picnic?"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with adapters of nano: a strong one, a weak one that changes no word, and an activated one."""
    folder = tmp_path_factory.mktemp("saved")
    make_adapter(NANO, folder / "strong", scale=3.0)
    make_adapter(NANO, folder / "weak", scale=1e-6, model="somebody/other")
    make_adapter(NANO, folder / "own", scale=1e-6, activated=True)
    return folder


@pytest.fixture
def words(fresh: Pkb, tmp_path: Path) -> Pkb:
    """Return pkb that has read one mail and answers with nano."""
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail" / "picnic.eml").write_text(PICNIC, "utf-8")
    fresh("ingest", str(tmp_path / "mail"), "--vectors", "later")
    fresh("config", "set", "model.name", str(NANO))
    return fresh


def test_an_adapter_is_copied_privately_and_listed(words: Pkb, saved: Path) -> None:
    row = words("adapter", "add", str(saved / "strong"), "--name", "mail", "--json").row
    assert (row["name"], row["rank"], row["warning"]) == ("mail", 4, None)
    kept = words.folder / "home" / "adapters" / "mail"
    files = [path for path in kept.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"adapter.json", CONFIG, WEIGHTS}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    (listed,) = words("adapter", "list", "--json").row["adapters"]
    assert (listed["name"], listed["kind"], listed["tasks"], listed["problem"]) == ("mail", "ordinary", [], None)
    assert listed["digest"] == row["digest"]
    assert "mail  ordinary   rank 4" in words("adapter", "list").out


def test_answers_with_and_without_it_have_caches_of_their_own(words: Pkb, saved: Path) -> None:
    plain = words("ask", WHEN, "--json").row
    words("adapter", "add", str(saved / "weak"))
    assert words("adapter", "use", "weak").out == "answer: weak\n"
    first = words("ask", WHEN, "--json").row
    assert (first["answer"], first["adapter"], first["tier"]) == (plain["answer"], "weak", "full")
    assert first["tokens"]["reused"] == 0
    assert words("ask", WHEN, "--json").row["tier"] == "exact"
    assert words("ask", WHEN, "--json", "--cache=refresh").row["tokens"]["reused"] > 0
    words("adapter", "use", "none")
    again = words("ask", WHEN, "--json").row
    assert (again["tier"], again["adapter"]) == ("exact", None)
    assert words("ask", WHEN, "--json", "--cache=refresh").row["answer"] == plain["answer"]


def test_an_activated_one_loads_the_tensors_of_the_base(words: Pkb, saved: Path) -> None:
    words("ask", WHEN)
    words("adapter", "add", str(saved / "own"))
    words("adapter", "use", "own")
    row = words("ask", WHEN, "--json").row
    assert (row["tier"], row["adapter"]) == ("prefix", "own")
    assert row["tokens"]["computed"] < row["tokens"]["reused"]


def test_one_of_peft_is_used_like_any_other(words: Pkb, tmp_path: Path) -> None:
    saved_by_peft(NANO, tmp_path / "peft", r=4, lora_alpha=1e-6)
    row = words("adapter", "add", str(tmp_path / "peft"), "--name", "mail", "--json").row
    assert (row["rank"], "somebody/else" in row["warning"]) == (4, True)
    words("adapter", "use", "mail")
    assert words("ask", WHEN, "--json").row["adapter"] == "mail"


def test_a_strong_one_is_heard(words: Pkb, saved: Path) -> None:
    words("adapter", "add", str(saved / "strong"))
    words("adapter", "use", "strong")
    assert words("ask", WHEN, "--json").row["answer"] != "Friday at 6pm"


def test_a_collection_may_have_its_own(words: Pkb, saved: Path) -> None:
    words("adapter", "add", str(saved / "weak"))
    assert words("adapter", "use", "weak", "--in", "nowhere").code == 2
    assert words("adapter", "use", "weak", "--in", "mail").out == "in mail: weak\n"
    assert words("ask", WHEN, "--json").row["adapter"] is None
    assert words("ask", WHEN, "--in", "mail", "--json").row["adapter"] == "weak"
    assert words("ask", WHEN, "--in", "mail", "--json").row["tier"] == "exact"
    assert words("adapter", "list", "--json").row["adapters"][0]["collections"] == ["mail"]
    words("adapter", "use", "none", "--in", "mail")
    assert words("ask", WHEN, "--in", "mail", "--json").row["adapter"] is None


def test_tasks_are_chosen_one_by_one(words: Pkb, saved: Path) -> None:
    words("adapter", "add", str(saved / "weak"))
    row = words("adapter", "use", "weak", "--role", "predict", "--json").row
    assert (row["answer"], row["predict"], row["collections"]) == ("", "weak", "")
    assert words("ask", WHEN, "--json").row["adapter"] is None
    assert words("adapter", "use", "weak", "--role", "cook").code == 2
    assert words("adapter", "use", "weak", "--role", "answer", "--in", "mail").code == 2
    assert words("idle", "--force", "--budget", "20s").code == 0


def test_the_steps_of_an_answer_name_it(words: Pkb, saved: Path) -> None:
    words("adapter", "add", str(saved / "weak"))
    words("adapter", "use", "weak")
    steps = {step["name"]: step["note"] for step in words("ask", WHEN, "--json", "--explain").row["explain"]}
    assert steps["model"] == "with adapter weak"
    assert words("stats", "--json").row["adapters"] == {"answer": "weak", "predict": None}
    assert "adapter weak" in words("stats").out


def test_a_damaged_or_missing_one_is_said_and_the_base_answers(words: Pkb, saved: Path) -> None:
    words("adapter", "add", str(saved / "weak"))
    words("adapter", "use", "weak")
    weights = words.folder / "home" / "adapters" / "weak" / "1" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-8])
    ran = words("ask", WHEN, "--json")
    assert (ran.row["answer"], ran.row["adapter"]) == ("Friday at 6pm", None)
    assert "adapter weak is damaged" in ran.err
    assert "the base model answers" in ran.err
    (check,) = [row for row in words("doctor", "--json").row["checks"] if row["name"] == "adapter"]
    assert check["state"] == "bad"
    shutil.rmtree(words.folder / "home" / "adapters")
    assert "there is no adapter 'weak'" in words("ask", WHEN).err


def test_one_of_another_model_is_refused_or_said(words: Pkb, saved: Path, tmp_path: Path) -> None:
    other = make(tmp_path / "llama", KINDS["llama"])
    make_adapter(other, tmp_path / "llama-adapter")
    ran = words("adapter", "add", str(tmp_path / "llama-adapter"))
    assert ran.code == 1
    assert "does not fit the model" in ran.err
    assert words("adapter", "list", "--json").row["adapters"] == []
    words("adapter", "add", str(saved / "weak"))
    words("adapter", "use", "weak")
    words("config", "set", "model.name", str(other))
    assert "another model" in words("ask", WHEN).err
    assert words("adapter", "use", "weak").code == 2


def test_names_are_names(words: Pkb, saved: Path) -> None:
    source = str(saved / "weak")
    for name in ("../weak", "..", "none", "a/b", "", ".hidden", "with space", "n" * 65, "CON"):
        assert words("adapter", "add", source, "--name", name).code == 2
    assert words("adapter", "add", source, "--name", "Mail").code == 0
    assert words("adapter", "add", source, "--name", "mail").code == 2
    for command in ("use", "rm"):
        assert words("adapter", command, "../../home").code == 2
    assert [one.name for one in (words.folder / "home" / "adapters").iterdir()] == ["Mail"]


def test_what_is_no_adapter_leaves_nothing_behind(words: Pkb, saved: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd"
    shutil.copytree(saved / "weak", odd)
    (odd / CONFIG).write_text(json.dumps({"fine_tune_type": "dora"}), "utf-8")
    assert "is a DoRA adapter" in words("adapter", "add", str(odd)).err
    (odd / CONFIG).unlink()
    os.mkfifo(odd / CONFIG)
    assert words("adapter", "add", str(odd)).code == 2
    assert words("adapter", "add", str(tmp_path / "gone")).code == 2
    assert not any((words.folder / "home" / "adapters").glob("*"))


def test_numbers_that_are_none_are_refused(words: Pkb, saved: Path, tmp_path: Path) -> None:
    import mlx.core as mx

    odd = tmp_path / "odd"
    shutil.copytree(saved / "weak", odd)
    factors = mx.load(str(odd / WEIGHTS))
    assert isinstance(factors, dict)
    first = min(factors)
    mx.save_safetensors(str(odd / WEIGHTS), {**factors, first: factors[first] * float("nan")})
    assert "values that are not numbers" in words("adapter", "add", str(odd)).err


def test_quotes_and_served_models_have_none(fresh: Pkb, saved: Path) -> None:
    ran = fresh("adapter", "add", str(saved / "weak"))
    assert ran.code == 2
    assert "no local model is in use" in ran.err


def test_another_base_in_its_config_is_a_warning(words: Pkb, saved: Path) -> None:
    ran = words("adapter", "add", str(saved / "weak"))
    assert "trained on somebody/other; the model in use is" in ran.err


def test_removing_takes_it_off(words: Pkb, saved: Path) -> None:
    words("adapter", "add", str(saved / "weak"))
    words("adapter", "use", "weak")
    words("adapter", "use", "weak", "--in", "mail")
    assert words("adapter", "rm", "weak").code == 2
    row = words("adapter", "rm", "weak", "--yes", "--json").row
    assert (row["name"], row["was_in_use"]) == ("weak", True)
    assert row["bytes"] > 1000
    ran = words("ask", WHEN, "--in", "mail", "--json")
    assert (ran.row["adapter"], ran.err) == (None, "")
    assert not any((words.folder / "home" / "adapters").glob("*"))


def test_removing_one_removes_the_kv_that_it_computed_and_no_other(words: Pkb, saved: Path) -> None:
    words("ask", WHEN)
    others = {path.name for path in (words.folder / "cache" / "kv").glob("*.safetensors")}
    words("adapter", "add", str(saved / "weak"))
    words("adapter", "use", "weak")
    assert words("ask", WHEN, "--json").row["tokens"]["reused"] == 0
    own = [path for path in (words.folder / "cache" / "kv").glob("*.safetensors") if path.name not in others]
    size = sum(path.stat().st_size for path in own)
    assert size > 0
    alone = sum(path.stat().st_size for path in (saved / "weak").iterdir())
    assert words("adapter", "rm", "weak", "--yes", "--json").row["bytes"] > alone + size
    assert {path.name for path in (words.folder / "cache" / "kv").glob("*.safetensors")} == others
    assert words("ask", WHEN, "--json", "--cache=refresh").row["tokens"]["reused"] > 0
    assert words("doctor", "--data").code == 0


def test_what_adapter_prints_is_as_documented(words: Pkb, saved: Path) -> None:
    compare("pkb adapter add", [words("adapter", "add", str(saved / "weak"), "--json").row], every=False)
    compare("pkb adapter use", [words("adapter", "use", "weak", "--json").row])
    compare("pkb adapter list", [words("adapter", "list", "--json").row], every=False)
    compare("pkb adapter rm", [words("adapter", "rm", "weak", "--yes", "--json").row])
