"""Nano's training in blocks: the same blocks, at the same places, as those that pkb reads."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engine.llm.prompt import PromptChunk, chunk_segment, prompt_of
from engine.models.mlx import Mlx
from tests.demo import NANO
from tests.engine.llm.kit import loaded
from tests.nano.batches import batch, row
from tests.nano.samples import BARE, HARD, sample


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return Tokenizer.from_file(str(NANO / "tokenizer.json"))


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    cache = tmp_path_factory.mktemp("cache")
    return loaded("nano", cache, cache)


@given(st.integers(0, 2**32))
def test_a_context_is_cut_into_the_blocks_that_pkb_reads(nano: Mlx, tokenizer: Any, seed: int) -> None:
    drawn = sample(Random(seed), HARD)
    shown = [PromptChunk(chunk, 0, None) for chunk in drawn.chunks]
    *expected, _ = prompt_of(nano, shown, "", in_blocks=True).ids
    packed = row(tokenizer, drawn, blocks=True)
    assert packed.cut is not None
    met = dict[int, list[int]]()
    for id, (number, _) in zip(packed.context, packed.cut, strict=True):
        met.setdefault(number, []).append(id)
    assert [tuple(block) for block in met.values()] == expected
    assert expected[2] == tuple(nano.tokens(chunk_segment(1, drawn.chunks[0]).partition("\n")[2]))


@given(st.integers(0, 2**32), st.sampled_from((BARE, HARD)))
def test_every_block_begins_right_behind_the_system_segment(tokenizer: Any, seed: int, level: Any) -> None:
    packed = row(tokenizer, sample(Random(seed), level), blocks=True)
    assert packed.cut is not None
    system = sum(number == 0 for number, _ in packed.cut)
    for block in range(1, packed.cut[-1][0] + 1):
        places = [place for number, place in packed.cut if number == block]
        assert places == list(range(system, system + len(places)))


def test_rows_that_are_not_cut_are_read_from_their_beginning(tokenizer: Any) -> None:
    drawn = sample(Random(1), HARD)
    whole, cut = row(tokenizer, drawn), row(tokenizer, drawn, blocks=True)
    assert (batch([whole]).cut, whole.context) == (None, cut.context)
    assert (whole.said, whole.targets) == (cut.said, cut.targets)
    padded = batch([cut]).cut
    assert padded is not None
    assert padded.shape == (1, len(cut.context), 2)
