"""Examples that role adapters are trained on: what they ask, and what the messages shown say about it."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters import contacts, made, reading
from tests.adapters.rows import CONTEXT, PADDING, Framed
from tests.adapters.tasks import NOT_FOUND, Example, Task
from tests.demo import NANO
from tests.effort import examples

PASSAGES = {
    "The heron nests on the north bank. Ida Marsh counted nine eggs in April.": [
        ("Who counted eggs?", "Ida Marsh"), ("How many eggs were counted?", "nine"),
        ("Where does the heron nest?", "north bank"),
    ],
    "Otto: The kiln is cold again. Prue: The baker mends it on Monday for 40 crowns.": [
        ("Who mends the kiln?", "The baker"), ("When is the kiln mended?", "Monday"),
        ("What does mending the kiln cost?", "40 crowns"),
    ],
    "The ferry to Lark Island leaves at noon, and the heron colony is closed to visitors.": [
        ("When does the ferry leave?", "noon"), ("What is closed?", "the heron colony"),
    ],
}  # fmt: skip
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
seeds = st.integers(0, 2**32)


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> reading.ReadingSet:
    """Return all passages, whether kept for evaluation or not, with a question that none of them answers."""
    path = tmp_path_factory.mktemp("reading") / "reading.jsonl.gz"
    rows = [(text, asked, said) for text, pairs in PASSAGES.items() for asked, said in pairs]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for text, asked, said in [*rows, (next(iter(PASSAGES)), "Who painted the heron?", None)]:
            start = text.index(said) if said else 0
            span = [start, start + len(said)] if said else None
            file.write(json.dumps({"source": "own", "question": asked, "passage": text, "span": span}) + "\n")
    found = reading.ReadingSet(path, kept=False)
    found.reads += reading.ReadingSet(path, kept=True).reads
    return found


def answers(example: Example) -> list[tuple[Task, str, list[int]]]:
    """Return the answered questions of an example, with each answer and the numbers of its sources."""
    found = [task for task in example.tasks if task.role == "answer" and task.reply != NOT_FOUND]
    return [(one, one.reply.partition(" [")[0], [int(n) for n in re.findall(r"\[(\d+)\]", one.reply)]) for one in found]


@given(seeds)
@examples(20)
def test_a_passage_that_is_cited_holds_the_answer(passages: reading.ReadingSet, seed: int) -> None:
    example = reading.example(Random(seed), passages)
    for _, said, numbers in answers(example):
        assert all(said in " ".join(example.chunks[number - 1].split()) for number in numbers)


@given(seeds)
@examples(20)
def test_a_mail_that_is_cited_shows_how_somebody_is_reached(seed: int) -> None:
    example = contacts.example(Random(seed))
    for task, said, numbers in answers(example):
        if re.search("address|email of|reach|phone|number", task.request):
            assert all(said in example.chunks[number - 1] for number in numbers)


@given(seeds)
@examples(20)
def test_every_message_has_its_number_whatever_stands_between(passages: reading.ReadingSet, seed: int) -> None:
    rng = Random(seed)
    for example in (made.example(rng, reading.distractors(rng, passages, 4)), contacts.example(rng)):
        assert [chunk.split("\n")[0] for chunk in example.chunks] == [
            f"[{n}]" for n in range(1, len(example.chunks) + 1)
        ]
        assert all(0 < number <= len(example.chunks) for _, _, numbers in answers(example) for number in numbers)


@given(seeds)
@examples(20)
def test_a_follow_up_leaves_out_what_the_full_question_says(seed: int) -> None:
    for task in made.follow_ups(Random(seed)).tasks:
        short = task.request.partition("Last question: ")[2].split("\n")[0]
        assert task.role == "condense"
        assert short.rstrip("?").lower() != task.reply.rstrip("?").lower()  # "Where?" may begin the full question


def test_each_role_is_trained_and_a_part_of_the_questions_has_no_answer(passages: reading.ReadingSet) -> None:
    rng = Random(1)
    kinds: tuple[Callable[[], Example], ...] = (
        lambda: reading.example(rng, passages), lambda: made.example(rng), lambda: contacts.example(rng),
        lambda: made.abstracts(rng), lambda: made.follow_ups(rng),
    )  # fmt: skip
    found = [task for draw in kinds for _ in range(20) for task in draw().tasks]
    assert {task.role for task in found} == {"answer", "check", "condense", "predict", "abstract"}
    none = [task.reply == NOT_FOUND for task in found if task.role == "answer"]
    assert 0.1 < sum(none) / len(none) < 0.5
    holds = [task.reply == "yes" for task in found if task.role == "check"]
    assert 0.3 < sum(holds) / len(holds) < 0.7


def test_only_the_reply_of_a_row_is_learned(tmp_path: Path) -> None:
    folder = shutil.copytree(NANO, tmp_path / "nano")
    (folder / "chat_template.jinja").write_text(TEMPLATE, "utf-8")
    framed = Framed(folder)
    example = made.example(Random(2))
    row = framed.row(example)
    assert framed.fits(row)
    assert len(row.context) <= CONTEXT
    for said, targets, task in zip(row.said, row.targets, islice(example.tasks, len(row.said)), strict=True):
        start = targets.count(PADDING)
        assert len(said) == len(targets)
        assert said[start + 1 :] == targets[start:-1]
        assert framed.tokenizer.decode(targets[start:-1]) == task.reply
