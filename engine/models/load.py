"""Loads a language model from its folder: config, chat template and tokenizer, then memory limit, BLAS and weights.

Knows the folder's files; no prompts, and nothing of how a model computes.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from engine.models import kv_cache, memory, runtime
from engine.models.kv_cache import CacheForm
from engine.models.lookup import TOKENS, architecture, lacks, read_config, role, split
from engine.models.mlx import SUB_STEP, Mlx, load_weights, open_lazily
from engine.models.runtime import Device
from engine.models.tokens import Tokens, open_tokenizer
from engine.models.types import Frame
from store.errors import NoModel, PkbError

SYSTEM, USER, ANSWER = "SystemTextOfPkb", "UserTextOfPkb", "AnswerTextOfPkb"
TODAY = datetime(2024, 7, 26)  # to a template that asks: a prompt must not change with the day
FILE, KEY, DEFAULT = "chat_template.jinja", "chat_template", "default"
TRAINING = re.compile(r"(\{%-?\s*)(end)?generation(?=\s*-?%\})")
WRONG = (TemplateError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)

APART = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": USER})
JOINED = ({"role": "user", "content": SYSTEM + USER},)
ANSWERED = ({"role": "assistant", "content": ANSWER},)


@dataclass(frozen=True, slots=True)
class Framing:
    """A chat template's text before, between and after the system and user messages.

    `ended` is what follows an answer, empty where the template does not render one.
    """

    opening: str
    turning: str
    closing: str
    ended: str


def find_template(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Return a model's chat template, from its own file or from tokenizer_config.json; None where it has none."""
    if (folder / FILE).is_file():
        return (folder / FILE).read_text("utf-8", errors="replace")
    found = config.get(KEY)
    if isinstance(found, list):
        named = [one for one in found if isinstance(one, dict)]
        found = next((one.get("template") for one in named if one.get("name") == DEFAULT), None)
    return found if isinstance(found, str) else None


def frame(source: str, names: Mapping[str, str], model: str) -> Framing:
    """Split a template around its messages, given its special tokens; PkbError where it cannot hold a prompt.

    Where it has no system role, the system message begins the user's.
    """
    problem: Exception | None = None
    for messages in (APART, JOINED):
        try:
            template = _environment().from_string(_plain(source))
            parts = _cut(_render(template, names, messages, asking=True))
            return Framing(*parts, _ended(template, names, messages))
        except WRONG as error:
            problem = problem or error
    said = " ".join(str(problem).split())[:200]
    raise PkbError(f"the chat template of {model} cannot be used: {said}", "pkb model list")


def _render(template: Template, names: Mapping[str, str], messages: tuple[dict[str, str], ...], *, asking: bool) -> str:
    return template.render(
        names,
        messages=[dict(message) for message in messages],
        add_generation_prompt=asking,
        enable_thinking=False,
        tools=None,
        date_string=f"{TODAY:%d %b %Y}",
        strftime_now=TODAY.strftime,
        raise_exception=_refuse,
    )


def _cut(text: str) -> tuple[str, str, str]:
    if text.count(SYSTEM) != 1 or text.count(USER) != 1 or text.index(SYSTEM) > text.index(USER):
        raise ValueError("it does not render each message once and in order")
    opening, rest = text.split(SYSTEM)
    turning, closing = rest.split(USER)
    return opening, turning, closing


def _ended(template: Template, names: Mapping[str, str], messages: tuple[dict[str, str], ...]) -> str:
    try:
        _, found, rest = _render(template, names, messages + ANSWERED, asking=False).rpartition(ANSWER)
    except WRONG:  # it need not render answers, only the prompt of one
        return ""
    return rest if found else ""


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _json
    return environment


def _plain(source: str) -> str:
    """Replace the `generation` blocks, which mark answers for training, by ordinary ones."""
    return TRAINING.sub(lambda found: found[1] + ("endif" if found[2] else "if true"), source)


LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx")
SHORTEST = 2048  # context of a model whose config names none
NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")
BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, RuntimeError)


def read(
    folder: Path,
    weights: Callable[[Path, Device], Any],
    *,
    name: str,
    cache: Path,
    threads: int | None,
    memory_share: float,
) -> tuple[Tokenizer, Any]:
    """Set memory limit and BLAS, then load tokenizer and weights; PkbError where they are damaged or too large."""
    device = runtime.device()
    memory.demand(folder, name, device, memory_share)
    runtime.private_tmp(cache)
    runtime.load_blas(cache, threads)
    memory.limit(memory_share)
    try:
        return open_tokenizer(folder / TOKENS), weights(folder, device)
    except BROKEN as error:
        said = " ".join(str(error).split())[:200]
        raise PkbError(f"the model {name} cannot be loaded: {said}", f"pkb model pull {name}") from error


def load(folder: Path, *, name: str, cache: Path, memory_share: float, threads: int | None = None) -> Mlx:
    """Load the model in a folder; NoModel where it is missing, PkbError where it cannot be used or is too large.

    `cache` holds machine code that MLX compiles; `threads` are those of BLAS, by default the environment's.
    """
    if not folder.is_dir() or (lack := lacks(folder)):
        said = f"the model {name} is incomplete: {lack}" if folder.is_dir() else f"model {name} is not installed"
        raise NoModel(said, f"pkb model pull {name}" if split(name) else "pkb model list")
    config, spoken = read_config(folder), _small(folder / "special_tokens_map.json")
    spoken |= _small(folder / "tokenizer_config.json")
    if role(name, config) != "writer":
        raise PkbError(
            f"{name} cannot be run: mlx-lm does not support architecture {architecture(config) or 'unknown'}",
            "pkb model list",
        )
    names = {key: text for key in NAMED if (text := _spelled(spoken.get(key)))}
    template = find_template(folder, spoken)
    framing = None if template is None else frame(template, names, name)  # before the weights, which are slow to load
    tokenizer, model = read(folder, load_weights, name=name, cache=cache, threads=threads, memory_share=memory_share)
    ids = {key: id for key, text in names.items() if (id := tokenizer.token_to_id(text)) is not None}
    vocabulary = Tokens(tokenizer, ids.values())
    ended = vocabulary.first_control(framing.ended) if framing else None
    ends = chain.from_iterable(map(_ends, (config, _inner(config), _small(folder / "generation_config.json"))))
    return Mlx(
        name=name,
        context=_context(config),
        frame=_frame(vocabulary, framing, spoken.get("add_bos_token"), ids.get("bos_token")),
        sub_step=SUB_STEP[runtime.device()],
        stops=frozenset(id for id in (ended, ids.get("eos_token"), *ends) if id is not None),
        one_line=framing is None,
        vocabulary=vocabulary,
        model=model,
    )


def form(folder: Path, bits: int) -> CacheForm:
    """Return how the KV cache of the model in a folder would be stored, without reading its weights."""
    try:
        return kv_cache.form(kv_cache.begin(open_lazily(folder)), bits)
    except BROKEN:
        return CacheForm("", "cannot be loaded")


def _frame(vocabulary: Tokens, framing: Framing | None, add_bos: bool | None, bos: int | None) -> Frame:
    """Return the tokens around a prompt; without a template, the tokenizer's own or its BOS token."""
    if framing:
        return Frame(*map(vocabulary.control, (framing.opening, framing.turning, framing.closing)))
    if add_bos is None:
        return Frame(vocabulary.opening())
    return Frame((bos,) if add_bos and bos is not None else ())


def _context(config: Mapping[str, Any]) -> int:
    places = (_inner(config), config)
    return next((place[key] for place in places for key in LENGTHS if isinstance(place.get(key), int)), SHORTEST)


def _inner(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the language model's part of a multimodal config."""
    found = config.get("text_config")
    return found if isinstance(found, dict) else {}


def _ends(config: Mapping[str, Any]) -> list[int]:
    found = config.get("eos_token_id")
    return [id for id in (found if isinstance(found, list) else [found]) if isinstance(id, int)]


def _spelled(token: Any) -> str:
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else ""


def _small(path: Path) -> dict[str, Any]:
    """Read an optional JSON file; PkbError where it is damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PkbError(f"{path} cannot be read", "pkb model list")
    return found
