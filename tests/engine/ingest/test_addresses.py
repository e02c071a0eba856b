"""Addresses are read however they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.headers import LONGEST, MOST_ADDRESSES, Address, display_names, parse_addresses, with_display_name


@pytest.mark.parametrize(
    ("value", "people"),
    [
        ("ann@example.org", ["ann@example.org"]),
        ("Ann Lee <ann@example.org>, bob@example.org", ["Ann Lee <ann@example.org>", "bob@example.org"]),
        ('"Lee, Ann" <ann@example.org>', ["Lee, Ann <ann@example.org>"]),
        ("Lee, Ann <ann@example.org>, Bob <bob@example.org>", ["Lee, Ann <ann@example.org>", "Bob <bob@example.org>"]),
        ("Lee, Ann; Ray, Bob", ["Lee, Ann", "Ray, Bob"]),
        ("ann@example.org (Ann Lee)", ["Ann Lee <ann@example.org>"]),
        ("choir: ann@example.org, bob@example.org;", ["ann@example.org", "bob@example.org"]),
        ("undisclosed-recipients:;", []),
        ("=?utf-8?Q?Lee=2C_Ann?= <ann@example.org>", ["Lee, Ann <ann@example.org>"]),
        ("'ann@example.org'", ["ann@example.org"]),
        ("ann@example.org <ann@example.org>", ["ann@example.org"]),
        ('"never closed <ann@example.org>', ["never closed <ann@example.org>"]),
        ('"a \\"b\\"" <ann@example.org>', ['a "b" <ann@example.org>']),
        ("Ann Lee <", ["Ann Lee"]),
        ("", []),
    ],
)
def test_names_and_addresses_are_told_apart(value: str, people: list[str]) -> None:
    assert [str(one) for one in parse_addresses(value)] == people


def test_a_name_kept_elsewhere_serves_an_address_that_has_none() -> None:
    assert (
        str(with_display_name(Address("", "ann@example.org"), "Lee, Ann </O=EXAMPLE/CN=ALEE>"))
        == "Lee, Ann <ann@example.org>"
    )


def test_a_name_of_its_own_stays() -> None:
    assert str(with_display_name(Address("Ann", "ann@example.org"), "Somebody Else")) == "Ann <ann@example.org>"


def test_display_names_serve_only_if_there_are_as_many() -> None:
    assert display_names("Lee, Ann </O=X>, Ray, Bob </O=Y>", 2) == ["Lee, Ann </O=X>", "Ray, Bob </O=Y>"]
    assert display_names("Ann, Bob", 3) == []


@given(st.text(alphabet='ab"\\<>(),;:@=? \n\x1b', max_size=200))
def test_any_value_gives_clean_people(value: str) -> None:
    for one in parse_addresses(value):
        assert str(one)
        assert str(one).isprintable()


@pytest.mark.parametrize("piece", ["(", "<", '"', '\\"', ",", ";a,", ":", "=?a?q?", "<a>:", '"\\'])
def test_hostile_lists_end(piece: str) -> None:
    assert len(parse_addresses(piece * LONGEST)) <= MOST_ADDRESSES
