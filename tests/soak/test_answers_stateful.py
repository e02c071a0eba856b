"""The answer cache over thousands of steps in any order, and while processes that change it are killed.

Prints what it saw: run it with `pytest -m soak -s`.
"""

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings

from engine.session import Session
from engine.types import AskOptions
from store.integrity import examine
from tests.engine.ask.small_home import SmallHome, anew, ask, ingest
from tests.engine.ask.test_answers_stateful import MANNERS, QUESTIONS, TEXTS, BankLife, Life

pytestmark = pytest.mark.soak

_KILLS, _SEED, _LONGEST_S = 100, 2026, 3.0


class LongBankLife(BankLife):
    """A machine of its own: hypothesis makes one test of a class, whose settings would be those of the short form."""


TestLongBankLife = LongBankLife.TestCase
TestLongBankLife.settings = settings(
    max_examples=150, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)


def live(folder: str, seed: int) -> None:
    """Live until somebody kills this process, which says what it is about to do."""
    life, chance = Life(Path(folder)), Random(seed)
    while True:
        fact = chance.choice(("ask", "ask", "ask", "change", "ready", "doubt"))
        print(fact, flush=True)
        text, options = chance.choice(QUESTIONS), chance.choice(MANNERS)
        if fact == "ask":
            life.ask(text, options)
        elif fact == "change":
            life.change(chance.choice("abc"), chance.choice((None, *TEXTS)))
        elif fact == "ready":
            life.ready(text, options, decode=chance.random() < 0.5)
        else:
            life.reject()


def killed(folder: Path, seed: int, seconds: float) -> str:
    """Have a process live there and kill it; returns what it was doing."""
    code = f"from tests.soak.test_answers_stateful import live; live({str(folder)!r}, {seed})"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        said: list[str] = [process.stdout.readline()]  # it has begun
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        said += process.stdout
    assert process.returncode == -signal.SIGKILL
    return said[-1].strip()


def test_nothing_stale_is_served_after_a_hundred_kills(tmp_path: Path) -> None:
    chance, doing, tiers = Random(_SEED), Counter[str](), Counter[str]()
    home = SmallHome(tmp_path)
    for seed in range(_KILLS):
        doing[killed(tmp_path, seed, chance.uniform(0.01, _LONGEST_S))] += 1
        session = home.open()
        tiers.update(ask_all(session))
        ingest(session, home.mail)
        tiers.update(ask_all(session))
        found = examine(session.home, session.ledger, session.tables, read_data=True)
        assert [one for one in found if one.wrong and one.name != "privacy"] == []
        session.ledger.close()
    print(f"\n{_KILLS} kills while {dict(doing)}; {tiers.total()} questions afterwards: {dict(tiers)}")
    assert tiers["exact"] + tiers["semantic"] > _KILLS


def ask_all(session: Session) -> list[str]:
    """Ask every question, and hold its answer against what is made anew; returns the tiers."""
    replies = [ask(session, text).reply for text in QUESTIONS]
    assert [reply.text for reply in replies] == [anew(session, text, AskOptions()).reply.text for text in QUESTIONS]
    return [reply.tier for reply in replies]
