"""Finds models on this machine by name or folder: defaults, roles, completeness, digests. Loads none.

Standard library only: mlx-lm's architectures are looked up in its folder, without importing it.
"""

import ast
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from store.errors import NoModel

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
    """Return what pkb can use a model for, None where it cannot."""
    if name == EMBEDDER:
        return "embedder"
    # A model that names a module of its own would have its code run: pkb runs none.
    if "model_file" in config or not _runs(architecture(config)):
        return None
    # Qwen3-Embedding is a language model by its config; its name alone says that it was trained for something else.
    embeds = architecture(config) == "qwen3" and "embedding" in Path(name).name.casefold()
    return "embedder" if embeds else "writer"


def architecture(config: Mapping[str, Any]) -> str:
    """Return the architecture that a config.json names, empty where it names none."""
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def bits(config: Mapping[str, Any]) -> int:
    """Return the bits of a weight on disk, as far as a config.json says."""
    quantised = config.get("quantization") or config.get("quantization_config")
    found = quantised.get("bits") if isinstance(quantised, Mapping) else None
    if isinstance(found, int) and found > 0:
        return found
    return SINGLE if "float32" in (config.get("torch_dtype"), config.get("dtype")) else HALF


@cache
def _runs(kind: str) -> bool:
    """Return whether mlx-lm has the architecture: a module of that name that defines a model."""
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


def digest(path: Path, notes: Path | None = None) -> str:
    """Return a file's BLAKE2b digest, remembered in the folder `notes` while its path, size, mtime and inode stay."""
    if notes is None:
        return _digest(path)
    stat = path.stat()
    state = f"{path.resolve()}\n{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    note = notes / f"digest-{blake2b(state.encode(), digest_size=16).hexdigest()}"
    try:
        return note.read_text(encoding="ascii")
    except FileNotFoundError:
        found = _digest(path)
    notes.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = note.with_suffix(f".{os.getpid()}")
    fresh.write_text(found, encoding="ascii")
    fresh.replace(note)
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=32)).hexdigest()


CONFIG, INDEX, TOKENS, WEIGHTS = "config.json", "model.safetensors.index.json", "tokenizer.json", "model*.safetensors"
# Beside the weights, every file that changes what a model reads or writes.
SPEAKING = (
    CONFIG, "generation_config.json", "hf_quant_config.json", TOKENS, "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "vocab.json", "vocab.txt", "merges.txt",
)  # fmt: skip
_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?P<revision>[A-Za-z0-9][\w./-]*))?", re.A)
_SHARD = re.compile(r"model-\d+-of-(\d+)\.safetensors")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """A model that is here, whole: a folder by its path, or a commit of a repository by its name."""

    name: str
    folder: Path
    revision: str | None  # the commit; None for a folder of the user's

    @property
    def config(self) -> dict[str, Any]:
        """Read its config.json; NoModel where that is none."""
        return read_config(self.folder)

    @property
    def weights(self) -> list[Path]:
        """Return its weight files, in order."""
        return sorted(self.folder.glob(WEIGHTS))

    @property
    def bytes(self) -> int:
        """Return the size of all that makes it up."""
        return sum(path.stat().st_size for path in _parts(self))


def split(given: str) -> tuple[str, str] | None:
    """Take `org/name` or `org/name@revision` apart, the revision empty where none is named; None for anything else."""
    found = _NAME.fullmatch(given)
    if found is None or ".." in given:
        return None
    return found["name"], found["revision"] or ""


def find(name: str, revision: str | None, environ: Mapping[str, str]) -> InstalledModel:
    """Find a model by the path of its folder or by its name in the hub's cache; NoModel where it is not here, whole.

    With a revision, a commit or a branch, it is never a folder; without one, a cached model is that of branch main.
    """
    named = split(name)
    if not revision and (folder := _folder(name, sure=named is None)):
        if lack := lacks(folder):
            raise NoModel(f"{folder} is incomplete: {lack}", "pkb model list")
        return InstalledModel(str(folder), folder, None)
    if named is None:
        at = name.startswith(("/", ".", "~"))
        what = (
            f"the model folder {name} does not exist" if at else f"{name} is neither a folder nor a name like org/name"
        )
        raise NoModel(what, "pkb model list")
    return _cached(named[0], revision or named[1], environ)


def installed(environ: Mapping[str, str]) -> list[InstalledModel]:
    """Return the whole models in the hub's cache that pkb can use, by name."""
    found = []
    for repository in sorted(hub_cache(environ).glob("models--*")):
        name = repository.name.removeprefix("models--").replace("--", "/")
        for commit in sorted(folder.name for folder in (repository / "snapshots").glob("*")):
            local = InstalledModel(name, repository / "snapshots" / commit, commit)
            if not lacks(local.folder) and role(name, local.config):
                found.append(local)
    return found


def fingerprint(local: InstalledModel, notes: Path) -> str:
    """Return one digest over every file that changes what the model says; `notes` is a folder that remembers each."""
    whole = blake2b(digest_size=32)
    for path in _parts(local):
        whole.update(f"{path.name} {digest(path, notes)}\n".encode())
    return whole.hexdigest()


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Return the folder in which the hub's library, and all that is built on it, keeps what it fetched."""
    home = environ.get("HF_HOME") or f"{environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(named)).expanduser().absolute()


def repository(name: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of the hub's cache that holds all revisions of a model, if it is there."""
    return hub_cache(environ) / f"models--{name.replace('/', '--')}"


def read_config(folder: Path) -> dict[str, Any]:
    """Read a folder's config.json; NoModel where that is none."""
    if (found := _object(folder / CONFIG)) is None:
        raise NoModel(f"{folder / CONFIG} cannot be read", "pkb model list")
    return found


def lacks(folder: Path) -> str:
    """Return what a folder lacks of a whole model; empty where it is one."""
    for name in (CONFIG, TOKENS):
        if not (folder / name).is_file():
            return f"missing {name}"
    if unread := [name for name in (CONFIG, INDEX) if (folder / name).is_file() and _object(folder / name) is None]:
        return f"{unread[0]} cannot be read"
    here = {path.name for path in folder.glob(WEIGHTS) if path.is_file()}
    wanted = shards(_object(folder / INDEX) or {})
    # Without an index, the name of a shard says how many there are.
    most = len(wanted) or max((int(found[1]) for name in here if (found := _SHARD.fullmatch(name))), default=1)
    missing = len(wanted - here) if wanted else most - len(here)
    return f"missing {missing} of {most} weight files" if missing > 0 else ""


def shards(index: Mapping[str, Any]) -> set[str]:
    """Return the weight files that an index names."""
    named = index.get("weight_map")
    return {str(file) for file in named.values()} if isinstance(named, Mapping) else set()


def _parts(local: InstalledModel) -> list[Path]:
    small = [local.folder / name for name in SPEAKING]
    return [*(path for path in small if path.is_file()), *local.weights]


def _folder(name: str, *, sure: bool) -> Path | None:
    """Return the folder that a name stands for; one that cannot be a name of the hub need hold no model."""
    try:
        folder = Path(name).expanduser().absolute()
    except RuntimeError:  # "~somebody" who has no home here
        return None
    return folder if (folder / CONFIG).is_file() or (sure and folder.is_dir()) else None


def _cached(name: str, revision: str, environ: Mapping[str, str]) -> InstalledModel:
    step = f"pkb model pull {name}" + (f"@{revision}" if revision else "")
    lack = ""
    for commit in _commits(repository(name, environ), revision):
        folder = repository(name, environ) / "snapshots" / commit
        if not (wrong := lacks(folder)):
            return InstalledModel(name, folder, commit)
        lack = lack or wrong
    if lack:
        raise NoModel(f"the model {name} is incomplete: {lack}", step)
    step = step if "/" in name else "pkb model pull ORG/NAME"  # as the hub wants it
    raise NoModel(f"model {name}{f' at {revision}' if revision else ''} is not installed", step)


def _commits(cached: Path, revision: str) -> Iterator[str]:
    """Yield the commits that a revision may mean, the likeliest first; of main, other programs may keep a part."""
    reference = cached / "refs" / (revision or "main")
    if reference.is_file() and re.fullmatch("[0-9a-f]{40,64}", commit := reference.read_text("utf-8").strip()):
        yield commit
    # The first eight letters of a commit are what `pkb model list` shows.
    meant = revision if re.fullmatch("[0-9a-f]{8,}", revision or "") else f"{revision}/"
    snapshots = [one for one in (cached / "snapshots").glob("*") if not revision or f"{one.name}/".startswith(meant)]
    yield from (folder.name for folder in sorted(snapshots, key=lambda folder: folder.stat().st_mtime, reverse=True))


def _object(path: Path) -> dict[str, Any] | None:
    """Read a file of JSON, None where it holds no object."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
