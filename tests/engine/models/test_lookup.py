"""Where a model is found on this machine, when it is whole, and what its digest covers."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.models import lookup
from engine.models.lookup import (
    DEFAULTS,
    EMBEDDER,
    bits,
    default,
    digest,
    find,
    fingerprint,
    hub_cache,
    installed,
    missing_files,
    role,
    split,
)
from store.errors import NoModel

OLD, NEW = "a" * 40, "b" * 40
LLAMA = {"model_type": "llama", "hidden_size": 8}


def model(folder: Path, config: Mapping[str, object] = LLAMA, shards: int = 1) -> Path:
    """Make the files of a whole model; the weights are none, for nobody here reads them."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    names = [f"model-{n:05}-of-{shards:05}.safetensors" for n in range(1, shards + 1)]
    for name in names if shards > 1 else ["model.safetensors"]:
        (folder / name).write_bytes(name.encode())
    if shards > 1:
        weights = {f"layer.{n}": name for n, name in enumerate(names)}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HF_HUB_CACHE": str(tmp_path / "hub")}


def cached(environ: Mapping[str, str], name: str, commit: str, *, main: bool = True, shards: int = 1) -> Path:
    """Make a model in the hub's cache."""
    repository = hub_cache(environ) / f"models--{name.replace('/', '--')}"
    folder = model(repository / "snapshots" / commit, shards=shards)
    if main:
        (repository / "refs").mkdir(exist_ok=True)
        (repository / "refs" / "main").write_text(commit)
    return folder


def test_a_folder_works_as_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    folder = model(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in (str(folder), "mine", "./mine", "~/mine"):
        assert find(name, "", environ) == lookup.InstalledModel(str(folder), folder, None)


def test_a_model_of_the_hub_is_that_of_main_unless_a_revision_is_named(environ: dict[str, str]) -> None:
    old, new = cached(environ, "org/name", OLD, main=False), cached(environ, "org/name", NEW)
    assert find("org/name", "", environ) == lookup.InstalledModel("org/name", new, NEW)
    assert find("org/name", OLD, environ) == lookup.InstalledModel("org/name", old, OLD)
    assert find(f"org/name@{OLD}", "", environ) == find("org/name", OLD, environ)
    assert find("org/name@main", "", environ) == find("org/name", "", environ)
    assert find(f"org/name@{OLD[:8]}", "", environ) == find("org/name", OLD, environ)
    for less in (OLD[:7], OLD + "a", "snapshots"):
        with pytest.raises(NoModel):
            find("org/name", less, environ)


def test_with_a_revision_no_folder_of_that_name_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]
) -> None:
    model(tmp_path / "org" / "name")
    folder = cached(environ, "org/name", OLD)
    monkeypatch.chdir(tmp_path)
    assert find("org/name", "", environ).folder == tmp_path / "org" / "name"
    assert find("org/name", OLD, environ).folder == folder


def test_a_whole_commit_is_found_beside_a_part_of_main(environ: dict[str, str]) -> None:
    cached(environ, "org/name", OLD)
    (cached(environ, "org/name", NEW) / "tokenizer.json").unlink()
    assert find("org/name", "", environ).revision == OLD


@pytest.mark.parametrize(
    ("name", "message", "step"),
    [
        ("none", "model none is not installed", "pkb model pull ORG/NAME"),
        ("org/none", "model org/none is not installed", "pkb model pull org/none"),
        (f"org/name@{NEW}", f"model org/name at {NEW} is not installed", f"pkb model pull org/name@{NEW}"),
        ("/nowhere/at/all", "the model folder /nowhere/at/all does not exist", "pkb model list"),
        ("~nobody.of.that.name/x", "the model folder ~nobody.of.that.name/x does not exist", "pkb model list"),
        ("a b", "a b is neither a folder nor", "pkb model list"),
        ("../no/where", "the model folder ../no/where does not exist", "pkb model list"),
        ("/usr", "/usr is incomplete: missing config.json", "pkb model list"),
    ],
)
def test_what_is_not_here_is_named_with_what_helps(environ: dict[str, str], name: str, message: str, step: str) -> None:
    cached(environ, "org/name", OLD)
    with pytest.raises(NoModel) as error:
        find(name, "", environ)
    assert error.value.message.startswith(message)
    assert (error.value.next_step, error.value.code) == (step, 12)


@pytest.mark.parametrize(
    ("gone", "lack"),
    [
        ("config.json", "missing config.json"),
        ("tokenizer.json", "missing tokenizer.json"),
        ("model-00002-of-00003.safetensors", "missing 1 of 3 weight files"),
    ],
)
def test_a_model_in_parts_is_not_whole(environ: dict[str, str], gone: str, lack: str) -> None:
    folder = cached(environ, "org/name", OLD, shards=3)
    assert missing_files(folder) == ""
    (folder / gone).unlink()
    with pytest.raises(NoModel) as error:
        find("org/name", "", environ)
    assert error.value.message == f"the model org/name is incomplete: {lack}"
    assert error.value.next_step == "pkb model pull org/name"


def test_shards_without_their_index_say_themselves_how_many_they_are(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", shards=3)
    (folder / "model.safetensors.index.json").unlink()
    assert missing_files(folder) == ""
    (folder / "model-00003-of-00003.safetensors").unlink()
    assert missing_files(folder) == "missing 1 of 3 weight files"


def test_a_link_to_a_blob_that_is_gone_is_a_missing_file(environ: dict[str, str]) -> None:
    weights = cached(environ, "org/name", OLD) / "model.safetensors"
    weights.unlink()
    weights.symlink_to("../../blobs/none")
    with pytest.raises(NoModel, match="missing 1 of 1 weight files"):
        find("org/name", "", environ)


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", "[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_a_file_that_is_no_object_makes_no_model_whole(environ: dict[str, str], name: str, text: str) -> None:
    folder = cached(environ, "org/name", OLD, shards=2)
    (folder / name).write_text(text, "latin-1")
    assert missing_files(folder) == f"{name} cannot be read"
    assert installed(environ) == []


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ("{}", "missing 1 of 2 weight files"),
        ('{"weight_map": []}', "missing 1 of 2 weight files"),
        ('{"weight_map": {"a": {}}}', "missing 1 of 1 weight files"),
        ('{"weight_map": {"a": "model-00002-of-00002.safetensors"}}', ""),
    ],
)
def test_what_an_index_names_must_be_there(tmp_path: Path, text: str, lack: str) -> None:
    folder = model(tmp_path / "m", shards=2)
    (folder / "model.safetensors.index.json").write_text(text)
    (folder / "model-00001-of-00002.safetensors").unlink()
    assert missing_files(folder) == lack


def test_a_reference_that_names_no_commit_is_not_followed(environ: dict[str, str], tmp_path: Path) -> None:
    cached(environ, "org/name", OLD)
    model(tmp_path / "elsewhere")
    (hub_cache(environ) / "models--org--name" / "refs" / "main").write_text("../../../elsewhere")
    assert find("org/name", "", environ).revision == OLD


@given(st.text(alphabet="ab./@~-_ \x00é", max_size=12))
def test_a_name_that_can_be_taken_apart_names_no_place_outside_the_cache(given: str) -> None:
    if (found := split(given)) is not None:
        name, revision = found
        assert ".." not in f"{name} {revision}"
        assert not name.startswith(("/", "."))
        assert not revision.startswith(("/", "."))
        assert given == (f"{name}@{revision}" if revision else name)


def test_the_cache_is_where_the_library_of_the_hub_has_it(tmp_path: Path) -> None:
    settings: list[dict[str, str]] = [
        {"HF_HUB_CACHE": f"{tmp_path}/one"}, {"HUGGINGFACE_HUB_CACHE": f"{tmp_path}/two"},
        {"HF_HOME": f"{tmp_path}/three"}, {"XDG_CACHE_HOME": f"{tmp_path}/four"}, {}, {"HF_HUB_CACHE": "~/$NAMED"},
    ]  # fmt: skip
    code = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    for chosen in settings:
        env = {"HOME": str(tmp_path), "NAMED": "five", **chosen}
        theirs = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOME", str(tmp_path))
            patch.setenv("NAMED", "five")
            assert str(hub_cache(env)) == theirs.stdout.strip()


def test_what_pkb_can_use_is_listed_and_nothing_else(environ: dict[str, str]) -> None:
    cached(environ, "org/name", OLD, main=False)
    cached(environ, "org/name", NEW)
    (cached(environ, "org/part", OLD) / "config.json").unlink()
    model(hub_cache(environ) / "models--org--eyes" / "snapshots" / OLD, {"model_type": "vit"})
    model(hub_cache(environ) / "models--org--code" / "snapshots" / OLD, {**LLAMA, "model_file": "model.py"})
    model(hub_cache(environ) / f"models--{EMBEDDER.replace('/', '--')}" / "snapshots" / OLD, {"model_type": "bert"})
    model(hub_cache(environ) / "datasets--org--name" / "snapshots" / OLD)
    assert [(local.name, local.revision) for local in installed(environ)] == [
        ("org/name", OLD), ("org/name", NEW), (EMBEDDER, OLD),
    ]  # fmt: skip
    assert installed({"HF_HUB_CACHE": "/nowhere/at/all"}) == []


def test_the_size_is_that_of_the_files_behind_the_links(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    (folder / "README.md").write_text("not a part of the model")
    (folder / "model.safetensors").rename(tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(tmp_path / "blob")
    sizes = [(folder / name).stat().st_size for name in ("config.json", "tokenizer.json", "tokenizer_config.json")]
    assert find(str(folder), "", {}).bytes == sum(sizes) + len("model.safetensors")


@pytest.mark.parametrize(
    "name",
    ["config.json", "tokenizer.json", "tokenizer_config.json", "model-00002-of-00002.safetensors",
     "generation_config.json", "chat_template.jinja", "special_tokens_map.json"],
)  # fmt: skip
def test_every_file_that_changes_what_it_says_changes_the_digest(tmp_path: Path, name: str) -> None:
    local = find(str(model(tmp_path / "m", shards=2)), "", {})
    before = fingerprint(local, tmp_path / "notes")
    assert fingerprint(local, tmp_path / "notes") == before
    with (local.folder / name).open("a") as file:
        file.write(" ")
    assert fingerprint(local, tmp_path / "notes") != before


def test_a_note_beside_a_model_and_its_place_change_no_digest(tmp_path: Path) -> None:
    one, other = (find(str(model(tmp_path / name)), "", {}) for name in ("one", "other"))
    (other.folder / "README.md").write_text("hello")
    assert fingerprint(one, tmp_path / "notes") == fingerprint(other, tmp_path / "notes")


def test_the_same_bytes_under_another_name_are_another_model(tmp_path: Path) -> None:
    local = find(str(model(tmp_path / "m", shards=2)), "", {})
    before = fingerprint(local, tmp_path / "notes")
    first, second = local.weights
    swap = first.read_bytes(), second.read_bytes()
    second.write_bytes(swap[0])
    first.write_bytes(swap[1])
    assert fingerprint(local, tmp_path / "notes") != before


def test_finding_a_model_loads_nothing_heavy(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    code = f"""
import sys
from pathlib import Path
from engine.models.lookup import role
from engine.models.lookup import find, fingerprint
local = find({str(folder)!r}, "", {{}})
print(role(local.name, local.config), len(fingerprint(local, Path({str(tmp_path)!r}))))
print(*{{name.split(".")[0] for name in sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found, modules = done.stdout.splitlines()
    assert found == "writer 64"
    assert set(modules.split()) & {"numpy", "mlx", "mlx_lm", "huggingface_hub", "transformers", "sqlite3"} == set()


def test_an_architecture_is_known_where_mlx_lm_has_a_module_for_it() -> None:
    known = {kind: role("x", {"model_type": kind}) for kind in ("llama", "qwen3", "mistral", "gemma3_text")}
    assert known == dict.fromkeys(known, "writer")
    unknown = ["bert", "cache", "base", "rope_utils", "../llama", "utils", "", "nope"]
    assert [role("x", {"model_type": kind}) for kind in unknown] == [None] * len(unknown)
    assert role("x", {"model_type": ["llama"]}) is None
    assert role("x", {}) is None


def test_a_model_that_was_trained_to_embed_is_known_by_its_name() -> None:
    names = ["Qwen/Qwen3-Embedding-0.6B", "org/qwen3-embedding", "/a/folder/qwen3-embedding", "/my/embedding/qwen3"]
    roles = [role(name, {"model_type": "qwen3"}) for name in names]
    assert roles == ["embedder", "embedder", "embedder", "writer"]
    assert role(names[0], {"model_type": "llama"}) == "writer"


def test_the_default_grows_with_the_memory() -> None:
    gib = 1 << 30
    amounts = [4 * gib, 6 * gib, int(7.6 * gib), 8 * gib, 15 * gib, 16 * gib, 64 * gib]
    chosen = [default(memory, memory, lambda weights: weights) for memory in amounts]
    large, small = (name for name, *_ in DEFAULTS)
    assert chosen == [None, None, small, small, large, large, large]


def test_no_default_needs_more_than_there_is_room_for() -> None:
    (large, _, of_large), (small, _, of_small) = DEFAULTS
    rooms = [8 * of_large, 8 * of_small, 8 * of_small - 1]
    chosen = [default(1 << 40, room, lambda weights: 8 * weights) for room in rooms]
    assert chosen == [large, small, None]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, 4),
        ({"quantization_config": {"bits": 8}, "torch_dtype": "float32"}, 8),
        ({"quantization": {"mode": "x"}, "dtype": "bfloat16"}, 16),
        ({"quantization": None, "dtype": "float32"}, 32),
        ({"torch_dtype": "float32"}, 32),
        ({"quantization": {"bits": 0}}, 16),
        ({}, 16),
    ],
)
def test_bits_are_those_of_a_weight_on_disk(config: dict[str, object], expected: int) -> None:
    assert bits(config) == expected


def test_a_file_changed_under_the_same_size_and_mtime_has_another_digest(tmp_path: Path) -> None:
    path, notes = tmp_path / "weights", tmp_path / "notes"
    path.write_bytes(b"one")
    before, stat = digest(path, notes), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)
    assert digest(path, notes) == digest(path) != before


@pytest.mark.parametrize("damage", [b"", b"0" * 64, b"0" * 97, bytes(range(200, 255)), None], ids=range(5))
def test_a_damaged_note_of_a_digest_is_made_again(tmp_path: Path, damage: bytes | None) -> None:
    path, notes = tmp_path / "weights", tmp_path / "notes"
    path.write_bytes(b"one")
    right = digest(path, notes)
    (note,) = notes.iterdir()
    whole = note.read_bytes()
    if damage is None:
        note.unlink()
        note.mkdir()
    else:
        note.write_bytes(damage)
    assert (digest(path, notes), note.read_bytes()) == (right, whole)


def test_a_digest_that_cannot_be_noted_is_computed_each_time(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"one")
    (tmp_path / "notes").write_text("no folder")
    assert digest(path, tmp_path / "notes") == digest(path)
