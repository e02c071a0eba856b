"""Whom a name in a filter stands for: whole words of names and addresses, whole addresses and domains."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.types import fold, names_person

ANN = ("Ann Lee <ann@x.org>", "ann.lee@x.org", "Lee, Ann <al@x.org>", "ÁNN Lee", "Dr. Ann-Marie Lee", "boss+ann@x.org")
OTHERS = ("Hannah Lee <hannah@x.org>", "announce@x.org", "Joanna", "Bob <bob@ann.org>", "annlee@x.org", "Annie", "")


@pytest.mark.parametrize("wanted", ["ann", "ANN", "Änn", " ann "])
def test_a_name_finds_whole_words_of_names_and_of_addresses_before_the_at(wanted: str) -> None:
    assert [one for one in (*ANN, *OTHERS) if names_person(one, wanted)] == list(ANN)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("Ann Lee", ["Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>", "ann.lee@notacme.com"]),
        ("lee ann", ["Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>", "ann.lee@notacme.com"]),
        ("ann.lee", ["Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>", "ann.lee@notacme.com"]),
        ("acme.com", ["Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>"]),
        ("@ACME.com", ["Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>"]),
        ("@com", ["Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>", "ann.lee@notacme.com"]),
        ("acme", []),
        ("com", []),
        ("ann@acme.com", ["Ann Lee <ann@acme.com>"]),
        ("Anyone <ANN@acme.com>", ["Ann Lee <ann@acme.com>"]),
        ("nn@acme.com", []),
        ("安", ["王安 <w@x.cn>"]),
        ("zoe", ["Zoë ann@acme.com <evil@x.cn>"]),
        ("?", []),
        ("@", []),
    ],
)
def test_a_person_is_named_by_words_an_address_or_a_domain(wanted: str, found: list[str]) -> None:
    people = (
        "Ann Lee <ann@acme.com>", "Lee, Ann <l@mail.acme.com>", "ann.lee@notacme.com", "王安 <w@x.cn>",
        "Zoë ann@acme.com <evil@x.cn>",
    )  # fmt: skip
    assert [one for one in people if names_person(one, wanted)] == found


@given(st.text(max_size=30))
def test_whoever_is_named_in_full_is_found_and_folding_twice_changes_nothing(name: str) -> None:
    assert fold(fold(name)) == fold(name)
    person = f"{name} <x@y.org>".replace("\n", " ")
    assert names_person(person, person)
    assert names_person(person, "x@y.org")
