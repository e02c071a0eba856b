"""The names of people as questions may write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.people import name_forms


@pytest.mark.parametrize(
    ("person", "forms"),
    [
        ("Ann Vey <ann@example.org>", {"ann": "Ann", "vey": "Vey", "ann vey": "Ann Vey"}),
        ('"VEY, ANN" <a.v@example.org>', {"ann": "Ann", "vey": "Vey", "ann vey": "Ann Vey"}),
        ("ann.vey@example.org", {"ann": "Ann", "vey": "Vey", "ann vey": "Ann Vey"}),
        ("Zoë", {"zoe": "Zoë"}),
        ("Bill Vey", {"Bill": "Bill", "vey": "Vey", "bill vey": "Bill Vey"}),
        ("Will May", {"Will": "Will", "May": "May"}),
        ("no-reply@example.org", {}),
        ("info@example.org", {}),
        ("", {}),
    ],
)
def test_names_are_known_alone_and_in_pairs_and_everyday_words_by_their_capital(
    person: str, forms: dict[str, str]
) -> None:
    assert name_forms([person]) == forms


@given(st.lists(st.text()))
def test_any_text_may_stand_for_a_person(people: list[str]) -> None:
    assert all(form and word for word, form in name_forms(people).items())
