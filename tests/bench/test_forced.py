"""A teacher-forced model writes the given text token by token and computes everything."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from engine.models.kv_cache import length
from engine.models.load import load
from engine.models.mlx import Mlx
from engine.models.types import Drafter
from tests.bench.forced import NOT_FOUND, Forced, ForcedResident, Script, forced, reply, tokenizer
from tests.bench.metered import flops, size_of
from tests.engine.models.shapes import KINDS, TEXT, bpe, make
from tests.engine.models.traced import traced

GOLD = "on Thursday in the hall of St Anne's"
BEFORE, QUESTION = tuple(range(10, 80)), tuple(range(20, 51))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Mlx:
    """Load a small model of random weights."""
    folder = make(tmp_path_factory.mktemp("models") / "llama", KINDS["llama"] | {"tie_word_embeddings": True})
    cache = tmp_path_factory.mktemp("cache")
    return replace(load(folder, name="small", cache=cache, memory_share=0.9), stops=frozenset())


def told(plain: Mlx, text: str | None, most: int = 64) -> tuple[list[str], Forced, int]:
    """Have a model write behind a prompt; returns the pieces, the model, and the length of its cache."""
    model = forced(plain, Script(text))
    cache = model.begin()
    model.prefill(cache, BEFORE)
    pieces = list(model.decode(cache, QUESTION, most))
    return pieces, model, length(cache)


def test_exactly_the_tokens_of_the_script_are_written(plain: Mlx) -> None:
    pieces, model, held = told(plain, GOLD)
    ids = plain.tokens(GOLD)
    assert "".join(pieces) == GOLD
    assert len(pieces) == len(ids)
    assert (model.work.read, model.work.generated) == (
        len(BEFORE) + len(QUESTION),
        len(ids) + 1,
    )  # a stop is read before it is known
    assert held == len(BEFORE) + len(QUESTION) + len(ids) + 1


def test_the_layers_compute_what_is_counted_for_a_script(plain: Mlx) -> None:
    with traced(plain) as counted:
        _, model, _ = told(plain, GOLD)
    layers = replace(size_of(plain), head_parameters=0)
    assert flops(layers, model.work) == pytest.approx(counted[0], rel=0.01)


def test_a_script_leaves_the_same_in_the_cache_as_reading_it_would(plain: Mlx) -> None:
    model, cache, other = forced(plain, Script(GOLD)), plain.begin(), plain.begin()
    ids = [*plain.tokens(GOLD), *model.stops]
    for one in (cache, other):
        plain.prefill(one, BEFORE)
    list(model.decode(cache, QUESTION, 64))
    plain.logits(other, QUESTION)
    for id in ids:
        plain.logits(other, [id])
    assert (plain.logits(cache, [7]) == plain.logits(other, [7])).all()


def test_guesses_that_a_script_bears_out_take_no_steps_of_their_own(plain: Mlx) -> None:
    ids, steps = plain.tokens(GOLD), list[int]()
    model, cache = forced(replace(plain, yield_point=lambda: steps.append(1)), Script(GOLD)), plain.begin()
    drafts = Drafter(lambda: [[5, 6, 7], ids[:3], [*ids, 9]], 8)
    pieces = model.decode(cache, QUESTION, 64, drafts)
    first = next(pieces)
    drafts.learn()
    assert first + "".join(pieces) == GOLD
    assert drafts.right > len(ids) // 2
    assert len(steps) <= 5  # one of them for the question, one for the second token


@pytest.mark.parametrize(
    ("answer", "chunks", "wanted"),
    [
        ("in room 204", ["The tent is green.", "It is in room 204."], "in room 204 [2]"),
        ("at\nsix", ["We meet at six."], "at six [1]"),
        ("of no word there", ["One.", "Two."], "of no word there [1]"),
        ("", ["We meet at six."], NOT_FOUND),
        ("at six", [], NOT_FOUND),
    ],
)
def test_an_answer_is_one_line_with_the_number_of_the_chunk_that_says_it(
    answer: str, chunks: Sequence[str], wanted: str
) -> None:
    assert reply(answer, chunks) == wanted


def test_a_tokenizer_learnt_from_the_documents_takes_few_tokens_for_their_words(tmp_path: Path) -> None:
    tokenizer([TEXT] * 3).save(str(tmp_path / "tokenizer.json"))
    found, usual = tokenizer([TEXT] * 3).encode(TEXT), bpe(300).encode(TEXT)
    assert len(found.ids) < len(usual.ids) / 2
    assert tokenizer([TEXT]).decode(found.ids, skip_special_tokens=False) != ""


def test_weights_that_are_in_memory_serve_others_and_each_counts_its_own_work(plain: Mlx, tmp_path: Path) -> None:
    loads, loaded = list[Mlx](), dict[Hashable, Mlx]()

    def load() -> Mlx:
        loads.append(plain)
        return plain

    one, two = (ForcedResident(tmp_path / name, Script(), loaded).get("small", load) for name in ("one", "two"))
    assert isinstance(one, Forced)
    assert isinstance(two, Forced)
    one.prefill(one.begin(), BEFORE)
    assert len(loads) == 1
    assert one.model is two.model
    assert (one.work.read, two.work.read) == (len(BEFORE), 0)
