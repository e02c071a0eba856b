"""Whether the days of mail are right: shown, filtered by and answered with, over generated mail in 30 time zones.

    TZ=Europe/Berlin python -m tests.bench.days [MAILS] [SEED]

Each mail speaks of a meeting of its own, "tomorrow" or the like, in its own words or in those of a message that it
quotes or forwards. Right is the day on the writer's own clock, and no day for a quote that has no date.
"""

import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from engine.app import Pkb
from engine.text.dates import find, spell_date

ZONES = tuple(
    ZoneInfo(name)
    for name in (
        *("Etc/GMT+12", "Pacific/Pago_Pago", "Pacific/Honolulu", "Pacific/Marquesas", "America/Anchorage"),
        *("America/Los_Angeles", "America/Denver", "America/Chicago", "America/New_York", "America/Halifax"),
        *("America/St_Johns", "America/Sao_Paulo", "Atlantic/Azores", "UTC", "Europe/London", "Europe/Berlin"),
        *("Europe/Helsinki", "Africa/Nairobi", "Asia/Tehran", "Asia/Dubai", "Asia/Kabul", "Asia/Kolkata"),
        *("Asia/Kathmandu", "Asia/Bangkok", "Asia/Shanghai", "Australia/Adelaide", "Australia/Sydney"),
        *("Pacific/Auckland", "Pacific/Chatham", "Pacific/Kiritimati"),
    )
)
_PHRASES = (  # days from that of writing, and whether it is over
    (1, False, "The {} meeting is tomorrow in the hall."),
    (0, False, "The {} meeting is today in the hall."),
    (-1, True, "The {} meeting was yesterday in the hall."),
    (2, False, "The {} meeting is the day after tomorrow in the hall."),
    (-2, True, "The {} meeting was the day before yesterday in the hall."),
    (3, False, "The {} meeting is in three days in the hall."),
    (1, False, "Das {} Meeting ist morgen im Saal."),
    (-1, True, "Das {} Meeting war gestern im Saal."),
    (1, False, "Le meeting {} est demain dans la salle."),
    (1, False, "El meeting {} es mañana en la sala."),
    (1, False, "Il meeting {} è domani nella sala."),
)
_DST_DAYS = (date(2024, 3, 10), date(2024, 3, 31), date(2024, 10, 27), date(2024, 11, 3), date(2024, 4, 7))
_FORMS = ("own words",) * 5 + ("forwarded", "quoted below", "quoted in a reply", "undated")


@dataclass(frozen=True, slots=True)
class DatedMail:
    """A generated mail, the day it was sent on its writer's clock, and the day that it speaks of (None: not clear)."""

    name: str
    form: str
    raw: str
    sent: date
    meeting: date | None
    past: bool

    @property
    def question(self) -> str:
        """Ask for the day of its meeting."""
        return f"When {'was' if self.past else 'is'} the {self.name} meeting?"


def generate(count: int, seed: int) -> Iterator[DatedMail]:
    """Yield mails, the same ones for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        name = "".join(chance.choices("bdfgklmnprtvz", k=4)) + f"x{number}"
        step, past, phrase = chance.choice(_PHRASES)
        zone, form = ZONES[number % len(ZONES)], chance.choice(_FORMS)
        written = _moment(chance, zone)
        text, meeting = phrase.format(name), written.date() + timedelta(days=step)
        sent = written
        if form != "own words":
            sent = _later(chance, written)
            text = _around(form, written, text)
        raw = (
            f"From: Ann Lee <ann@example.org>\nTo: Bob Roe <bob@example.org>\nSubject: {_subject(form)}\n"
            f"Date: {format_datetime(sent)}\nMessage-ID: <{name}@example.org>\n"
            f"Content-Type: text/plain; charset=utf-8\n\n{text}\n"
        )
        yield DatedMail(name, form, raw, sent.date(), None if form == "undated" else meeting, past)


def _moment(chance: random.Random, zone: ZoneInfo) -> datetime:
    """Return a time of a year, often near midnight or on a day when clocks change."""
    day = (
        chance.choice(_DST_DAYS) if chance.random() < 0.2 else date(2024, 1, 1) + timedelta(days=chance.randrange(600))
    )
    hour = chance.choice((22, 23, 0, 1)) if chance.random() < 0.5 else chance.randrange(24)
    moment = datetime(day.year, day.month, day.day, hour, chance.randrange(60), tzinfo=zone)
    return moment.astimezone(ZoneInfo("UTC")).astimezone(zone)  # an hour that the clocks left out does not exist


def _later(chance: random.Random, written: datetime) -> datetime:
    """Return when a message is quoted, by somebody who may live elsewhere."""
    return (written + timedelta(hours=chance.randrange(2, 24 * 9))).astimezone(chance.choice(ZONES))


def _subject(form: str) -> str:
    return {"forwarded": "Fwd: plans", "quoted in a reply": "Re: plans", "quoted below": "Re: plans"}.get(form, "plans")


def _around(form: str, written: datetime, text: str) -> str:
    """Return a message as a mail program forwards or quotes it."""
    stamp = format_datetime(written)
    people = "From: Cleo Day <cleo@example.org>\n{}To: Ann Lee <ann@example.org>\nSubject: plans\n"
    if form == "forwarded":
        head = people.format(f"Date: {stamp}\n")
        return f"See below.\n\n---------- Forwarded message ---------\n{head}\n{text}"
    if form == "quoted below":
        head = people.format(f"Sent: {written:%A, %B} {written.day}, {written:%Y %H:%M %z}\n")
        return f"Fine.\n\n-----Original Message-----\n{head}\n{text}"
    if form == "quoted in a reply":
        return f"Fine.\n\nOn {written:%a, %d %b %Y at %H:%M %z}, Cleo Day <cleo@example.org> wrote:\n> {text}"
    return f"Fine.\n\n-----Original Message-----\n{people.format('')}\n{text}"


def measure(pkb: Pkb, mails: list[DatedMail]) -> Counter[tuple[str, str, bool]]:
    """Count, by check and form, the days that are right (True) and wrong."""
    found: Counter[tuple[str, str, bool]] = Counter()
    for mail in mails:
        answer = pkb.ask(mail.question, cache="off")
        source = answer.sources[0] if answer.sources else None
        found["answer", mail.form, _says(answer.text, mail.meeting)] += 1
        found["shown", mail.form, bool(source and source.date and source.date[:10] == mail.sent.isoformat())] += 1
        found["filter", mail.form, _filtered(pkb, mail)] += 1
    return found


def _says(answer: str | None, meeting: date | None) -> bool:
    """Whether an answer gives the day of the meeting alone; where that is not clear, no day."""
    if meeting is None:
        return not any(days.first == days.last and not days.yearly for days in find(_undated(answer or ""), date.min))
    return answer is not None and spell_date(meeting) in answer


def _undated(text: str) -> str:
    for word in ("today", "tomorrow", "yesterday", "morgen", "gestern", "demain", "mañana", "domani", "three days"):
        text = text.replace(word, "")
    return text


def _filtered(pkb: Pkb, mail: DatedMail) -> bool:
    """Whether the mail is found on its own day and on no other beside it."""
    found = []
    for step in (-1, 0, 1):
        day = (mail.sent + timedelta(days=step)).isoformat()
        found.append(any(mail.name in one.quote for one in pkb.search(f"{mail.name} meeting", since=day, until=day)))
    return found == [False, True, False]


def main(count: int = 500, seed: int = 1) -> None:
    """Index generated mails in a home of their own and print how many days are right."""
    mails = list(generate(count, seed))
    with tempfile.TemporaryDirectory() as folder, chdir(folder), Pkb(Path(folder, "home")) as pkb:
        Path("mail").mkdir()
        for mail in mails:
            Path("mail", f"{mail.name}.eml").write_text(mail.raw, "utf-8")
        pkb.ingest([Path("mail")], embed=False)
        found = measure(pkb, mails)
    print(f"{count} mails, {len(ZONES)} zones, TZ={os.environ.get('TZ', '')}")
    for check, form in sorted({(check, form) for check, form, _ in found}):
        right, wrong = found[check, form, True], found[check, form, False]
        print(f"{check:8} {form:18} {right:4} of {right + wrong}")
    for check in ("answer", "shown", "filter"):
        right = sum(number for (one, _, good), number in found.items() if one == check and good)
        print(f"{check:8} {'all':18} {right:4} of {count}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
