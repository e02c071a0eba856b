"""A home whose questions were answered by quotes: sentences, where the tiny language model writes a few words."""

from pathlib import Path

from engine.app import Pkb

EVENTS = [
    "picnic",
    "concert",
    "rehearsal",
    "fair",
    "raffle",
    "lecture",
    "quiz",
    "auction",
    "regatta",
    "parade",
    "workshop",
    "seminar",
    "banquet",
    "hike",
]
PLACES = ["park", "hall", "garden", "chapel", "library", "barn", "museum"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
OWNERS = ["spring", "summer", "autumn", "winter"]


def write_mail(folder: Path) -> list[str]:
    """Write a mail for each event; return a question about each."""
    folder.mkdir(parents=True)
    questions = []
    for number, (owner, event) in enumerate((owner, event) for owner in OWNERS for event in EVENTS):
        day, place = DAYS[number % len(DAYS)], PLACES[number * 3 % len(PLACES)]
        head = "From: Ann Bell <ann@example.org>\nTo: Ben Cole <ben@example.org>\n"
        head += f"Date: Mon, 3 Jun 2024 09:{number:02}:00 +0000\nMessage-ID: <{number}@example.org>\n"
        text = f"The {owner} {event} is on {day} at {number % 11 + 1}pm in the {place}."
        (folder / f"{number}.eml").write_text(f"{head}Subject: {owner} {event}\n\n{text}\n", "utf-8")
        questions.append(f"Where is the {owner} {event}?")
    return questions


def teach(folder: Path, count: int = 60) -> list[str]:
    """Ingest the mail and have quotes answer a question about each event, in the home of this process's environment."""
    questions = write_mail(folder / "mail")[:count]
    with Pkb() as pkb:
        pkb.ingest([folder / "mail"], embed=False)
        for question in questions:
            pkb.ask(question)
    return questions
