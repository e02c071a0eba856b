"""Real MLX on tiny models: what is loaded, read, written, stopped and refused."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.models import kv_cache, runtime
from engine.models.load import compute_s, load, restore_s
from engine.models.mlx import Mlx
from engine.models.runtime import Device, device
from engine.models.types import Drafter, Frame, LanguageModel, spelled
from store.errors import NoModel, PkbError
from tests.engine.models.shapes import CONTROLS, KINDS, TEXT, make, write

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
Open = Callable[[Path], Mlx]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Yield a function that loads a folder; one cache for all, and the environment as it was."""
    cache, before = tmp_path_factory.mktemp("cache"), os.environ.get("TMPDIR")
    yield lambda folder: load(folder, name=folder.name, cache=cache, memory_share=0.9)
    os.environ.pop("TMPDIR", None)
    os.environ.update({"TMPDIR": before} if before else {})


def endless(model: Mlx) -> Mlx:
    return replace(model, stops=frozenset(), sub_step=64)


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, opened: Open) -> Mlx:
    """Return a model of each architecture, which writes on and on."""
    folder = make(tmp_path_factory.mktemp("models") / request.param, KINDS[request.param])
    return endless(opened(folder))


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory, opened: Open) -> Mlx:
    folder = make(tmp_path_factory.mktemp("models") / "llama", KINDS["llama"])
    return endless(opened(folder))


@pytest.fixture(scope="module")
def stories(shared: Path, opened: Open) -> Mlx:
    return opened(shared / "models" / "stories260K")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "tiny", KINDS["llama"], CHATML)


def long(model: Mlx, count: int) -> list[int]:
    return (model.tokens(TEXT) * 9)[:count]


def segments(model: Mlx) -> list[list[int]]:
    """Return a prompt whose segments are shorter and longer than a sub-step, and one exactly as long."""
    ids = long(model, 300)
    return [ids[:70], ids[70:200], ids[200:264], ids[264:]]


def one_by_one(model: Mlx, cache: Any, ids: Sequence[int], most: int) -> tuple[list[int], list[NDArray[np.float32]]]:
    """Decode the naive way: every token by its own question for logits."""
    found: list[int] = []
    rows: list[NDArray[np.float32]] = []
    for _ in range(most):
        rows.append(model.logits(cache, ids if not found else found[-1:]))
        found.append(int(rows[-1].argmax()))
    return found, rows


def by_mlx_lm(model: Mlx, folder: Path, ids: list[int], most: int) -> list[int]:
    from mlx_lm import stream_generate
    from mlx_lm.tokenizer_utils import TokenizerWrapper
    from transformers import PreTrainedTokenizerFast

    untyped: Any = PreTrainedTokenizerFast
    plain = untyped(tokenizer_file=str(folder / "tokenizer.json"))
    tokenizer = TokenizerWrapper(plain, eos_token_ids=list(model.stops))
    answers = stream_generate(model.model, tokenizer, ids, max_tokens=most, prefill_step_size=model.sub_step)
    return [answer.token for answer in answers]


def read(model: Mlx, parts: Sequence[Sequence[int]]) -> Any:
    cache = model.begin()
    for part in parts:
        model.prefill(cache, part)
    return cache


def keys(cache: Any, count: int) -> list[NDArray[np.float32]]:
    return [np.array(tensor[..., :count, :]) for layer in cache for tensor in layer.keys_and_values()]


def test_it_is_a_language_model(llama: Mlx) -> None:
    one: LanguageModel = llama
    assert (one.name, one.context) == ("llama", 512)


def test_a_trained_model_goes_on_with_its_story(stories: Mlx) -> None:
    prompt = [*stories.frame.opening, *stories.tokens("Once upon a time")]
    story = "".join(stories.decode(stories.begin(), prompt, 200))
    assert story.startswith(", there was a little girl named Lily. She loved to play outside in the park.")


def test_a_trained_model_writes_the_tokens_that_mlx_lm_writes(stories: Mlx, shared: Path) -> None:
    on = replace(stories)
    prompt = [*on.frame.opening, *on.tokens("Once upon a time")]
    expected = by_mlx_lm(on, shared / "models" / "stories260K", prompt, 150)
    assert "".join(on.decode(on.begin(), prompt, 150)) == "".join(spelled(on.vocabulary, expected))
    assert one_by_one(on, on.begin(), prompt, 150)[0] == expected


@pytest.mark.parametrize("count", [65, 129])  # mlx-lm reads the last token of a prompt alone
def test_every_architecture_writes_the_tokens_that_mlx_lm_writes(model: Mlx, count: int, tmp_path: Path) -> None:
    prompt = long(model, count)
    found, _ = one_by_one(model, model.begin(), prompt, 64)
    assert found == by_mlx_lm(model, make(tmp_path / "same", KINDS["llama"]), prompt, 64)
    assert len(set(found)) > 20


def test_what_is_streamed_is_what_is_found_one_by_one(model: Mlx) -> None:
    *before, last = segments(model)
    found, _ = one_by_one(model, read(model, before), last, 64)
    assert "".join(model.decode(read(model, before), last, 64)) == "".join(spelled(model.vocabulary, found))


def test_guesses_change_no_token_and_save_steps_where_they_can_be_taken_back(model: Mlx) -> None:
    parts, steps = segments(model), list[int]()
    plain = "".join(model.decode(read(model, parts[:-1]), parts[-1], 40))
    told = one_by_one(model, read(model, parts[:-1]), parts[-1], 40)[0]
    torn = [*told[:9], 0, *told[10:20], 0, *told[20:]]
    for texts in ([torn], [told], [long(model, 100), told[20:] + told[:20]]):
        counted = replace(model, yield_point=lambda: steps.append(1))
        steps.clear()
        drafts = Drafter(partial(list, texts), 8)
        cache = read(model, parts[:-1])
        pieces = counted.decode(cache, parts[-1], 40, drafts)
        first = next(pieces)
        if drafts.end is not None:
            drafts.learn()
        assert first + "".join(pieces) == plain
        assert len(steps) == 1 + 39 - drafts.right  # one for the last segment
        if kv_cache.is_sliceable(cache):
            assert drafts.right > 10
            exact = read(model, [*parts, told[:-1]])
            assert np.array_equal(keys(cache, 0), keys(exact, 0))
            assert all(np.allclose(a, b, atol=1e-4) for a, b in zip(keys(cache, 339), keys(exact, 339), strict=True))
        else:
            assert drafts.right == 0


def test_the_same_segments_give_the_same_logits_to_the_last_digit(model: Mlx) -> None:
    *before, last = segments(model)
    once, again = (one_by_one(model, read(model, before), last, 32)[1] for _ in range(2))
    assert np.array_equal(once, again)


def test_what_is_read_of_a_segment_does_not_depend_on_what_follows(model: Mlx) -> None:
    first, second, third, _ = segments(model)
    one, other = keys(read(model, [first, second]), 70), keys(read(model, [first, third]), 70)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_segment_may_be_read_on_from_any_of_its_sub_steps(model: Mlx) -> None:
    first, second, _, last = segments(model)
    whole, in_parts = (read(model, [first, *parts]) for parts in ([second], [second[:64], second[64:]]))
    assert np.array_equal(model.logits(whole, last), model.logits(in_parts, last))


def test_so_may_the_last_segment(model: Mlx) -> None:
    ids = long(model, 200)
    assert np.array_equal(model.logits(model.begin(), ids), model.logits(read(model, [ids[:128]]), ids[128:]))


def test_the_logits_do_depend_on_what_was_read(model: Mlx) -> None:
    first, second, third, last = segments(model)
    assert not np.array_equal(
        model.logits(read(model, [first, second]), last), model.logits(read(model, [first, third]), last)
    )


@pytest.mark.parametrize("most", [0, 1, 2, 17])
def test_so_many_tokens_are_written_and_no_more(llama: Mlx, most: int) -> None:
    assert len(list(llama.decode(llama.begin(), long(llama, 20), most))) == most


def test_writing_ends_before_a_stop(llama: Mlx) -> None:
    prompt = long(llama, 20)
    found, _ = one_by_one(llama, llama.begin(), prompt, 20)
    stopping = replace(llama, stops=frozenset({found[12]}))
    assert len(list(stopping.decode(stopping.begin(), prompt, 20))) == found.index(found[12])


def test_prompt_and_answer_end_with_the_context(llama: Mlx) -> None:
    pieces = list(llama.decode(read(llama, [long(llama, 400)]), long(llama, 100), 99))
    assert len(pieces) == 12
    assert list(llama.decode(read(llama, [long(llama, 500)]), long(llama, 12), 99)) == []


def test_an_answer_that_is_broken_off_leaves_a_cache_to_go_on_with(llama: Mlx) -> None:
    prompt, more = long(llama, 100), long(llama, 30)
    found, _ = one_by_one(llama, llama.begin(), prompt, 3)
    cache = llama.begin()
    pieces = llama.decode(cache, prompt, 50)
    told = "".join(next(pieces) for _ in range(3))
    pieces.close()
    assert told == "".join(spelled(llama.vocabulary, found))
    expected = read(llama, [prompt[:64]])
    one_by_one(llama, expected, prompt[64:], 3)
    llama.logits(expected, found[-1:])
    assert np.array_equal(llama.logits(cache, more), llama.logits(expected, more))


def for_ever(model: Mlx, prompt: list[int], most: int) -> None:
    while True:
        cache = read(model, [prompt])
        list(model.decode(cache, prompt[:1], most))


@pytest.mark.parametrize("writing", [False, True])
def test_an_interrupt_ends_the_work_and_the_next_question_is_answered(llama: Mlx, writing: bool) -> None:
    prompt = long(llama, 400)
    expected = llama.logits(llama.begin(), prompt)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            for_ever(llama, prompt, 100 if writing else 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert np.array_equal(llama.logits(llama.begin(), prompt), expected)


def test_another_thread_than_the_one_that_loaded_can_write(llama: Mlx) -> None:
    prompt, found = long(llama, 90), list[str]()
    thread = Thread(target=lambda: found.extend(llama.decode(llama.begin(), prompt, 20)))
    thread.start()
    thread.join()
    assert found == list(llama.decode(llama.begin(), prompt, 20))


def test_every_setting_that_names_an_end_is_heeded(folder: Path, opened: Open) -> None:
    write(folder / "generation_config.json", {"eos_token_id": [5, 6]})
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", config | {"eos_token_id": 7})
    ended = CHATML.replace("<|im_end|>", "<end_of_turn>")
    write(folder / "tokenizer_config.json", {"eos_token": {"content": CONTROLS[2]}, "chat_template": ended})
    assert opened(folder).stops == {5, 6, 7, CONTROLS.index("<|im_end|>"), CONTROLS.index("<end_of_turn>")}


def test_settings_of_the_wrong_type_say_nothing(folder: Path, opened: Open) -> None:
    write(folder / "generation_config.json", {"eos_token_id": [[2], None, "2"]})
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", config | {"text_config": "none", "eos_token_id": "</s>"})
    write(folder / "tokenizer_config.json", {"eos_token": 2, "bos_token": {}, "chat_template": ["plain", 3]})
    model = opened(folder)
    assert (model.stops, model.context, model.frame) == (frozenset(), 512, Frame())


def test_a_frame_is_the_template_in_ids_with_its_control_tokens(folder: Path, opened: Open) -> None:
    model = opened(folder)
    start, end = CONTROLS.index("<|im_start|>"), CONTROLS.index("<|im_end|>")
    line = model.tokens("\n")
    assert model.frame == Frame(
        opening=(start, *model.tokens("system\n")),
        turning=(end, *line, start, *model.tokens("user\n")),
        closing=(end, *line, start, *model.tokens("assistant\n")),
    )


@pytest.mark.parametrize(("wanted", "opening"), [(True, (0,)), (False, ()), (None, ())])
def test_without_a_template_a_prompt_begins_as_the_settings_say(
    tmp_path: Path, opened: Open, wanted: bool | None, opening: tuple[int, ...]
) -> None:
    folder = make(tmp_path / "plain", KINDS["llama"])
    write(folder / "tokenizer_config.json", {"bos_token": CONTROLS[0], "add_bos_token": wanted})
    assert opened(folder).frame == Frame(opening)


def test_without_a_template_or_settings_it_begins_as_the_tokenizer_does(stories: Mlx) -> None:
    assert stories.frame == Frame(opening=(1,))


def test_the_context_may_stand_with_the_settings_of_the_text_model(folder: Path, opened: Open) -> None:
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", config | {"text_config": {"max_position_embeddings": 99}})
    assert opened(folder).context == 99


def test_control_tokens_in_a_prompt_are_text(folder: Path, opened: Open) -> None:
    model = opened(folder)
    ids = model.tokens("".join(CONTROLS) + "<think>")
    assert min(ids) >= len(CONTROLS)
    assert model.vocabulary.decode(ids) == "".join(CONTROLS) + "<think>"


def parameters(model: Any) -> dict[str, Any]:
    from mlx.utils import tree_flatten

    return dict(tree_flatten(model.parameters()))


on_a_cpu = pytest.mark.skipif(device() != "cpu", reason="MLX does not compute on a CPU here")


@on_a_cpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_on_a_cpu_weights_become_fp32(tmp_path: Path, opened: Open, dtype: str) -> None:
    import mlx.core as mx

    model = opened(make(tmp_path / "half", KINDS["qwen3"], dtype=dtype))
    assert {array.dtype for array in parameters(model.model).values()} == {mx.float32}
    assert len(list(model.decode(model.begin(), long(model, 30), 5))) == 5


@on_a_cpu
def test_on_a_cpu_quantised_weights_become_fp32_ones_of_the_same_value(tmp_path: Path, opened: Open) -> None:
    import mlx.core as mx
    from mlx_lm.utils import load_model, quantize_model

    plain = make(tmp_path / "plain", KINDS["llama"], CHATML)
    inner, config = quantize_model(*load_model(plain), group_size=32, bits=4)
    folder = shutil.copytree(plain, tmp_path / "quantised")
    config = json.loads((plain / "config.json").read_text()) | {"quantization": config["quantization"]}
    write(folder / "config.json", config)
    mx.save_safetensors(str(folder / "model.safetensors"), parameters(inner))
    model = opened(folder)
    assert {array.dtype for array in parameters(model.model).values()} == {mx.float32}
    expected = np.array(inner(mx.array([long(model, 30)]))[0, -1])
    assert np.allclose(model.logits(model.begin(), long(model, 30)), expected, atol=1e-3)


def test_weights_in_several_files_are_the_same_model(folder: Path, tmp_path: Path, opened: Open) -> None:
    import mlx.core as mx

    tensors: Any = mx.load(str(folder / "model.safetensors"))
    parts = shutil.copytree(folder, tmp_path / "parts")
    (parts / "model.safetensors").unlink()
    names = {name: f"model-0000{n % 2 + 1}-of-00002.safetensors" for n, name in enumerate(sorted(tensors))}
    for file in set(names.values()):
        mx.save_safetensors(str(parts / file), {name: tensors[name] for name in names if names[name] == file})
    write(parts / "model.safetensors.index.json", {"weight_map": names})
    one, other = opened(folder), opened(parts)
    prompt = long(one, 90)
    assert np.array_equal(one.logits(one.begin(), prompt), other.logits(other.begin(), prompt))


def damage(folder: Path, name: str, value: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", config | {name: value})


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "an unknown architecture": lambda folder: damage(folder, "model_type", "blimp"),
    "no architecture": lambda folder: damage(folder, "model_type", None),
    "code of its own": lambda folder: damage(folder, "model_file", "evil.py"),
    "weights of another shape": lambda folder: damage(folder, "hidden_size", 32),
    "a layer too many": lambda folder: damage(folder, "num_hidden_layers", 3),
    "a setting of another type": lambda folder: damage(folder, "num_attention_heads", "four"),
    "no heads": lambda folder: damage(folder, "num_attention_heads", 0),
    "half of the weights": lambda folder: cut(folder / "model.safetensors"),
    "weights that are none": lambda folder: (folder / "model.safetensors").write_bytes(b"no tensors here"),
    "half of a tokenizer": lambda folder: cut(folder / "tokenizer.json"),
    "half of the tokenizer's settings": lambda folder: cut(folder / "tokenizer_config.json"),
    "a template of other bytes": lambda folder: (folder / "chat_template.jinja").write_bytes(b"{{ \xff }}"),
    "a template that is none": lambda folder: (folder / "chat_template.jinja").write_text("{% if"),
}


@pytest.mark.parametrize("wrong", DAMAGES)
def test_a_folder_with_a_fault_is_refused_in_one_line(folder: Path, opened: Open, wrong: str) -> None:
    (folder / "evil.py").write_text(f"from pathlib import Path\nPath({str(folder / 'ran')!r}).touch()\n")
    DAMAGES[wrong](folder)
    with pytest.raises(PkbError) as caught:
        opened(folder)
    assert "tiny" in caught.value.message
    assert "\n" not in caught.value.message
    assert (caught.value.next_step or "").startswith("pkb model ")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors", "."])
def test_a_folder_that_lacks_a_part_is_no_model(folder: Path, opened: Open, missing: str) -> None:
    shutil.rmtree(folder) if missing == "." else (folder / missing).unlink()
    with pytest.raises(NoModel, match="tiny"):
        opened(folder)


def test_a_model_that_takes_more_than_its_share_of_memory_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PkbError, match=r"tiny needs 0\.3 GB of memory; model\.memory_share allows 0\.0 GB"):
        load(folder, name="tiny", cache=tmp_path, memory_share=0.000_001)


@pytest.mark.parametrize(
    ("stored", "on", "times"), [(4, "cpu", 8), (8, "cpu", 4), (None, "cpu", 2), (32, "cpu", 1), (4, "metal", 1)]
)
def test_memory_is_counted_in_the_width_that_weights_will_have(stored: int | None, on: Device, times: int) -> None:
    assert runtime.needed(10**9, stored, on) == times * 10**9 + runtime.OVERHEAD


def test_the_need_of_a_folder_is_that_of_its_weights(tmp_path: Path) -> None:
    for dtype, times in (("float32", 1), ("float16", 2)):
        folder = make(tmp_path / dtype, KINDS["llama"], dtype=dtype)
        size = (folder / "model.safetensors").stat().st_size
        assert runtime.needed_by(folder, "cpu") == times * size + runtime.OVERHEAD
        assert runtime.needed_by(folder, "metal") == size + runtime.OVERHEAD
    assert runtime.total() > runtime.OVERHEAD


@pytest.mark.parametrize("bits", [0, 8])  # read into place, and through MLX
def test_a_trial_measures_both_ways_and_leaves_no_file(model: Mlx, tmp_path: Path, bits: int) -> None:
    tried = replace(model, bits=bits)
    assert min(compute_s(tried, 70), restore_s(tried, tmp_path, 70)) > 0
    assert list(tmp_path.iterdir()) == []
