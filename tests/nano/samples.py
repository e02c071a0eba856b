"""One context with its questions and their answers, as the product would put them to a model. Pure, given a seed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from engine.llm.prompt import chunk_segment, question_segment
from prompts import prompt
from store.types import Chunk
from tests.nano.letters import Letter, invitation, mail, meeting, signature, subject
from tests.nano.pool import Pool
from tests.nano.questions import Asked, questions
from tests.nano.world import World, world


@dataclass(frozen=True, slots=True)
class Level:
    """How hard contexts are: the most chunks, facts a chunk, sentences of small talk a chunk, and questions."""

    chunks: int
    facts: int
    talk: int
    questions: int
    bare: bool = False  # the text and the question alone, without system segment, header and date


BARE = Level(1, 1, 0, 3, bare=True)
EASY, MIDDLE, HARD, LONG = Level(1, 1, 0, 4), Level(2, 2, 1, 6), Level(4, 3, 3, 9), Level(4, 4, 7, 10)
FULL = Level(8, 4, 7, 12)  # as many as the demo shows


@dataclass(frozen=True, slots=True)
class Sample:
    """A context and what is asked about it; segments are to be tokenised one by one."""

    chunks: tuple[Chunk, ...]
    today: datetime
    asked: tuple[Asked, ...]
    bare: bool

    def context(self) -> tuple[str, ...]:
        """Return the segments before the question."""
        if self.bare:
            return (f"[1]\n{self.chunks[0].text}\n",)
        return (prompt("answer") + "\n", *(chunk_segment(number, chunk) for number, chunk in enumerate(self.chunks, 1)))

    def question(self, asked: Asked) -> str:
        """Return the last segment."""
        segment = question_segment(asked.text, self.today)
        return "\n".join(segment.split("\n")[-2:]) if self.bare else segment  # without the day


def sample(rng: Random, level: Level, unseen: bool = False) -> Sample:
    """Draw a context with its questions; `unseen` draws values that training never does."""
    pool = Pool(rng, unseen, invented=0.25 if unseen else 0.5)
    drawn, day = world(pool), timedelta()
    chunks, subjects = list[Chunk](), list[tuple[str, str, str]]()
    for number in range(1, rng.randint(1, level.chunks) + 1):
        day += timedelta(days=rng.choice((0, 1, 1, 2, 3, 5, 9, 20)), minutes=rng.randint(1, 300))
        chunk, written = _chunk(drawn, number, drawn.first_day + day, level)
        chunks.append(chunk)
        subjects += [(*written, str(number))] if written else []
    today = drawn.first_day + day + timedelta(days=rng.choice((0, 0, 1, 1, 2, 3, 4, 6, 9, 15, 30)))
    asked = questions(drawn, chunks, subjects, level.questions)
    if level.bare:
        asked = [one for one in asked if not one.cites or one.answer in chunks[0].text]
    return Sample(tuple(chunks), today, tuple(asked), level.bare)


def _chunk(drawn: World, number: int, date: datetime, level: Level) -> tuple[Chunk, tuple[str, str] | None]:
    """Write one chunk; with a subject of its own and who wrote it, where it has one."""
    rng, form = drawn.pool.rng, drawn.pool.rng.random()
    if form < 0.06 and not level.bare:
        author = rng.choice(drawn.cast)
        return invitation(drawn, drawn.invite(number, author), date, rng.randint(0, level.talk)), None
    if form > 0.97 and drawn.facts:
        return signature(drawn, rng.choice(drawn.cast), date, subject(drawn)), None
    many, talk = rng.randint(1, level.facts), rng.randint(0, level.talk)
    if form < 0.32:
        speakers = [rng.choice(drawn.cast) for _ in range(many)]
        facts = [drawn.add(number, who) for who in speakers]
        return meeting(drawn, speakers, date, subject(drawn).lower(), [one.sentence for one in facts], talk), None
    author = rng.choice(drawn.cast)
    facts = [drawn.add(number, author) for _ in range(many)]
    title = rng.choice([one.about or "hello" for one in facts]) if rng.random() < 0.5 else subject(drawn)
    own = all(title != one.about for one in facts)
    shown = ("Re: " if rng.random() < 0.2 else "") + title[:1].upper() + title[1:]
    letter = Letter(author, date, shown, quoted=rng.random() < 0.07)
    chunk = mail(drawn, letter, [one.sentence for one in facts], talk)
    return chunk, (title, author.full) if own else None
