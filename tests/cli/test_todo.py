"""`pkb todo` over the bundled mail: how items are shown, what is said where there are none, exit codes."""

from datetime import date

import pytest

from cli.render import show_open_loop
from engine.types import OpenLoop, Source
from tests.cli.conftest import Pkb
from tests.demo import DATA


def test_an_item_is_shown_with_who_it_is_for_and_where_it_stands(pkb: Pkb) -> None:
    ran = pkb("todo", "--from", "ann.pereira", "-n", "1")
    heading, first, about, place = ran.out.splitlines()
    assert heading == "Yours:"
    text = "Could you please bring the white gazebo and two extension leads to the fair?"
    assert first == f"[1] {text} (for Mira Okafor, asked by Ann Pereira)"
    assert about.strip() == "Things for the fair · Ann Pereira to Mira Okafor · Mon 2024-06-10"
    assert place.strip().startswith(str(DATA / "mail" / "Maildir"))
    assert (ran.code, ran.err) == (0, "")


def test_what_was_due_is_overdue_and_what_is_to_come_is_due(pkb: Pkb) -> None:
    asked = ("todo", "--since", "2024-05", "--doc", "Summer fair: back")
    assert "(for Fennel Lane parents, asked by Ann Pereira, overdue since Fri 2024-05-24)" in pkb(*asked).out
    assert ", due Fri 2024-05-24)" in pkb(*asked, env={"PKB_NOW": "2024-05-20T08:00"}).out


def test_a_list_that_is_cut_says_how_to_see_all(pkb: Pkb) -> None:
    ran = pkb("todo", "-n", "2")
    assert len(ran.out.splitlines()) == 7  # with a heading
    assert ran.err.startswith("pkb: 2 of ")
    assert ran.err.endswith("; all: pkb todo -n 0\n")
    assert pkb("todo", "-n", "0").err == ""


def test_kinds_are_shown_apart(pkb: Pkb) -> None:
    for kind in ("task", "question"):
        items = pkb("todo", "--since", "2024", "-n", "0", "--kind", kind, "--json").row["items"]
        assert {item["kind"] for item in items} == {kind}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--from", "nobody at all"],
            "no indexed message is from nobody at all; try: a name, an address or @domain",
        ),
        (["--since", "2024-06-19"], "nothing from these dates; try: pkb todo --since 2024"),
        (["--doc", "home again"], "nothing is open in 1 document; try: pkb todo --since 2024"),
    ],
)
def test_where_nothing_is_open_it_says_what_to_type(pkb: Pkb, words: list[str], said: str) -> None:
    ran = pkb("todo", *words)
    assert (ran.code, ran.out, ran.err) == (4, "", f"pkb: {said}\n")
    assert pkb("todo", *words, "--json").row["items"] == []


def test_years_later_it_names_the_year_of_the_newest_document(pkb: Pkb) -> None:
    ran = pkb("todo", env={"PKB_NOW": "2031-01-01T08:00"})
    assert (ran.code, ran.err) == (4, "pkb: nothing from these dates; try: pkb todo --since 2024\n")


def test_without_an_index_it_says_what_to_ingest(fresh: Pkb) -> None:
    assert fresh("todo").err == "pkb: nothing has been ingested yet; try: pkb ingest FOLDER\n"


def test_control_characters_of_mail_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J\x07evil"
    source = Source(f"/{evil}", None, evil, None, (1, 1), 0.0, evil, sender=evil, warnings=(evil,))
    show_open_loop(1, OpenLoop("task", evil, evil, None, source), date(2024, 6, 19))
    assert {"\x1b", "\x07"}.isdisjoint(capsys.readouterr().out)


def test_what_is_the_users_to_do_comes_first_in_a_list_of_its_own(pkb: Pkb) -> None:
    items = pkb("todo", "--json").row["items"]
    assert [item["whose"] for item in items] == ["mine"] * 6 + ["theirs"] * 3
    assert {item["who"] for item in items if item["whose"] == "mine"} == {"Mira Okafor", None}
    lines = pkb("todo").out.splitlines()
    assert (lines[0], [line for line in lines if line.startswith("Of others")]) == ("Yours:", ["Of others:"])
    assert lines[lines.index("Of others:") + 1].startswith("[7] ")
