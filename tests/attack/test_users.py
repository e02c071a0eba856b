"""Several people, one archive: nothing of a collection that is not theirs reaches a user, nor a file of their home."""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from starlette.testclient import TestClient

from engine.app import Pkb
from engine.forget import ForgetPlan
from engine.http.routes import application
from engine.types import Filters
from store.errors import PkbError, UsageError
from store.home import Home, locate
from store.readers import User, UserBook
from store.types import Scope, replace
from tests.attack.forgetting import ID, KEY, LIKE, QUESTION, WORDS, make
from tests.attack.lab import Lab, mail
from tests.attack.test_scope import IN_VIEW, MARKS, QUESTIONS, letters
from tests.cli.http_endpoint import http_endpoint
from tests.effort import examples
from tests.engine.recovery import Secret, traces


def add(lab: Lab, name: str, *collections: str) -> str:
    """Add a user, and return their token."""
    token = UserBook(home_of(lab)).put(User(name, collections))
    assert token
    return token


def home_of(lab: Lab) -> Home:
    """Return the places of a lab's home."""
    return locate(lab.environ)


def as_user(lab: Lab, name: str) -> Pkb:
    """Open the home of a user, as the endpoint does."""
    return Pkb(environ={**os.environ, **lab.environ, **home_of(lab).of_user(name).environ})


GETS: dict[str, dict[str, str]] = {
    "/v1/search": {"q": "boathouse rent"}, "/v1/list": {}, "/v1/todo": {"since": "2023"}, "/v1/people": {},
    "/v1/stats": {}, "/v1/recent": {}, "/v1/ahead": {"q": "How much is the boathouse rent?"},
}  # fmt: skip
OF_OTHERS = tuple(f"{name}{end}" for name in ("kestrel", "osprey") for end in ("key", "stone", "hall", "9 euros"))
EACH = settings(max_examples=10, phases=[Phase.generate], derandomize=True, database=None)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, str, str]:
    """Return a home of three collections in which its owner asked, and the tokens of two users who see one each."""
    lab = Lab(tmp_path_factory.mktemp("users"))
    for name, raw in letters().items():
        lab.put(name, raw)
    with lab.open() as pkb:
        for name in (IN_VIEW, "kestrel", "osprey"):
            pkb.ingest([lab.mail / name], collection=name)
        for question in QUESTIONS:
            pkb.ask(question)
    return lab, add(lab, "fin", IN_VIEW), add(lab, "kes", "kestrel")


def client(lab: Lab, token: str) -> TestClient:
    """Return a client of the endpoint with a token."""
    app: Any = application({**os.environ, **lab.environ}, port=8642, token="owner", opens=True)
    return TestClient(app, "http://127.0.0.1:8642", headers={"Authorization": f"Bearer {token}"})


def told(given: Any, said: str) -> set[str]:
    """Return the marks of other collections in what was said that were not in what was given."""
    return {one.lower() for one in MARKS.findall(said)} - {one.lower() for one in MARKS.findall(json.dumps(given))}


def test_no_route_tells_a_user_of_another_collection(archive: tuple[Lab, str, str]) -> None:
    lab, token, _ = archive
    http = client(lab, token)
    paths = [str(lab.mail / name) for name in letters()]
    more = st.fixed_dictionaries({}, optional={
        "collection": st.sampled_from([IN_VIEW, "kestrel", "osprey"]), "path": st.sampled_from(paths),
        "sender": st.sampled_from(["ann", "ann@kestrel.example", "mo"]), "document": st.sampled_from([*paths, "Rent"]),
        "message_id": st.sampled_from(["kestrelid@kestrel.example", "shared@finch.example"]), "title": st.just("Rent"),
        "name": st.sampled_from(["ann lee", "mo", "lee"]), "q": st.sampled_from(QUESTIONS),
    })  # fmt: skip

    @EACH
    @given(more, st.sampled_from(QUESTIONS), st.booleans())
    def holds(drawn: dict[str, str], question: str, streams: bool) -> None:
        for path, usual in (GETS | {"/v1/show": {"path": paths[0]}}).items():
            assert told(drawn, http.get(path, params=usual | drawn).text) == set(), (path, drawn)
        own = {name: one for name, one in drawn.items() if name in Filters.__struct_fields__}
        body = {"messages": [{"role": "user", "content": question}], "pkb": own, "stream": streams}
        for _ in range(2):  # the second time from the cache
            assert told(body, http.post("/v1/chat/completions", json=body).text) == set(), body

    holds()
    user = home_of(lab).of_user("fin")
    assert traces(user.data, Secret(OF_OTHERS)) == set()


def ask(http: TestClient, question: str, **own: Any) -> dict[str, Any]:
    """Ask as the page does, and return the answer."""
    body = {"messages": [{"role": "user", "content": question}], "pkb": {"record": True, **own}}
    row: dict[str, Any] = http.post("/v1/chat/completions", json=body).json()["pkb"]
    return row


def test_answers_and_history_are_each_ones_own(archive: tuple[Lab, str, str]) -> None:
    lab, first, second = archive
    owner, fin, kes = (client(lab, token) for token in ("owner", first, second))
    rent = "What is the boathouse rent?"
    for http in (fin, kes, owner):
        assert [ask(http, rent)["tier"] for _ in range(2)] == ["full", "exact"]
        recent = http.get("/v1/recent").json()["questions"]
        assert recent[0] == rent
        assert len(recent) == (5 if http is owner else 1)
    assert ask(fin, rent)["answer"] != ask(kes, rent)["answer"]
    assert fin.post("/v1/wrong", json={"question": rent}).json()["question"] == rent
    assert [ask(one, rent)["tier"] for one in (fin, kes, owner)] == ["full", "exact", "exact"]


def test_idle_runs_of_the_owner_work_ahead_for_users_from_what_these_see(archive: tuple[Lab, str, str]) -> None:
    lab, token, _ = archive
    ask(client(lab, token), "Where is the key of the shed?")
    with lab.open() as pkb:
        pkb.idle(budget_s=20)
    with as_user(lab, "fin") as pkb:
        account = pkb.stats()["idle"]["so_far"]
        assert [one["job"] for one in account if one["units"]]
    assert traces(home_of(lab).of_user("fin").data, Secret(OF_OTHERS)) == set()


def test_what_a_user_may_is_what_the_page_shows_and_no_more(archive: tuple[Lab, str, str]) -> None:
    lab, token, _ = archive
    http, path = client(lab, token), str(lab.mail / "finch/key.eml")
    assert http.get("/v1/show", params={"path": path}).json()["documents"][0]["title"] == "Shed key"
    assert http.post("/v1/open", json={"path": path}).status_code == 404
    assert not http.get("/v1/recent").json()["opens"]
    assert client(lab, "owner").get("/v1/recent").json()["opens"]
    wrong = http.get("/v1/search", params={"q": "rent", "collection": "kestrel"}).json()["error"]
    assert wrong["message"] == "no collection kestrel, only finch"
    with as_user(lab, "fin") as pkb:
        for act in (lambda: pkb.ingest([lab.mail]), lambda: list(pkb.embed()), pkb.check,
                    lambda: pkb.plan_forgetting([path], Scope())):  # fmt: skip
            with pytest.raises(UsageError, match="a part of another one"):
                act()


def test_collections_tokens_and_users_change_at_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for name in ("choir", "office"):
        lab.put(f"{name}/{name}.eml", mail(f"The {name} meets on Monday.", title=f"The {name}"))
    with lab.open() as pkb:
        for name in ("choir", "office"):
            pkb.ingest([lab.mail / name], collection=name, embed=False)
    token, book = add(lab, "ann", "choir"), UserBook(home_of(lab))
    http = client(lab, token)

    def titles() -> list[str]:
        return sorted(one["title"] for one in http.get("/v1/list").json()["documents"])

    assert titles() == ["The choir"]
    ask(http, "When does the choir meet?")
    book.put(replace(book.find("ann"), collections=("office",)))
    assert titles() == ["The office"]
    assert traces(home_of(lab).of_user("ann").data, Secret(("The choir meets",))) == set()
    lab.put("office/new.eml", mail("The office moves.", title="News"))
    with lab.open() as pkb:
        pkb.ingest(embed=False)
    assert titles() == ["News", "The office"]
    renewed = book.put(book.find("ann"), renew=True)
    assert http.get("/v1/list").status_code == 401
    assert client(lab, renewed or "").get("/v1/list").status_code == 200
    assert not [one for one in (token, renewed) if one and one.encode() in home_of(lab).book.read_bytes()]
    assert home_of(lab).book.stat().st_mode & 0o777 == 0o600
    book.remove("ann")
    assert client(lab, renewed or "").get("/v1/list").status_code == 401


@pytest.mark.slow
def test_users_are_answered_while_the_owner_indexes_and_forgets(tmp_path: Path) -> None:
    lab = Lab(tmp_path)

    def put(number: int) -> None:
        lab.put(
            f"choir/{number}.eml", mail(f"Rehearsal {number} is on Monday.", f"Message-ID: <{number}@x>", title="R")
        )
        lab.put(f"office/{number}.eml", mail(f"Budget kestrel{number} of Monday.", title=f"kestrel{number}"))

    def change() -> None:
        for number in range(1, 6):
            put(number)
            with lab.open() as pkb:
                pkb.ingest()
                pkb.forget(pkb.plan_forgetting([f"{number - 1}@x"], Scope()))

    put(0)
    with lab.open() as pkb:
        for name in ("choir", "office"):
            pkb.ingest([lab.mail / name], collection=name)
    http, asked = client(lab, add(lab, "ann", "choir")), 0
    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change)
        while not changing.done() or asked < 20:
            found = [http.get("/v1/search", params={"q": "Monday"}), http.get("/v1/list")]
            body = {"messages": [{"role": "user", "content": "When is the rehearsal?"}], "pkb": {"cache": "off"}}
            found.append(http.post("/v1/chat/completions", json=body))
            # Busy while its tables are rewritten, never wrong.
            assert {one.status_code for one in found} <= {200, 503}, [one.text for one in found]
            assert not MARKS.findall("".join(one.text for one in found))
            asked += 1
        changing.result()
    assert [one["title"] for one in http.get("/v1/list").json()["documents"]] == ["R"]
    assert UserBook(home_of(lab)).of_token("") is None


# Random archives over real HTTP.

COLLECTIONS = ("Kestrel", "Osprey", "Finch", "Wagtail")
SAID = ("The boathouse rent is {n} euros.", "Can you send me the ledger of {own} by 1 July?", "We meet at {n} o'clock.",
        "I will order the {own} chairs. The key hangs at {own}.")  # fmt: skip
ASKED = ("How much is the boathouse rent?", "What does the boathouse rent cost?", "When do we meet?",
         "Where is the key?", "Who is Ann Lee?", "Who orders the chairs?",
         "How many mails are there?", "What is still open?")  # fmt: skip


class Letter(Struct, frozen=True):
    """A message of a random archive, in one or two collections."""

    collections: tuple[str, ...]
    said: tuple[str, ...]
    sender: str
    day: int


some_collections = st.sampled_from(COLLECTIONS)
archives = st.lists(
    st.builds(
        Letter,
        st.sets(some_collections, min_size=1, max_size=2).map(sorted).map(tuple),
        st.lists(st.sampled_from(SAID), min_size=1, max_size=3).map(tuple),
        st.sampled_from(("Ann Lee", "Mo Ray", "Bob")),
        st.integers(1, 28),
    ),
    min_size=3,
    max_size=9,
)  # fmt: skip


def fill(lab: Lab, letters: Sequence[Letter]) -> dict[str, set[str]]:
    """Write letters whose every part has a word of its own; return these words by collection."""
    words: dict[str, set[str]] = {name: set() for name in COLLECTIONS}
    for number, one in enumerate(letters):
        own = f"canary{number}q"
        text = " ".join(said.format(n=number + 2, own=own) for said in one.said)
        who = f"{one.sender} {own} <{own}@{own}.example>"
        raw = mail(
            text, f"Message-ID: <{own}@x>", sender=who, title=f"About {own}", day=f"2024-05-{one.day:02}T10:00+00:00"
        )
        for name in one.collections:
            lab.put(f"{name}/{own}.eml", raw)
            words[name].add(own)
    with lab.open() as pkb:
        for name in COLLECTIONS:
            if words[name]:
                pkb.ingest([lab.mail / name], collection=name, embed=False)
        list(pkb.embed())
        for question in ASKED[:3]:
            pkb.ask(question)
        pkb.idle(budget_s=5)
    return words


@pytest.mark.slow
@given(
    archives,
    st.sets(st.sampled_from(COLLECTIONS), min_size=1, max_size=3),
    st.lists(st.sampled_from(ASKED), max_size=4),
)
@examples(30, phases=[Phase.explicit, Phase.generate], deadline=None, suppress_health_check=[*HealthCheck])
def test_over_http_and_in_its_files_a_users_home_has_its_own_collections_alone(
    letters: list[Letter], some: set[str], asked: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        words = fill(lab, letters)
        mine = sorted(name for name in some if words[name])
        hidden = {*set[str]().union(*words.values())}.difference(*(words[name] for name in mine))
        forbidden = [*hidden, *(f"/{one}/" for one in COLLECTIONS if one not in mine)]
        token = add(lab, "ann", *mine)
        with http_endpoint({**os.environ, **lab.environ}) as http:

            def get(path: str, body: Any = None) -> None:
                found = http.get(path, body, token=token)
                assert not [one for one in forbidden if one.encode() in found.body], (path, found.body)

            for question in (*asked, *asked[:1], *ASKED[:2]):
                get(
                    "/v1/chat/completions",
                    {"messages": [{"role": "user", "content": question}], "pkb": {"record": True}},
                )
            with as_user(lab, "ann") as pkb:
                pkb.idle(budget_s=5)  # predictions
                told = json.dumps([pkb.digest(Filters(since="2024-05-01")), pkb.people()], default=repr)
                assert not [one for one in forbidden if one in told]
            for path, usual in GETS.items():
                get(f"{path}?{urlencode(usual)}")
            for number, one in enumerate(letters):
                for name in one.collections:
                    place = lab.mail / name / f"canary{number}q.eml"
                    found = http.get(f"/v1/show?path={place}", token=token)
                    assert (found.status == 200) == (name in mine)
        assert traces(home_of(lab).of_user("ann").data, Secret(tuple(forbidden))) == set()


# Forgetting.


def users_of(lab: Lab) -> None:
    """Add a user who sees all, asks in several ways and has idle jobs run, and one who sees nothing of it."""
    with lab.open() as pkb:
        (collection,) = pkb.session.catalogue.by_collection()
        lab.put("other/other.eml", mail("The kayak is blue.", title="Kayak"))
        pkb.ingest([lab.mail / "other"], collection="other")
    for name, seen in (("ann", collection), ("bob", "other")):
        add(lab, name, seen)
        with as_user(lab, name) as pkb:
            for question in (QUESTION, LIKE, KEY, f"What is {WORDS[1]}?", "Which colour has the canoe?"):
                pkb.ask(question)
            pkb.idle(budget_s=20)
            pkb.search(WORDS[0])


def left_of_users(lab: Lab) -> set[str]:
    """Return where something of what was forgotten is found in the homes of users."""
    return set[str]().union(*(traces(home.data, Secret(WORDS)) for home in UserBook(home_of(lab)).homes()))


@pytest.mark.slow
def test_what_the_owner_forgets_is_forgotten_in_the_homes_of_users(tmp_path: Path) -> None:
    home = make(tmp_path / "lab")
    users_of(home)
    assert left_of_users(home) > {"ledger table history"}
    home.forget()
    assert home.left() == []
    with as_user(home, "ann") as pkb:
        assert pkb.search("canoe")
        assert not [one for one in pkb.search(WORDS[0]) if WORDS[0] in one.quote]
        assert "red" in (pkb.ask("Which colour has the canoe of the harbour museum?").text or "")
    assert home.left() == []
    assert left_of_users(home) == set()


class Stopped(BaseException):
    """What a step of forgetting is interrupted by."""


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, 12, 2))
def test_forgetting_that_was_interrupted_is_finished_in_the_homes_of_users(tmp_path: Path, step: int) -> None:
    home, steps = make(tmp_path / "lab"), iter(range(1, 1000))
    users_of(home)

    def interrupt(*_: object) -> None:
        if next(steps) == step:
            raise Stopped

    with home.pkb() as pkb, suppress(Stopped):
        pkb.forget(pkb.plan_forgetting([ID], Scope()), interrupt)
    with as_user(home, "ann") as pkb, suppress(PkbError):
        pkb.ask("Which colour has the canoe?")  # meanwhile
    with home.pkb() as pkb:
        pkb.forget(ForgetPlan())
    assert home.left() == []
    assert left_of_users(home) == set()


@pytest.fixture
def choir(tmp_path: Path) -> tuple[Lab, str]:
    """Return a home of three messages in two collections, and the token of a user who has asked."""
    lab = Lab(tmp_path)
    for name in ("choir", "hall", "office"):
        folder = "office" if name == "office" else "choir"
        lab.put(f"{folder}/{name}.eml", mail(f"The {name} opens on Monday.", title=f"The {name}"))
    with lab.open() as pkb:
        for name in ("choir", "office"):
            pkb.ingest([lab.mail / name], collection=name, embed=False)
    token = add(lab, "ann", "choir")
    ask(client(lab, token), "When does the hall open?")
    return lab, token


def titles(lab: Lab, token: str) -> list[str]:
    return sorted(one["title"] for one in client(lab, token).get("/v1/list").json()["documents"])


@pytest.mark.parametrize("at", [0, 5_000])  # the header, or a page
def test_a_damaged_ledger_of_a_user_is_made_anew_and_hinders_nobody(choir: tuple[Lab, str], at: int) -> None:
    lab, token = choir
    home = home_of(lab).of_user("ann")
    for left in home.data.glob("ledger.db-*"):
        left.unlink()
    with home.ledger.open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * 9_000)
    with lab.open() as pkb:
        erased = pkb.forget(pkb.plan_forgetting([str(lab.mail / "choir" / "hall.eml")], Scope()))
        assert erased.left == ()
        lab.put("choir/new.eml", mail("The cellar opens on Friday.", title="The cellar"))
        pkb.ingest(embed=False)
        pkb.idle(budget_s=5)
    assert traces(home.data, Secret(("hall opens",))) == set()
    assert titles(lab, token) == ["The cellar", "The choir"]


def test_a_damaged_list_of_users_is_named_and_their_homes_are_still_found(choir: tuple[Lab, str]) -> None:
    lab, token = choir
    home_of(lab).book.write_text("[{")
    refused = client(lab, token).get("/v1/list")
    assert (refused.status_code, "users.json is damaged" in refused.json()["error"]["message"]) == (500, True)
    assert client(lab, "owner").get("/v1/list").status_code == 200
    with lab.open() as pkb:
        assert pkb.forget(pkb.plan_forgetting([str(lab.mail / "choir" / "hall.eml")], Scope())).left == ()
    assert traces(home_of(lab).of_user("ann").data, Secret(("hall opens",))) == set()


def test_with_a_collection_all_answers_that_may_have_counted_it_go(choir: tuple[Lab, str]) -> None:
    lab, token = choir
    book, http = UserBook(home_of(lab)), client(lab, token)
    book.put(replace(book.find("ann"), collections=("choir", "office")))
    for question in ("When does the office open?", "How many mails are there?"):
        ask(http, question)
    book.put(replace(book.find("ann"), collections=("choir",)))
    assert ask(http, "How many mails are there?")["tier"] == "full"
    assert traces(home_of(lab).of_user("ann").data, Secret(("office opens",))) == set()


def test_statistics_of_a_user_count_nothing_of_others(choir: tuple[Lab, str]) -> None:
    lab, token = choir
    before = client(lab, token).get("/v1/stats").json()
    lab.put("office/second.eml", mail("The office closes.\n" * 500, title="Second"))
    with lab.open() as pkb:
        pkb.ingest(embed=False)
    after = client(lab, token).get("/v1/stats").json()
    assert after["index"] == before["index"]
    assert after["generation"] == before["generation"]
    assert after["bytes"]["tables"] == before["bytes"]["tables"]


def test_nobody_is_guessed_to_be_a_user(choir: tuple[Lab, str]) -> None:
    lab, _ = choir
    lab.put("choir/Sent/own.eml", mail("I will bring the keys on Friday.", title="Keys"))
    with lab.open() as pkb:
        pkb.ingest(embed=False)
    with as_user(lab, "ann") as pkb:
        assert (pkb.session.guesses, pkb.session.me) == ([], ())
