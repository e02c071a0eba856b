"""The trial of blocks: what it counts and compares, and that nothing differs where nothing is moved."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.llm.prefill import KvBinding, PromptReader
from engine.models.mlx import Mlx
from engine.models.rope import movable
from store.kv_tree import root_of
from tests.bench.blocks import Timed, Trial, again, divergence, trial
from tests.engine.ask.equivalence_box import Box, some
from tests.engine.llm.kit import loaded


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    cache = tmp_path_factory.mktemp("cache")
    return loaded("nano", cache, cache)


def test_a_distribution_is_as_far_from_another_as_the_formula_says() -> None:
    one = np.log(np.array([0.5, 0.25, 0.25], np.float32)) + 7
    other = np.log(np.array([0.25, 0.5, 0.25], np.float32)) - 2
    assert divergence(one, other) == pytest.approx(0.5 * math.log(2) + 0.25 * math.log(0.5), abs=1e-6)
    assert divergence(one, one) == 0.0


def test_in_order_only_a_beginning_comes_again_and_in_blocks_anything() -> None:
    system, a, b, question = (1,) * 10, (2,) * 30, (3,) * 50, (4,) * 10
    asked = [[system, a, b, question], [system, b, a, question], [system, a, question]]
    total = 100 + 100 + 50
    assert again(asked, blocks=False) == (10 + 40) / total
    assert again(asked, blocks=True) == (90 + 40) / total
    assert again([], blocks=True) == 0.0


def test_one_block_right_behind_the_system_segment_is_read_as_usual(nano: Mlx, tmp_path: Path) -> None:
    box = Box(tmp_path, nano)
    prompt = [some(nano, seed, length) for seed, length in enumerate((40, 100, 20))]
    usual, blocks = (KvBinding(box.store, root_of({"way": way}), nano) for way in ("usual", "blocks"))
    found = trial(nano, PromptReader(nano, usual), PromptReader(nano, blocks, movable(nano)), (prompt, prompt), 12)
    box.close()
    assert (len(found.kl), found.same, found.equal) == (12, 12, True)
    assert max(found.kl) == 0.0
    assert found.answers[0] == found.answers[1]
    assert min(found.usual.computed, found.usual.loaded, found.blocks.computed, found.blocks.loaded) > 0


def test_another_order_of_blocks_is_told_from_the_usual_reading(nano: Mlx, tmp_path: Path) -> None:
    box = Box(tmp_path, nano)
    system, a, b, last = [some(nano, seed, length) for seed, length in enumerate((40, 100, 60, 20))]
    usual, blocks = (KvBinding(box.store, root_of({"way": way}), nano) for way in ("usual", "blocks"))
    both = ([system, a, b, last], [system, b, a, last])
    found = trial(nano, PromptReader(nano, usual), PromptReader(nano, blocks, movable(nano)), both, 12)
    box.close()
    assert min(found.kl) > 0
    assert found.equal == (found.answers[0] == found.answers[1])


def test_answers_that_name_other_chunks_are_in_the_same_words() -> None:
    one = Trial((0.0, 0.1, 0.2), 2, ("Friday at 6pm [1]", "Friday at 6pm [2]"), Timed(1, 1), Timed(1, 1))
    assert (one.same_words, one.equal) == (True, False)
    assert not replace(one, answers=("Friday [1]", "Sunday [1]")).same_words
