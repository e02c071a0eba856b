"""`pkb doctor` goes on where other commands stop: a config, a ledger or a home that cannot be used is a finding."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Pkb
from tests.cli.test_failures import as_anybody


def checks(pkb: Pkb) -> dict[str, dict[str, Any]]:
    """Return what doctor finds, by name."""
    return {check["name"]: check for check in pkb("doctor", "--json").row["checks"]}


@pytest.mark.parametrize("text", ["[ask", "[ask]\nk = 99\n", "[aks]\nk = 5\n"])
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
    said = pkb("config", "set", "kv.bytes", "1").err
    assert said.startswith("pkb: other cache files already take ")
    assert said.endswith(", so no KV cache can be stored; try: pkb config set kv.bytes 4000000000\n")
    assert (checks(pkb)["cache"]["state"], pkb("doctor").code) == ("note", 0)
    assert pkb("config", "set", "kv.bytes", "4000000000").err == ""


def test_ingest_warns_of_a_home_that_doctor_refuses(fresh: Pkb, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("2024-06-03\n\nEve: the boat is in the shed.\nIda: good.\n")
    assert fresh("ingest", str(note), "--vectors", "later").err == ""
    home = tmp_path / "Dropbox" / "home"
    home.mkdir(parents=True, mode=0o700)
    ran = fresh("ingest", str(note), "--vectors", "later", env={"PKB_HOME": str(home)})
    refused = checks(fresh)["disk"]
    assert (refused["state"], ran.code) == ("bad", 0)
    assert ran.err == f"pkb: warning: {refused['found']}; try: {refused['next']}\n"
