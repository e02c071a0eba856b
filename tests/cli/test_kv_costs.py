"""`pkb kv calibrate`, and where its figures are shown."""

import pytest

from tests.cli.conftest import Pkb
from tests.demo import NANO


def test_without_a_model_of_this_machine_calibrating_says_what_to_type(pkb: Pkb) -> None:
    ran = pkb("kv", "calibrate")
    assert ran.code == 12
    assert "pkb model list" in ran.err


@pytest.mark.parametrize("flag", [(), ("--json",)])
def test_calibrating_the_model_in_use_shows_its_speeds(pkb: Pkb, flag: tuple[str, ...]) -> None:
    pkb("config", "set", "model.name", str(NANO))
    ran = pkb("kv", "calibrate", "--longest", "128", *flag)
    assert ran.code == 0
    assert "tokens/s" in ran.out
    assert "MB/s" in next(row["found"] for row in pkb("doctor", "--json").row["checks"] if row["name"] == "kv costs")
