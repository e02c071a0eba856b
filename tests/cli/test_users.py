"""`pkb user` as an owner types it, and users at the endpoint of a home with background servers."""

import pytest

from store.readers import UserBook
from tests.cli.conftest import Pkb
from tests.cli.http_endpoint import http_endpoint
from tests.cli.serving import Served

CONCERT = "When is the summer concert?"


def collection(pkb: Pkb) -> str:
    """Return a collection of the bundled data."""
    return str(next(iter(pkb("stats", "--json").row["collections"])))


def test_a_user_is_added_shown_changed_and_removed(pkb: Pkb) -> None:
    seen = collection(pkb)
    added = pkb("user", "add", "ann", "--in", seen, "--in", seen, "--me", "ann@example.org", "--json").row
    assert {name: added[name] for name in ("name", "collections", "addresses")} == {
        "name": "ann", "collections": [seen], "addresses": "ann@example.org"
    }  # fmt: skip
    assert len(added["token"]) > 40
    assert pkb("user", "add", "ann", "--in", seen).out == f"ann sees {seen}\n"
    renewed = pkb("user", "add", "ann", "--in", seen, "--new-token").out
    assert renewed.startswith(f"ann sees {seen}\ntoken ")
    assert added["token"] not in renewed
    assert pkb("user").out == f"{'ann':<16}  {seen}\n"
    kept = {"name": "ann", "collections": [seen], "addresses": "ann@example.org"}
    assert pkb("user", "list", "--json").row["users"] == [kept]
    assert pkb("user", "add", "ann", "--in", seen, "--me", "", "--json").row["addresses"] == ""
    assert pkb("doctor", "--data", "--json").row["sound"]
    assert pkb("user", "rm", "ann").out == "removed ann\n"
    assert pkb("user", "list").out == ""
    assert not (pkb.folder / "home/users/ann").exists()
    for name in ("ann", "..", "../users", "."):
        assert pkb("user", "rm", name).err == f"pkb: there is no user {name}; try: pkb user list\n"
    assert pkb("doctor", "--data", "--json").row["sound"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ann", "--in", "Moon"], "no collection Moon, only "),
        (["../ann", "--in", "{}"], "../ann is no name like ann-2"),
        (["Ann", "--in", "{}"], "Ann is no name like ann-2"),
        (["ann"], "missing option '--in'"),
    ],
)
def test_what_is_no_user_is_refused(pkb: Pkb, words: list[str], said: str) -> None:
    ran = pkb("user", "add", *(one.format(collection(pkb)) for one in words))
    assert (ran.code, said in ran.err, pkb("user", "list").out) == (2, True, "")
    assert not (pkb.folder / "home/users").exists()


def test_before_anything_is_indexed_there_is_nothing_to_see(fresh: Pkb) -> None:
    assert fresh("user", "add", "ann", "--in", "Mail").code == 10
    assert fresh("user", "list").out == ""


def test_in_the_home_of_a_user_nothing_is_indexed_or_forgotten(pkb: Pkb) -> None:
    seen = collection(pkb)
    pkb("user", "add", "ann", "--in", seen)
    home = {"PKB_HOME": f"{pkb.folder}/home/users/ann", "PKB_CACHE": f"{pkb.folder}/home/users/ann/cache"}
    answer = pkb("ask", CONCERT, "--json", env=home)
    assert (answer.code, answer.row["answered"]) == (0, True)
    for words in (
        ["ingest"],
        ["forget", "--in", seen],
        ["doctor", "--data", "--repair"],
        ["user", "add", "b", "--in", seen],
    ):
        ran = pkb(*words)
        assert (ran.code, "a part of another one" in ran.err) == (2, True), words


@pytest.mark.slow
def test_each_user_has_a_background_server_of_their_own(home: Served) -> None:
    book, ann = UserBook(home.home), Served({**home.environ, **home.home.of_user("ann").environ})
    with http_endpoint(home.environ) as http:
        seen = next(iter(http.get("/v1/stats").row["collections"]))
        assert home.run("user", "add", "ann", "--in", seen).returncode == 0
        token = book.put(book.find("ann"), renew=True)
        body = {"messages": [{"role": "user", "content": CONCERT}], "pkb": {"record": True}}
        try:
            for own in (None, token):
                assert [http.get("/v1/chat/completions", body, token=own).row["pkb"]["tier"] for _ in range(2)] == [
                    "full",
                    "exact",
                ]
            assert ann.is_there
            assert home.is_there
            assert ann.pid != home.pid
            assert home.run("user", "rm", "ann").returncode == 0
            assert not ann.is_there
            assert http.get("/v1/recent", token=token).status == 401
        finally:
            ann.end()
