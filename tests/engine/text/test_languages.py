"""Questions in other languages than English: what they ask for, their words, and dates and amounts in sentences."""

from datetime import date, datetime

import pytest

from engine.text.question import understand
from engine.text.relative_dates import resolve
from engine.text.spans import Kind, find

NOW = datetime(2026, 4, 20, 12)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Wann ist die Probe?", "date"),
        ("Um wie viel Uhr fängt die Probe an?", "time"),
        ("Wie hoch ist die Miete?", "amount"),
        ("Wie viele Stühle brauchen wir?", "number"),
        ("À quelle heure arrive le train ?", "time"),
        ("Combien coûte le billet ?", "amount"),
        ("¿Cuándo se reúne la junta?", "date"),
        ("¿Cuánto cuesta la entrada?", "amount"),
        ("Сколько стоит билет?", "amount"),
        ("Когда приезжает бабушка?", "date"),
        ("房租是多少？", "amount"),
        ("比赛什么时候开始？", "date"),
        ("入場料はいくらですか？", "amount"),
        ("試合は何時に始まりますか？", "time"),
        ("Wer bringt den Kuchen mit?", "other"),
    ],
)
def test_a_question_of_six_languages_asks_for_a_kind(text: str, asked: str) -> None:
    question = understand(text, NOW)
    assert (question.foreign, question.asked) == (True, asked)


@pytest.mark.parametrize("text", ["When is rehearsal?", "Who met Anne in Le Havre?", "lunch?", "Was the die cast?"])
def test_an_english_question_is_not_foreign(text: str) -> None:
    assert not understand(text, NOW).foreign


def test_words_that_only_ask_are_not_what_a_question_is_about() -> None:
    assert understand("Wann findet der Elternabend statt?", NOW).content == ("elternabend",)
    assert understand("家长会是什么时候？", NOW).content == ("家长", "长会")
    assert understand("Когда состоится собрание?", NOW).content == ("собрание",)


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("14 de abril", date(2026, 4, 14)),
        ("12 de junio de 2027", date(2027, 6, 12)),
        ("1er mai", date(2026, 5, 1)),
        ("7 июня", date(2026, 6, 7)),
        ("3月27日", date(2026, 3, 27)),
        ("19. März", date(2026, 3, 19)),
    ],
)
def test_a_date_is_found_and_understood(text: str, day: date) -> None:
    sentence = f"— {text}。"
    assert [sentence[one.start : one.end] for one in find(sentence, "date")] == [text]
    days = resolve(text, NOW)
    assert days is not None
    assert (days.first, days.last) == (day, day)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("Стоимость 32 700 рублей.", "amount", "32 700 рублей"),
        ("费用是180元", "amount", "180元"),
        ("更新料は72,000円です", "amount", "72,000円"),
        ("la facture : 1 380 euros, dont", "amount", "1 380 euros"),
        ("下午四点半在学校", "time", "下午四点半"),
        ("9時33分に出発", "time", "9時33分"),
        ("一共印了2000本", "number", "2000"),
    ],
)
def test_amounts_times_and_numbers_are_found(text: str, kind: Kind, said: str) -> None:
    assert [text[one.start : one.end] for one in find(text, kind)] == [said]
