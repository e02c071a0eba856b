"""Messages and questions of our own, for a trial of a model where nobody has asked anything yet. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime

from engine.ask.evidence import Evidence, Read
from store.records import Chunk

NOW = datetime(2024, 6, 4, 9, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Example:
    """A question, and the numbers of the messages that are shown with it."""

    question: str
    shown: tuple[int, ...]


_MAIL = (
    ("Ann Bell, Monday 3 June 2024, picnic", "The picnic is on Friday at 6pm in the park. Please bring a blanket."),
    ("Ben Cole, Sunday 2 June 2024, workshop", "Marie has the spare key to the workshop. The lathe costs 340 euros."),
    ("Marie Lund, Saturday 1 June 2024, concert", "The concert has moved to the town hall. It begins at half past 7."),
)
_QUESTIONS = (
    Example("When is the picnic?", (2, 0)),
    Example("Who has the spare key to the workshop?", (1, 0)),
    Example("Where is the concert?", (2, 1, 0)),
    Example("How much does the lathe cost?", (2, 1)),
)


def examples() -> Iterator[tuple[str, Evidence]]:
    """Give questions with what would be retrieved for them."""
    for one in _QUESTIONS:
        reads = tuple(Read((_chunk(number),), "", (), _date(number), 1.0, ()) for number in one.shown)
        yield one.question, Evidence(reads, tuple(read.chunks[0].id for read in reads), 0.0)


def messages() -> Iterator[tuple[str, str]]:
    """Give the messages as files of mail: their names and what is in them."""
    for number, (about, text) in enumerate(_MAIL):
        sender, _, subject = about.split(", ")
        head = f"From: {sender} <{sender.split()[0].lower()}@example.org>\nDate: {format_datetime(_date(number))}"
        yield f"{subject}.eml", f"{head}\nMessage-ID: <{subject}@example.org>\nSubject: {subject}\n\n{text}\n"


def questions() -> list[str]:
    """Give the questions alone."""
    return [one.question for one in _QUESTIONS]


def _chunk(number: int) -> Chunk:
    about, text = _MAIL[number]
    return Chunk(f"example-{number}", f"example-{number}", 0, f"From: {about}", text, 1, 1)


def _date(number: int) -> datetime:
    return NOW.replace(day=3 - number)
