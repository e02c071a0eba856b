"""The model that the demo and the tests run on, and the generator of what it was trained on."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nano import names
from tests.nano.batches import CONTEXT, PADDING, SPARE, row
from tests.nano.pool import KEPT, Pool, held
from tests.nano.questions import NONE
from tests.nano.samples import EASY, HARD, LONG, MIDDLE, Level, Sample, sample
from tests.nano.tokens import END, context_ids, ids

FOLDER = Path(__file__).parents[2] / "data" / "nano"
LEVELS = st.sampled_from((EASY, MIDDLE, HARD, LONG))
KEPT_NAMES = set(names.FIRST[KEPT - 1 :: KEPT] + names.LAST[KEPT - 1 :: KEPT])
FLOOR = 0.5  # of greedy answers; the model is measured at more, and single prompts may fail


def drawn(seed: int, level: Level, unseen: bool = False) -> Sample:
    return sample(Random(seed), level, unseen)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


@given(st.integers(0, 2**32), LEVELS, st.booleans())
def test_a_seed_gives_the_same_sample_again(seed: int, level: Level, unseen: bool) -> None:
    assert drawn(seed, level, unseen) == drawn(seed, level, unseen)


@given(st.integers(0, 2**32), LEVELS, st.booleans())
def test_an_answer_stands_word_for_word_in_each_chunk_it_names(seed: int, level: Level, unseen: bool) -> None:
    one = drawn(seed, level, unseen)
    for asked in one.asked:
        for number in asked.cites:
            chunk = one.chunks[number - 1]
            assert asked.answer in " ".join(f"{chunk.header} {chunk.text}".split())


@given(st.integers(0, 2**32), LEVELS)
def test_only_a_question_without_an_answer_names_no_chunk(seed: int, level: Level) -> None:
    assert all((asked.answer == NONE) == (not asked.cites) for asked in drawn(seed, level).asked)


@given(st.integers(0, 2**32), LEVELS)
def test_no_question_is_asked_twice_of_one_context(seed: int, level: Level) -> None:
    texts = Counter(asked.text for asked in drawn(seed, level).asked)
    assert all(times == 1 for times in texts.values())


def test_about_a_fifth_of_the_questions_have_no_answer() -> None:
    asked = [one for seed in range(300) for one in drawn(seed, HARD).asked]
    assert 0.15 < sum(one.answer == NONE for one in asked) / len(asked) < 0.27


@given(st.integers(0, 2**32), st.booleans())
def test_what_is_kept_for_evaluation_is_never_drawn_for_training(seed: int, unseen: bool) -> None:
    pool = Pool(Random(seed), unseen)
    assert held(pool.word()) == unseen
    assert (names.FIRST.index(pool.listed(names.FIRST)) % KEPT == KEPT - 1) == unseen


def test_no_name_that_is_kept_for_evaluation_writes_or_gets_a_training_mail() -> None:
    assert not KEPT_NAMES & _people(unseen=False)


def test_names_that_are_kept_for_evaluation_write_and_get_evaluation_mail() -> None:
    assert KEPT_NAMES & _people(unseen=True)


def _people(unseen: bool) -> set[str]:
    headers = [chunk.header for seed in range(300) for chunk in drawn(seed, HARD, unseen).chunks]
    shown = [re.split(r", \w+day \d", header)[0] for header in headers if header.startswith("From: ")]
    return {word for people in shown for word in re.findall(r"\w+", people)}


def test_a_question_reads_on_from_its_context_and_is_learnt_from_its_answer_alone(tokenizer: Any) -> None:
    one = drawn(3, HARD)
    packed = row(tokenizer, one)
    assert packed.context == context_ids(tokenizer, one)
    for asked, said, targets in zip(one.asked, packed.said, packed.targets, strict=True):
        reply = [*ids(tokenizer, asked.reply), tokenizer.token_to_id(END)]
        assert [target for target in targets if target != PADDING] == reply
        assert said == ids(tokenizer, one.question(asked)) + reply[:-1]


def test_a_name_is_the_same_tokens_wherever_it_stands(tokenizer: Any) -> None:
    name = ids(tokenizer, "Wolfgang")
    for text in ("From: Wolfgang, ", "he saw Wolfgang.", "one\nWolfgang said"):
        everything = ids(tokenizer, text)
        assert any(everything[at : at + len(name)] == name for at in range(len(everything)))


def test_a_line_that_goes_on_is_read_as_one(tokenizer: Any) -> None:
    assert ids(tokenizer, "the old\nkettle") == ids(tokenizer, "the old kettle")


def test_the_model_takes_less_than_two_million_bytes() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 2_000_000


def test_the_folder_has_all_that_a_model_needs() -> None:
    present = {path.name for path in FOLDER.iterdir()}
    assert present == {
        *("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
    }


def test_the_model_holds_what_the_generator_makes() -> None:
    settings = json.loads((FOLDER / "config.json").read_text("utf-8"))
    assert settings["max_position_embeddings"] == CONTEXT


@pytest.mark.slow
def test_the_model_answers_most_questions_about_what_it_has_never_seen(tokenizer: Any) -> None:
    pairs = list(_answered(tokenizer, questions=16))
    right = sum(said == wanted for said, wanted in pairs)
    assert right / len(pairs) >= FLOOR


def _answered(tokenizer: Any, questions: int) -> Iterator[tuple[str, str]]:
    """Yield what the model says greedily and what it should have said, one question a context."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.utils import load

    model, end = load(str(FOLDER))[0], tokenizer.token_to_id(END)
    seed = 0
    while questions:
        seed += 1
        one = drawn(10_000 + seed, HARD, unseen=True)
        context = context_ids(tokenizer, one)
        if not one.asked or len(context) > CONTEXT - SPARE:
            continue
        questions -= 1
        prompt, said = context + ids(tokenizer, one.question(one.asked[0])), list[int]()
        for token, _ in generate_step(mx.array(prompt), model, max_tokens=30):
            if int(token) == end:
                break
            said.append(int(token))
        yield tokenizer.decode(said), one.asked[0].reply
