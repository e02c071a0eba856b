"""Tasks, decisions and due days in German, French, Spanish, Russian, Chinese and Japanese."""

from datetime import date, datetime
from pathlib import Path

import pytest

from engine.retrieval.open_loops import due_day

DATA = Path(__file__).parents[2] / "data"
SAID = {
    "de": "Ich schicke dir die Liste {}.",
    "fr": "Je t'envoie la liste {}.",
    "es": "Te mando la lista {}.",
    "ru": "Я пришлю список {}.",
    "zh": "我{}把名单发给你。",
    "ja": "{}リストを送ります。",
}


def rows(name: str) -> list[str]:
    return [row for row in (DATA / name).read_text("utf-8").splitlines() if not row.startswith("#")]


@pytest.mark.parametrize("row", rows("due_days.txt"))
def test_a_day_by_which_something_is_due_is_told(row: str) -> None:
    about, _, said = row.partition(": ")
    language, day = about.split()
    assert due_day(SAID[language].format(said), datetime(2024, 6, 19, 9)) == date.fromisoformat(day)
