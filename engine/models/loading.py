"""A model from its folder: what its small files say, then its weights, memory and BLAS made ready first.

Knows the folder's files; no prompt, and nothing of how a model computes.
"""

import json
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.models import caches, memory, runtime
from engine.models.caches import Form
from engine.models.catalog import architecture, role
from engine.models.frames import Framing, find_template, frame
from engine.models.mlx import SUB_STEP, Mlx, unread, weights
from engine.models.place import TOKENS, lacks, read_config, split
from engine.models.protocols import Frame
from engine.models.runtime import Device
from engine.models.tokens import Tokens, open_tokenizer
from store.errors import NoModel, PkbError

LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx")
SHORTEST = 2048  # tokens held by a model that does not say
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
    """Open a tokenizer and load weights, memory and BLAS made ready first; PkbError where they are damaged or large."""
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
    """Load the model in a folder; NoModel where none is there, PkbError where it cannot be used or is too large.

    `cache` is the home's, for machine code that MLX compiles; `threads` those of BLAS, else as the environment says.
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
    framing = None if template is None else frame(template, names, name)  # before the weights, which take long
    tokenizer, model = read(folder, weights, name=name, cache=cache, threads=threads, memory_share=memory_share)
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


def form(folder: Path, bits: int) -> Form:
    """Tell how what the model in a folder reads would be kept; none of its weights are read."""
    try:
        return caches.form(caches.begin(unread(folder)), bits)
    except BROKEN:
        return Form("", "cannot be loaded")


def _frame(vocabulary: Tokens, framing: Framing | None, add_bos: bool | None, bos: int | None) -> Frame:
    """Give what stands around a prompt: without a template, what its settings or the tokenizer itself begin it with."""
    if framing:
        return Frame(*map(vocabulary.control, (framing.opening, framing.turning, framing.closing)))
    if add_bos is None:
        return Frame(vocabulary.opening())
    return Frame((bos,) if add_bos and bos is not None else ())


def _context(config: Mapping[str, Any]) -> int:
    places = (_inner(config), config)
    return next((place[key] for place in places for key in LENGTHS if isinstance(place.get(key), int)), SHORTEST)


def _inner(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the settings of the language model within one that also sees or hears."""
    found = config.get("text_config")
    return found if isinstance(found, dict) else {}


def _ends(config: Mapping[str, Any]) -> list[int]:
    found = config.get("eos_token_id")
    return [id for id in (found if isinstance(found, list) else [found]) if isinstance(id, int)]


def _spelled(token: Any) -> str:
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else ""


def _small(path: Path) -> dict[str, Any]:
    """Read one of the files that a folder may have; PkbError where it is damaged."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise PkbError(f"{path} cannot be read", "pkb model list")
    return found
