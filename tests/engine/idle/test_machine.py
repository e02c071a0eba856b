"""The state of the machine, read from real files and programs: present, missing, and failing."""

from pathlib import Path

import pytest

from engine.idle.scheduler import Machine, Sources, away_s, on_mains

NOW = 1_700_000_000.0


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    """Return a machine of which nothing is known."""
    return Sources(tmp_path / "supplies", str(tmp_path / "tools"), "linux")


def supply(sources: Sources, name: str, text: str) -> None:
    folder = sources.supplies / name
    folder.mkdir(parents=True)
    (folder / "uevent").write_text(text)


def tool(sources: Sources, name: str, script: str) -> None:
    path = Path(sources.tools, name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_machine_without_sources_is_on_mains_and_its_presence_unknown(sources: Sources) -> None:
    assert (on_mains(sources), away_s(sources, NOW)) == (True, None)


def test_supplies_are_read_where_the_kernel_has_them(sources: Sources) -> None:
    supply(sources, "AC", "POWER_SUPPLY_TYPE=Mains\nPOWER_SUPPLY_ONLINE=0\n")
    supply(sources, "BAT0", "POWER_SUPPLY_TYPE=Battery\nPOWER_SUPPLY_STATUS=Discharging\nPOWER_SUPPLY_CAPACITY=42\n")
    assert on_mains(sources) is False


def test_the_login_manager_is_asked_for_all_its_sessions(sources: Sources) -> None:
    said = f"Class=user\\nType=tty\\nIdleHint=no\\nIdleSinceHint={int((NOW - 25) * 1e6)}\\n"
    tool(
        sources,
        "loginctl",
        f'test "$1" = list-sessions && echo "  c2 1000 me seat0" && exit\nprintf "{said}"; echo $* >&2',
    )
    assert away_s(sources, NOW) == pytest.approx(25, abs=0.01)


@pytest.mark.parametrize("script", ["exit 1", "echo; exit 1", "kill $$", "printf '\\377'"])
def test_a_program_that_fails_reports_nothing(sources: Sources, script: str) -> None:
    tool(sources, "loginctl", script)
    assert away_s(sources, NOW) is None


def test_macos_is_asked_through_its_own_programs(sources: Sources) -> None:
    tool(sources, "pmset", "echo \"Now drawing from 'Battery Power'\"")
    tool(sources, "ioreg", "echo '\"HIDIdleTime\" = 5000000000'")
    mac = Sources(sources.supplies, sources.tools, "darwin")
    assert (on_mains(mac), away_s(mac, NOW)) == (False, 5.0)


def test_presence_ages_between_reports(sources: Sources) -> None:
    machine = Machine(sources)
    mains, load, away = machine.facts()
    assert (mains, away) == (True, None)
    assert load >= 0


def test_this_very_machine_can_be_asked() -> None:
    _, load, away = Machine().facts()
    assert load >= 0
    assert away is None or away >= 0
