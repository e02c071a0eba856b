"""Who owes what to whom: names in sentences, signatures and subjects that could be taken for another's."""

import pytest

from engine.types import OpenLoop, json_values
from tests.attack.lab import NOW, Lab, mail

MIRA, ANN, BEN = "Mira Oda <mira@choir.example>", "Ann Li <ann@choir.example>", "Ben Ode <ben@choir.example>"
MAY, TEAM = "May Friday <may@choir.example>", "choir@choir.example"
FRIDAY = "2024-06-21"
# The sentence, from whom, to whom: who is to do it, who asked, and the day by which it is due.
SENTENCES = {
    "called at the beginning": ("Mira, could you send the list?", ANN, f"{MIRA}, {BEN}", "Mira", "Ann Li", None),
    "called at the end": ("Could you send the map, Mira?", ANN, f"{MIRA}, {BEN}", "Mira", "Ann Li", None),
    "asked alone": ("Could you please send me the plan?", ANN, MIRA, "Mira Oda", "Ann Li", None),
    "promised": ("I will send you the bill.", MIRA, ANN, "Mira Oda", None, None),
    "promised by a day": ("I will send you the score by Friday.", MIRA, ANN, "Mira Oda", None, FRIDAY),
    "asked by a day": ("Please send me the rota by Friday.", ANN, MIRA, "Mira Oda", "Ann Li", FRIDAY),
    "by somebody, not by a day": ("Please get the flyer printed by Mira.", ANN, BEN, "Ben Ode", "Ann Li", None),
    "signed in the sentence": ("Could you please send me the key, Ann?", ANN, BEN, "Ben Ode", "Ann Li", None),
    "signed, to several": ("Please send me the tent by Friday, Ann.", ANN, f"{MIRA}, {BEN}", None, "Ann Li", FRIDAY),
    "a name that is a month": ("Please send the lamp to May by Friday.", ANN, MIRA, "Mira Oda", "Ann Li", FRIDAY),
    "called by a month": ("May, could you send the stage plan?", ANN, f"{MAY}, {BEN}", "May", "Ann Li", None),
    "called on a list": ("Mira, could you book the coach?", ANN, TEAM, "Mira", "Ann Li", None),
    "of another": ("Mira will send the cups.", ANN, BEN, "Mira", None, None),
    "a question": ("Did you find the white gazebo?", ANN, MIRA, "Mira Oda", "Ann Li", None),
    "to oneself": ("I need to call the landlord.", ANN, ANN, "Ann Li", None, None),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OpenLoop]:
    """Return what is open, by its sentence."""
    lab = Lab(tmp_path_factory.mktemp("todo"))
    mails = [
        mail(f"Hello,\n\n{text}\n", sender=sender, to=to, title=f"Number {at}", day=NOW.isoformat())
        for at, (text, sender, to, *_) in enumerate(SENTENCES.values())
    ]
    lab.read({f"{at}.eml": raw for at, raw in enumerate(mails)})
    with lab.open() as pkb:
        return {one.text: one for one in pkb.todo(kind=None, limit=None)}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_task_is_of_whoever_is_to_do_it_and_asked_by_whoever_wants_it(found: dict[str, OpenLoop], name: str) -> None:
    text, _, _, who, asked_by, due = SENTENCES[name]
    one = json_values(found[text])
    assert (one["who"], one["asked_by"], one["due"]) == (who, asked_by, due)
