"""Chats and captions as programs export them: each message is its sender's, on its day, in whatever shape it stands."""

import json
from collections.abc import Callable
from datetime import date

import pytest

from engine.ingest.records import NO_SPEECH
from engine.ingest.transcripts import read_transcripts
from engine.ingest.types import ParseLimits, UnreadableItem
from store.types import Document

Message = tuple[int, str, str, str]  # day of March 2025, time, who, what
CHAT: list[Message] = [
    (28, "10:15", "Ana", "The door is green."),
    (28, "10:16", "Bo Li", "I thought it was blue."),
    (28, "10:17", "Ana", "No, look again."),
    (29, "09:01", "Bo Li", "You are right."),
    (29, "09:02", "Ana", "Shall we paint it?"),
    (29, "09:03", "Bo Li", "Yes, on Friday."),
]
SAID = [(who, what) for *_, who, what in CHAT]
TALK = [
    (0, "Ann Bell", "Good morning, all of you."),
    (5, "Ben Cole", "The shed needs twelve litres."),
    (9, "Carla Dunn", "I thought it was ten of them."),
    (14, "Ann Bell", "Then we buy twelve."),
    (18, "Ben Cole", "I will order it on Friday."),
]
TALKED = [(who, what) for _, who, what in TALK]


def documents(name: str, text: str) -> list[Document]:
    return [one.document for one in read_transcripts(name, text.encode(), ParseLimits()) if one.document]


def said(found: list[Document]) -> list[tuple[str, str]]:
    return [(turn.speaker, turn.text) for one in found for turn in one.passages if turn.speaker]


def below_days(day: Callable[[int], str], message: Callable[[str, str, str], str]) -> str:
    return "".join(
        f"{day(number)}\n" + "".join(message(*rest) for at, *rest in CHAT if at == number) for number in (28, 29)
    )


@pytest.mark.parametrize(
    "text",
    [
        "[LINE] Chat history with Ana\nSaved on: 2025/03/30 10:00\n\n"
        + below_days("\n2025/03/{}(Fri)".format, "{}\t{}\t{}\n".format),
        below_days("\n2025/03/{}(金)".format, "{}\t{}\t{}\n".format),
        "Ana 님과 카카오톡 대화\n\n"
        + below_days(
            "------ 2025년 3월 {}일 금요일 ------".format, lambda at, who, what: f"[{who}] [오전 {at}] {what}\n"
        ),
        below_days("------ Friday, March {}, 2025 ------".format, lambda at, who, what: f"[{who}] [{at} AM] {what}\n"),
        below_days("{} March 2025".format, "{}\n{}\n{}\n".format),
    ],
    ids=["line", "line in Japanese", "kakaotalk", "kakaotalk in English", "a page of Telegram"],
)
def test_days_on_lines_of_their_own_are_those_of_the_messages_below(text: str) -> None:
    found = documents("chat.txt", text)
    assert said(found) == SAID
    assert [one.date and one.date.date() for one in found] == [date(2025, 3, 28), date(2025, 3, 29)]


def telegram(number: int, message: Message) -> dict[str, object]:
    day, at, who, what = message
    date = f"2025-03-{day}T{at}:00"
    return {"id": number, "type": "message", "date": date, "from": who, "from_id": f"user{len(who)}", "text": what}


CALL = {"id": 9, "type": "service", "date": "2025-03-29T10:00:00", "actor": "Bo Li", "action": "phone_call", "text": ""}
JSON = {
    "telegram": {"name": "Ana", "messages": [*map(telegram, range(6), CHAT), CALL]},
    "google chat": {
        "messages": [
            {
                "creator": {"name": who, "email": f"{who[0]}@e.example", "user_type": "Human"},
                "created_date": f"Friday, {day} March 2025 at {at}:00 UTC",
                "text": what,
            }
            for day, at, who, what in CHAT
        ]
    },
    "teams": {
        "value": [
            {
                "createdDateTime": f"2025-03-{day}T{at}:00Z",
                "from": {"user": {"displayName": who}},
                "body": {"contentType": "html", "content": f"<p>{what}</p>"},
            }
            for day, at, who, what in CHAT
        ]
    },
}


@pytest.mark.parametrize("data", JSON.values(), ids=JSON)
def test_json_of_messengers_tells_who_wrote_and_when(data: object) -> None:
    found = documents("chat.json", json.dumps(data))
    assert said(found) == SAID
    assert found[0].date
    assert found[0].date.date() == date(2025, 3, 28)


def test_a_line_of_json_for_each_message_is_a_chat_and_other_records_are_none() -> None:
    lines = [
        json.dumps({"type": "post", "post": {"user": who, "message": what, "create_at": 1743156907000 + at}})
        for at, (who, what) in enumerate(SAID)
    ]
    assert said(documents("chat.jsonl", "\n".join(lines))) == SAID
    records = [
        json.dumps({"id": f"q{at}", "question": what, "from": who, "pack": "a"}) for at, (who, what) in enumerate(SAID)
    ]
    with pytest.raises(UnreadableItem):
        documents("questions.jsonl", "\n".join(records))


def test_bytes_that_are_written_as_characters_are_read_as_utf8() -> None:
    rows = [
        {"sender_name": who, "timestamp_ms": 1743156907000 + at * 60000, "content": what.replace("green", "grün")}
        for at, (who, what) in enumerate(SAID)
    ]
    text = json.dumps({"messages": rows}).replace("\\u00fc", "\\u00c3\\u00bc")
    assert said(documents("message_1.json", text))[0] == ("Ana", "The door is grün.")


NUMBERS = {"Ann Bell": 0, "Ben Cole": 1, "Carla Dunn": 2}


@pytest.mark.parametrize(
    "legend",
    [
        {"speakers": [{"id": at, "name": who} for who, at in NUMBERS.items()]},
        {"names": {f"{at}": who for who, at in NUMBERS.items()}},
    ],
    ids=["list", "table"],
)
def test_speakers_that_the_texts_number_have_the_names_that_stand_beside_them(legend: dict[str, object]) -> None:
    texts = [{"speaker": NUMBERS[who], "start": at, "end": at + 4, "text": what} for at, who, what in TALK]
    assert said(documents("talk.json", json.dumps(legend | {"segments": texts}))) == TALKED


CAPTIONS = {
    "talk.json": json.dumps([{"text": what, "start": at + 0.1, "duration": 5.9} for at, _, what in TALK]),
    "talk.xml": "<transcript>"
    + "".join(f'<text start="{at}" dur="4.9">{what}</text>' for at, _, what in TALK)
    + "</transcript>",
    "talk.ttml": '<?xml version="1.0"?><tt xmlns="http://www.w3.org/ns/ttml"><body><div>'
    + "".join(f'<p begin="00:00:{at:02}.000" end="00:00:{at + 4:02}.000">{what}</p>' for at, _, what in TALK)
    + "</div></body></tt>",
    "talk.lrc": "".join(f"[00:{at:02}.00]{what}\n" for at, _, what in TALK),
}


@pytest.mark.parametrize("name", CAPTIONS)
def test_captions_with_lengths_or_in_xml_are_read_from_their_first_second(name: str) -> None:
    (found,) = documents(name, CAPTIONS[name])
    assert " ".join(turn.text for turn in found.passages) == " ".join(what for *_, what in TALK)
    assert found.passages[0].at in (0.0, 0.1)


def test_a_backup_of_short_messages_is_a_chat_and_a_feed_is_none() -> None:
    rows = "".join(
        f'<sms date="{1743156907000 + at * 60000}" type="{1 + at % 2}" body="{what}" '
        f'readable_date="Mar 28, 2025 {at}:15:07 AM" />'
        for at, (_, what) in enumerate(SAID)
    )
    found = documents("sms.xml", f'<?xml version="1.0"?>\n<smses count="6">{rows}</smses>')
    assert [what for _, what in said(found)] == [what for _, what in SAID]
    feed = "".join(f"<item><title>{what}</title><author>{who}</author></item>" for who, what in SAID)
    entity = '<!DOCTYPE a [<!ENTITY b "c">]><a><text start="1" dur="2">&b;</text></a>'
    for text in (f"<rss><channel>{feed}</channel></rss>", entity, "<a><b></a>", "<a>" * 100_000):
        with pytest.raises(UnreadableItem, match=NO_SPEECH):
            documents("feed.xml", text)
    cues = "".join(f'<p begin="{at}" end="{at + 4}"><![CDATA[{what}]]></p>' for at, _, what in TALK)
    assert TALK[0][2] in documents("talk.xml", f"<talk>{cues}</talk>")[0].text


@pytest.mark.parametrize("form", ["{} — {}\n", "{} – {}\n", "{} - {}\n", "**{}** – {}\n\n"])
def test_full_names_in_front_of_dashes_speak_and_words_do_not(form: str) -> None:
    assert said(documents("talk.txt", "".join(form.format(*one) for one in TALKED))) == TALKED
    goods = ["Paint", "Brush", "Paint", "Brush", "Paint"]
    assert (
        said(
            documents("list.txt", "".join(form.format(one, what) for one, (_, what) in zip(goods, TALKED, strict=True)))
        )
        == []
    )
