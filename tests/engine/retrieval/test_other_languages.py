"""Tasks, decisions and due days in German, French, Spanish, Russian, Chinese and Japanese."""

from datetime import UTC, date, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest

from engine.app import Pkb
from engine.retrieval.open_loops import Surroundings, commitment, due_day, says_done
from engine.retrieval.reports import Said, decisions, open_questions
from engine.text.time_sensitive import plain_words
from store.types import Chunk, Hit

DATA = Path(__file__).parents[2] / "data"
SAID = {
    "de": "Ich schicke dir die Liste {}.",
    "fr": "Je t'envoie la liste {}.",
    "es": "Te mando la lista {}.",
    "ru": "Я пришлю список {}.",
    "zh": "我{}把名单发给你。",
    "ja": "{}リストを送ります。",
}
HIT = Hit(Chunk("c", "d", 0, "Meeting: x", "", 1, 1), "", None, None, "", (), "x")


def rows(name: str) -> list[str]:
    return [row for row in (DATA / name).read_text("utf-8").splitlines() if not row.startswith("#")]


@pytest.mark.parametrize("row", rows("due_days.txt"))
def test_a_day_by_which_something_is_due_is_told(row: str) -> None:
    about, _, said = row.partition(": ")
    language, day = about.split()
    assert due_day(SAID[language].format(said), datetime(2024, 6, 19, 9)) == date.fromisoformat(day)


@pytest.mark.parametrize(
    "said",
    [
        *("十五天后交", "十二天后交", "每周三次", "两周一次", "明日香さん", "三木曜子さん"),
        *("отчёт по охране окружающей среды", "в среде разработчиков"),
    ],
)
def test_a_part_of_a_longer_word_is_no_day(said: str) -> None:
    assert due_day(said, datetime(2024, 6, 19, 9)) is None


def read(sentence: str) -> str:
    """Return what a sentence of short mail, or of a meeting, is taken for."""
    if says_done(sentence):
        return "done"
    said = Said(HIT, sentence, "Ann", tuple(plain_words(sentence)))
    if decisions([[said]]):
        return "decision"
    if open_questions([[said]]):
        return "open"
    found = commitment(sentence, Surroundings())
    return "none" if found is None else found.doer if found.kind == "task" else found.kind


@pytest.mark.parametrize("row", rows("cues.txt"))
def test_what_a_sentence_leaves_open_is_told(row: str) -> None:
    about, _, said = row.partition(": ")
    assert read(said) == about.split()[1]


def test_tasks_and_decisions_of_other_languages_are_shown_with_their_sources(tmp_path: Path) -> None:
    (folder := tmp_path / "Mail").mkdir()
    texts = {
        "de": "Bitte schick mir das Protokoll bis Freitag.",
        "ja": "月曜日までに議事録を送ってください。",
        "ru": "Завтра позвоню хозяину квартиры.",
    }
    for name, text in texts.items():
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = (
            "Ann Lee <ann@example.org>",
            "Ben Oak <b@example.org>",
            name,
        )
        message["Date"], message["Message-ID"] = datetime(2024, 6, 19, 9, tzinfo=UTC), f"<{name}@x>"
        message.set_content(text)
        (folder / f"{name}.eml").write_bytes(bytes(message))
    (folder / "sitzung.txt").write_text(
        "Vorstandssitzung\nDate: 18 June 2024\n\nAnn: Wir haben beschlossen, das Fest im Juni zu feiern.\nBen: Gut.\n"
    )
    with Pkb(tmp_path / "home", environ={"PKB_NOW": "2024-06-19T10:00+00:00"}) as pkb:
        pkb.ingest([folder], embed=False)
        found = {one.source.title: (one.text, one.who, one.due) for one in pkb.todo()}
        decided = [one.text for one in pkb.meeting("Vorstandssitzung").items]
    assert found == {
        "de": (texts["de"], "Ben Oak", date(2024, 6, 21)),
        "ja": (texts["ja"], "Ben Oak", date(2024, 6, 24)),
        "ru": (texts["ru"], "Ann Lee", date(2024, 6, 20)),
    }
    assert decided == ["Wir haben beschlossen, das Fest im Juni zu feiern."]
