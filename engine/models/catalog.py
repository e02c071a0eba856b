"""What pkb can use of the models there are: the defaults, and what a model's config.json says that it is.

Standard library only: mlx-lm's architectures are looked up in its folder, without importing it.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

Role = Literal["writer", "embedder"]

EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"
HALF, SINGLE = 16, 32  # bits of a weight that is not quantised


@dataclass(frozen=True, slots=True)
class Default:
    """A language model to start with: on which machines, and how large its weights are."""

    name: str
    memory: int  # bytes that a machine should have
    weights: int  # bytes on disk, about


# A machine sold with 16 GB reports a little less, hence the slack. Both keep the keys and values of every token, so
# that what was read once can be used again in every way.
DEFAULTS = (
    Default("mlx-community/Qwen3-4B-Instruct-2507-4bit", 15_000_000_000, 2_270_000_000),
    Default("mlx-community/Llama-3.2-3B-Instruct-4bit", 7_500_000_000, 1_810_000_000),
)


def default(memory: int, room: int, needed: Callable[[int], int]) -> str | None:
    """Name the best model for so much memory that needs no more than `room` of it; None where there is none."""
    return next((one.name for one in DEFAULTS if memory >= one.memory and needed(one.weights) <= room), None)


def role(name: str, config: Mapping[str, Any]) -> Role | None:
    """Say what pkb can use a model for, None where it cannot."""
    if name == EMBEDDER:
        return "embedder"
    # A model that names a module of its own would have its code run: pkb runs none.
    if "model_file" in config or not _runs(architecture(config)):
        return None
    # Qwen3-Embedding is a language model by its config; its name alone says that it was trained for something else.
    embeds = architecture(config) == "qwen3" and "embedding" in Path(name).name.casefold()
    return "embedder" if embeds else "writer"


def architecture(config: Mapping[str, Any]) -> str:
    """Give the architecture that a config.json names, empty where it names none."""
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def bits(config: Mapping[str, Any]) -> int:
    """Give the bits of a weight on disk, as far as a config.json says."""
    quantised = config.get("quantization") or config.get("quantization_config")
    found = quantised.get("bits") if isinstance(quantised, Mapping) else None
    if isinstance(found, int) and found > 0:
        return found
    return SINGLE if "float32" in (config.get("torch_dtype"), config.get("dtype")) else HALF


@cache
def _runs(kind: str) -> bool:
    """Tell whether mlx-lm has the architecture: a module of that name that defines a model."""
    spec = find_spec("mlx_lm")
    for place in (spec.submodule_search_locations if spec else None) or ():
        kind = _renamed(Path(place)).get(kind, kind)
        module = Path(place, "models", f"{kind}.py")
        if re.fullmatch(r"[\w-]+", kind) and module.is_file():
            return "class ModelArgs" in module.read_text("utf-8")
    return False


@cache
def _renamed(package: Path) -> Mapping[str, str]:
    """Read which architectures mlx-lm runs as another one."""
    found = re.search(r"^MODEL_REMAPPING = (\{.*?^\})", (package / "utils.py").read_text("utf-8"), re.M | re.S)
    table: Mapping[str, str] = ast.literal_eval(found[1]) if found else {}
    return table
