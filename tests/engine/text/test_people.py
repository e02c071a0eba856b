"""Names and addresses folded so that those that look alike are equal."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.people import folded_address, folded_name, identities, name_and_address, person, same_people

ALIKE = [
    "Ann Whitlock",
    "ANN WHITLOCK",
    "Whitlock, Ann",
    "Аnn Whitlοck",
    "Ａnn Whit\u200block",
    "Ann.Whitlock",
    "Ánn  Whitlock",
]


@pytest.mark.parametrize("name", ALIKE)
def test_names_that_look_alike_are_one(name: str) -> None:
    assert folded_name(name) == "ann whitlock"


@pytest.mark.parametrize("other", ["Ann Whitlow", "Ann", "Anna Whitlock", "Анна Ким"])
def test_names_that_look_different_are_two(other: str) -> None:
    assert folded_name(other) != "ann whitlock"


@pytest.mark.parametrize(
    "address", ["ann@сhoir.example", "ann@ch0ir.example", "ANN@choir.exarnple", "ann@choIr.example"]
)
def test_addresses_that_look_alike_are_one(address: str) -> None:
    assert folded_address(address) == folded_address("ann@choir.example")


@given(st.text(max_size=60), st.from_regex(r"[a-z]{1,8}@[a-z]{1,8}\.example", fullmatch=True))
def test_no_name_reads_as_an_address(name: str, address: str) -> None:
    shown = person(name, address)
    assert name_and_address(shown)[1] == address


@given(st.text(max_size=60))
def test_folding_a_name_again_changes_nothing_that_is_compared(name: str) -> None:
    assert folded_name(name).split() == folded_name(f" {name} ").split()


def test_people_are_grouped_by_address_and_by_a_name_of_several_words() -> None:
    gus = ("gus j. perez <gus@x.org>", "gus perez <g@y.org>", "perez, gus j <gp@z.org>", "gus.perez@z.org", "g@y.org")
    others = (
        "ann <ann@x.org>",
        "ann <ann@y.org>",
        "grad student a",
        "grad student b",
        "user1 test <1@x>",
        "user2 test <2@x>",
    )

    assert sorted(map(len, same_people([*gus, *others]))) == [1] * 6 + [5]


@given(st.lists(st.tuples(st.sampled_from(["", "ann lee", "lee, ann", "bo ray", "ann"]), st.sampled_from("abcd"))))
def test_people_are_grouped_as_by_joining_two_at_a_time(pairs: list[tuple[str, str]]) -> None:
    people = [person(name, f"{address}@x.org") for name, address in pairs]
    groups = [({one}, {*identities(one)}) for one in people]
    while joined := next(((a, b) for a, b in combinations(groups, 2) if a[1] & b[1]), None):
        groups = [one for one in groups if one not in joined] + [
            (joined[0][0] | joined[1][0], joined[0][1] | joined[1][1])
        ]

    assert sorted(same_people(people)) == sorted(tuple(sorted(one)) for one, _ in groups)
