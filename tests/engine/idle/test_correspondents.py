"""The people of a chunk, as a question would name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.people import correspondents, named, shown_name
from tests.engine.idle.kit import hit


@pytest.mark.parametrize(
    ("person", "name"),
    [
        ("Ann Lee <ann@example.org>", "Ann Lee"),
        ('"Lee, Ann" <ann@example.org>', "Ann Lee"),
        ("Lee, Ann", "Ann Lee"),
        ("Ann Lee (Oslo)", "Ann Lee"),
        ("ann@example.org", ""),
        ("<ann@example.org>", ""),
        ("", ""),
        ("Anne-Marie O'Hara", "Anne-Marie O'Hara"),
        ("12345", ""),
        ("Ann " * 20, ""),
    ],
)
def test_a_person_is_named_as_one_says_it(person: str, name: str) -> None:
    assert shown_name(person) == name


@given(st.text(max_size=80))
def test_a_name_is_short_and_on_one_line(person: str) -> None:
    name = shown_name(person)
    assert (len(name) <= 40, "\n" in name, "@" in name) == (True, False, False)


def test_correspondents_are_the_sender_and_then_the_recipients() -> None:
    assert correspondents(hit("text")) == ["Ann Lee", "Bob Roy"]


def test_those_named_in_full_are_found_but_not_a_greeting_of_a_correspondent() -> None:
    assert named(hit("Thanks Bob Roy! Please ask Carla Diaz about it. OSLO HALL is closed, Eve knows.")) == [
        "Carla Diaz"
    ]
