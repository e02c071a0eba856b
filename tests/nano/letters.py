"""Lays facts and small talk out as the chunks of mail and meetings, under the product's own headers."""

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

from engine.ingest.label import label
from store.records import Chunk, Document
from tests.nano.entities import Person
from tests.nano.fillers import CLOSINGS, GREETINGS, SUBJECTS, TALK, TURNS, sentence
from tests.nano.world import World


def mail(world: World, author: Person, date: datetime, subject: str, said: Sequence[str], talk: int) -> Chunk:
    """Write a mail of these sentences with so much small talk."""
    rng = world.pool.rng
    body = _mixed(world, list(said), talk)
    cut = [at for at in range(1, len(body)) if rng.random() < 0.25]
    paragraphs = [" ".join(body[start:end]) for start, end in zip([0, *cut], [*cut, len(body)], strict=True)]
    if rng.random() < 0.35:
        width = rng.choice((60, 66, 70, 72, 76))
        paragraphs = [textwrap.fill(paragraph, width, break_on_hyphens=False) for paragraph in paragraphs]
    if talk and rng.random() < 0.75:
        paragraphs.insert(0, sentence(world.pool, GREETINGS, _people(world)))
    if talk and rng.random() < 0.65:
        close = [sentence(world.pool, CLOSINGS, {})] if rng.random() < 0.7 else []
        paragraphs += [*close, rng.choice((author.first, author.first, author.full))]
    to = (world.user.full,) if rng.random() < 0.8 else (rng.choice(world.cast).full, world.user.full)
    return _chunk("mail", subject, author.full, to, date, "\n".join(paragraphs))


def meeting(
    world: World, speakers: Sequence[Person], date: datetime, title: str, said: Sequence[str], talk: int
) -> Chunk:
    """Write the turns of a meeting: one speaker a sentence of `said`, others talk in between."""
    rng = world.pool.rng
    turns = [f"{who.full}: {_mixed_turn(world, text)}" for who, text in zip(speakers, said, strict=True)]
    for _ in range(talk):
        chat = sentence(world.pool, TURNS if rng.random() < 0.6 else TALK, _people(world))
        turns.insert(rng.randint(0, len(turns)), f"{rng.choice([*world.cast, world.user]).full}: {chat}")
    day = date.replace(hour=0, minute=0) if rng.random() < 0.7 else date
    return _chunk("transcript", title, "", (), day, "\n".join(turns))


def subject(world: World) -> str:
    """Make up the subject of a mail."""
    return sentence(world.pool, SUBJECTS, {})


def _mixed(world: World, said: list[str], talk: int) -> list[str]:
    for _ in range(talk):
        said.insert(world.pool.rng.randint(0, len(said)), sentence(world.pool, TALK, _people(world)))
    return said


def _mixed_turn(world: World, text: str) -> str:
    return " ".join(_mixed(world, [text], world.pool.rng.choice((0, 0, 0, 1))))


def _people(world: World) -> dict[str, str]:
    return {"u": world.user.first, "w": world.pool.rng.choice(world.cast).first}


def _chunk(kind: str, title: str, sender: str, to: tuple[str, ...], date: datetime, text: str) -> Chunk:
    document = Document(
        id="",
        kind="mail" if kind == "mail" else "transcript",
        title=title,
        sender=sender,
        recipients=to,
        date=date.replace(tzinfo=UTC),
        message_id=None,
        links=(),
        topic=title,
        is_reply=False,
        text=text,
        passages=(),
    )
    return Chunk("", "", 0, label(document, "body"), text, 1, 1)
