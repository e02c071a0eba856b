"""Mail is delivered to `pkb ingest --watch`, questions are asked, and idle runs are killed; all in real processes."""

import random
import signal

import pytest

from tests.cli.conftest import Pkb
from tests.cli.idle_runs import Killed
from tests.cli.test_watch import process

_KILLS = 4


@pytest.mark.slow
def test_while_mail_comes_and_questions_are_asked_killed_idle_runs_lose_nothing(fresh: Pkb) -> None:
    home = Killed(fresh.folder, random.Random(2024))
    home.deliver(6)
    with process(fresh, "ingest", "--watch", str(home.mail), "--quiet", "1s") as watch:
        watch.until("embedded")
        assert home.run("ask", home.question())["answered"]
        for _ in range(_KILLS):
            home.deliver()
            watch.until("embedded")
            home.kill(4.0)
            assert home.run("ask", home.question())["answered"]
        assert watch.end(signal.SIGINT) == (130, "")
    home.settle()
