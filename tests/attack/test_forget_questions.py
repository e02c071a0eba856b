"""Attacks on `pkb forget`: questions that hold words of a forgotten message, though nothing was answered from it."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from store.types import Scope
from tests.attack.lab import Lab, mail
from tests.engine.recovery import Secret, traces

SECRET = Secret(("Leukaemia", "Brandwein"))
TEXT = "The diagnosis of Oskar is leukaemia, said doctor Brandwein on Tuesday."
HIDDEN = mail(TEXT, "Message-ID: <sec@choir.example>", title="Oskar", day="2024-06-10T10:00Z")
EDITED = mail("The diagnosis is private.", "Message-ID: <sec@choir.example>", title="Oskar", day="2024-06-10T10:00Z")
OTHERS = {
    f"t{at}.eml": mail(
        f"We met number {at} at the lake, and talked about oars. Doctor visits are paid by the choir.",
        f"Message-ID: <t{at}@choir.example>",
        title=f"Lake {at}",
        day=f"2024-05-1{at}T10:00Z",
    )
    for at in range(4)
}
ASKED = "Does Oskar have leukaemia, says Brandwein?"
STAYS = "Did we talk about the oars at the lake?"
WAYS: Mapping[str, Mapping[str, Any]] = {
    "of earlier days": {"until": "2024-06-01"},
    "of later days": {"since": "2025"},
    "of another sender": {"sender": "ben@choir.example"},
    "of another document": {"document": "t1.eml"},
    "of one source": {"k": 1},
    "past the cache": {"cache": "off", "until": "2024-06-01"},
}


def edit(lab: Lab) -> None:
    lab.read({"sec.eml": EDITED})


def delete(lab: Lab) -> None:
    (lab.mail / "sec.eml").unlink()
    lab.read()


def nothing(_: Lab) -> None:
    pass


AFTER: Mapping[str, Callable[[Lab], None]] = {"as it is": nothing, "edited": edit, "deleted": delete}


def asked(lab: Lab) -> set[str]:
    with lab.open() as pkb:
        return {one for (one,) in pkb.session.ledger.rows.execute("SELECT question FROM history")}


def forget(lab: Lab, *targets: str, deleted: bool = False) -> tuple[str, ...]:
    with lab.open() as pkb:
        planned = pkb.plan_forgetting(list(targets), Scope(), deleted=deleted)
        pkb.forget(planned)
        return planned.questions


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    made.read(OTHERS)
    made.ask(STAYS)
    yield made
    assert asked(made) == {STAYS}
    assert traces(tmp_path / "home", SECRET) == set()


@pytest.mark.parametrize("way", WAYS)
def test_questions_that_did_not_find_the_message_go_with_it(lab: Lab, way: str) -> None:
    lab.read({"sec.eml": HIDDEN})
    options = {name: str(lab.mail / one) if name == "document" else one for name, one in WAYS[way].items()}
    lab.ask(ASKED, **options)
    assert forget(lab, "<sec@choir.example>") == (ASKED,)


@pytest.mark.parametrize("after", AFTER)
def test_questions_asked_before_the_message_came_go_with_it(lab: Lab, after: str) -> None:
    lab.ask(ASKED)
    lab.later(days=1)
    lab.read({"sec.eml": HIDDEN})
    AFTER[after](lab)
    assert forget(lab, "<sec@choir.example>") == (ASKED,)


@pytest.mark.parametrize("after", ["edited", "deleted"])
def test_erasing_what_is_left_takes_questions_with_words_that_nothing_has(lab: Lab, after: str) -> None:
    lab.read({"sec.eml": HIDDEN})
    lab.ask(ASKED, until="2024-06-01")
    AFTER[after](lab)
    assert forget(lab, deleted=True) == (ASKED,)


@pytest.mark.parametrize("after", ["edited", "deleted"])
@pytest.mark.parametrize("named", ["<sec@choir.example>", None])
def test_a_question_with_words_that_nothing_ever_had_stays(tmp_path: Path, after: str, named: str | None) -> None:
    lab = Lab(tmp_path)
    lab.read(OTHERS | {"sec.eml": HIDDEN})
    stay = ("Where is the rehaersal?", "Who has the kite?", "What did doctor Xanadu say?")
    for question in (*stay, ASKED):
        lab.ask(question, until="2024-06-01")
    AFTER[after](lab)
    assert forget(lab, *filter(None, [named]), deleted=named is None) == (ASKED,)
    assert asked(lab) == {*stay}


def test_questions_asked_between_plan_and_confirmation_go_too(lab: Lab) -> None:
    lab.read({"sec.eml": HIDDEN})
    with lab.open() as pkb:
        planned = pkb.plan_forgetting(["<sec@choir.example>"], Scope())
        lab.ask(ASKED, until="2024-06-01")
        pkb.forget(planned)


def test_a_word_that_another_message_has_keeps_its_questions(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    brandwein = mail("Brandwein plays the oboe.", "Message-ID: <oboe@choir.example>", title="Oboe")
    lab.read(OTHERS | {"sec.eml": HIDDEN, "oboe.eml": brandwein})
    kept, lost, neither = "Which instrument does Brandwein play?", "Is it leukaemia?", "Where is Xanadu?"
    for question in (kept, lost, neither):
        lab.ask(question, until="2024-06-01")
    assert forget(lab, "<sec@choir.example>") == (lost,)
    assert asked(lab) == {kept, neither}
