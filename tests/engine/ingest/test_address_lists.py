"""Address lists in header fields: names, groups, comments, exporters' quirks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ingest.headers import LONGEST, MOST_ADDRESSES, Address, fields_of, parse_addresses, with_display_name
from engine.ingest.mail import read_envelope


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
def test_names_and_addresses_are_separated(value: str, people: list[str]) -> None:
    assert [str(one) for one in parse_addresses(value)] == people


def test_an_address_without_a_name_takes_the_display_name_of_another_field() -> None:
    assert (
        str(with_display_name(Address("", "ann@example.org"), "Lee, Ann </O=EXAMPLE/CN=ALEE>"))
        == "Lee, Ann <ann@example.org>"
    )


def test_an_address_keeps_its_own_name() -> None:
    assert str(with_display_name(Address("Ann", "ann@example.org"), "Somebody Else")) == "Ann <ann@example.org>"


def test_display_names_are_used_only_if_the_counts_match() -> None:
    block = (
        "To: a@example.org, b@example.org\nX-To: Lee, Ann </O=X>, Ray, Bob </O=Y>\nCc: c@example.org\nX-Cc: Ann, Bob"
    )
    people = [*read_envelope(fields_of(block.encode())).document.recipients]
    assert people == ["Lee, Ann <a@example.org>", "Ray, Bob <b@example.org>", "c@example.org"]


@given(st.text(alphabet='ab"\\<>(),;:@=? \n\x1b', max_size=200))
def test_any_value_gives_clean_addresses(value: str) -> None:
    for one in parse_addresses(value):
        assert str(one)
        assert str(one).isprintable()


@pytest.mark.parametrize("piece", ["(", "<", '"', '\\"', ",", ";a,", ":", "=?a?q?", "<a>:", '"\\'])
def test_hostile_lists_take_linear_time(piece: str) -> None:
    assert len(parse_addresses(piece * LONGEST)) <= MOST_ADDRESSES
