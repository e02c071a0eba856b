"""Prompts to try readings on, as token ids: letters whose right answers are known, tales, nonsense of a given size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from engine.ask.parse import parse
from engine.ask.prompt import halved
from engine.models.mlx import Mlx
from tests.nano.samples import HARD, sample

Ids = tuple[int, ...]
PROMPTS, ANSWER = 80, 24  # prompts, and tokens of an answer at most
SYSTEM, CHUNK, CHUNKS, LINE, QUESTION = 90, 130, 5, 3, 50  # tokens
STARTS = ("Once upon a time", "One day", "The little girl", "Tom had a red", "In the park", "A big dog", "Lily was sad")
STORY, TOLD = 70, 40  # tokens of a story, and of what is told on


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt in both forms, and what the model is to say where that is known."""

    usual: Sequence[Ids]
    blocks: Sequence[Ids]
    right: str | None = None

    def is_right(self, answer: str) -> bool:
        """Tell whether an answer has the right words."""
        return parse(self.right or "").answer == parse(answer).answer

    def names_rightly(self, answer: str) -> bool:
        """Tell whether it also names the right chunks."""
        return parse(self.right or "") == parse(answer)


def letters(model: Mlx) -> Iterator[Case]:
    """Give prompts of the generator that nano was trained on, with values that it never saw."""

    def ids(text: str) -> Ids:
        return tuple(model.tokens(text))

    rng, left = Random("blocks"), PROMPTS
    while left:
        drawn = sample(rng, HARD, unseen=True)
        system, *chunks = drawn.context()
        for asked in drawn.asked[:1]:
            first, last = ids(system), ids(drawn.question(asked))
            usual = [first, *map(ids, chunks), last]
            if sum(map(len, usual)) + ANSWER < model.context:
                left -= 1
                halves = [ids(half) for chunk in chunks for half in halved(chunk)]
                yield Case(usual, [first, *halves, last], asked.reply)


def tales(model: Mlx) -> Iterator[Case]:
    """Give prompts of three stories that the model itself tells, and the beginning of another one."""
    stories, rng = [_told(model, start) for start in STARTS], Random("blocks")
    title = (*model.frame.opening, *model.tokens("Stories.\n"))
    for start in STARTS * 2:
        prompt = [title, *rng.sample(stories, 3), tuple(model.tokens(start))]
        yield Case(prompt, prompt)


def nonsense(seed: int) -> Case:
    """Give a prompt of the usual size: system, chunks with a line for each, question."""
    rng = Random(seed)

    def some(length: int) -> Ids:
        return tuple(rng.randrange(10, 600) for _ in range(length))

    system, last = some(SYSTEM), some(QUESTION)
    halves = [some(length) for _ in range(CHUNKS) for length in (LINE, CHUNK - LINE)]
    chunks = [line + rest for line, rest in zip(halves[::2], halves[1::2], strict=True)]
    return Case([system, *chunks, last], [system, *halves, last])


def _told(model: Mlx, start: str) -> Ids:
    held, last = model.begin(), [*model.frame.opening, *model.tokens(start)]
    told = list(last)
    while len(told) < STORY:
        last = [int(model.logits(held, last).argmax())]
        told += last
    return tuple(told[len(model.frame.opening) :])
