"""LoRA adapters as mlx-lm and PEFT save them: read and checked, put on a loaded model and taken off, kept in a home.

An ordinary adapter acts on every token, so its KV tensors are its own. An activated one (arXiv 2504.12397) acts on the
last segment of a prompt and on what is generated: the tensors of everything before are the base model's, bit for bit.
So does a role adapter, which comes with pkb or a model for the few tasks that pkb gives it. MLX is imported at first
use, because BLAS must be loaded before it.
"""

import json
import math
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from engine.models import lookup
from engine.models.lookup import INDEX, digest, find, fingerprint, read_header, read_object
from engine.models.runtime import mx
from engine.settings import AdapterSettings, Settings
from engine.types import Check, Checks
from store.errors import PkbError, UsageError
from store.home import Home, replacing

BASE, DOWN, UP = "base", ".lora_a", ".lora_b"  # metadata key; suffixes of (inputs, rank) and (rank, outputs)
_NORM = "model.norm.weight"
MOST_BYTES = 4 << 30  # of factors
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "vocab_size")
CONFIG, WEIGHTS = "adapter_config.json", "adapters.safetensors"
ACTIVATED = "activated"  # key of the config, which mlx-lm ignores
FILE = "role_adapter.safetensors"  # beside a model's weights
SHIPPED = Path(__file__).parent / "adapters"
MOST_RANK = 512
_MOST_CONFIG = 1 << 20  # bytes
_MOST_SCALE = 1e4
_NEXT = "pkb adapter list"
PEFT_WEIGHTS = "adapter_model.safetensors"
_PEFT_DOWN, _PEFT_UP, _PEFT_MODEL = ".lora_A.weight", ".lora_B.weight", "base_model.model."  # parts of tensors' names
_NOT_FACTORS = (  # settings of PEFT that change more than linear layers by one product each
    "use_dora", "bias", "lora_bias", "modules_to_save", "trainable_token_indices", "target_parameters",
    "layer_replication", "rank_pattern", "alpha_pattern", "alora_invocation_tokens",
)  # fmt: skip
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq")  # ways to begin a training that change the base model's weights
_DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, struct.error)


def base_in(path: Path) -> str:
    """Return the identifier of the model that an adapter's file names; empty if there is none."""
    try:
        with path.open("rb") as file:
            return str(read_header(file)["__metadata__"][BASE])
    except _DAMAGED:
        return ""


def base_of(folder: Path) -> str:
    """Return an identifier of a model that does not depend on how its weights are quantized; empty if there is none."""
    try:
        config = json.loads((folder / lookup.CONFIG).read_text("utf-8"))
        sizes = [int(config[name]) for name in _SIZES]
        index, file = folder / INDEX, "model.safetensors"
        if index.is_file():
            file = str(json.loads(index.read_text("utf-8"))["weight_map"][_NORM])
        norm = _bfloat16s(folder / file, _NORM)  # which all quantized forms leave as it is
    except _DAMAGED:
        return ""
    return blake2b(struct.pack(f"<{len(sizes)}q", *sizes) + norm, digest_size=16).hexdigest()


def factors_of(path: Path, down: str = DOWN, up: str = UP) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in an adapter's weights; ValueError if the file is not wholly made of factors.

    The names of factors end in `down` and `up`, in the order in which they are multiplied.
    """
    with path.open("rb") as file:
        header = read_header(file)
        rest = path.stat().st_size - file.tell()
    header.pop("__metadata__", None)
    if not 0 < rest <= MOST_BYTES:
        raise ValueError("too large" if rest > 0 else "no tensors")
    if (end := max(int(one["data_offsets"][1]) for one in header.values())) != rest:
        raise ValueError("the file is cut off" if end > rest else "the file is too long")
    shapes = {name: tuple(map(int, one["shape"])) for name, one in header.items()}
    for name, shape in shapes.items():
        suffix, partner = next(((one, two) for one, two in ((down, up), (up, down)) if name.endswith(one)), ("", ""))
        if not suffix:
            raise ValueError(f"{name[:80]} is not a LoRA factor")
        if (other := name.removesuffix(suffix) + partner) not in shapes:
            raise ValueError(f"{name[:80]} has no partner")
        if len(shape) != 2:
            raise ValueError(f"{name[:80]} is not a matrix")
        if name.endswith(down) and shape[1] != shapes[other][0]:
            raise ValueError(f"{name[:80]} does not fit its partner")
    return shapes


def _bfloat16s(path: Path, name: str) -> bytes:
    """Return the values of a tensor, each as its upper 16 bits in single precision."""
    with path.open("rb") as file:
        entry = read_header(file)[name]
        start, end = entry["data_offsets"]
        file.seek(file.tell() + start)
        raw = file.read(end - start)
    if entry["dtype"] == "BF16":
        return raw
    if entry["dtype"] == "F16":
        count = len(raw) // 2
        raw = struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", raw))
    return b"".join(raw[at + 2 : at + 4] for at in range(0, len(raw), 4))


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter that was read and found whole; `digest` names its weights, its scale and where it acts."""

    name: str
    digest: str
    rank: int
    scale: float
    weights: Path  # the file of its factors
    activated: bool = False


def find_adapter(folder: Path, notes: Path | None = None) -> Adapter | None:
    """Return the role adapter of the model in a folder: its own, or one that comes with pkb; None if there is none."""
    own, base = folder / FILE, base_of(folder)
    shipped = (path for path in sorted(SHIPPED.glob("*.safetensors")) if base and base_in(path) == base)
    path = own if own.is_file() else next(shipped, None)
    return Adapter(path.name, digest(path, notes), 0, 1.0, path, activated=True) if path else None


def read_adapter(folder: Path, name: str, notes: Path | None = None) -> Adapter:
    """Read an adapter's config and its weights' header; UsageError if it is not an adapter, PkbError if damaged."""
    config = _config(folder, name)
    given = config.get("lora_parameters")
    rank, scale = (given.get("rank"), given.get("scale")) if isinstance(given, dict) else (None, None)
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= MOST_RANK:
        raise PkbError(f"adapter {name} is damaged: {CONFIG}: rank must be 1 to {MOST_RANK}", _NEXT)
    if not isinstance(scale, (int, float)) or isinstance(scale, bool) or not abs(scale) <= _MOST_SCALE:  # nan neither
        raise PkbError(f"adapter {name} is damaged: {CONFIG}: scale must be a number", _NEXT)
    try:
        ranks = {shape[1] for layer, shape in factors_of(folder / WEIGHTS).items() if layer.endswith(DOWN)}
        weights = digest(folder / WEIGHTS, notes)
    except _DAMAGED as error:
        raise PkbError(f"adapter {name} is damaged: {WEIGHTS}: {_reason(error)}", _NEXT) from error
    if ranks != {rank}:
        there = " and ".join(map(str, sorted(ranks)))
        raise PkbError(f"adapter {name} is damaged: rank {rank} in {CONFIG}, {there} in {WEIGHTS}", _NEXT)
    activated = bool(config.get(ACTIVATED))
    said = f"{weights}\n{float(scale)!r}\n{activated}"
    own = blake2b(said.encode(), digest_size=16).hexdigest()
    return Adapter(name, own, rank, float(scale), folder / WEIGHTS, activated)


def _config(folder: Path, name: str) -> Mapping[str, Any]:
    """Return the config of an adapter that pkb can put on a model; UsageError naming a kind that it cannot."""
    path = folder / CONFIG
    if not path.is_file():
        raise UsageError(f"{name} is not an adapter: {CONFIG} is missing", "pkb adapter add FOLDER")
    if (found := read_object(path) if path.stat().st_size <= _MOST_CONFIG else None) is None:
        raise PkbError(f"adapter {name} is damaged: {CONFIG} holds no object, or is too long", _NEXT)
    weights = PEFT_WEIGHTS if "peft_type" in found else WEIGHTS
    if not (folder / weights).is_file():
        raise UsageError(f"{name} is not an adapter: {weights} is missing", "pkb adapter add FOLDER")
    if "peft_type" in found:
        _check_peft(found, name)
    if (kind := found.get("fine_tune_type", "lora")) == "dora":
        raise UsageError(f"{name} is a DoRA adapter, which cannot be taken off a loaded model; train LoRA", _NEXT)
    if kind == "full":
        raise UsageError(f"{name} is a full fine-tune, not an adapter; save it as a model", "pkb model use FOLDER")
    if kind != "lora":
        raise UsageError(f"{name} has the unknown fine_tune_type {str(kind)[:40]!r}; pkb uses lora", _NEXT)
    return found


def _check_peft(config: Mapping[str, Any], name: str) -> None:
    unlike = [key for key in _NOT_FACTORS if config.get(key) and config[key] != "none"]
    reasons = [f"it sets {key}, and pkb uses plain LoRA on linear layers" for key in unlike]
    if config["peft_type"] != "LORA":
        reasons.insert(0, f"its kind is {str(config['peft_type'])[:40]}, not LORA")
    if str(config.get("init_lora_weights")).lower().startswith(_CHANGES_BASE):
        reasons.append(f"its training changed the base model ({str(config['init_lora_weights'])[:40]})")
    if reasons:
        raise UsageError(f"pkb cannot use {name}, an adapter of PEFT: {reasons[0]}", _NEXT)


def _from_peft(folder: Path, config: Mapping[str, Any], name: str) -> None:
    """Rewrite an adapter of PEFT, which adds scale * B @ A to a weight, in mlx-lm's form: A and B transposed."""
    rank, alpha, scale = config.get("r"), config.get("lora_alpha"), None
    if isinstance(rank, int) and rank > 0 and isinstance(alpha, (int, float)):
        scale = alpha / (math.sqrt(rank) if config.get("use_rslora") else rank)
    try:
        factors_of(folder / PEFT_WEIGHTS, _PEFT_UP, _PEFT_DOWN)
        found: Any = mx.load(str(folder / PEFT_WEIGHTS))
        turned = dict[str, Any]()
        for one, factor in found.items():
            layer = one.removeprefix(_PEFT_MODEL).removesuffix(_PEFT_UP).removesuffix(_PEFT_DOWN)
            turned[layer + (UP if one.endswith(_PEFT_UP) else DOWN)] = mx.contiguous(factor.T)
        mx.eval(list(turned.values()))
    except (ValueError, LookupError, TypeError, RuntimeError) as error:
        raise PkbError(f"adapter {name} is damaged: {PEFT_WEIGHTS}: {_reason(error)}", _NEXT) from error
    said = {"lora_parameters": {"rank": rank, "scale": scale}, "model": config.get("base_model_name_or_path")}
    with replacing(folder / CONFIG, lasting=True) as file:
        file.write(json.dumps(said).encode())
    with replacing(folder / WEIGHTS, lasting=True) as file:
        mx.save_safetensors(file, turned)
    (folder / PEFT_WEIGHTS).unlink()


Factors = tuple[Any, Any, float]  # down, up, and the scale of their product


@dataclass(slots=True)
class AttachedAdapter:
    """The adapter inside a loaded model, by its digest `name`; it acts as long as it `acts`, or `always`; mutable."""

    acts: bool = False
    always: bool = False
    name: str = ""


def sizes_of(linear: Any) -> tuple[int, int]:
    """Return the inputs and outputs of a linear layer."""
    outputs, inputs = linear.weight.shape
    return (inputs * 32 // linear.bits if hasattr(linear, "bits") else inputs), outputs  # packed into words of 32 bits


def layer_of(layer: Any) -> Any:
    """Return the base model's layer inside one that is adapted; any other layer as it is."""
    return layer.inner if isinstance(layer, _layer_type()) else layer


@cache
def _layer_type() -> Any:
    """Return the class of a layer that adds `scale x down up` to its output while the adapter acts."""
    from mlx.nn.layers.base import Module

    class Adapted(Module):
        def __init__(self, inner: Any, factors: Factors, attached: AttachedAdapter) -> None:
            begin: Callable[[], None] = super().__init__  # which MLX gives no types
            begin()
            self.inner = inner
            # Names with an underscore are not parameters of the model.
            self._attached, self._factors = attached, factors

        def __call__(self, x: Any) -> Any:
            found = self.inner(x)
            if not (self._attached.acts or self._attached.always):
                return found
            down, up, scale = self._factors
            if down.dtype != x.dtype:
                down, up = down.astype(x.dtype), up.astype(x.dtype)
                self._factors = down, up, scale
            return found + (scale * ((x @ down) @ up)).astype(x.dtype)

    return Adapted


def check_fit(model: Any, adapter: Adapter) -> None:
    """Raise PkbError unless the layers of a model, loaded or opened lazily, have the shapes of an adapter."""
    try:
        layers, shapes = dict(model.named_modules()), factors_of(adapter.weights)
    except _DAMAGED as error:
        raise PkbError(f"adapter {adapter.name} cannot be read: {_reason(error)}", _NEXT) from error
    for name in (name.removesuffix(DOWN) for name in shapes if name.endswith(DOWN)):
        problem = _misfit(layers.get(name), shapes[name + DOWN][0], shapes[name + UP][1])
        if problem:
            raise PkbError(f"adapter {adapter.name} does not fit the model: {name[:80]}: {problem}", "pkb model list")


def _misfit(layer: Any, inputs: int, outputs: int) -> str:
    from mlx.nn.layers.linear import Linear
    from mlx.nn.layers.quantized import QuantizedLinear

    if layer is None:
        return "there is no such layer"
    inner = layer_of(layer)
    if not isinstance(inner, (Linear, QuantizedLinear)) or hasattr(inner, "to_lora"):
        kind = type(inner).__name__
        return f"mlx-lm leaves LoRA on {kind} in place, so pkb does not use it; train linear layers"
    there = sizes_of(inner)
    return "" if there == (inputs, outputs) else f"{inputs} x {outputs}, where the model has {there[0]} x {there[1]}"


def load_factors(adapter: Adapter) -> dict[str, Any]:
    """Read an adapter's factors by name; PkbError if a file is missing, damaged, or another than was read."""
    try:
        found = mx.load(str(adapter.weights))
        if not isinstance(found, dict):
            raise ValueError("not a set of tensors")
        mx.eval(list(found.values()))
    except (RuntimeError, ValueError) as error:
        raise PkbError(f"adapter {adapter.name} cannot be read: {_reason(error)}", _NEXT) from error
    return found


def check_values(adapter: Adapter) -> None:
    """Raise PkbError if an adapter's factors have a value that is not a number, as after a failed training."""
    for name, factor in load_factors(adapter).items():
        if not mx.all(mx.isfinite(factor)).item():
            raise PkbError(f"adapter {adapter.name} is damaged: {name[:80]} has values that are not numbers", _NEXT)


def wear(model: Any, attached: AttachedAdapter, adapter: Adapter | None) -> None:
    """Put an adapter on a loaded mlx-lm model in place of the one it wears; None restores the base exactly.

    Layers are wrapped, never changed: the base's own layers stand in their places again afterwards. PkbError, and the
    base alone, if the adapter cannot be read or does not fit.
    """
    name, found = adapter.digest if adapter else "", dict[str, Factors]()
    if attached.name == name:
        return
    from mlx.utils import tree_unflatten

    if adapter:
        try:
            check_fit(model, adapter)
            factors = load_factors(adapter)
        except PkbError:
            wear(model, attached, None)
            raise
        names = [one.removesuffix(DOWN) for one in factors if one.endswith(DOWN)]
        found = {one: (factors[one + DOWN], factors[one + UP], adapter.scale) for one in names}
    layers, kind = dict(model.named_modules()), _layer_type()
    changed = {place: layer.inner for place, layer in layers.items() if isinstance(layer, kind)}
    changed |= {place: kind(layer_of(layers[place]), one, attached) for place, one in found.items()}
    if changed:
        model.update_modules(tree_unflatten(list(changed.items())))
    attached.name = name
    attached.always = adapter is not None and not adapter.activated


def _reason(error: BaseException) -> str:
    """Return an error in a few words, without a path."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return " ".join(str(error).split())[:120] or type(error).__name__


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RESERVED = frozenset(("none", "base", "con", "nul"))
_ABOUT = "adapter.json"


@dataclass(frozen=True, slots=True)
class KeptAdapter:
    """An adapter in the home, and the model it is for; `base` identifies that whatever its quantization."""

    name: str
    base: str
    model: str
    files: Path  # their folder

    def read(self, notes: Path | None = None) -> Adapter:
        """Read its files; UsageError or PkbError as `read_adapter`."""
        return read_adapter(self.files, self.name, notes)


class AdapterFolder:
    """The adapters kept in a home, private to their owner: a folder each, with notes and a folder of files."""

    def __init__(self, home: Home) -> None:
        self._path, self.notes = home.adapters, home.cache / "digests"

    def names(self) -> list[str]:
        """Return the names of all adapters, in order."""
        if not self._path.is_dir():
            return []
        return sorted(one.name for one in self._path.iterdir() if _NAME.fullmatch(one.name) and one.is_dir())

    def find(self, name: str) -> KeptAdapter:
        """Return an adapter; UsageError if there is none of this name, PkbError if its notes are damaged."""
        folder = self._folder_of(name)
        try:
            found = json.loads((folder / _ABOUT).read_text("utf-8"))
            return KeptAdapter(name, str(found["base"]), str(found["model"]), folder / str(int(found["version"])))
        except _DAMAGED as error:
            step = f"pkb adapter rm {name}"
            raise PkbError(f"adapter {name} is damaged: {_ABOUT}: {_reason(error)}", step) from error

    def add(self, source: Path, name: str, base: str, model: str, check: Callable[[Adapter], None]) -> KeptAdapter:
        """Copy an adapter's two files, in mlx-lm's form, under a new name, once `check` has accepted the copy.

        UsageError if the name is taken, or the folder holds no adapter that pkb can use.
        """
        if not _NAME.fullmatch(name) or name.lower() in _RESERVED or name.endswith("."):
            example = "pkb adapter add FOLDER --name mail"
            raise UsageError("a name has letters, digits, dots, - and _, at most 64", example)
        # Some disks do not tell Mail from mail.
        if taken := next((one for one in self.names() if one.casefold() == name.casefold()), None):
            raise UsageError(f"there is an adapter {taken} already", f"pkb adapter rm {taken}, or add it with --name")
        config = _config(source, name)  # before anything is copied
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(prefix=".part-", dir=self._path, ignore_cleanup_errors=True) as made:
                part, of_peft = Path(made), "peft_type" in config
                _copy(source, part / "1", name, PEFT_WEIGHTS if of_peft else WEIGHTS)
                if of_peft:
                    _from_peft(part / "1", config, name)
                check(read_adapter(part / "1", name))
                with replacing(part / _ABOUT, lasting=True) as file:
                    file.write(json.dumps({"version": 1, "base": base, "model": model}).encode())
                part.rename(self._path / name)
        except OSError as error:
            raise PkbError(f"cannot write the adapter: {_reason(error)}", "pkb doctor") from error
        return self.find(name)

    def remove(self, name: str) -> int:
        """Remove an adapter and return the number of bytes freed; UsageError if it does not exist."""
        folder = self._folder_of(name)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        with TemporaryDirectory(prefix=".gone-", dir=self._path) as gone:
            folder.rename(Path(gone) / "it")  # at once, or not at all
        return size

    def _folder_of(self, name: str) -> Path:
        if not _NAME.fullmatch(name) or not (self._path / name).is_dir():
            raise UsageError(f"there is no adapter {name[:64]!r}", _NEXT)
        return self._path / name


def _copy(source: Path, target: Path, name: str, weights: str) -> None:
    """Copy config and weights, each a regular file of limited size; PkbError naming one that is not."""
    target.mkdir(mode=0o700)
    for file, most in ((CONFIG, _MOST_CONFIG), (weights, MOST_BYTES)):
        try:
            if (source / file).stat().st_size > most:
                raise UsageError(f"{name}: {file} is larger than {most:,} bytes", _NEXT)
            with (source / file).open("rb") as read, replacing(target / file, lasting=True) as write:
                shutil.copyfileobj(read, write)
        except OSError as error:
            raise PkbError(f"cannot copy {file} of {name}: {_reason(error)}", "pkb adapter add FOLDER") from error


def wardrobe_of(
    home: Home, chosen: AdapterSettings, folder: Path, model_digest: str
) -> tuple[dict[str, Adapter], dict[str, Adapter], tuple[str, ...]]:
    """Return the intact adapters that the settings choose for the model in a folder, known by its digest.

    They come by task and by collection, and then why one is not used.
    """
    tasks, collections = {"answer": chosen.answer, "predict": chosen.predict}, parse_collections(chosen.collections)
    own, found, problems = AdapterFolder(home), dict[str, Adapter](), list[str]()
    names = dict.fromkeys(filter(None, (*tasks.values(), *collections.values())))
    base = (base_of(folder) or model_digest) if names else ""  # whatever the quantization of its weights
    for name in names:
        try:
            kept = own.find(name)
            if kept.base != base:
                raise PkbError(f"adapter {kept.name} is for {kept.model}, another model", "pkb adapter use none")
            found[name] = kept.read(own.notes)
        except PkbError as error:
            problems.append(f"{error.message}: the base model answers; try: {error.next_step}")
    by_task = {task: found[name] for task, name in tasks.items() if name in found}
    by_collection = {one: found[name] for one, name in collections.items() if name in found}
    return by_task, by_collection, tuple(problems)


def parse_collections(text: str) -> dict[str, str]:
    """Return the adapter of each collection in the setting `adapter.collections`."""
    pairs = (part.partition("=") for part in text.split(";"))
    return {collection.strip(): name.strip() for name, _, collection in pairs if collection.strip()}


def spell_collections(chosen: Mapping[str, str]) -> str:
    """Return the setting `adapter.collections` that chooses an adapter for each collection."""
    return "; ".join(f"{name}={collection}" for collection, name in chosen.items() if name)


def doctor(home: Home, settings: Settings, environ: Mapping[str, str]) -> Checks:
    """Return the check that the chosen adapters are whole and made for the language model in use, if any are chosen."""
    chosen, model = settings.adapter, settings.model
    if chosen == type(chosen)() or not (model.is_local or model.is_served):
        return {}

    def check() -> Check:
        if model.is_served:
            return Check("adapter", "note", "a model server answers: no adapter is used", "pkb adapter use none")
        found = find(model.name, model.revision, environ)
        model_digest = fingerprint(found, home.cache / "digests")
        tasks, collections, problems = wardrobe_of(home, chosen, found.folder, model_digest)
        if problems:
            return Check("adapter", "bad", problems[0].partition("; try:")[0], "pkb adapter list")
        places = tasks | {f"in {name}": one for name, one in collections.items()}
        return Check("adapter", "ok", ", ".join(f"{place}: {one.name}" for place, one in places.items()) or "none")

    return {"adapter": check}
