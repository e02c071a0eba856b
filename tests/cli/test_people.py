"""`pkb people --same` and `--apart`: what the user says of who is who holds in lists, counts and questions."""

from email.message import EmailMessage
from pathlib import Path

import pytest

from tests.cli.conftest import Pkb

WORK, HOME, OTHER, BEN = "ann@oak.example", "bluebird@elm.example", "abell@oak.example", "Ben Oak <ben@oak.example>"
MAILS = [
    (f"Ann Bell <{WORK}>", "Budget", "The budget is due.\n\nAnn Bell\n925 555 0101"),
    (f"Ann Bell <{WORK}>", "Tents", "We need tents."),
    (f"Blue Bird <{HOME}>", "From home", "I am at home.\n\nBlue Bird\nCell 925 555 0202"),
    (f"Ann Bell <{OTHER}>", "Rota", "The rota is out.\n\nAnn Bell\n925 555 0303"),
    ("Ann Lee <ann.lee@oak.example>", "Keys", "Here are the keys."),
]


def write(folder: Path, number: int, sender: str, title: str, text: str) -> None:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, BEN, title
    message["Message-ID"], message["Date"] = f"<{number}@x>", f"Mon, {number:02} May 2024 10:00:00 +0000"
    message.set_content(text)
    (folder / f"{number}.eml").write_bytes(message.as_bytes())


@pytest.fixture(name="archive")
def _archive(fresh: Pkb) -> Pkb:
    (folder := fresh.folder / "Mail").mkdir(parents=True)
    for number, mail in enumerate(MAILS, 1):
        write(folder, number, *mail)
    assert fresh("ingest", str(folder), "--vectors", "later").code == 0
    return fresh


def addresses(pkb: Pkb, *words: str) -> list[list[str]]:
    return [sorted(one["addresses"]) for one in pkb("people", *words, "--json").row["people"]]


def titles(pkb: Pkb, *words: str) -> list[str]:
    return [row["title"] for row in pkb("list", *words, "--json").row["documents"]]


def asked(pkb: Pkb, question: str) -> str:
    return str(pkb("ask", question, "--json").row["answer"])


def test_addresses_that_the_user_joins_are_one_persons_in_lists_counts_and_questions(archive: Pkb) -> None:
    assert addresses(archive, "ann bell") == [[OTHER, WORK]]
    assert asked(archive, "how many mails did Ann Bell send?").startswith("3 mails from Ann Bell")
    assert addresses(archive, "ann bell", "--same", HOME) == [[OTHER, WORK, HOME]]
    assert asked(archive, "how many mails did Ann Bell send?").startswith("4 mails from Ann Bell")
    assert "925 555 0202 (mobile)" in asked(archive, "what is Ann Bell's cell number?")
    assert titles(archive, "--from", "ann bell") == ["Rota", "From home", "Tents", "Budget"]
    assert addresses(archive, HOME) == [[WORK, HOME]]
    assert len(titles(archive, "--from", WORK)) == 2  # an address is that address
    assert "--from ann fits 3 addresses" in archive("list", "--from", "ann").err


def test_an_address_that_is_set_apart_is_another_person_of_the_name(archive: Pkb) -> None:
    assert addresses(archive, "ann bell", "--apart", OTHER) == [[WORK], [OTHER]]
    counted = asked(archive, "how many mails did Ann Bell send?").split("\n")
    assert counted[0] == "The name fits 2 people:"
    assert [one.split(" mail")[0] for one in counted[1:]] == ["2", "1"]
    numbers = asked(archive, "what is Ann Bell's phone number?")
    assert f"Ann Bell <{WORK}>: 925 555 0101\nAnn Bell <{OTHER}>: 925 555 0303" in numbers
    assert archive("people", OTHER, "--json").row["people"][0]["similar"] == []


def test_who_is_joined_and_apart_stays_so_after_the_next_ingest_and_can_be_taken_back(archive: Pkb) -> None:
    archive("people", "ann bell", "--same", HOME, "--apart", OTHER)
    write(archive.folder / "Mail", 9, f"Ann Bell <{OTHER}>", "Later", "More of the rota.")
    assert archive("ingest", "--vectors", "later").code == 0
    assert addresses(archive, "ann bell") == [[WORK, HOME], [OTHER]]
    assert addresses(archive, "ann bell", "--same", OTHER, "--apart", HOME) == [[OTHER, WORK]]
    kept = {row["key"]: row["value"] for row in archive("config", "show", "--json").row["settings"]}
    assert (kept["people.same"], kept["people.apart"]) == (f"{WORK}, {OTHER}", HOME)


def test_a_forgotten_address_is_named_no_more_though_it_was_joined(archive: Pkb) -> None:
    archive("people", "ann bell", "--same", HOME)
    assert archive("forget", str(archive.folder / "Mail/3.eml"), "--yes").code == 0
    assert addresses(archive, "ann bell") == [[OTHER, WORK]]
    assert HOME not in asked(archive, "how many mails did Ann Bell send?")


def test_users_see_who_is_one_person_of_those_whom_they_see(archive: Pkb) -> None:
    seen = next(iter(archive("stats", "--json").row["collections"]))
    archive("user", "add", "cara", "--in", str(seen))
    archive("people", "ann bell", "--same", HOME, "--apart", OTHER)
    own = str(archive.folder / "home/users/cara")
    env = {"PKB_HOME": own, "PKB_CACHE": f"{own}/cache"}
    found = archive("people", "ann bell", "--json", env=env).row["people"]
    assert [one["addresses"] for one in found] == [[WORK, HOME], [OTHER]]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["ann bell", "--same", "x@oak.example"], "x@oak.example is not the address of an indexed message"),
        (["ann bell", "--apart", "Blue Bird"], "blue bird is not the address of an indexed message"),
        (["--same", HOME], "name a person, and each address once"),
        (["ann bell", "--same", HOME, "--apart", HOME], "name a person, and each address once"),
        (["ann", "--same", HOME], "several people fit ann; try: pkb people ADDRESS"),
        (["zoe", "--same", HOME], "no other person fits zoe; try: pkb people ADDRESS"),
    ],
)
def test_it_must_be_clear_whose_an_address_is(archive: Pkb, words: list[str], error: str) -> None:
    ran = archive("people", *words)
    assert (ran.code, error in ran.err) == (2, True), ran.err
    assert not (archive.folder / "config.toml").exists()
