"""Messages that programs keep in their own stores come back, each once, with its sender, day, zone and words."""

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from engine.ingest.files import read
from engine.ingest.scan import find_changes, ignorable
from engine.ingest.types import ParseLimits
from tests.engine.ingest.mail_stores import STORES, Message

START = datetime(2026, 3, 4, 9, 29, 5, tzinfo=timezone(timedelta(hours=2)))
PEOPLE = ("Ann Lee <ann@example.org>", "Zoë Õun <zoe@example.org>", "Jonas <jonas@example.net>")
TEXTS = (
    "The shed needs twelve litres of paint.",
    "From here on it is dry.\n\nFrom Monday on, too.",
    "Grüße aus dem Schuppen 🛖\n\nFrom: what I heard all is well.",
    "X-Mozilla-Status: 0009\nis what it says.",
    "Date: is a word.\nFrom: is another.",
)
STATES = ("read", "new", "read", "deleted", "read", "spam", "draft")


def messages(count: int = 14) -> list[Message]:
    """Return messages of several people, days, zones, words and states."""
    found = list[Message]()
    for n in range(count):
        day = START + timedelta(hours=31 * n)
        zone = timezone(timedelta(minutes=(0, 120, -300, 345)[n % 4]))
        found.append(Message(n + 1, PEOPLE[n % 3], day.astimezone(zone), f"{TEXTS[n % 5]}\nNumber {n}.", STATES[n % 7]))
    return found


@pytest.mark.parametrize("store", STORES)
def test_a_store_gives_each_message_with_sender_day_zone_and_words(tmp_path: Path, store: str) -> None:
    write, left_out = STORES[store]
    write(tmp_path, messages())
    changes = find_changes(os.fsencode(tmp_path), {}, ignorable)
    items = [item for path in changes.new for item in read(Path(os.fsdecode(path)), ParseLimits())]
    found = sorted((one for item in items if (one := item.document)), key=lambda one: int(one.title.split()[-1]))
    expected = [one for one in messages() if one.state not in left_out]
    assert [(one.title, one.sender) for one in found] == [(f"Shed {one.number}", one.sender) for one in expected]
    assert [(one.date, one.date and one.date.utcoffset()) for one in found] == [
        (one.day, one.day.utcoffset()) for one in expected
    ]
    own = ["\n".join(part.text for part in one.passages if part.role == "body") for one in found]
    assert [text.replace("\n", " ").split() for text in own] == [one.text.split() for one in expected]
