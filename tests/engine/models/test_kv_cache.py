"""What models keep of a prompt, by the types of mlx-lm's caches: recognised, normalised, cut, packed and restored."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models import kv_cache
from engine.models.kv_cache import CacheForm, RangeReader, UnreadableCache
from engine.models.load import form, load
from engine.models.mlx import Mlx
from store.kv_files import Header, verify, write
from tests.effort import examples
from tests.engine.models.shapes import KINDS, OTHERS, SMALL, make
from tests.engine.models.shapes import write as write_json

KEY = b"0" * 16
FORMS = {"llama": "tokens", "gemma3": "window", "mamba": "state", "recurrent_gemma": "window-state"}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=OTHERS)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, scratch: Path) -> Mlx:
    """Return a model that does not keep the keys and values of every token."""
    folder = make(tmp_path_factory.mktemp("models") / request.param, OTHERS[request.param])
    return load(folder, name=request.param, cache=scratch, memory_share=0.9)


def filled(seed: int, shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> Any:
    """Return a cache of plain layers that hold random keys and values of these shapes."""
    import mlx.core as mx
    from mlx_lm.models.cache import KVCache

    mx.random.seed(seed)
    layers = [KVCache() for _ in shapes]
    for layer, (keys, values) in zip(layers, shapes, strict=True):
        layer.update_and_fetch(mx.random.normal(keys), mx.random.normal(values))
    return layers


def kept(cache: Any, start: int, stop: int, path: Path) -> Path:
    write(path, Header(KEY, KEY, KEY, KEY, tuple(range(stop - start))), kv_cache.cut(cache, start, stop))
    verify(path)
    return path


def same(one: Any, other: Any) -> bool:
    both = zip(one.keys_and_values(), other.keys_and_values(), strict=True)
    return all(np.array_equal(np.array(a), np.array(b)) for a, b in both)


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_read_off_the_layers(name: str, tmp_path: Path) -> None:
    folder = make(tmp_path / name, (KINDS | OTHERS)[name])
    assert form(folder, 0) == CacheForm(FORMS[name], "KV cache stored per message")


def test_eight_bits_are_another_form_and_lend_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "llama", KINDS["llama"])
    assert form(folder, 8) == CacheForm("steps-8", "KV cache stored per message, in 8 bits")
    assert [form(folder, bits).name == "tokens" for bits in (0, 8)] == [True, False]


def test_what_is_not_known_to_be_whole_is_not_kept() -> None:
    from mlx_lm.models.cache import CacheList, KVCache, QuantizedKVCache, RotatingKVCache

    own: Any = type("KVCache", (KVCache,), {})  # a model's own, whatever it is called
    strange = [own(), QuantizedKVCache(), RotatingKVCache(max_size=64, keep=4), CacheList(KVCache(), own())]
    assert [kv_cache.form([KVCache(), layer]).name for layer in strange] == ["", "", "", ""]
    assert "QuantizedKVCache" in kv_cache.form([QuantizedKVCache()]).description


def test_a_model_that_cannot_be_loaded_has_no_form(tmp_path: Path) -> None:
    folder = make(tmp_path / "tiny", KINDS["llama"])
    configs: list[object] = [{"model_type": "nobody_knows"}, SMALL, {}, []]
    for config in configs:
        write_json(folder / "config.json", config)
        assert {form(folder, 0, in_blocks=one) for one in (False, True)} == {CacheForm("", "cannot be loaded")}


def test_settling_changes_nothing_of_what_a_model_says(other: Mlx) -> None:
    """Read a prompt as mlx-lm reads it, and settled behind every segment; windows have rotated, once in the middle."""
    import mlx.core as mx

    rng = np.random.default_rng(7)
    segments = [rng.integers(4, 500, length).tolist() for length in (100, 1, 30, 1, 130)]
    settled, plain = other.begin(), other.begin()
    for ids in segments:
        other.prefill(settled, ids)
        other.model(mx.array([ids]), cache=plain)
    token = 5
    for _ in range(20):
        one, two = other.logits(settled, [token]), np.array(other.model(mx.array([[token]]), cache=plain)[0, -1])
        assert np.allclose(one, two, atol=1e-3 * float(np.abs(two).max()))
        token = int(two.argmax())


def test_a_running_state_takes_as_much_room_behind_any_segment(tmp_path: Path, scratch: Path) -> None:
    model = load(make(tmp_path / "mamba", OTHERS["mamba"]), name="mamba", cache=scratch, memory_share=0.9)
    cache = model.begin()
    sizes = [
        sum(memoryview(one.buffer).nbytes for one in kv_cache.cut(cache, 0, length, model.prefill(cache, [5] * length)))
        for length in (10, 100, 300)
    ]
    assert len(set(sizes)) == 1


def test_layers_that_keep_keys_alone_come_back(tmp_path: Path) -> None:
    from mlx_lm.models.cache import CacheList, KVCache

    first, second = filled(1, [((1, 2, 9, 4), (1, 2, 9, 8)), ((1, 1, 9, 4), (1, 1, 9, 0))])
    cache = [CacheList(first, second)]
    paths = [kept(cache, 0, 5, tmp_path / "a.safetensors"), kept(cache, 5, 9, tmp_path / "b.safetensors")]
    (again,) = kv_cache.restore([CacheList(KVCache(), KVCache())], paths)
    assert same(again.caches[0], first)
    assert same(again.caches[1], second)


def test_filling_a_cache_is_loading_it_without_files(tmp_path: Path) -> None:
    from mlx_lm.models.cache import KVCache

    cache = filled(2, [((1, 2, 9, 4), (1, 2, 9, 4))] * 3)
    path = kept(cache, 0, 9, tmp_path / "a.safetensors")
    with closing(RangeReader([path], in_place=True)) as reader:
        reader.read_all()
        loaded = kv_cache.join([KVCache() for _ in cache], reader)
    layers = kv_cache.extend([KVCache() for _ in cache], [layer.keys_and_values() for layer in cache])
    assert all(map(same, loaded, layers))
    assert [layer.offset for layer in layers] == [9, 9, 9]


@pytest.mark.parametrize("length", [1, 40, 300])
def test_what_lies_behind_the_tokens_of_a_loaded_cache_is_never_read(
    length: int, tmp_path: Path, scratch: Path
) -> None:
    """Not by a token, by a question that fits the room there is, nor by one that a cache has to grow for."""
    import mlx.core as mx

    model = load(make(tmp_path / "llama", KINDS["llama"]), name="llama", cache=scratch, memory_share=0.9)
    cache = model.begin()
    model.prefill(cache, [7] * 30)
    path = kept(cache, 0, 30, tmp_path / "a.safetensors")
    clean, poisoned = model.restore([path]), model.restore([path])
    for layer in poisoned:
        assert layer.keys.shape[2] > layer.offset
        for array in (layer.keys, layer.values):
            array[..., layer.offset :, :] = mx.nan
    ids = [5 + number % 50 for number in range(length)]
    for question in (ids, [9], [11]):
        one, other = model.logits(clean, question), model.logits(poisoned, question)
        assert np.isfinite(other).all()
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", ["gemma3", "mamba"])
def test_a_file_of_a_model_of_another_form_is_unreadable(name: str, tmp_path: Path, scratch: Path) -> None:
    model = load(make(tmp_path / name, OTHERS[name]), name=name, cache=scratch, memory_share=0.9)
    path = kept(filled(3, [((1, 2, 9, 16), (1, 2, 9, 16))]), 0, 9, tmp_path / "a.safetensors")
    with pytest.raises(UnreadableCache):
        model.restore([path])
    path.unlink()
    with pytest.raises(UnreadableCache):
        model.restore([path])


shapes = st.tuples(st.sampled_from([1, 2, 3, 4]), st.integers(1, 9), st.sampled_from([8, 16, 24, 64, 128]))


@examples(60)
@given(shapes, st.integers(0, 2**16), st.sampled_from(["float32", "bfloat16"]), st.sampled_from([0.0, 1e-9, 1.0, 1e9]))
def test_eight_bits_are_half_a_step_off_at_most(
    shape: tuple[int, int, int], seed: int, dtype: str, scale: float
) -> None:
    """A step is the 127th part of the largest number of a group; narrow scales round once more."""
    import mlx.core as mx

    heads, count, width = shape
    array = mx.random.normal((1, heads, count, width), key=mx.random.key(seed)).astype(getattr(mx, dtype))
    found = kv_cache.unpack(kv_cache.pack("0.k", array * scale, 8), "0.k")
    assert (found.shape, found.dtype) == (array.shape, array.dtype)
    group = kv_cache.GROUP if width % kv_cache.GROUP == 0 else width
    rows, again = (np.array(x.astype(mx.float32)).reshape(-1, group) for x in (array * scale, found))
    most = np.abs(rows).max(1)
    assert (np.abs(rows - again).max(1) <= most / 254 + most * (2**-7 if dtype == "bfloat16" else 2**-20)).all()


@given(st.integers(0, 2**16), st.integers(1, 8))
def test_what_is_kept_of_a_token_in_eight_bits_does_not_depend_on_others(seed: int, first: int) -> None:
    import mlx.core as mx

    array = mx.random.normal((1, 2, 9, 32), key=mx.random.key(seed))
    whole = kv_cache.unpack(kv_cache.pack("0.v", array, 8), "0.v")
    part = kv_cache.unpack(kv_cache.pack("0.v", array[..., :first, :], 8), "0.v")
    assert mx.array_equal(whole[..., :first, :], part)
