"""Reading ahead: the sources of a question are read while it is typed, in `pkb chat`, over HTTP and by a client."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request

from engine.http.completions import complete
from engine.serve.client import ReadAhead
from engine.serve.process import lock_of, request
from engine.session import session
from engine.types import AskOptions
from store.history import History
from store.home import locate
from store.kv_index import KvIndex
from store.locks import Lease
from tests.cli.conftest import Pkb
from tests.cli.http_endpoint import http_endpoint
from tests.cli.serving import TICKET, Served, served, wait
from tests.cli.test_chat import terminal
from tests.demo import NANO, copied, environment
from tests.effort import PATIENCE_S

TYPED = TICKET.removesuffix(" concert?")


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Iterator[Served]:
    """Yield a home that answers by a small model, whose resident process has it loaded."""
    folder = copied(made, tmp_path / "demo")
    with served(folder, environment(folder)) as own:
        own.run("config", "set", "model.name", str(NANO))
        own.run("serve")
        wait(lambda: own.status()["model"])
        yield own


def ask(home: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(home.run("ask", TICKET, "--json").stdout)
    return found


def segments(home: Served) -> int:
    """Return how many segments of prompts are stored."""
    return KvIndex(home.session().ledger).totals().count


def test_what_was_read_while_it_was_typed_is_reused_and_leaves_no_question(home: Served) -> None:
    ahead = ReadAhead()
    ahead.typed(home.session(), "How much", AskOptions())  # too short to say anything
    assert segments(home) == 0
    ahead.typed(home.session(), TYPED, AskOptions())
    wait(lambda: segments(home) and not home.status()["jobs"])
    whole = segments(home)
    ahead.end()
    assert History(home.session().ledger).last() is None
    answered = ask(home)
    assert 0 < answered["tokens"]["computed"] < 60 < answered["tokens"]["reused"]
    assert segments(home) == whole
    fresh = json.loads(home.run("ask", TICKET, "--json", "--cache=off").stdout)
    assert (answered["answer"], fresh["tokens"]["reused"]) == (fresh["answer"], 0)


def test_what_is_typed_next_replaces_what_is_read_and_the_question_ends_it(home: Served) -> None:
    with closing(home.link()) as typing:
        for text in ("Who has the", "Who has the spare key", TYPED, "   ", TYPED):
            asked = request(home.session(), text, AskOptions(), streams=False)
            typing.send("ahead", {"request": asked})
        assert next(typing.answers())["kind"] == "done"  # the first may be, before the second one is there
        wait(lambda: not home.status()["jobs"])
        typing.send("ahead", {"request": asked})
    assert ask(home)["tokens"]["reused"] > 0
    wait(lambda: not home.status()["jobs"])
    assert home.status()["answered"] == 1


@pytest.mark.slow
def test_a_question_does_not_wait_for_what_others_type(home: Served) -> None:
    with closing(home.link()) as typing:
        typing.send("ahead", {"request": request(home.session(), TYPED, AskOptions(), streams=False)})
        assert ask(home)["answered"] is not None
        assert next(typing.answers())["kind"] == "done"
    assert home.run("doctor", "--data", "--read-data").returncode == 0


@pytest.mark.parametrize("setting", [("model.name", "quote"), ("kv.reuse", "off"), ("serve.daemon", "off")])
def test_nothing_is_read_where_it_would_not_be_used(pkb: Pkb, setting: tuple[str, str]) -> None:
    ahead = ReadAhead()
    with session({**environment(pkb.folder), "PKB_DAEMON": "auto"}) as opened:
        opened.override("model.name", str(NANO))
        opened.override(*setting)
        ahead.typed(opened, TYPED, AskOptions())
    assert vars(ahead) == vars(ReadAhead())
    assert not Lease(lock_of(locate(environment(pkb.folder)))).is_taken()


def test_a_home_that_is_damaged_meanwhile_is_left_to_the_question(made: Path, tmp_path: Path) -> None:
    environ = {**environment(copied(made, tmp_path / "demo")), "PKB_DAEMON": "auto"}
    ahead = ReadAhead()
    with session(environ) as opened:
        opened.override("model.name", str(NANO))
        opened.home.ledger.write_bytes(bytes(8192))
        ahead.typed(opened, TYPED, AskOptions())
    assert vars(ahead) == vars(ReadAhead())


@pytest.mark.slow
def test_a_process_that_ends_is_started_again(home: Served) -> None:
    home.end()
    ahead = ReadAhead()

    def is_read() -> bool:
        ahead.typed(home.session(), TYPED, AskOptions())
        return segments(home) > 0

    wait(is_read)
    home.end()
    ahead.typed(home.session(), TICKET, AskOptions())  # over the connection that is gone
    ahead.end()
    assert ask(home)["tokens"]["reused"] > 0


@pytest.mark.slow
def test_at_a_terminal_a_pause_in_typing_is_enough(home: Served) -> None:
    with terminal(home.home.data.parent, PKB_DAEMON=home.environ["PKB_DAEMON"]) as person:
        person.until("> ")
        person.type(TYPED)
        wait(lambda: segments(home) > 1)
        person.type(f"{TICKET.removeprefix(TYPED)}\n")
        person.until("prefix · ")
        person.until("> ")
        person.type("\x04")
        assert person.process.wait(PATIENCE_S) == 0


def test_over_http_others_are_answered_while_a_question_waits_for_what_is_typed(tmp_path: Path) -> None:
    ahead, bodies = ReadAhead(), [json.dumps({"messages": [{"role": "user", "content": TICKET}]}).encode()]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await asyncio.Event().wait()  # the client stays
        return {"type": "http.request", "body": bodies.pop()}

    async def both() -> int:
        about = {"type": "http", "headers": [], "environ": environment(tmp_path)}
        asked = complete(lambda _: ahead.end(), Request(about, receive))
        asking = asyncio.ensure_future(asked)
        await asyncio.sleep(0.01)
        late.cancel()
        assert ahead._lock.locked()
        ahead._lock.release()
        return (await asking).status_code

    ahead._lock.acquire()
    late = Timer(2, ahead._lock.release)
    late.start()
    assert asyncio.run(both()) == 409  # there is no home


@pytest.mark.slow
def test_over_http_the_page_has_it_read(home: Served) -> None:
    with http_endpoint(home.environ) as http:
        assert http.get(f"/v1/ahead?q={quote(TYPED)}").status == 200
        wait(lambda: segments(home) > 1)
        body = {"messages": [{"role": "user", "content": TICKET}]}
        assert http.get("/v1/chat/completions", body).row["pkb"]["tokens"]["reused"] > 0
        assert http.get("/v1/ahead?q=a+b+c&since=never").status == 400
