"""Loads a language model from its folder: config, chat template and tokenizer, then memory limit, BLAS and weights.

Knows the folder's files; no prompts and no computation.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from timeit import repeat
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from engine.models import kv_cache, runtime
from engine.models.adapters import Adapter, AttachedAdapter, wear
from engine.models.kv_cache import CacheForm, FixedKeys, Ropes, ropes
from engine.models.lookup import TOKENS, architecture, missing_files, read_config, read_object, role, split
from engine.models.mlx import SUB_STEP, Mlx, evaluate, open_lazily
from engine.models.types import Frame, Tokens, open_tokenizer
from store.errors import NoModel, PkbError
from store.kv_files import SUFFIX, Header, write

SYSTEM, USER, ANSWER = "SystemTextOfPkb", "UserTextOfPkb", "AnswerTextOfPkb"
TODAY = datetime(2024, 7, 26)  # for templates that print a date: a prompt must not change daily
TEMPLATE_FILE, TEMPLATE_KEY, TEMPLATE_NAME = "chat_template.jinja", "chat_template", "default"
GENERATION = re.compile(r"(\{%-?\s*)(end)?generation(?=\s*-?%\})")
_OF_CONTENT = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)  # what a model's files raise
TEMPLATE_ERRORS = (TemplateError, RecursionError, *_OF_CONTENT)
LOAD_ERRORS = (OSError, AssertionError, RuntimeError, *_OF_CONTENT)

SEPARATE = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": USER})
MERGED = ({"role": "user", "content": SYSTEM + USER},)
ANSWERED = ({"role": "assistant", "content": ANSWER},)


@dataclass(frozen=True, slots=True)
class Framing:
    """A chat template's text before, between and after the system and user messages."""

    opening: str
    turning: str
    closing: str
    ended: str  # after an answer; empty if the template cannot render one


def find_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return a model's chat template, from its own file or from tokenizer_config.json; None if it has none."""
    if (folder / TEMPLATE_FILE).is_file():
        return (folder / TEMPLATE_FILE).read_text("utf-8", errors="replace")
    found = config.get(TEMPLATE_KEY)
    if isinstance(found, list):
        named = [one for one in found if isinstance(one, dict)]
        found = next((one.get("template") for one in named if one.get("name") == TEMPLATE_NAME), None)
    return found if isinstance(found, str) else None


def frame(source: str, names: Mapping[str, str], model: str) -> Framing:
    """Split a template around its messages, given its special tokens; PkbError if it cannot render them.

    If it has no system role, the system text is put at the beginning of the user message.
    """
    problem: Exception | None = None
    for messages in (SEPARATE, MERGED):
        try:
            # Blocks of `generation`, which mark answers for training, are plain ones here.
            plain = GENERATION.sub(lambda found: found[1] + ("endif" if found[2] else "if true"), source)
            loops = ["jinja2.ext.loopcontrols"]
            environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=loops)
            environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
            template = environment.from_string(plain)
            text = _render(template, names, messages, prompt=True)
            if text.count(SYSTEM) != 1 or text.count(USER) != 1 or text.index(SYSTEM) > text.index(USER):
                raise ValueError("it does not render each message once and in order")
            opening, rest = text.split(SYSTEM)
            turning, closing = rest.split(USER)
            return Framing(opening, turning, closing, _ended(template, names, messages))
        except TEMPLATE_ERRORS as error:
            problem = problem or error
    reason = " ".join(str(problem).split())[:200]
    raise PkbError(f"the chat template of {model} cannot be used: {reason}", "pkb model list")


def _render(template: Template, names: Mapping[str, str], messages: tuple[dict[str, str], ...], *, prompt: bool) -> str:
    return template.render(
        names,
        messages=[dict(message) for message in messages],
        add_generation_prompt=prompt,
        enable_thinking=False,
        tools=None,
        date_string=f"{TODAY:%d %b %Y}",
        strftime_now=TODAY.strftime,
        raise_exception=_refuse,
    )


def _ended(template: Template, names: Mapping[str, str], messages: tuple[dict[str, str], ...]) -> str:
    try:
        _, found, rest = _render(template, names, messages + ANSWERED, prompt=False).rpartition(ANSWER)
    except TEMPLATE_ERRORS:  # only the prompt must render
        return ""
    return rest if found else ""


def _refuse(message: str) -> None:
    raise TemplateError(message)


CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx")
DEFAULT_CONTEXT = 2048  # tokens, for a config that names none
SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


def load_parts(
    folder: Path, name: str, opened: Callable[[Path], Any], *, cache: Path, threads: int | None, memory_share: float
) -> tuple[Tokenizer, Any]:
    """Set memory limit and BLAS, load tokenizer and weights; PkbError if damaged or too large, NoModel without MLX."""
    runtime.require_backend()
    device = runtime.device()
    required, allowed = runtime.needed_by(folder, device), int(runtime.total() * memory_share)
    if required > allowed:
        sizes = f"{required / 1e9:.1f} GB of memory; model.memory_share allows {allowed / 1e9:.1f} GB"
        raise PkbError(f"{name} needs {sizes}", "pkb model list")
    runtime.private_tmp(cache)
    runtime.load_blas(threads)
    runtime.limit(memory_share)
    try:
        return open_tokenizer(folder / TOKENS), evaluate(opened(folder), device)
    except LOAD_ERRORS as error:
        reason = " ".join(str(error).split())[:200]
        raise PkbError(f"the model {name} cannot be loaded: {reason}", f"pkb model pull {name}") from error


def load(
    folder: Path,
    name: str,
    *,
    cache: Path,
    memory_share: float,
    threads: int | None = None,
    adapter: Adapter | None = None,
) -> Mlx:
    """Load the model in a folder; NoModel if it is missing, PkbError if it is unsupported or too large.

    `cache` holds temporary files of MLX; `threads` is the number of BLAS threads, by default the environment's.
    """
    if not folder.is_dir() or (missing := missing_files(folder)):
        problem = f"the model {name} is incomplete: {missing}" if folder.is_dir() else f"model {name} is not installed"
        raise NoModel(problem, f"pkb model pull {name}" if split(name) else "pkb model list")
    config, tokenizer_config = read_config(folder), _read_json(folder / "special_tokens_map.json")
    tokenizer_config |= _read_json(folder / "tokenizer_config.json")
    if role(name, config) != "writer":
        why = f"mlx-lm does not support architecture {architecture(config) or 'unknown'}"
        raise PkbError(f"{name} cannot be run: {why}", "pkb model list")
    given = {key: tokenizer_config.get(key) for key in SPECIAL_TOKENS}
    texts = {key: one.get("content") if isinstance(one, dict) else one for key, one in given.items()}
    names = {key: text for key, text in texts.items() if isinstance(text, str) and text}
    template = find_template(folder, tokenizer_config)
    framing = None if template is None else frame(template, names, name)  # before the weights, which are slow to load
    tokenizer, model = load_parts(folder, name, open_lazily, cache=cache, threads=threads, memory_share=memory_share)
    wear(model, attached := AttachedAdapter(), adapter)
    ids = {key: id for key, text in names.items() if (id := tokenizer.token_to_id(text)) is not None}
    vocabulary = Tokens(tokenizer, ids.values())
    inner = config.get("text_config")  # of a multimodal model
    places = [inner if isinstance(inner, dict) else {}, config, _read_json(folder / "generation_config.json")]
    contexts = (place[key] for place in places[:2] for key in CONTEXT_KEYS if isinstance(place.get(key), int))
    ends = [place.get("eos_token_id") for place in places]
    stops = [ids.get("eos_token"), vocabulary.first_control(framing.ended) if framing else None]
    stops += chain.from_iterable(one if isinstance(one, list) else [one] for one in ends)
    return Mlx(
        name=name,
        context=next(contexts, DEFAULT_CONTEXT),
        frame=_frame(vocabulary, framing, tokenizer_config.get("add_bos_token"), ids.get("bos_token")),
        sub_step=SUB_STEP,
        stops=frozenset(id for id in stops if isinstance(id, int)),
        vocabulary=vocabulary,
        model=model,
        adapter=attached,
        role=adapter,
    )


def compute_s(model: Mlx, tokens: int) -> float:
    """Return the seconds that a model takes on its device to compute tokens in one call."""
    model = replace(model, sub_step=tokens)
    return _best_s(lambda: model.prefill(model.begin(), _ids(tokens)))


def restore_s(model: Mlx, below: Path, tokens: int) -> float:
    """Return the seconds of restoring tokens from a file in memory; 0 for a model whose KV cannot be stored."""
    cache = model.begin()
    if not kv_cache.form(cache).name:
        return 0.0
    captured = model.prefill(cache, _ids(tokens))
    with TemporaryDirectory(dir=below) as folder:
        path = Path(folder, f"trial{SUFFIX}")
        write(path, Header(b"", b"", b"", b"", ()), kv_cache.cut(cache, 0, tokens, captured))
        return _best_s(lambda: model.restore([path]))


def _ids(tokens: int) -> list[int]:
    return [number % 64 for number in range(tokens)]  # any vocabulary has these


def _best_s(work: Callable[[], object]) -> float:
    """Return the seconds of some work, the better of two after one that warms up."""
    return min(repeat(work, number=1, repeat=3)[1:])


def form(folder: Path, bits: int, *, in_blocks: bool = False) -> CacheForm:
    """Return how the KV cache of the model in a folder would be stored, without reading its weights."""
    try:
        model = open_lazily(folder)
        if in_blocks:
            ropes(model, kv_cache.begin(model))
        return kv_cache.form(kv_cache.begin(model), bits)
    except FixedKeys as why:
        return CacheForm("", f"cannot reuse blocks: {why}")
    except LOAD_ERRORS:
        return CacheForm("", "cannot be loaded")


def movable(model: Mlx) -> Ropes:
    """Return the ropes of a model; PkbError if it does not support block mode."""
    try:
        return ropes(model.model, model.begin(), model.context)
    except FixedKeys as why:
        raise PkbError(f"{model.name} cannot reuse blocks: {why}", "pkb config set kv.reuse prefix") from None


def _frame(vocabulary: Tokens, framing: Framing | None, add_bos: bool | None, bos: int | None) -> Frame:
    """Return the tokens around a prompt; without a template, the tokenizer's own or its BOS token."""
    if framing:
        return Frame(*map(vocabulary.control, (framing.opening, framing.turning, framing.closing)))
    if add_bos is None:
        return Frame(vocabulary.around()[0])
    return Frame((bos,) if add_bos and bos is not None else ())


def _read_json(path: Path) -> dict[str, Any]:
    """Read an optional JSON file, empty if absent; PkbError if it is damaged."""
    if (found := read_object(path) if path.exists() else {}) is None:
        raise PkbError(f"{path} cannot be read", "pkb model list")
    return found
