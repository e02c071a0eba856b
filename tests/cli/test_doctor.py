"""`pkb doctor` goes on where other commands stop: a config, a ledger or a home that cannot be used is a finding."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.health import examine
from engine.models.runtime import wheel_library
from engine.session import Session
from engine.settings import KvSettings, ModelSettings, Settings
from tests.cli.conftest import Pkb
from tests.cli.test_failures import as_anybody
from tests.demo import environment
from tests.effort import examples
from tests.engine.models.shapes import KINDS, SMALL, add_adapter, make
from tests.engine.models.test_lookup import OLD, cached, model


def checks(pkb: Pkb) -> dict[str, dict[str, Any]]:
    """Return what doctor finds, by name."""
    return {check["name"]: check for check in pkb("doctor", "--json").row["checks"]}


@pytest.mark.parametrize("text", ["[ask", "[ask]\nk = 99\n"])
def test_a_config_that_cannot_be_is_a_finding_and_the_rest_is_looked_at(pkb: Pkb, text: str) -> None:
    sound = checks(pkb)
    (pkb.folder / "config.toml").write_text(text)
    ran = pkb("doctor")
    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith(f"BAD   config     {pkb.folder}/config.toml")
    assert "; try: pkb config" in ran.out.splitlines()[0]
    assert list(checks(pkb)) == ["config", *sound]


def test_a_ledger_that_is_none_is_a_finding(pkb: Pkb) -> None:
    for path in (pkb.folder / "home").glob("ledger.db*"):
        path.unlink()
    (pkb.folder / "home" / "ledger.db").write_text("not a ledger at all, only a file of that name\n" * 200)
    found = checks(pkb)
    assert (found["ledger"]["state"], found["home"]["state"]) == ("bad", "ok")
    assert "compute" in found


def test_a_home_that_may_not_be_written_is_a_finding(pkb: Pkb, closed: list[Path]) -> None:
    for folder in (pkb.folder / "home", pkb.folder / "cache"):
        for path in (*folder.rglob("*"), folder):
            path.chmod(0o500 if path.is_dir() else 0o400)
            closed.append(path)
    ran = as_anybody(pkb.folder, "doctor")
    assert (ran.returncode, ran.stderr) == (1, "")
    bad = [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("BAD ")]
    assert bad == ["ledger", "home", "compute"]
    assert "try: pkb doctor" not in ran.stdout


def test_a_cache_without_room_for_tensors_names_what_the_rest_takes(pkb: Pkb) -> None:
    others = pkb("stats", "--json").row["kv"]["other_bytes"]
    assert others > 0
    assert checks(pkb)["cache"]["state"] == "ok"
    assert pkb("config", "set", "kv.bytes", "1").code == 0
    found = checks(pkb)["cache"]
    assert found["found"].endswith("no KV cache can be stored")
    assert (found["next"], found["state"], pkb("doctor").code) == ("pkb config set kv.bytes 4000000000", "note", 0)
    assert pkb("config", "set", "kv.bytes", "4000000000").err == ""


@pytest.fixture
def note(tmp_path: Path) -> str:
    """Return the path of a small transcript."""
    path = tmp_path / "note.txt"
    path.write_text("2024-06-03\n\nEve: the boat is in the shed.\nIda: good.\n")
    return str(path)


def test_ingest_warns_of_a_home_that_others_may_read(fresh: Pkb, note: str) -> None:
    assert fresh("ingest", note, "--vectors", "later").err == ""
    open_home(fresh)
    ran = fresh("ingest", note, "--vectors", "later")
    found = checks(fresh)["home"]
    assert (ran.code, ran.err) == (0, f"pkb: warning: {found['found']}; try: {found['next']}\n")


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_home_is_created_in_a_synced_folder_unless_a_setting_accepts_it(
    fresh: Pkb, tmp_path: Path, note: str
) -> None:
    home = tmp_path / "OneDrive - Firm" / "home"
    ran = fresh("ingest", note, "--vectors", "later", env={"PKB_HOME": str(home)})
    refused = checks(fresh)["disk"]
    assert (ran.code, ran.err) == (1, f"pkb: {refused['found']}; try: {refused['next']}\n")
    assert ran.err == (
        f"pkb: {home} is in a synced folder (OneDrive - Firm), where syncing can damage it; "
        "try: set PKB_HOME to a local folder, or accept the risk: pkb config set home.place any\n"
    )
    assert (refused["state"], home.parent.exists()) == ("bad", False)
    assert fresh("config", "set", "home.place", "any").code == 0
    assert fresh("ingest", note, "--vectors", "later").code == 0
    assert checks(fresh)["disk"]["state"] == "note"


def test_a_home_in_a_synced_folder_answers_and_is_not_written(pkb: Pkb, tmp_path: Path, note: str) -> None:
    home = tmp_path / "Dropbox" / "home"
    home.parent.mkdir()
    (pkb.folder / "home").rename(home)
    question = "Who keeps the spare key to the workshop?"
    before = contents(home)
    asked = pkb("ask", question, "--json", env={"PKB_HOME": str(home)})
    assert (asked.code, asked.row["answered"]) == (0, True)
    assert asked.err.startswith(f"pkb: {home} is in a synced folder (Dropbox)")
    assert asked.err.endswith("nothing is cached or counted; try: pkb doctor\n")
    assert pkb("search", "workshop").code == 0
    assert pkb("doctor", "--data").code == 0
    assert pkb("doctor").code == 1
    step = str(checks(pkb)["disk"]["next"])
    writing = (
        ["ingest", note],
        ["idle"],
        ["wrong"],
        ["doctor", "--data", "--repair"],
        ["forget", "--from", "Ann", "--yes"],
        ["serve"],
        ["serve", "--http"],
        ["serve", "--share", "127.0.0.1:7400"],
        ["peer", "id"],
    )
    ran = {" ".join(words): pkb(*words, env={"PKB_DAEMON": "auto"}) for words in writing}
    assert {name: one.code for name, one in ran.items() if one.code != 1 or not one.err.endswith(f"{step}\n")} == {}
    assert contents(home) == before


def open_home(pkb: Pkb) -> None:
    """Let others read the home."""
    (pkb.folder / "home").chmod(0o755)


def fill_cache(pkb: Pkb) -> None:
    """Put more bytes into the cache, besides the KV cache, than the default allows; they take no room on the disk."""
    with (pkb.folder / "cache" / "other").open("wb") as file:
        file.truncate(KvSettings().bytes + 10**9)


def download_model(pkb: Pkb) -> None:
    """Put a language model into the hub's cache, and select none."""
    cached(os.environ | {"HF_HUB_CACHE": str(pkb.folder / "hub")}, "org/name", OLD)


def turn_off_kv(pkb: Pkb) -> None:
    """Select a language model, and turn its KV cache off."""
    download_model(pkb)
    pkb("config", "set", "model.name", "org/name")
    pkb("config", "set", "kv.reuse", "off")


@pytest.mark.parametrize(
    ("spoil", "name"), [(open_home, "home"), (fill_cache, "cache"), (download_model, "model"), (turn_off_kv, "kv")]
)
def test_what_doctor_advises_helps(
    pkb: Pkb, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Pkb], None], name: str
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(pkb.folder / "hub"))
    spoil(pkb)
    before = checks(pkb)[name]
    assert before["state"] != "ok"
    program, *words = shlex.split(before["next"])
    assert (program, pkb(*words).code) == ("pkb", 0)
    assert checks(pkb)[name]["next"] != before["next"]


class Hides:
    """An importer that knows of no package of some names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, None) if name in self.names else None


def test_without_mlx_doctor_says_how_to_get_it_and_models_say_so_too(
    pkb: Pkb, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Hides("mlx"), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "mlx", raising=False)
    found = checks(pkb)["compute"]
    assert (found["state"], found["found"]) == ("note", "MLX has no backend here, so no language model can run")
    assert found["next"]
    pkb("config", "set", "model.name", str(model(tmp_path / "model")))
    assert checks(pkb)["compute"] == found | {"state": "bad"}


@pytest.mark.skipif(not wheel_library(), reason="no OpenBLAS is installed, or none needed")
@pytest.mark.slow
def test_doctor_advises_no_blas_where_one_is_loaded(pkb: Pkb) -> None:
    command = [sys.executable, "-m", "cli.app", "doctor", "--json"]  # in a process where nothing has loaded MLX yet
    ran = subprocess.run(command, env=environment(pkb.folder), capture_output=True, check=False)
    found = {one["name"]: one for one in json.loads(ran.stdout)["checks"]}["compute"]
    assert ("OpenBLAS" in found["found"], found["state"], found["next"]) == (True, "ok", None)


def test_threads_that_are_no_number_are_a_finding(pkb: Pkb) -> None:
    found = checks(pkb)
    with_words = pkb("doctor", "--json", env={"PKB_THREADS": "two"}).row["checks"]
    (wrong,) = [check for check in with_words if check["name"] == "threads"]
    assert (wrong["state"], wrong["next"]) == ("bad", "unset PKB_THREADS")
    assert list(dict.fromkeys(check["name"] for check in with_words)) == ["threads", *found]


def test_a_small_model_is_said_to_be_one_and_its_adapter_is_named(tmp_path: Path) -> None:
    folder = make(tmp_path / "model", KINDS["llama"])
    settings = Settings(model=ModelSettings(name=str(folder)))
    for adapted in (False, True):
        if adapted:
            add_adapter(folder)
        (found,) = [one for one in examine(Session(environment(tmp_path)), settings, 1) if one.name == "model"]
        assert found.state == "note"
        assert ("with a role adapter" in found.found, "often wrong" in found.found) == (adapted, not adapted)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-1, 1 << 40), st.floats(), st.text(max_size=5), st.just([]))


@pytest.mark.slow
@examples(20)
@given(config=st.dictionaries(st.sampled_from([*SMALL, "quantization", "torch_dtype"]), VALUES), blocks=st.booleans())
def test_whatever_a_models_config_says_doctor_ends(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any], blocks: bool
) -> None:
    folder = tmp_path_factory.mktemp("model")
    model(folder / "model", SMALL | {"model_type": "llama"} | config)
    settings = Settings(
        model=ModelSettings(name=str(folder / "model")), kv=KvSettings(reuse="blocks" if blocks else "prefix")
    )
    found = list(examine(Session(environment(folder)), settings, 1))
    names = [check.name for check in found]
    assert names[names.index("model") + 1 :] == ["kv"]
