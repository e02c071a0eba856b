"""Reports of power, load and presence are parsed, and tell whether the machine may be used."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.idle.scheduler import (
    averaged,
    has_mains,
    hid_idle,
    others,
    parse_pmset,
    session_idle,
    supply,
    why_not,
)

MOUSE = supply("POWER_SUPPLY_TYPE=Battery\nPOWER_SUPPLY_SCOPE=Device\nPOWER_SUPPLY_STATUS=Discharging\n")
AC = "DEVTYPE=power_supply\nPOWER_SUPPLY_NAME=AC\nPOWER_SUPPLY_TYPE=Mains\nPOWER_SUPPLY_ONLINE={}\n"
BATTERY = "POWER_SUPPLY_TYPE=Battery\nPOWER_SUPPLY_PRESENT=1\nPOWER_SUPPLY_STATUS={}\nPOWER_SUPPLY_CAPACITY={}\n"
ON_AC = """Now drawing from 'AC Power'
 -InternalBattery-0 (id=21233763)\t{}%; charging; 0:40 remaining present: true
"""
ON_BATTERY = """Now drawing from 'Battery Power'
 -InternalBattery-0 (id=21233763)\t{}%; discharging; 5:12 remaining present: true
"""
HID = """  | | {
  | |   "IOClass" = "IOHIDSystem"
  | |   "HIDIdleTime" = 93541208375
  | |   "HIDIdleTimeDelta" = 12
"""
NOW = 1_700_000_000.0


def session(kind: str, hint: str, ago: float | None, group: str = "user") -> str:
    since = 0 if ago is None else int((NOW - ago) * 1e6)
    return f"Type={kind}\nClass={group}\nIdleHint={hint}\nIdleSinceHint={since}\n"


def test_an_unused_machine_on_mains_may_be_used() -> None:
    assert why_not(load=0.1, away_s=3600, asked_s=3600, mains=True) is None


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (partial(why_not, load=0, away_s=3600, mains=False), "on battery"),
        (partial(why_not, load=0, away_s=10, mains=True), "the machine is in use"),
        (partial(why_not, load=0, asked_s=10, mains=True), "a question was just asked"),
        (partial(why_not, load=1.25, away_s=3600, mains=True), "the machine is busy: load 1.2 per core"),
    ],
)
def test_each_reason_is_given(asked: Callable[[], str | None], reason: str) -> None:
    assert asked() == reason


def test_unknown_presence_prevents_nothing() -> None:
    assert why_not(load=0, mains=True) is None


def test_a_question_in_the_future_prevents_nothing() -> None:
    assert why_not(load=0, asked_s=-86_400.0, mains=True) is None


def test_no_battery_counts_as_mains() -> None:
    assert has_mains([])
    assert has_mains([supply(AC.format(0))])


def test_the_battery_of_a_mouse_is_not_the_machines() -> None:
    assert has_mains([MOUSE]) is True
    assert has_mains([MOUSE, supply(AC.format(1)), supply(BATTERY.format("Full", 90))]) is True


@pytest.mark.parametrize(
    ("online", "status", "mains"),
    [(1, "Charging", True), (1, "Discharging", True), (0, "Discharging", False), (0, "Unknown", False)],
)
def test_a_cable_tells_whether_the_battery_is_in_use(online: int, status: str, mains: bool) -> None:
    supplies = [supply(AC.format(online)), supply(BATTERY.format(status, 57))]
    assert has_mains(supplies) == mains


def test_any_of_several_cables_is_enough() -> None:
    usb = supply("POWER_SUPPLY_TYPE=USB\nPOWER_SUPPLY_ONLINE=1\n")
    assert has_mains([supply(AC.format(0)), usb, supply(BATTERY.format("Charging", 5))]) is True


@pytest.mark.parametrize(("status", "mains"), [("Not charging", True), ("Full", True), ("Discharging", False)])
def test_without_a_cable_the_battery_tells(status: str, mains: bool) -> None:
    assert has_mains([supply(BATTERY.format(status, 80))]) == mains


def test_a_bay_without_its_battery_is_no_battery() -> None:
    assert has_mains([{"TYPE": "Battery", "PRESENT": "0", "STATUS": "Unknown"}]) is True


def test_the_power_state_of_macos_is_parsed() -> None:
    assert parse_pmset(ON_AC.format(85)) is True
    assert parse_pmset(ON_BATTERY.format(7)) is False
    assert parse_pmset("Now drawing from 'AC Power'\n")
    assert parse_pmset("")
    assert parse_pmset("Now drawing from 'UPS Power'\n") is False


def test_the_idle_time_of_macos_is_parsed() -> None:
    assert hid_idle(HID) == pytest.approx(93.541208375)
    assert hid_idle("nothing of it") is None


def test_a_terminal_is_idle_since_its_last_key_whatever_its_hint() -> None:
    assert session_idle(session("tty", "no", 12), NOW) == pytest.approx(12, abs=0.01)


def test_a_desktop_is_in_use_until_it_reports_idle() -> None:
    assert session_idle(session("wayland", "no", 500), NOW) == 0
    assert session_idle(session("wayland", "yes", 500), NOW) == pytest.approx(500, abs=0.01)


def test_a_desktop_that_never_reports_is_unknown() -> None:
    assert session_idle(session("x11", "no", None), NOW) is None


def test_a_login_screen_is_not_in_use() -> None:
    assert session_idle(session("wayland", "no", 5, group="greeter"), NOW) is None
    assert session_idle(session("tty", "no", 5, group="user-early"), NOW) is not None


def test_of_many_sessions_the_latest_counts() -> None:
    said = "\n".join((session("tty", "no", 900), session("x11", "no", None), session("tty", "yes", 300)))
    assert session_idle(said, NOW) == pytest.approx(300, abs=0.01)


def test_the_load_of_others_is_without_our_own_and_for_each_core() -> None:
    assert (others(3.0, 1.0, 4), others(0.5, 1.0, 4), others(1.0, 0.0, 0)) == (0.5, 0.0, 1.0)


def test_our_own_load_is_averaged_like_the_systems() -> None:
    """Two cores' worth of work for a minute: of an average that is one e-th old, the rest is ours."""
    own = 0.0
    for _ in range(60):
        own = averaged(own, 2.0, 1.0)
    assert own == pytest.approx(2 * (1 - math.exp(-1)))
    assert averaged(own, 0.0, 600.0) == pytest.approx(0, abs=1e-3)
    assert averaged(own, 5.0, 0.0) == own


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    for found in (parse_pmset(text), has_mains([supply(text)]), parse_pmset(f"Now drawing from '{text}")):
        assert found in (True, False)
    for seconds in (hid_idle(text), session_idle(text, NOW)):
        assert seconds is None or seconds >= 0


NAMES = st.sampled_from(["TYPE", "SCOPE", "ONLINE", "STATUS", "CAPACITY", "PRESENT", "Class", "Type", "IdleSinceHint"])
VALUES = st.one_of(st.text(max_size=5), st.integers().map(str), st.sampled_from(["Battery", "Mains", "Full", "tty"]))


@given(st.lists(st.dictionaries(NAMES, VALUES), max_size=4))
def test_any_properties_are_parsed(blocks: list[dict[str, str]]) -> None:
    texts = ["\n".join(f"{name}={value}" for name, value in block.items()) for block in blocks]
    found, away = has_mains([supply(text) for text in texts]), session_idle("\n\n".join(texts), NOW)
    assert found in (True, False)
    assert away is None or away >= 0


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), st.from_regex(r"[!-~]{0,9}", fullmatch=True)))
def test_properties_are_read_as_they_were_written(properties: dict[str, str]) -> None:
    text = "".join(f"POWER_SUPPLY_{name}={value}\n" for name, value in properties.items())
    expected: dict[str, Any] = dict(properties)
    assert supply(text) == expected
