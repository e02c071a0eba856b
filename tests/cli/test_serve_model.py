"""One language model in memory: whoever has it lets go when another process waits, and idle work lets questions by."""

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from threading import Thread

import pytest

from engine.app import Pkb
from engine.llm.resident import ResidentModel
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.serve.process import request
from engine.serve.server import Cancelled, QueuedRequest, RequestQueue
from engine.session import session
from engine.types import AskOptions
from store.errors import Locked
from store.jobs import IdleRequest
from store.locks import Lease
from tests.cli.serving import Served, ask_through_kills, served, wait
from tests.demo import NANO, WORDS, copied, environment


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Iterator[Served]:
    """Yield a home that answers in words, in which a resident process is wanted."""
    folder = copied(made, tmp_path / "demo")
    with served(folder, environment(folder)) as own:
        own.run("config", "set", "model.name", str(NANO))
        yield own


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Return the small model."""
    return load(NANO, name="nano", cache=tmp_path_factory.mktemp("cache"), memory_share=0.9, threads=1)


def answer(home: Served, question: str, *flags: str) -> str:
    found: str = json.loads(home.run("ask", question, "--json", "--cache=off", *flags).stdout)["answer"]
    return found


def test_a_lease_has_one_holder_and_ends_with_it(tmp_path: Path) -> None:
    one, other = (Lease(tmp_path / "locks" / "model.lock") for _ in range(2))
    assert (one.is_taken(), one.acquire(), one.acquire(), other.acquire(), other.is_taken()) == (
        False,
        True,
        True,
        False,
        True,
    )
    (tmp_path / "locks" / "model.lock").unlink()
    assert one.lost
    one.release()
    del other
    assert Lease(tmp_path / "locks" / "model.lock").acquire()


def test_a_lease_that_is_handed_on_is_held_by_who_has_it(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "model.lock")
    assert lease.acquire()
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[lease.inheritable()])
    lease.release()
    assert Lease(tmp_path / "model.lock").is_taken()
    child.communicate()
    assert not Lease(tmp_path / "model.lock").is_taken()


def test_a_model_is_loaded_once_another_one_is_let_go_of(nano: Mlx, tmp_path: Path) -> None:
    first, second = ResidentModel(tmp_path), ResidentModel(tmp_path)
    assert first.get("a", lambda: nano).name == "nano"
    found = list[str]()
    waiting = Thread(target=lambda: found.append(second.get("a", lambda: nano).name), daemon=True)
    waiting.start()
    wait(lambda: first.wanted)
    assert (found, second.loaded, second.claimed) == ([], None, False)
    with pytest.raises(Locked):
        first.yield_to_questions()
    first.forget()
    first.free()
    waiting.join()
    assert (found, first.loaded, second.loaded) == (["nano"], None, "nano")
    second.yield_to_questions()


def test_who_waits_for_the_model_may_give_up(nano: Mlx, tmp_path: Path) -> None:
    first = ResidentModel(tmp_path)
    assert first.claim()

    def enough() -> None:
        raise KeyboardInterrupt

    second = ResidentModel(tmp_path, enough)
    with pytest.raises(KeyboardInterrupt):
        second.get("a", lambda: nano)
    assert not first.wanted


def test_a_model_breathes_before_each_step_and_token(nano: Mlx, tmp_path: Path) -> None:
    models, breaths = ResidentModel(tmp_path), list[int]()
    models.yield_point = lambda: breaths.append(1)
    model = models.get("a", lambda: nano)
    cache = model.begin()
    model.prefill(cache, [5] * (3 * model.sub_step))
    assert len(breaths) == 3
    written = len(list(model.decode(cache, [5, 6], 4)))
    assert len(breaths) in (3 + written, 4 + written)


@pytest.mark.slow
def test_it_waits_to_load_the_model_until_no_other_process_has_one(home: Served) -> None:
    session = home.session()
    assert session.models.claim()
    home.run("serve")
    with closing(home.link()) as link:
        home.ask(link, WORDS[0], AskOptions(read_bank=False, write_bank=False))
        wait(lambda: session.models.wanted)
        assert home.status()["model"] is None
        session.models.free()
        assert next(link.answers())["kind"] == "answered"
    assert home.status()["model"] == str(NANO)


@pytest.mark.slow
def test_it_loads_the_model_by_itself_and_lets_it_go_for_who_must_have_it(home: Served) -> None:
    home.run("serve")
    wait(lambda: home.status()["model"])
    expected = answer(home, WORDS[0])
    assert home.status()["answered"] == 1
    assert answer(home, WORDS[0], "--no-daemon") == expected
    assert home.status()["answered"] == 1
    wait(lambda: home.status()["model"])


@pytest.mark.slow
def test_another_model_takes_the_place_of_its_own(home: Served, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(NANO, tmp_path / "twin"))
    (twin / "generation_config.json").write_text('{"eos_token_id": [0]}')
    home.run("serve")
    expected = answer(home, WORDS[0], "--no-daemon")
    assert answer(home, WORDS[0], "--model", str(twin)) == expected
    assert home.status()["model"] == str(twin)
    assert answer(home, WORDS[0]) == expected
    assert (home.status()["model"], home.status()["answered"]) == (str(NANO), 2)


@pytest.mark.slow
def test_idle_work_is_done_by_the_process_that_has_the_model(home: Served) -> None:
    for question in WORDS[:3]:
        home.run("ask", question)
    home.run("serve")
    ran = home.run("idle", "--force", "--json")
    row = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr, row["reason"]) == (0, b"", None)
    assert row["done"] > 0
    assert json.loads(home.run("idle", "--force", "--json").stdout)["done"] == 0
    fresh = json.loads(home.run("ask", WORDS[0], "--cache=refresh", "--json").stdout)
    assert fresh["tokens"]["reused"] > 0


@pytest.mark.slow
def test_idle_work_tells_the_command_how_far_it_is(home: Served) -> None:
    assert home.run("serve").returncode == 0
    pid, told = home.pid, list[tuple[str, int]]()
    with Pkb(environ=home.environ, server=True) as pkb:
        request = IdleRequest(time.monotonic(), 600, 2, dry_run=False, force=True)
        report = pkb.run_jobs(request, lambda step, done, total: told.append((step, done)))
    assert sum(one.state == "done" for one in report.results) == 2
    assert Counter(step for step, _ in told) == Counter(one.job.kind for one in report.results)
    assert home.pid == pid


@pytest.mark.slow  # half a minute; test_idle_budget holds the short form
def test_a_question_is_answered_while_idle_work_is_done_and_idle_work_goes_on(home: Served) -> None:
    for question in WORDS[:2]:
        home.run("ask", question)
    home.run("serve")
    wait(lambda: home.status()["model"])
    work = home.start("idle", "--force", "--json")
    wait(lambda: home.status()["jobs"] == 1 or work.poll() is not None)
    before = home.status()
    assert answer(home, "How much is a ticket for the summer concert?")
    after = home.status()
    out, _ = work.communicate()
    assert before["answered"] + 1 == after["answered"]
    assert json.loads(out)["done"] > 0
    assert json.loads(home.run("doctor", "--data", "--read-data", "--json").stdout)["sound"]


@pytest.mark.slow
def test_idle_work_in_it_ends_for_a_question_that_needs_the_model_elsewhere(home: Served) -> None:
    home.run("ask", WORDS[0])
    home.run("serve")
    elsewhere = Lease(home.home.locks / "wanted.lock")
    assert elsewhere.acquire()
    row = json.loads(home.run("idle", "--force", "--json").stdout)
    assert row["reason"] == "a question needs the language model"
    elsewhere.release()
    assert json.loads(home.run("idle", "--force", "--max", "1", "--json").stdout)["done"] == 1


@pytest.mark.slow
def test_idle_work_ends_with_the_command_that_asked_for_it(home: Served) -> None:
    for question in WORDS:
        home.run("ask", question)
    home.run("serve")
    wait(lambda: home.status()["model"])
    work = home.start("idle", "--force")
    wait(lambda: home.status()["jobs"] == 1 or work.poll() is not None)
    work.terminate()
    work.communicate()
    wait(lambda: home.status()["jobs"] == 0)
    assert answer(home, WORDS[0])
    assert home.run("idle", "--force").returncode == 0


def test_a_client_that_is_killed_no_longer_claims_the_model(home: Served) -> None:
    session = home.session()
    assert session.models.claim()  # so that the background server waits for the model, for its client
    assert home.run("serve").returncode == 0
    pid, asking = home.pid, home.start("ask", WORDS[0], "--cache=off")
    wait(lambda: session.models.wanted)
    asking.kill()
    asking.communicate()
    wait(lambda: home.status()["jobs"] == 0 and not session.models.wanted)
    session.models.free()
    assert answer(home, WORDS[0])
    assert (home.pid, home.status()["answered"]) == (pid, 1)


@pytest.mark.parametrize("gone", [False, True])
def test_a_waiting_request_ends_idle_jobs_only_while_its_client_is_there(made: Path, gone: bool) -> None:
    queue = RequestQueue(environment(made), lambda: None)
    queue.running.append(QueuedRequest({"kind": "idle"}, lambda kind, values: None))
    with session(environment(made)) as opened:
        opened.override("model.name", "another/model")
        asked = request(opened, WORDS[0], AskOptions(), streams=False)
    queue.add(QueuedRequest({"kind": "ask", "request": asked}, lambda kind, values: None, cancelled=gone))
    with nullcontext() if gone else pytest.raises(Cancelled):
        queue.yield_point()


def test_a_question_of_another_model_ends_what_is_read_ahead_so_that_one_model_is_in_memory(made: Path) -> None:
    queue = RequestQueue(environment(made), lambda: None)
    with session(environment(made)) as opened:
        asked = request(opened, WORDS[0], AskOptions(), streams=False)
        opened.override("model.name", "another/model")
        typed = request(opened, WORDS[0], AskOptions(), streams=False)
    queue.running.append(QueuedRequest({"kind": "ahead", "request": typed}, lambda kind, values: None))
    queue.add(QueuedRequest({"kind": "ask", "request": asked}, lambda kind, values: None))
    with pytest.raises(Cancelled):
        queue.yield_point()


@pytest.mark.slow
def test_questions_are_answered_whenever_it_is_killed(home: Served) -> None:
    assert ask_through_kills(home, 3, random.Random(2026)).total() == 3
