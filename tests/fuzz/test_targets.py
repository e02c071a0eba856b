"""Every input that fuzzing has kept, and some new ones, for each target; `make soak` tries many more."""

import random
from math import inf

import pytest

from tests.fuzz.__main__ import corpus, fuzz_blindly, mutate
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_raises_more_than_a_refusal_or_is_dear(name: str) -> None:
    assert fuzz_blindly(name, len(corpus(name)) + 50, inf, random.Random(1)).finding == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_many_inputs_raise_no_more_either(name: str) -> None:
    assert fuzz_blindly(name, 2000, inf, random.Random(2)).finding == ""


def test_a_mutated_input_is_another_one_of_bounded_length() -> None:
    chance = random.Random(3)
    made = [mutate(b"abc" * 2000, b"xyz", chance) for _ in range(100)]
    assert len(set(made)) > 50
    assert max(map(len, made)) <= 4096
