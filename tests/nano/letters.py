"""Lays facts and small talk out as the chunks of mail, meetings and calendars, under the product's own headers."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from engine.text.people import chunk_header, origin_line
from store.types import Chunk, Document, DocumentPassage, Role
from tests.nano import names
from tests.nano.entities import Person
from tests.nano.facts import Fact
from tests.nano.fillers import CLOSINGS, GREETINGS, SUBJECTS, TALK, TURNS, sentence
from tests.nano.world import World


@dataclass(frozen=True, slots=True)
class Letter:
    """Who wrote a mail, when, about what; `quoted` stands in the answer of another."""

    author: Person
    date: datetime
    subject: str
    quoted: bool = False


def mail(world: World, letter: Letter, said: Sequence[str], talk: int) -> Chunk:
    """Write a mail of these sentences with so much small talk."""
    rng, author = world.pool.rng, letter.author
    paragraphs = _paragraphs(world, _mixed(world, list(said), talk))
    if rng.random() < 0.35:
        width = rng.choice((60, 66, 70, 72, 76))
        paragraphs = [textwrap.fill(paragraph, width, break_on_hyphens=False) for paragraph in paragraphs]
    if talk and rng.random() < 0.75:
        paragraphs.insert(0, sentence(world.pool, GREETINGS, _people(world)))
    if talk and rng.random() < 0.65:
        close = [sentence(world.pool, CLOSINGS, {})] if rng.random() < 0.7 else []
        paragraphs += [*close, rng.choice((author.first, author.first, author.full))]
    if not letter.quoted:
        return _mail(world, author, letter.date, letter.subject, "\n".join(paragraphs))
    before = letter.date - timedelta(hours=rng.randint(1, 50))
    first = f"On {before:%a}, {before.day} {before:%b %Y} at {before:%H:%M}, {author.full} wrote:"
    text = "\n".join((first, *(f"> {line}" for line in "\n".join(paragraphs).splitlines())))
    return _mail(world, rng.choice(world.cast), letter.date, letter.subject, text, "quote")


def meeting(
    world: World, speakers: Sequence[Person], date: datetime, title: str, said: Sequence[str], talk: int
) -> Chunk:
    """Write the turns of a meeting: one speaker a sentence of `said`, others talk in between."""
    rng = world.pool.rng
    turn = "**{}:** {}" if rng.random() < 0.1 else "{}: {}"
    turns = [turn.format(who.full, _mixed_turn(world, text)) for who, text in zip(speakers, said, strict=True)]
    for _ in range(talk):
        chat = sentence(world.pool, TURNS if rng.random() < 0.6 else TALK, _people(world))
        turns.insert(rng.randint(0, len(turns)), turn.format(rng.choice([*world.cast, world.user]).full, chat))
    if rng.random() < 0.12:
        turns.insert(0, f"Present: {', '.join(one.full for one in (*world.cast, world.user))}")
    day = date.replace(hour=0, minute=0) if rng.random() < 0.7 else date
    return _chunk("transcript", title, "", (), day, "\n".join(turns))


def invitation(world: World, invited: Fact, date: datetime, talk: int) -> Chunk:
    """Write what a calendar sends of an event."""
    rng, event = world.pool.rng, invited.values["e"]
    title = f"{rng.choice(('Invitation', 'Invitation', 'Updated invitation'))}: {event[:1].upper()}{event[1:]}"
    notes = " ".join(sentence(world.pool, TALK, _people(world)) for _ in range(talk))
    rows = [title, invited.sentence, f"Attendees: {world.user.full}"] + ([f"Notes: {notes}"] if notes else [])
    return _mail(world, invited.person, date, title, "\n".join(rows), "event")


def signature(world: World, author: Person, date: datetime, subject: str) -> Chunk:
    """Write the end of a mail, which says nothing that is asked for."""
    pool = world.pool
    rows = (
        "-- ",
        f"{author.full}, {pool.listed(names.ROLES)}",
        f"{pool.fresh(names.KINDS)} {pool.listed(names.GROUPS)}",
    )
    return _mail(world, author, date, subject, "\n".join(rows))


def subject(world: World) -> str:
    """Make up the subject of a mail."""
    return sentence(world.pool, SUBJECTS, {})


def _paragraphs(world: World, body: list[str]) -> list[str]:
    """Cut sentences into paragraphs; the row of a table is one of its own."""
    cuts = [
        at for at in range(1, len(body)) if "|" in body[at] or "|" in body[at - 1] or world.pool.rng.random() < 0.25
    ]
    return [" ".join(body[start:end]) for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def _mixed(world: World, said: list[str], talk: int) -> list[str]:
    for _ in range(talk):
        said.insert(world.pool.rng.randint(0, len(said)), sentence(world.pool, TALK, _people(world)))
    return said


def _mixed_turn(world: World, text: str) -> str:
    return " ".join(_mixed(world, [text], world.pool.rng.choice((0, 0, 0, 1))))


def _people(world: World) -> dict[str, str]:
    return {"u": world.user.first, "w": world.pool.rng.choice(world.cast).first}


def _recipients(world: World) -> tuple[str, ...]:
    """Address a mail to the user, with another or by a list."""
    pool, form = world.pool, world.pool.rng.random()
    if form < 0.5:
        return (world.user.full,)
    if form < 0.7:
        return (pool.rng.choice(world.cast).full, world.user.full)
    word = pool.word()
    return (f"{word}@example.org" if form < 0.8 else f"{word.capitalize()} {pool.listed(names.GROUPS)}",)


def _mail(world: World, author: Person, date: datetime, subject: str, text: str, role: Role = "body") -> Chunk:
    recipients = tuple(_addressed(world, one) for one in _recipients(world))
    return _chunk("mail", subject, _addressed(world, author.full), recipients, date, text, role)


def _addressed(world: World, name: str) -> str:
    """Return the name of a person with the address that it has in this context; of groups and addresses, as it is."""
    names = name.lower().split()
    if not world.mailboxes or len(names) != 2:
        return name
    return f"{name} <{world.mailboxes.format(first=names[0], last=names[1])}>"


def _chunk(
    kind: str, title: str, sender: str, to: tuple[str, ...], date: datetime, text: str, role: Role = "body"
) -> Chunk:
    document = Document(
        id="",
        kind="mail" if kind == "mail" else "transcript",
        title=title,
        sender=sender,
        recipients=to,
        date=date.replace(tzinfo=UTC),
        message_id=None,
        text=text,
        passages=(),
    )
    part = DocumentPassage("", 1, 1, role)
    return Chunk("", "", 0, chunk_header(document, part), text, 1, 1, origin=origin_line(document, part))
