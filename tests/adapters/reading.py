"""Examples from questions that people wrote about passages: several passages are shown, each as a message or meeting.

Half of the other passages, and of the questions that none of them answers, share rare words with what is shown: a
reader that declines by the topic alone learns nothing from easier ones.
"""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zlib import crc32

from engine.llm.prompt import chunk_segment
from engine.text.people import chunk_header, origin_line
from engine.text.words import FUNCTION_WORDS, words
from store.types import Chunk, Document, DocumentPassage
from tests.adapters import tasks
from tests.adapters.tasks import Example, Task
from tests.nano.entities import person
from tests.nano.fillers import SUBJECTS, sentence
from tests.nano.pool import Pool

LEFT_OUT = ("tweetqa", "tweetqa-neg")  # their licence is not certain
KEPT = 20  # one passage in so many is kept for evaluation
OTHERS = (
    0,
    0,
    1,
    1,
    2,
    2,
    3,
    4,
    5,
    7,
)  # passages beside the first, each as likely; reading many takes most of the time
_RARE = 60  # passages that may share a word which makes two alike
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_TURN = re.compile(r"^[^\s:][^:\n]{0,30}: ", re.MULTILINE)
_NAME = re.compile(r"(?<=[a-z] )(?:[A-Z]\w{2,}|\d{2,}\b)")
_ASKS = re.compile(r"\W*(who|whom|whose|when|where|which|what|how (?:many|much|long|old)|why|how)\b", re.IGNORECASE)


@dataclass(slots=True)
class Read:
    """A passage with its questions and their answers, None where it has none; mutable while it is read."""

    text: str
    source: str
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def answered(self) -> list[tuple[str, str]]:
        """Return the questions that it answers."""
        return [(question, said) for question, said in self.asked if said]


class ReadingSet:
    """All passages of a file, or those kept for evaluation, and which of them share rare words."""

    def __init__(self, path: Path, *, kept: bool) -> None:
        self.reads = list(_passages(path, kept=kept))
        self._by_word = defaultdict[str, list[int]](list)
        for at, one in enumerate(self.reads):
            for word in content(one.text):
                self._by_word[word].append(at)

    def draw(self, rng: Random) -> Read:
        """Draw a passage that has questions of its own."""
        return rng.choice(self.reads)

    def like(self, rng: Random, text: str, taken: Sequence[Read]) -> Read:
        """Draw a passage that shares a rare word with a text; any where there is none."""
        shared = [found for word in content(text) if 1 < len(found := self._by_word[word]) <= _RARE]
        pool = [self.reads[at] for found in shared for at in found if self.reads[at] not in taken]
        return rng.choice(pool) if pool else self.draw(rng)


def content(text: str) -> set[str]:
    """Return the words that say what a text is about."""
    return set(words(text)) - FUNCTION_WORDS


def _passages(path: Path, *, kept: bool) -> Iterator[Read]:
    found = dict[str, Read]()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            text, span = row["passage"], row["span"]
            if row["source"] in LEFT_OUT or (crc32(text.encode()) % KEPT == 0) is not kept:
                continue
            said = " ".join(text[span[0] : span[1]].split()) if span else None
            if said and not content(said):  # "it" answers nobody
                continue
            found.setdefault(text, Read(text, row["source"])).asked.append((" ".join(row["question"].split()), said))
    yield from found.values()


def example(rng: Random, passages: ReadingSet, most: int = 9, tasks_each: int = 16) -> Example:
    """Draw passages with questions that one of them answers, and some that none does."""
    drawn = [passages.draw(rng)]
    for _ in range(rng.choice(OTHERS)):
        other = passages.like(rng, drawn[0].text, drawn) if rng.random() < 0.5 else passages.draw(rng)
        if other not in drawn:
            drawn.append(other)
    rng.shuffle(drawn)
    shown = _joined(rng, drawn, most)
    pool = Pool(rng, invented=0.2)
    first = _day(rng)
    days = sorted(first + timedelta(hours=rng.randint(0, 2000)) for _ in shown)
    chunks = [_chunk(pool, one, day) for one, day in zip(shown, days, strict=True)]
    today = days[-1] + timedelta(days=rng.randint(0, 40))
    made = _tasks(rng, passages, shown, today)
    rng.shuffle(made)
    return Example(tuple(chunk_segment(at, one) for at, one in enumerate(chunks, 1)), tuple(made[:tasks_each]))


def distractors(rng: Random, passages: ReadingSet, most: int) -> list[Chunk]:
    """Draw messages that have nothing to do with each other."""
    pool = Pool(rng, invented=0.2)
    return [_chunk(pool, passages.draw(rng), _day(rng)) for _ in range(rng.randint(0, most))]


def _day(rng: Random) -> datetime:
    return datetime(rng.randint(1999, 2026), rng.randint(1, 12), rng.randint(1, 28), rng.randint(7, 20), tzinfo=UTC)


def _joined(rng: Random, drawn: Sequence[Read], most: int) -> list[Read]:
    """Put some passages together, as long messages are about several things; at most `most` are left."""
    shown = list(drawn)
    while len(shown) > 1 and (len(shown) > most or rng.random() < 0.25):
        at = rng.randrange(len(shown) - 1)
        one, other = shown[at : at + 2]
        shown[at : at + 2] = [Read(f"{one.text}\n{other.text}", one.source, one.asked + other.asked)]
    return shown


def _tasks(rng: Random, passages: ReadingSet, shown: Sequence[Read], today: datetime) -> list[Task]:
    told = [(question, said, at) for at, one in enumerate(shown, 1) for question, said in one.answered]
    clear = [one for one in told if len(shown) == 1 or _points(one[0], shown[one[2] - 1], shown)]
    asked = rng.sample(clear, min(len(clear), 10))
    made = [tasks.answer(question, today, said, [at]) for question, said, at in asked]
    absent = list(_absent(rng, passages, shown))
    if asked and (other := _renamed(rng, asked[0][0], shown)):
        absent.append(other)
    absent = rng.sample(absent, min(len(absent), 1 + len(asked) // 5))
    made += [tasks.answer(question, today, "", []) for question in absent]
    made += [_check(rng, one, shown, told) for one in asked[:2]]
    if absent and told:
        question = rng.choice(absent)
        wrong = _sentence(rng, shown, "") if rng.random() < 0.5 else _wrong(rng, question, "", told)
        made.append(tasks.check(question, wrong or told[0][1], holds=False))
    if len(clear) > 3 and rng.random() < 0.3:
        made.append(tasks.predict([question for question, _, _ in rng.sample(clear, 3)]))
    return made


def _check(
    rng: Random, asked: tuple[str, str, int], shown: Sequence[Read], told: Sequence[tuple[str, str, int]]
) -> Task:
    """Ask whether an answer is borne: a few words, or a sentence as the quote writer answers with."""
    question, said, number = asked
    if rng.random() < 0.5:
        holds = rng.random() < 0.5
        if quoted := _sentence(rng, [shown[number - 1]] if rng.random() < 0.7 else shown, said, holds=holds):
            return tasks.check(question, quoted, holds=holds)
    wrong = _wrong(rng, question, said, told) if rng.random() < 0.5 else None
    return tasks.check(question, wrong or said, holds=wrong is None)


def _sentence(rng: Random, shown: Sequence[Read], said: str, *, holds: bool = False) -> str | None:
    """Return a sentence with some words in it, or without; None where there is none such, or only long ones."""
    parts = [part.strip() for one in shown for part in _SENTENCE_END.split(one.text)]
    fitting = [part for part in parts if (said.lower() in part.lower()) is holds and 15 < len(part) < 250]
    return rng.choice(fitting) if fitting and (said or not holds) else None


def _points(question: str, own: Read, shown: Sequence[Read]) -> bool:
    """Return whether a question says which of the passages it is about."""
    asked = content(question)
    others = (len(asked & content(one.text)) for one in shown if one is not own)
    return len(asked & content(own.text)) > max(others, default=0)


def _absent(rng: Random, passages: ReadingSet, shown: Sequence[Read]) -> Iterator[str]:
    """Yield questions that no passage shown answers."""
    own = [question for one in shown for question, said in one.asked if said is None]
    yield from rng.sample(own, min(len(own), 3))
    text = "\n".join(one.text for one in shown)
    for _ in range(3):
        other = passages.like(rng, rng.choice(shown).text, shown)
        found = [(question, said) for question, said in other.answered if said.lower() not in text.lower()]
        near = [question for question, _ in found if content(question) & content(text)]
        if near and rng.random() < 0.7:
            yield rng.choice(near)


def _renamed(rng: Random, question: str, shown: Sequence[Read]) -> str | None:
    """Return a question with another name or number of the passages in place of its own; None if it has none."""
    own = _NAME.findall(question)
    if not own or rng.random() < 0.4:
        return None
    name = rng.choice(own)
    pool = {other for one in shown for other in _NAME.findall(one.text) if other[0].isdigit() is name[0].isdigit()}
    others = sorted(other for other in pool if other not in question and other.lower() not in FUNCTION_WORDS)
    return question.replace(name, rng.choice(others)) if others else None


def _wrong(rng: Random, question: str, said: str, told: Sequence[tuple[str, str, int]]) -> str | None:
    """Return another answer, of the same kind where there is one."""
    others = [(asked, other) for asked, other, _ in told if not content(other) & content(said)]
    kind = _kind(question)
    alike = [other for asked, other in others if _kind(asked) == kind]
    return rng.choice(alike) if alike else rng.choice(others)[1] if others else None


def _kind(question: str) -> str:
    found = _ASKS.match(question)
    return found[1].lower() if found else ""


def _chunk(pool: Pool, one: Read, day: datetime) -> Chunk:
    """Lay a passage out as a mail, or as a meeting where people speak in it."""
    rng, spoken = pool.rng, len(_TURN.findall(one.text)) > 1
    title = sentence(pool, SUBJECTS, {}) if rng.random() < 0.8 else " ".join(one.text.split()[:5])
    sender, to = ("", ()) if spoken else (_address(pool), (_address(pool),))
    document = Document(
        id="", kind="transcript" if spoken else "mail", title=title, sender=sender, recipients=to, date=day,
        message_id=None, text=one.text, passages=(),
    )  # fmt: skip
    part = DocumentPassage("", 1, 1)
    header = chunk_header(document, part)
    return Chunk("", "", 0, header, one.text, 1, 1, origin=origin_line(document, part))


def _address(pool: Pool) -> str:
    who = person(pool)
    mailbox = f"{who.first}.{who.last}".lower()
    return f"{who.full} <{mailbox}@example.org>" if pool.rng.random() < 0.5 else who.full
