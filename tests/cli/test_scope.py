"""--from, --to, --since, --until, --in and -k: they filter before ranking."""

from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.dates import first_day
from tests.cli.conftest import Pkb


def found(pkb: Pkb, *words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pkb("search", "rehearsal", "concert", "--json", *words).row["sources"]
    return rows


def days(rows: list[dict[str, Any]]) -> list[str]:
    return [datetime.fromisoformat(row["date"]).astimezone().date().isoformat() for row in rows if row["date"]]


def test_k_is_the_number_of_passages(pkb: Pkb) -> None:
    assert [len(found(pkb, "-k", str(k))) for k in (1, 2, 7)] == [1, 2, 7]


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        (("--since", "2024-05-07"), "2024-05-07", "2024-06-19"),
        (("--until", "2024-02-06"), "2024-01-01", "2024-02-06"),
        (("--since", "2024-05", "--until", "2024-05"), "2024-05-01", "2024-05-31"),
        (("--since", "30d"), "2024-05-20", "2024-06-19"),
        (("--until", "2023"), "2024-01-01", "2023-12-31"),
    ],
)
def test_days_filter_before_ranking(pkb: Pkb, words: tuple[str, ...], first: str, last: str) -> None:
    everything, limited = found(pkb, "-k", "50"), found(pkb, "-k", "50", *words)
    inside = [day for day in days(everything) if first <= day <= last]
    assert all(first <= day <= last for day in days(limited))
    assert len(days(limited)) == len(limited) >= len(inside)  # what has no date is in no span of time
    assert bool(inside) == bool(limited)
    assert len(found(pkb, "-k", "1", *words)) == min(1, len(inside))  # not: the best of all, if it fits


def test_a_sender_filters(pkb: Pkb) -> None:
    documents = [pkb("show", row["path"], "--message-id", row["message_id"], "--json").row
                 for row in found(pkb, "-k", "3", "--from", "PEREIRA", "--in", "mail")]  # fmt: skip
    assert documents
    assert ["pereira" in document["sender"].lower() for document in documents] == [True] * len(documents)


def test_a_recipient_filters(pkb: Pkb) -> None:
    rows = found(pkb, "-k", "50", "--to", "example.org", "--in", "mail")
    assert rows
    assert found(pkb, "--to", "nobody.at.all@example.org") == []


def test_a_collection_filters(pkb: Pkb) -> None:
    rows = found(pkb, "-k", "50", "--in", "transcripts")
    assert rows
    assert [row["path"] for row in rows if "/transcripts/" not in row["path"]] == []


def test_a_document_filters(pkb: Pkb) -> None:
    ran = pkb("ask", "who was there?", "--doc", "committee", "--since", "2024-05-20", "--until", "2024-05-20", "--json")
    assert (ran.code, [Path(row["path"]).name for row in ran.row["sources"]]) == (
        0,
        ["parents-committee-2024-05-20.md"],
    )
    assert ran.row["answer"] == "Ann Pereira (chair), Samir Haddad, Lucy Brandt, Mira Okafor, Chen Xiaowen"


def test_a_document_of_no_such_title_is_an_error_with_what_to_type_next(pkb: Pkb) -> None:
    ran = pkb("ask", "who was there?", "--doc", "no such title")
    assert (ran.code, ran.err) == (2, "pkb: --doc no such title matches no document; try: pkb list\n")


def test_nothing_within_the_limits_exits_4(pkb: Pkb) -> None:
    ran = pkb("search", "rehearsal", "--from", "nobody.at.all", "--json")
    assert (ran.code, ran.row["sources"]) == (4, [])
    assert pkb("ask", "when is rehearsal?", "--until", "1999", "--json").row["sources"] == []


def test_a_search_without_matches_says_so_and_what_to_type_next(pkb: Pkb) -> None:
    words = ("search", "rehearsal", "--since", "2031")
    ran, as_json = pkb(*words), pkb(*words, "--json")
    assert (ran.code, ran.out) == (4, "No matches.\n")
    assert ran.err == "pkb: nothing matches within these filters; try: pkb search rehearsal\n"
    assert (as_json.code, as_json.row["sources"], as_json.err) == (4, [], ran.err)


@pytest.mark.parametrize("words", [("search", "rehearsal"), ("ask", "when is rehearsal?")])
def test_a_person_who_is_nobody_is_named(pkb: Pkb, words: tuple[str, str]) -> None:
    unknown = pkb(*words, "--json", "--from", "nobody.at.all")
    assert (unknown.code, unknown.row["sources"]) == (4, [])
    assert unknown.err == "pkb: no indexed message is from nobody.at.all; try: a name, an address or @domain\n"
    said = "pkb: no indexed message is to nobody.at.all; try: a name, an address or @domain\n"
    assert pkb(*words, "--to", "nobody.at.all", "--json").err == said
    assert "try: pkb search zzz" in pkb("search", "zzz", "--from", "pereira").err


@pytest.mark.parametrize("flag", ["--from", "--to", "--in"])
@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_filter_is_an_error(pkb: Pkb, flag: str, name: str) -> None:
    ran = pkb("search", "rehearsal", flag, name)
    assert (ran.code, ran.out, ran.err) == (2, "", f"pkb: {flag} is empty; try: pkb ask --help\n")


@pytest.mark.parametrize(("since", "until"), [("2024-06", "2024-05"), ("2024-05-02", "2024-05-01"), ("1d", "3d")])
def test_days_the_wrong_way_round_are_an_error(pkb: Pkb, since: str, until: str) -> None:
    ran = pkb("ask", "when is rehearsal?", "--since", since, "--until", until)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"pkb: --since {since} is after --until {until}; try: pkb ask --help\n"


def test_an_unknown_collection_is_named_with_the_known_ones(pkb: Pkb) -> None:
    ran = pkb("ask", "when is rehearsal?", "--in", "Mail")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "pkb: no collection Mail, only mail, transcripts; try: pkb stats\n"


EXAMPLES = "2024-05-03, 2024-05, 2024, 30d, yesterday or last week"


@pytest.mark.parametrize("day", ["someday", "2024-13", "2024-02-30", "9999y", "0000", "2024-1-1-1", "", "-3d"])
def test_an_invalid_day_is_an_error_that_names_its_flag(pkb: Pkb, day: str) -> None:
    ran = pkb("ask", "when is rehearsal?", f"--since={day}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (f"pkb: --since {day} is not a day like {EXAMPLES}; try: pkb ask --help\n")


@pytest.mark.parametrize(
    ("named", "first", "after"),
    [
        ("today", "2024-06-19", "2024-06-20"),
        ("yesterday", "2024-06-18", "2024-06-19"),
        ("last week", "2024-06-10", "2024-06-17"),
        ("this month", "2024-06-01", "2024-07-01"),
        ("Monday", "2024-06-17", "2024-06-18"),
        ("last friday", "2024-06-14", "2024-06-15"),
        ("3 days ago", "2024-06-16", "2024-06-17"),
        ("gestern", "2024-06-18", "2024-06-19"),
        ("letzte Woche", "2024-06-10", "2024-06-17"),
        ("hier", "2024-06-18", "2024-06-19"),
    ],
)
def test_days_may_be_named_as_people_do(named: str, first: str, after: str) -> None:
    today = date(2024, 6, 19)  # a Wednesday
    days = first_day(named, today), first_day(named, today, end=True)
    assert days == (date.fromisoformat(first), date.fromisoformat(after))


@given(st.text(max_size=30), st.dates(date(1, 1, 1), date(9999, 12, 31)), st.booleans())
def test_any_text_is_a_day_or_none(text: str, today: date, end: bool) -> None:
    with suppress(ValueError, OverflowError):
        assert isinstance(first_day(text, today, end=end), date)


@pytest.mark.parametrize("nonsense", ["zzzz", "zzzz qqqq", "asdfghjkl", "fnord blorf"])
def test_letters_without_a_meaning_find_nothing_although_some_vector_is_the_nearest(pkb: Pkb, nonsense: str) -> None:
    ran, as_json = pkb("search", nonsense), pkb("search", nonsense, "--json")
    assert (ran.code, ran.out) == (4, "No matches.\n")
    assert (as_json.code, as_json.row["sources"]) == (4, [])


@pytest.mark.parametrize("meant", ["reimbursement", "invoice for the bicycle", "vocalists", "reheasral"])
def test_words_that_stand_nowhere_are_found_by_their_meaning_or_a_slip_of_the_keys(pkb: Pkb, meant: str) -> None:
    assert pkb("search", meant, "--json").row["sources"]
